#!/usr/bin/env python3
"""Measures training over ranks on one machine: ranks.py PROGRAM PART [--rounds N] [--steps N]. Runs alternate; figures are medians over
their steps without the first. PART is `A` (shape A: one rank of two threads against two of one, with three sizes of micro-batches),
`egmla` (Table 6: gate tables whole and divided) or `order` (two ranks against two separate processes with half of the batch each; the
difference is the cost of the sum in the order of micro-batches, which bench_allreduce.c compares with MPI_Allreduce).
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ENVIRONMENT = dict(
    os.environ,
    CROSSHEAD_RUNS="none",
    OMPI_ALLOW_RUN_AS_ROOT="1",
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
    OMPI_MCA_rmaps_base_oversubscribe="1",
    OMPI_MCA_hwloc_base_binding_policy="none",
)
# name: config, ranks, threads, copies at the same time, options
PARTS = {
    "A": {
        "1 rank, 2 threads": ("shape-a", 1, 2, 1, "--batch 16"),
        "2 ranks, micro-batches of 8": ("shape-a", 2, 1, 1, "--batch 16 --micro-batch 8"),
        "2 ranks, micro-batches of 4": ("shape-a", 2, 1, 1, "--batch 16 --micro-batch 4"),
        "2 ranks, micro-batches of 2": ("shape-a", 2, 1, 1, "--batch 16 --micro-batch 2"),
    },
    "egmla": {
        "1 rank": ("shape-a-egmla", 1, 1, 1, "--batch 16 --micro-batch 4"),
        "2 ranks": ("shape-a-egmla", 2, 1, 1, "--batch 16 --micro-batch 4"),
        "2 ranks, whole tables": ("shape-a-egmla", 2, 1, 1, "--batch 16 --micro-batch 4 --whole-tables"),
        "4 ranks": ("shape-a-egmla", 4, 1, 1, "--batch 16 --micro-batch 4"),
    },
    "order": {
        "2 ranks": ("shape-a", 2, 1, 1, "--batch 16 --micro-batch 8"),
        "2 processes, half the batch each": ("shape-a", 1, 1, 2, "--batch 8 --micro-batch 8"),
    },
}


def start(program, tokenizer, out, config, ranks, threads, options, steps):
    command = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    command += [program, "train", f"{HERE}/configs/{config}.json", "--data", f"{HERE}/../data/tinyshakespeare.txt", "--out", out]
    command += ["--seq", "256", "--steps", str(steps), "--threads", str(threads), "--eval-every", "0", "--eval-tokens", "256"]
    command += (["--tokenizer", tokenizer] if tokenizer else []) + options.split()
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(process, out):
    """Returns the seconds of the steps, and the memory that a rank reports."""
    said = process.communicate()[1]
    if process.returncode:
        raise SystemExit(said)
    seconds = []
    with open(f"{out}/log.jsonl", encoding="utf-8") as log:
        for line in log:
            event = json.loads(line)
            if event["event"] == "step":
                seconds.append(event["seconds"])
    return seconds[1:], re.search(r"([0-9.]+ .B) of memory", said).group(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--tokenizer", help="of an earlier run, so that none has to be trained")
    given = parser.parse_args()
    runs = PARTS[given.part]
    seconds = {name: [] for name in runs}
    memory = {}
    with tempfile.TemporaryDirectory() as work:
        tokenizer = given.tokenizer or f"{work}/prepared"
        if not given.tokenizer:
            config = next(iter(runs.values()))[0]
            finish(start(given.program, None, tokenizer, config, 1, 2, "--batch 2", 2), tokenizer)
        for turn in range(given.rounds):
            for name, (config, ranks, threads, copies, options) in runs.items():
                outs = [f"{work}/{turn}-{len(seconds[name])}-{name.replace(' ', '-')}-{i}" for i in range(copies)]
                many = [start(given.program, tokenizer, out, config, ranks, threads, options, given.steps) for out in outs]
                for process, out in zip(many, outs):
                    took, memory[name] = finish(process, out)
                    seconds[name] += took
            for name, (_, _, _, copies, options) in runs.items():
                step = statistics.median(seconds[name])
                tokens = copies * int(options.split()[1]) * 256
                print(f"{name}: {step:.3f} s/step, {tokens / step:.0f} tokens/s, {memory[name]} of each rank", flush=True)


if __name__ == "__main__":
    main()
