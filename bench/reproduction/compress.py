#!/usr/bin/env python3
"""Compresses a trained model, trains some of the results on, and keeps what they lost: designs/compress.toml to results/compress.json.gz.

    SHARED_DATA=DIR bench/reproduction/compress.py [--seeds N]

SHARED_DATA has the model and the texts that the design names. Stop it and start it again: what is kept is not repeated. OUT and CROSSHEAD are
as for run.py.
"""
import argparse
import gzip
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import run

DATA = pathlib.Path(os.environ.get("SHARED_DATA", "../shared/data"))
RESULTS = run.HERE / "results/compress.json.gz"


def crosshead(*arguments):
    """The JSON that the program prints."""
    command = [run.CROSSHEAD, *map(str, arguments), "--json"]
    print(" ".join(command), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    return json.loads(done.stdout)


def piece(design, seed):
    """The text that calibrates for this seed, and the held one. The pieces do not overlap."""
    out = run.OUT / "compress"
    out.mkdir(parents=True, exist_ok=True)
    size = design["calibration-bytes"]
    text = (DATA / design["calibration"]).read_bytes()[seed * size:(seed + 1) * size]
    if len(text) < size:
        sys.exit(f"compress.py: {design['calibration']} is too short for seed {seed}")
    (out / f"calibration-{seed}.txt").write_bytes(text)
    (out / "held.txt").write_bytes((DATA / design["held"]).read_bytes()[:design["held-bytes"]])
    return out / f"calibration-{seed}.txt", out / "held.txt"


def compress(design, options, seed, out):
    calibration, held = piece(design, seed)
    shutil.rmtree(out, ignore_errors=True)
    return crosshead("compress", DATA / design["model"], *options.split(), "--calibration", calibration,
                     "--calibration-tokens", design["calibration-tokens"], "--text", held, "--out", out)


def measure(design, kind, name, seed):
    """The entry of results/compress.json.gz of one name and seed."""
    options, out = design[kind][name], run.OUT / "compress" / f"{name}-{seed}"
    entry = {"name": name, "seed": seed, "options": options}
    start = DATA / design["model"]
    if options:
        report = compress(design, options, seed, out)
        entry |= {"validation_loss": report["after"]["loss"], "loss_before": report["before"]["loss"],
                  "parameters": report["after"]["parameters_total"], "attention_parameters": report["after"]["parameters_attention"],
                  "cache_elements_per_token": report["after"]["cache_elements_per_token"]}
        start = out
    if kind == "recover":
        trained = run.OUT / "compress" / f"{name}-{seed}-recovered"
        shutil.rmtree(trained, ignore_errors=True)
        report = crosshead("train", "--init-from", start, "--recover", "--data", DATA / design["calibration"], *design["recover"]["options"].split(),
                           "--seed", seed, "--runs", "none", "--out", trained)
        if "validation_loss" in entry:
            entry["loss_compressed"] = entry["validation_loss"]
        entry |= {"name": f"{name}-recovered", "validation_loss": report["validation_loss"]}
        shutil.rmtree(trained)
    shutil.rmtree(out, ignore_errors=True)
    return entry


def keep(design, models, commit):
    held = (DATA / design["held"]).read_bytes()[:design["held-bytes"]]
    kept = {"commit": commit, "text_sha256": hashlib.sha256(held).hexdigest(), "pool": "compression",
            "model_sha256": hashlib.sha256((DATA / design["model"] / "model.safetensors").read_bytes()).hexdigest(),
            "calibration_sha256": hashlib.sha256((DATA / design["calibration"]).read_bytes()).hexdigest(),
            "models": sorted(models, key=lambda model: (model["seed"], model["name"]))}
    with open(f"{RESULTS}.tmp", "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
        packed.write(json.dumps(kept, separators=(",", ":")).encode())
    os.replace(f"{RESULTS}.tmp", RESULTS)


def main():
    parser = argparse.ArgumentParser(description="Compresses a trained model and keeps what the results lost.")
    parser.add_argument("--seeds", type=int, help="at most so many seeds (default: what the design says)")
    options = parser.parse_args()
    design = run.read_design("compress")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=run.HERE, capture_output=True, text=True, check=True).stdout.strip()
    models = json.loads(gzip.decompress(RESULTS.read_bytes()))["models"] if RESULTS.exists() else []
    for seed in range(min(design["seeds"], options.seeds or design["seeds"])):
        for kind in ["compress", "recover"]:
            for name in design[kind]:
                if name in ("options", "seeds") or seed >= design[kind].get("seeds", design["seeds"]):
                    continue
                label = name if kind == "compress" else f"{name}-recovered"
                if any((model["name"], model["seed"]) == (label, seed) for model in models):
                    continue
                entry = measure(design, kind, name, seed)
                models.append(entry)
                if kind == "compress" and not any((model["name"], model["seed"]) == ("uncompressed", seed) for model in models):
                    models.append({"name": "uncompressed", "seed": seed, "validation_loss": entry["loss_before"]})
                keep(design, models, commit)


if __name__ == "__main__":
    main()
