#!/usr/bin/env python3
"""Compares the training speed in PyTorch of models from `crosshead export --format transformers` with transformers' own Llama.

    exported_train.py [A|B] [--mechanisms NAME,...] [--steps N] [--threads N] [--dtype f32|bf16] [--profile NAME]

Every mechanism has the shape's width, layers, heads, feed-forward network and vocabulary, and the sizes that its preset gives it.
"mha" is Crosshead's own class (the export itself would write a Llama). Models take turns, a step each; medians and ratios to
Llama's step are printed. CROSSHEAD names the program (build/crosshead).
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

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_MODULES_CACHE", tempfile.mkdtemp())

import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CROSSHEAD = os.environ.get("CROSSHEAD", "build/crosshead")
SHAPES = {"A": ("shape-a.json", 16, 256), "B": ("shape-b.json", 4, 512)}
LATENT = {"kv_lora_rank": 192, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64}
MECHANISMS = {
    "mha": {"type": "gqa", "head_norm": True},
    "mla": {"type": "mla", **LATENT},
    "egmla": {"type": "mla", **LATENT, "gate_embedding_dim": 128},
    "mfa": {"type": "mfa", "q_lora_rank": 256},
}


def model_of(name, shape, folder):
    with open(f"{FOLDER}/configs/{SHAPES[shape][0]}") as file:
        config = json.load(file)
    if name == "llama":
        config.pop("model_type"), config.pop("attention")
        return LlamaForCausalLM(LlamaConfig(**config))
    config["attention"] = MECHANISMS[name]
    if name != "mha":
        config.pop("num_key_value_heads")
    if "kv_lora_rank" in MECHANISMS[name]:
        config.pop("head_dim")
    path, out = f"{folder}/{name}.json", f"{folder}/{name}_{shape}"
    with open(path, "w") as file:
        json.dump(config, file)
    subprocess.run([CROSSHEAD, "export", path, "--format", "transformers", "--untrained", "--out", out], check=True,
                   stdout=subprocess.DEVNULL)
    if name == "mha":  # the head norm makes `export` write code; it is removed here
        with open(f"{out}/modeling_crosshead.py") as file:
            code = file.read()
        with open(f"{out}/modeling_crosshead.py", "w") as file:
            file.write(code.replace('self.norm("head_norm", config.head_dim)', "pass").replace(
                "context = self.head_norm(context)", "pass"))
    config = AutoConfig.from_pretrained(out, trust_remote_code=True)
    return AutoModelForCausalLM.from_config(config, trust_remote_code=True)


def train_step(model, optimizer, tokens, bf16=False):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


class Training:
    def __init__(self, name, args, folder):
        torch.manual_seed(1)
        self.model = model_of(name, args.shape, folder).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
        self.tokens = torch.randint(self.model.config.vocab_size, SHAPES[args.shape][1:])
        self.bf16 = args.dtype == "bf16"
        self.seconds = []

    def step(self):
        start = time.perf_counter()
        train_step(self.model, self.optimizer, self.tokens, self.bf16)
        self.seconds.append(time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES, default="A", nargs="?")
    parser.add_argument("--mechanisms", default="mha,mla,egmla,mfa")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--profile", choices=("llama", *MECHANISMS))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        names = [args.profile] if args.profile else ["llama", *args.mechanisms.split(",")]
        trainings = {name: Training(name, args, folder) for name in names}
        gc.disable()
        for training in trainings.values():
            training.step(), training.step()  # to warm up
            training.seconds.clear()
        if args.profile:
            with torch.profiler.profile() as found:
                trainings[args.profile].step()
            print(found.key_averages().table(sort_by="self_cpu_time_total", row_limit=25, max_name_column_width=45))
            return
        for step in range(args.steps):
            order = list(trainings.values())
            for training in order if step % 2 == 0 else order[::-1]:
                training.step()
    llama = statistics.median(trainings["llama"].seconds)
    print(f"PyTorch {torch.__version__}, shape {args.shape}, {args.dtype}, {args.threads} threads, {args.steps} steps")
    for name, training in trainings.items():
        median = statistics.median(training.seconds)
        ratios = sorted(a / b for a, b in zip(training.seconds, trainings["llama"].seconds))
        millions = sum(p.numel() for p in training.model.parameters()) / 1e6
        print(f"{name:6} {millions:6.1f} M  {1e3 * median:7.0f} ms  {median / llama:.2f} of Llama's step"
              f" (pairs {ratios[len(ratios) // 4]:.2f} to {ratios[-1 - len(ratios) // 4]:.2f})")


if __name__ == "__main__":
    sys.exit(main())
