#!/usr/bin/env python3
"""Measures speed while other programs run, as in bench/measurements.md, "On a busy machine": decoding and training, alone, with a
training run of Crosshead and with four busy loops. Ways of waiting alternate, and the medians are printed.

    bench/busy.py --model DIR [--rounds 3] [--work decode,train] [--beside nothing,training,loops] [--other PROGRAM]

--other is a second build to compare with. Needs a model with a tokenizer, for decoding."""
import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
WAYS = {  # name: environment
    "as it is": {},
    "passive": {"OMP_WAIT_POLICY": "passive"},
    "no spinning": {"GOMP_SPINCOUNT": "0"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}


def training(program, out, steps):
    return [program, "train", f"{ROOT}/configs/small-gqa.json", "--data", f"{ROOT}/data/tinyshakespeare.txt",
            "--tokenizer", ARGUMENTS.model, "--batch", "8", "--seq", "256", "--steps", str(steps), "--eval-every",
            "0", "--eval-tokens", "512", "--out", out, "--runs", "none"]


def decode_rate(program, environment, scratch):
    command = [program, "generate", ARGUMENTS.model, "--prompt", "Once upon a time", "--max-tokens", "250",
               "--ignore-eos"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(re.search(r"decode: .* ([0-9.]+) tokens/s", done.stderr).group(1))


def train_rate(program, environment, scratch):
    out = os.path.join(scratch, "measured")
    shutil.rmtree(out, ignore_errors=True)
    subprocess.run(training(program, out, ARGUMENTS.steps), env=environment, capture_output=True, check=True)
    with open(os.path.join(out, "log.jsonl"), encoding="utf-8") as log:
        events = [json.loads(line) for line in log]
    steps = [event["seconds"] for event in events if event.get("event") == "step"]
    return (len(steps) - 1) * 8 * 256 / sum(steps[1:])  # the first step touches its memory for the first time


def start(beside, program, scratch):
    if beside == "training":
        out = os.path.join(scratch, "beside")
        shutil.rmtree(out, ignore_errors=True)
        return [subprocess.Popen(training(program, out, 1000000), stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True)]
    if beside == "loops":
        return [subprocess.Popen(["sh", "-c", "while :; do :; done"], start_new_session=True) for _ in range(4)]
    return []


def stop(processes):
    for process in processes:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main():
    programs = {"": ARGUMENTS.program}
    if ARGUMENTS.other:
        programs["other build, "] = ARGUMENTS.other
    measure = {"decode": decode_rate, "train": train_rate}
    for work in ARGUMENTS.work.split(","):
        for beside in ARGUMENTS.beside.split(","):
            rates = {}
            with tempfile.TemporaryDirectory() as scratch:
                others = start(beside, ARGUMENTS.program, scratch)
                try:
                    time.sleep(3 if others else 0)
                    for _ in range(ARGUMENTS.rounds):
                        for label, program in programs.items():
                            for way, extra in WAYS.items():
                                if label and way != "as it is":
                                    continue
                                environment = {**os.environ, **extra}
                                rate = measure[work](program, environment, scratch)
                                rates.setdefault(label + way, []).append(rate)
                finally:
                    stop(others)
            for way, values in rates.items():
                print(f"{work:7} beside {beside:9} {way:22} {statistics.median(values):10.0f} tokens/s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "crosshead"))
    parser.add_argument("--other")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--work", default="decode,train")
    parser.add_argument("--beside", default="nothing,training,loops")
    ARGUMENTS = parser.parse_args()
    main()
