#!/usr/bin/env python3
"""Compares training of the small models of `compare` with PyTorch: the exported model, eager and compiled, in one run.

    small_train.py [SIZE]... [--mechanisms NAME,...] [--threads N] [--rounds N] [--seconds S] [--json FILE]

SIZE is a number of parameters: 300k, 1M, 3M, 10M (all of them by default). A model is what `crosshead config NAME --params SIZE`
prints; PyTorch trains the export of it (`crosshead export --format transformers`). A step is 4 sequences of 256 tokens in F32:
forward, backward, clipping, AdamW. In each round the three take turns of about S seconds. A row holds medians over the rounds, ratios
the medians of the rounds' ratios, and "limit" is Crosshead's share of the F32 peak that it measures in each of its turns.
CROSSHEAD names the program (build/crosshead).
"""
import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import exported_train
import torch
from transformers import AutoConfig, AutoModelForCausalLM

MECHANISMS = "mha,gqa,mla,egmla,mfa,mfa_kr,mea,kha-mlp,masa-qkvo,egmla:4,egmla:2"
BATCH, LENGTH = 4, 256


class Cell:
    """One mechanism at one size, and the three programs that train it. Each turn gives tokens per second."""

    def __init__(self, name, size, args, folder):
        self.args, self.shares = args, []
        self.path = os.path.join(folder, "config.json")
        out = os.path.join(folder, "exported")
        with open(self.path, "w") as file:
            subprocess.run([exported_train.CROSSHEAD, "config", name, "--params", size], check=True, stdout=file)
        subprocess.run([exported_train.CROSSHEAD, "export", self.path, "--format", "transformers", "--untrained", "--out", out],
                       check=True, stdout=subprocess.DEVNULL)
        config = AutoConfig.from_pretrained(out, trust_remote_code=True)
        self.tokens = torch.randint(config.vocab_size, (BATCH, LENGTH))
        torch.manual_seed(1)
        self.eager = AutoModelForCausalLM.from_config(config, trust_remote_code=True).train()
        self.parameters = sum(p.numel() for p in self.eager.parameters())
        self.optimizer = torch.optim.AdamW(self.eager.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
        torch.compiler.reset()
        self.compiled = torch.compile(self.eager)
        for model in (self.eager, self.compiled):  # the first step compiles
            exported_train.train_step(model, self.optimizer, self.tokens)
            self.step_seconds = self.seconds_of(model)

    def seconds_of(self, model):
        start = time.perf_counter()
        exported_train.train_step(model, self.optimizer, self.tokens)
        return time.perf_counter() - start

    def crosshead(self):
        command = [exported_train.CROSSHEAD, "bench", self.path, "--train", "--batch", str(BATCH), "--seq", str(LENGTH), "--prompt", "1",
                   "--depth", "0", "--tokens", "1", "--threads", str(self.args.threads), "--repeat", str(self.repeats()), "--json"]
        row = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["train"][0]
        self.shares.append(row["share_of_limit"])
        return row["tokens_per_second"]

    def repeats(self):
        return max(3, round(self.args.seconds / self.step_seconds))

    def turn(self, model):
        return BATCH * LENGTH / statistics.median(self.seconds_of(model) for _ in range(self.repeats()))

    def measure(self):
        sides = {"crosshead": self.crosshead, "eager": lambda: self.turn(self.eager), "compiled": lambda: self.turn(self.compiled)}
        rates = {side: [] for side in sides}
        for turn in range(self.args.rounds):
            for side in sides if turn % 2 == 0 else reversed(sides):
                rates[side].append(sides[side]())
        return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", metavar="SIZE", nargs="*", default=["300k", "1M", "3M", "10M"])
    parser.add_argument("--mechanisms", default=MECHANISMS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1, help="of a turn (default: 1, and at least three steps)")
    parser.add_argument("--json", metavar="FILE", help="also write every round's figures")
    args = parser.parse_args()
    if min(args.rounds, args.threads) < 1:
        parser.error("--rounds and --threads take a number from 1 on")
    torch.set_num_threads(args.threads)
    gc.disable()
    version = subprocess.run([exported_train.CROSSHEAD, "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]
    print(f"{version}; PyTorch {torch.__version__}; {args.threads} threads\n\n"
          "| size | mechanism | tokens/s | limit | eager | ratio | compiled | ratio |\n| --- | --- | --- | --- | --- | --- | --- | --- |",
          flush=True)
    rows = []
    for size in args.sizes:
        for name in args.mechanisms.split(","):
            with tempfile.TemporaryDirectory() as folder:
                cell = Cell(name, size, args, folder)
                rates = cell.measure()
            median = {side: statistics.median(values) for side, values in rates.items()}
            ratio = {side: statistics.median(a / b for a, b in zip(rates["crosshead"], values)) for side, values in rates.items()}
            rows.append({"size": size, "mechanism": name, "parameters": cell.parameters, "rates": rates, "shares": cell.shares})
            print(f"| {size} | `{name}` | {median['crosshead']:,.0f} | {100 * statistics.median(cell.shares):.0f} % | "
                  f"{median['eager']:,.0f} | {ratio['eager']:.1f} | {median['compiled']:,.0f} | {ratio['compiled']:.1f} |", flush=True)
    if args.json:
        with open(args.json + ".part", "w") as file:
            json.dump(rows, file, indent=1)
        os.replace(args.json + ".part", args.json)


if __name__ == "__main__":
    sys.exit(main())
