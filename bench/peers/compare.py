#!/usr/bin/env python3
"""Compares Crosshead with other programs on the same shapes. Runs alternate; medians and ratios are printed.

    compare.py [WORK]... [--rounds N] [--list] [--json FILE]

WORK is part of a work's name, as --list prints them: "train", "train B", "decode", "q8_0" ... (default: all). A row holds
medians over the rounds, the ratio is the median of the rounds' ratios, and the share is Crosshead's of the machine's limit, which
it measures in each of its runs. Programs that are not installed are named and left out; nothing is downloaded.

    CROSSHEAD      the program (default: build/crosshead)
    PEER_PYTHON    a python that has torch
    PEER_PRELOAD   a library to preload into it, for tcmalloc
    LLAMA_BENCH, IK_LLAMA_BENCH   llama-bench of llama.cpp and of ik_llama.cpp
    LLMC           a checkout of llm.c
    LLAMA2C        a checkout of llama2.c with `run` built (make runomp), and tokenizer.bin
    PEER_MODELS    folder for models with random weights (default: a temporary folder)
    PEER_PREFIX    a command to run everything under, such as "taskset -c 0,1"
"""
import argparse
import datetime
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

import random_model

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CROSSHEAD = os.environ.get("CROSSHEAD", os.path.join(ROOT, "build", "crosshead"))
CONFIGS = {"A": "shape-a.json", "B": "shape-b.json", "1B": "shape-1b.json"}
STEP = {"A": ("16", "256"), "B": ("4", "512")}


def config_of(shape):
    return os.path.join(ROOT, "bench", "configs", CONFIGS[shape])


class Failure(Exception):
    pass


def output_of(command, environment=None, folder=None):
    """Returns what a program prints. If it fails, raises Failure with the last line of its errors."""
    changed = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    changed.update(environment or {})
    command = shlex.split(os.environ.get("PEER_PREFIX", "")) + command
    try:
        done = subprocess.run(command, env=changed, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    except OSError as error:
        raise Failure(str(error)) from error
    if done.returncode != 0:
        lines = (done.stderr.decode(errors="replace").strip() or "no message").splitlines()
        raise Failure("%s: %s" % (os.path.basename(command[0]), lines[-1]))
    return done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")


def number_before(text, unit):
    found = re.search(r"([0-9.]+) " + re.escape(unit), text)
    if not found:
        raise Failure("no '%s' in its output" % unit)
    return float(found.group(1))


# --- sides: each function runs once and returns tokens/s (Crosshead's also its share of the limit) ---------------------

class Models:
    """Models with random weights, written when they are first needed."""

    def __init__(self, folder):
        self.folder = folder

    def gguf(self, shape, kind):
        path = os.path.join(self.folder, "%s-%s.gguf" % (shape, kind))
        return random_model.make(config_of(shape), path, kind)

    def llama2c(self, shape):
        return random_model.make(config_of(shape), os.path.join(self.folder, shape + ".bin"))

    def crosshead(self, shape, kind):
        """Returns arguments of `crosshead bench`: a configuration, or for block-quantised types an imported directory."""
        if kind in ("f32", "bf16", "f16"):
            return [config_of(shape), "--dtype", kind]
        directory = os.path.join(self.folder, "%s-%s" % (shape, kind))
        if not os.path.exists(os.path.join(directory, "model.safetensors")):
            output_of([CROSSHEAD, "import", self.gguf(shape, kind), "--keep-blocks", "--out", directory])
        return [directory]


def crosshead_row(arguments, what):
    result = json.loads(output_of([CROSSHEAD, "bench", *arguments, "--json"]))
    row, machine = result[what][0], result["machine"]
    if row["limit"] == "F32" and "bf16" in arguments and machine["bf16_peak_flops"] > machine["fma_peak_flops"]:
        raise Failure("its products were those of F32")
    return row["tokens_per_second"], row["share_of_limit"], row["limit"]


def crosshead_train(shape, dtype):
    batch, length = STEP[shape]
    return crosshead_row([config_of(shape), "--prompt", "1", "--depth", "0", "--tokens", "1", "--repeat", "3", "--train",
                          "--batch", batch, "--seq", length, "--compute", dtype], "train")


def crosshead_prefill(models, shape, kind):
    compute = [] if kind == "f32" else ["--compute", "bf16"]
    return crosshead_row([*models.crosshead(shape, kind), "--prompt", "512", "--depth", "0", "--tokens", "1", *compute],
                         "prefill")


def crosshead_decode(models, shape, kind, depth, cache):
    return crosshead_row([*models.crosshead(shape, kind), "--prompt", "1", "--depth", str(depth), "--tokens", "32",
                          "--repeat", "5", "--cache-dtype", cache], "decode")


def pytorch_train(shape, dtype):
    preload = os.environ.get("PEER_PRELOAD")
    script = os.path.join(HERE, "pytorch_train.py")
    return number_before(output_of([os.environ["PEER_PYTHON"], script, shape, "--dtype", dtype, "--steps", "3"],
                                   {"LD_PRELOAD": preload} if preload else None), "tokens/s")


def llmc_train(models, shape):
    program = os.path.join(models.folder, "llmc_train")
    if not os.path.exists(program):
        output_of(["cc", "-Ofast", "-march=native", "-fopenmp", "-DOMP", "-w", "-I", os.environ["LLMC"],
                   os.path.join(HERE, "llmc_train.c"), "-lm", "-o", program])
    return number_before(output_of([program, shape, "1"]), "tokens/s")


def llama_rows(program, model, depth, cache, what):
    rows = output_of([program, "-m", model, "-r", "1" if depth else "3", "-t", "2", "-ctk", cache, "-ctv", cache, "-fa", "1",
                      "-o", "json"] + what)
    rows = json.loads(rows[rows.index("["):rows.rindex("]") + 1])
    return statistics.median(rows[0]["samples_ts"])


def llama_bench(model, tokens, depth, cache):
    return llama_rows(os.environ["LLAMA_BENCH"], model, depth, cache,
                      ["-p", str(512 if tokens == 0 else 0), "-n", str(tokens), "-d", str(depth)])


def ik_llama_bench(model, tokens, depth, cache):
    """Runs ik_llama.cpp, which repacks weights while loading and has another option for the depth."""
    work = ["-gp", "%d,%d" % (depth, tokens)] if depth else []
    return llama_rows(os.environ["IK_LLAMA_BENCH"], model, depth, cache,
                      ["-rtr", "1", "-p", str(512 if tokens == 0 else 0), "-n", str(0 if depth else tokens)] + work)


def llama2c_decode(models, shape):
    folder = os.environ["LLAMA2C"]
    printed = output_of(["./run", models.llama2c(shape), "-t", "0", "-n", "128", "-i", ""], folder=folder)
    found = re.search(r"achieved tok/s: ([0-9.]+)", printed)
    if not found:
        raise Failure("llama2.c's run printed no speed")
    return float(found.group(1))


# --- works ---------------------------------------------------------------------------------------------------------------

def works(models):
    """Yields (name, Crosshead's function, [(peer, the variable that it needs, function)])."""
    def bench(shape, kind, tokens, depth=0, cache="f16"):
        return [("llama.cpp", "LLAMA_BENCH", lambda: llama_bench(models.gguf(shape, kind), tokens, depth, cache)),
                ("ik_llama.cpp", "IK_LLAMA_BENCH", lambda: ik_llama_bench(models.gguf(shape, kind), tokens, depth, cache))]

    for dtype in ("f32", "bf16"):
        for shape in ("A", "B"):
            peers = [("PyTorch", "PEER_PYTHON", lambda s=shape, d=dtype: pytorch_train(s, d))]
            if dtype == "f32":
                peers.append(("llm.c", "LLMC", lambda s=shape: llmc_train(models, s)))
            yield "train %s %s" % (shape, dtype), lambda s=shape, d=dtype: crosshead_train(s, d), peers
    for kind in ("f32", "bf16", "q8_0", "q4_0"):
        yield "prefill B 512 %s" % kind, lambda k=kind: crosshead_prefill(models, "B", k), bench("B", kind, 0)
    for kind in ("f32", "bf16", "q8_0", "q4_0"):
        peers = bench("B", kind, 32)
        if kind == "f32":
            peers.append(("llama2.c", "LLAMA2C", lambda: llama2c_decode(models, "B")))
        yield "decode B %s depth 0" % kind, lambda k=kind: crosshead_decode(models, "B", k, 0, "f16"), peers
    for depth in (4096, 16384):
        yield ("decode B bf16 depth %d cache f16" % depth,
               lambda d=depth: crosshead_decode(models, "B", "bf16", d, "f16"), bench("B", "bf16", 32, depth))
    for kind in ("bf16", "q8_0", "q4_0"):
        yield ("decode 1B %s depth 0" % kind, lambda k=kind: crosshead_decode(models, "1B", k, 0, "f16"),
               bench("1B", kind, 16))


def present(variable, named):
    if os.environ.get(variable):
        return True
    if variable not in named:
        print("not installed: %s is not set; what it names is left out" % variable, file=sys.stderr)
        named.add(variable)
    return False


def compare(name, crosshead, peers, rounds):
    """Returns a row of medians. The sides take turns, and every second round runs them in reverse order."""
    ours, shares, theirs = [], [], {peer: [] for peer, _ in peers}
    sides = [(None, crosshead), *peers]
    for turn in range(rounds):
        for peer, run in sides if turn % 2 == 0 else reversed(sides):
            result = run()
            if peer is None:
                ours.append(result[0])
                shares.append(result[1])
            else:
                theirs[peer].append(result)
    row = {"work": name, "crosshead": statistics.median(ours), "share_of_limit": statistics.median(shares), "rounds": ours}
    row["peers"] = {peer: {"tokens_per_second": statistics.median(rates), "rounds": rates,
                           "ratio": statistics.median(a / b for a, b in zip(ours, rates))}
                    for peer, rates in theirs.items()}
    return row


HEAD = "| work | beside it | its tokens/s | the limit's | Crosshead's | of the limit | ratio |\n| --- | --- | --- | --- | --- | --- | --- |"


def shown(row):
    rate, share = row["crosshead"], row["share_of_limit"]
    ours = "%s | %s | %.0f %%" % (significant(rate / share), significant(rate), 100 * share)
    lines = ["| %s | %s | %s | %s | %.2f |" % (row["work"], peer, significant(r["tokens_per_second"]), ours, r["ratio"])
             for peer, r in row["peers"].items()]
    return "\n".join(lines or ["| %s | - | - | %s | - |" % (row["work"], ours)])


def significant(rate):
    return "%.0f" % rate if rate >= 100 else "%.1f" % rate


def first_line(command):
    return output_of(command).strip().splitlines()[0]


def commit_of(folder):
    try:
        return " " + first_line(["git", "-C", folder, "rev-parse", "--short", "HEAD"])
    except Failure:
        return ""


def version_of(program):
    try:
        return " " + first_line([program, "--version"])
    except Failure:  # ik_llama.cpp has no --version
        return ""


def about():
    machine = "unknown processor"
    try:
        with open("/proc/cpuinfo") as file:
            machine = re.search(r"model name\s*: (.*)", file.read()).group(1)
    except (OSError, AttributeError):
        pass
    parts = ["%s, %d processors" % (machine, os.cpu_count()), str(datetime.date.today()),
             output_of([CROSSHEAD, "--version"]).splitlines()[0] + commit_of(ROOT)]
    if os.environ.get("PEER_PYTHON"):
        parts.append("PyTorch " + first_line([os.environ["PEER_PYTHON"], "-c", "import torch; print(torch.__version__)"]))
    for name in ("LLAMA_BENCH", "IK_LLAMA_BENCH"):
        if os.environ.get(name):
            parts.append(name.lower() + version_of(os.environ[name]))
    parts += [name.lower() + commit_of(os.environ[name]) for name in ("LLMC", "LLAMA2C") if os.environ.get(name)]
    return "; ".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="*", help="parts of the names of the works to compare")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--list", action="store_true", help="print the names of the works")
    parser.add_argument("--json", metavar="FILE", help="also write every round's figures")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("--rounds takes a number from 1 on, not %d" % args.rounds)
    with tempfile.TemporaryDirectory() as temporary:
        folder = os.environ.get("PEER_MODELS", temporary)
        os.makedirs(folder, exist_ok=True)
        chosen = [w for w in works(Models(folder)) if not args.work or any(part in w[0] for part in args.work)]
        if not chosen:
            parser.error("no work's name holds '%s'; --list prints them" % "' or '".join(args.work))
        if args.list:
            print("\n".join(name for name, _, _ in chosen))
            return 0
        return run_all(chosen, args)


def run_all(chosen, args):
    rows, named, failed = [], set(), False
    try:
        print(about() + "\n\n" + HEAD, flush=True)
    except Failure as failure:
        print("compare.py: %s" % failure, file=sys.stderr)
        return 1
    for name, crosshead, peers in chosen:
        here = [(peer, run) for peer, variable, run in peers if present(variable, named)]
        try:
            rows.append(compare(name, crosshead, here, args.rounds))
            print(shown(rows[-1]), flush=True)
        except Failure as failure:
            failed = True
            print("%s: %s" % (name, failure), file=sys.stderr)
    if args.json:
        with open(args.json + ".part", "w") as file:
            json.dump(rows, file, indent=1)
        os.replace(args.json + ".part", args.json)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
