#!/usr/bin/env python3
"""Compresses trained models, trains some of the results on, and records their losses: designs/NAME.toml to results/NAME.json.gz.

    SHARED_DATA=DIR bench/reproduction/compress.py [--seeds N] [DESIGN]...

Without names, it runs every design of designs/ that compresses. SHARED_DATA has the models and the texts that designs name. Stop it and start it
again: saved results are not repeated. OUT and CROSSHEAD are those of run.py.
"""
import argparse
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import run

DATA = pathlib.Path(os.environ.get("SHARED_DATA", "../shared/data"))
DESIGNS = ["compress", "compress-260k", "compress-656k"]


def crosshead(*arguments):
    """Runs the program and returns the JSON that it prints."""
    command = [run.CROSSHEAD, *map(str, arguments), "--json"]
    print(" ".join(command), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    return json.loads(done.stdout)


def piece(design, seed):
    """Writes the calibration text of this seed and the held-out text, and returns their paths. The seeds' texts do not overlap."""
    out = run.OUT / design["name"]
    out.mkdir(parents=True, exist_ok=True)
    size = design["calibration-bytes"]
    text = (DATA / design["calibration"]).read_bytes()[seed * size:(seed + 1) * size]
    if len(text) < size:
        sys.exit(f"compress.py: {design['calibration']} is too short for seed {seed}")
    (out / f"calibration-{seed}.txt").write_bytes(text)
    (out / "held.txt").write_bytes((DATA / design["held"]).read_bytes()[:design["held-bytes"]])
    return out / f"calibration-{seed}.txt", out / "held.txt"


def model(design):
    """Returns the directory of the trained model. If the design names a tokenizer, the model is imported from a file first."""
    if "tokenizer" not in design:
        return DATA / design["model"]
    imported = run.OUT / design["name"] / "model"
    if not imported.exists():
        crosshead("import", DATA / design["model"], "--tokenizer", DATA / design["tokenizer"], "--out", imported)
    return imported


def compress(design, options, seed, out):
    calibration, held = piece(design, seed)
    shutil.rmtree(out, ignore_errors=True)
    return crosshead("compress", model(design), *options.split(), "--calibration", calibration,
                     "--calibration-tokens", design["calibration-tokens"], "--text", held, "--out", out)


def measure(design, kind, name, seed):
    """Compresses, and trains on if `kind` is "recover", one name with one seed. Returns its entry of the results."""
    options, out = design[kind][name], run.OUT / design["name"] / f"{name}-{seed}"
    entry = {"name": name, "seed": seed, "options": options}
    start = model(design)
    if options:
        report = compress(design, options, seed, out)
        entry |= {"validation_loss": report["after"]["loss"], "loss_before": report["before"]["loss"],
                  "parameters": report["after"]["parameters_total"], "attention_parameters": report["after"]["parameters_attention"],
                  "cache_elements_per_token": report["after"]["cache_elements_per_token"]}
        start = out
    if kind == "recover":
        trained = run.OUT / design["name"] / f"{name}-{seed}-recovered"
        shutil.rmtree(trained, ignore_errors=True)
        report = crosshead("train", "--init-from", start, "--recover", "--data", DATA / design["calibration"], *design["recover"]["options"].split(),
                           "--steps", design["recover"]["own-steps"].get(name, design["recover"]["steps"]), "--seed", seed, "--runs", "none", "--out", trained)
        if "validation_loss" in entry:
            entry["loss_compressed"] = entry["validation_loss"]
        entry |= {"name": f"{name}-recovered", "validation_loss": report["validation_loss"]}
        shutil.rmtree(trained)
    shutil.rmtree(out, ignore_errors=True)
    return entry


def keep(design, models, commit):
    weights = DATA / design["model"] / ("" if "tokenizer" in design else "model.safetensors")
    held = (DATA / design["held"]).read_bytes()[:design["held-bytes"]]
    kept = {"commit": commit, "text_sha256": hashlib.sha256(held).hexdigest(), "pool": "compression",
            "model_sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
            "calibration_sha256": hashlib.sha256((DATA / design["calibration"]).read_bytes()).hexdigest(),
            "models": sorted(models, key=lambda model: (model["seed"], model["name"]))}
    run.write(design["name"], kept)


def seeds_of(design, kind, name):
    return design[kind].get("own-seeds", {}).get(name, design[kind].get("seeds", design["seeds"]))


def measure_all(name, seeds, commit):
    design = run.read_design(name)
    models = run.kept(name)["models"]
    for seed in range(min(design["seeds"], seeds or design["seeds"])):
        for kind in ["compress", "recover"]:
            for each in design.get(kind, []):
                if each in ("options", "seeds", "own-seeds", "steps", "own-steps") or seed >= seeds_of(design, kind, each):
                    continue
                label = each if kind == "compress" else f"{each}-recovered"
                if any((model["name"], model["seed"]) == (label, seed) for model in models):
                    continue
                entry = measure(design, kind, each, seed)
                models.append(entry)
                if kind == "compress" and not any((model["name"], model["seed"]) == ("uncompressed", seed) for model in models):
                    models.append({"name": "uncompressed", "seed": seed, "validation_loss": entry["loss_before"]})
                keep(design, models, commit)


def main():
    parser = argparse.ArgumentParser(description="Compresses trained models and keeps what the results lost.")
    parser.add_argument("designs", nargs="*", metavar="DESIGN", default=DESIGNS, help=f"names of designs/NAME.toml (default: {' '.join(DESIGNS)})")
    parser.add_argument("--seeds", type=int, help="at most so many seeds (default: what the design says)")
    options = parser.parse_args()
    for name in options.designs:
        measure_all(name, options.seeds, run.commit())


if __name__ == "__main__":
    main()
