#!/usr/bin/env python3
"""Runs designs of the reproduction and saves their results.

    ENWIK8=enwik8 bench/reproduction/run.py [--seeds N] [--first N] [DESIGN]...
    ENWIK8=enwik8 bench/reproduction/run.py --check SEED [--mechanisms LIST] DESIGN...

Without names, it runs every design of designs/ in the order of designs/order.txt. For a design it runs `crosshead compare --tune` over short runs,
for the rates, and `crosshead compare` at these rates. Stop it with Ctrl-C (SIGTERM if it runs in the background) and start it again: finished
runs are not repeated, and the interrupted one continues from its checkpoint. bench/reproduction/page.py reads results/DESIGN.json.gz. Rates in
results/tune-DESIGN.json.gz are used again; remove the file to tune anew. An interrupted run replaces only results of fewer runs.

--check trains one seed of your choice, saves no results, and prints the differences of its rows next to the saved ones.

ENWIK8     the file enwik8, or its first ten million bytes
OUT        the directory for models and reports (default: build/reproduction)
CROSSHEAD  the program (default: build/crosshead)
"""
import argparse
import gzip
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
OUT = pathlib.Path(os.environ.get("OUT", "build/reproduction"))
CROSSHEAD = os.environ.get("CROSSHEAD", "build/crosshead")
TEXT = OUT / "wikipedia.txt"
# Members of a model in results.json that the page needs.
MODEL_KEYS = ["seed", "validation_loss", "parameters", "attention_parameters", "embedding_parameters", "gate_embedding_parameters",
              "active_parameters", "cache_elements_per_token", "cache_elements_at", "tokens_trained", "loss_spikes", "lr", "lr_low", "lr_high", "lr_at_edge",
              "usual_lr_cost", "tried_rates", "validation_curve", "flops_per_token_forward", "state_elements_per_sequence", "intermediate_size"]
RUN_KEYS = ["command", "data", "training", "version", "created", "complete", "match", "multipliers", "ladder"]


def read_toml(path):
    with open(path, "rb") as file:
        return tomllib.load(file)


def designs():
    return (HERE / "designs/order.txt").read_text().split()


def make_text():
    if not TEXT.exists():
        if "ENWIK8" not in os.environ:
            sys.exit("run.py: set ENWIK8 to the file enwik8, from http://mattmahoney.net/dc/enwik8.zip")
        TEXT.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, HERE / "text.py", os.environ["ENWIK8"], TEXT], check=True)
    return hashlib.sha256(TEXT.read_bytes()).hexdigest()


def read_design(name):
    """Reads designs/NAME.toml. With `of = "OTHER"`, absent keys come from designs/OTHER.toml: the same comparison at another size."""
    own = read_toml(HERE / "designs" / f"{name}.toml")
    other = read_design(own["of"]) if "of" in own else {}
    return {**other, **own, "name": name}


def in_compare(name, design, shape):
    """Returns the name of a mechanism for `crosshead compare`: itself, or the path of a configuration, which this writes."""
    own = {key: value for key, value in design["mechanisms"][name].items() if key != "rate-of"}
    if not own and "attention" not in design and "model" not in design:
        return name
    attention = {key: value for key, value in own.items() if key != "model"}
    config = {"model_type": "crosshead", "vocab_size": shape["vocab"], "hidden_size": shape["hidden"],
              "intermediate_size": shape["hidden"] * 8 // 3, "num_hidden_layers": shape["layers"], "num_attention_heads": shape["heads"],
              "max_position_embeddings": shape["seq"], "tie_word_embeddings": True, "parametrization": "spectral",
              **design.get("model", {}), **own.get("model", {}), "attention": {**design.get("attention", {}), **attention}}
    path = OUT / "configs" / design["name"] / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config, indent=1) + "\n")
    return str(path)


def compare(design, shape, names, out, extra):
    """Runs one comparison and returns its results.json, with mechanisms by their names in the design."""
    paths = {in_compare(name, design, shape): name for name in names}
    command = [CROSSHEAD, "compare", "--data", str(TEXT), "--mechanisms", ",".join(paths), "--out", str(out), "--match", design["match"]]
    for option in ["params", "layers", "hidden", "heads", "vocab", "batch", "seq", "ladder", "target"]:
        if option in shape:
            command += ["--" + option, str(shape[option])]
    command += ["--runs", "none", *extra]
    print(" ".join(command), flush=True)
    status = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
    results = json.loads((out / "results.json").read_text()) if (out / "results.json").exists() else None
    if results is not None:
        for model in results["models"]:
            model["name"] = paths.get(model["name"], pathlib.Path(model["name"]).name.removesuffix(".json"))
    return status, results


def add_caches(results, contexts, out):
    """Adds to the first run of every mechanism its cache elements for sequences of these lengths."""
    for model in {model["name"]: model for model in reversed(results["models"])}.values() if contexts else []:
        model["cache_elements_at"] = {}
        for context in contexts:
            info = json.loads(subprocess.run([CROSSHEAD, "info", str(out / model["directory"]), "--depth", str(context), "--json"],
                                             capture_output=True, check=True).stdout)
            model["cache_elements_at"][context] = info["cache_elements_at_depth"]


def path_of(name):
    return HERE / "results" / f"{name}.json.gz"


def kept(name):
    """Returns the results that an earlier run saved, without models if there was none."""
    return json.loads(gzip.decompress(path_of(name).read_bytes())) if path_of(name).exists() else {"models": [], "text_sha256": None}


def keep(name, results, text, commit):
    """Writes what the page needs of results.json to results/NAME.json.gz, without a time stamp: equal results give equal bytes."""
    results = json.loads(json.dumps(results).replace(f"{OUT}/", "build/reproduction/"))  # independent of OUT
    said = {"commit": commit, "text_sha256": text, **{key: results[key] for key in RUN_KEYS if key in results},
            "models": [{"name": model["name"], **{key: model[key] for key in MODEL_KEYS if key in model}} for model in results["models"]]}
    write(name, said)


def write(name, said):
    path, data = path_of(name), json.dumps(said, separators=(",", ":")).encode()
    path.parent.mkdir(exist_ok=True)
    with open(f"{path}.tmp", "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
        packed.write(data)
    os.replace(f"{path}.tmp", path)


def rates(design, shape, text, commit):
    """The rate of every mechanism of a design: `rate`, one for all; or its own, from `rates-of`, another design that has been tuned; or tuned."""
    if "rate" in design:
        return {name: design["rate"] for name in design["mechanisms"]}
    if "rates-of" in design:
        found = {model["name"]: model["lr"] for model in kept("tune-" + design["rates-of"])["models"]}
        if not found:
            sys.exit(f"run.py: run {design['rates-of']} first, whose rates {design['name']} takes")
        for name, keys in design["mechanisms"].items():
            if keys.get("rate-of", name) not in found:
                sys.exit(f"run.py: {design['rates-of']} has no tuned rate of {keys.get('rate-of', name)}, which {name} of {design['name']} takes")
        return {name: found[keys.get("rate-of", name)] for name, keys in design["mechanisms"].items()}
    earlier = kept("tune-" + design["name"])
    found = {model["name"]: model["lr"] for model in earlier["models"] if earlier["text_sha256"] == text}
    tuned = [name for name, keys in design["mechanisms"].items() if "rate-of" not in keys and name not in found]
    if tuned:
        status, results = compare(design, shape, tuned, OUT / "tune" / design["name"], ["--tune", "--tokens", shape["tune-tokens"]])
        if results is None or not results["complete"]:
            sys.exit(status or 1)
        results["models"] = [model for model in earlier["models"] if model["name"] in found] + results["models"]
        keep("tune-" + design["name"], results, text, commit)
        found |= {model["name"]: model["lr"] for model in results["models"]}
    return {name: found[keys.get("rate-of", name)] for name, keys in design["mechanisms"].items()}


def commit():
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()


def shape_of(design):
    return {**read_toml(HERE / "designs/shapes.toml")[design["shape"]], **design.get("shape-changes", {})}


def train(design, rate, out, extra):
    """Runs the comparison of a design at these rates."""
    shape = shape_of(design)
    by_path = ",".join(f"{in_compare(each, design, shape)}={rate[each]:.6g}" for each in design["mechanisms"])
    return compare(design, shape, list(design["mechanisms"]), out, ["--tokens", shape["tokens"], "--lr", by_path, *extra])


def run(name, seeds, first, text, commit):
    design = read_design(name)
    design["mechanisms"] = dict(list(design["mechanisms"].items())[:first])
    rate = rates(design, shape_of(design), text, commit)
    seeds = seeds or design["seeds"]
    if seeds == 0:
        return  # the design only tunes rates
    status, results = train(design, rate, OUT / name, ["--seeds", str(seeds)])
    if results is not None and (status == 0 or len(results["models"]) > len(kept(name)["models"])):
        add_caches(results, design.get("contexts", []), OUT / name)
        keep(name, results, text, commit)
    if status:
        sys.exit(status)


def check(name, seed, mechanisms):
    """Trains one seed of a design, or of some of its mechanisms, and prints the differences of their claims next to the saved ones."""
    import page  # here, because it imports this module
    design = read_design(name)
    unknown = [each for each in mechanisms or [] if each not in design["mechanisms"]]
    if unknown:
        sys.exit(f"run.py: {name} has no mechanism {unknown[0]}; it has {', '.join(design['mechanisms'])}")
    rate = rates(design, shape_of(design), make_text(), commit())
    design["mechanisms"] = {key: value for key, value in design["mechanisms"].items() if not mechanisms or key in mechanisms}
    status, results = train(design, rate, OUT / "check" / f"{name}-{seed}", ["--seed", str(seed)])
    if status:
        sys.exit(status)
    losses = {model["name"]: model["validation_loss"] for model in results["models"]}
    for each, loss in losses.items():
        print(f"{each}: validation loss {loss:.4f}")
    claims, kept_results = page.load()
    page.measure(claims, kept_results)
    for claim in claims:
        if claim.get("design") == name and {claim.get("a"), claim.get("b")} <= set(losses) and "at" not in claim and "figure" not in claim:
            print(f"{claim['id']}: {page.signed(losses[claim['a']] - losses[claim['b']])} with seed {seed}; kept: {page.figure(claim)}")


def main():
    parser = argparse.ArgumentParser(description="Runs designs of the reproduction and keeps their results.")
    parser.add_argument("designs", nargs="*", metavar="DESIGN", help="names of designs/NAME.toml (default: those of designs/order.txt)")
    parser.add_argument("--seeds", type=int, help="runs of each model (default: what the design says)")
    parser.add_argument("--first", type=int, help="only so many mechanisms of each design; a later run adds the others, none can be taken away again")
    parser.add_argument("--check", metavar="SEED", type=int, help="train this seed of the designs that are named, keep nothing, and print the rows' differences")
    parser.add_argument("--mechanisms", metavar="LIST", help="with --check: only these of the design, with commas between")
    options = parser.parse_args()
    if options.check is not None:
        if not options.designs or options.seeds or options.first:
            sys.exit("run.py: --check needs the name of a design, and takes --mechanisms but neither --seeds nor --first")
        for name in options.designs:
            check(name, options.check, options.mechanisms and options.mechanisms.split(","))
        return
    if options.mechanisms:
        sys.exit("run.py: --mechanisms goes with --check; --first takes the first of a design")
    text = make_text()
    for name in options.designs or designs():
        run(name, options.seeds, options.first, text, commit())


if __name__ == "__main__":
    main()
