#!/usr/bin/env python3
"""Measures the training speed of PyTorch on the reference shapes, for comparison with `crosshead bench --train`.

    pytorch_train.py [A|B] [--dtype f32|bf16] [--steps N] [--threads N]

The model is what Crosshead trains: RMSNorm, RoPE, causal scaled_dot_product_attention, SwiGLU, cross entropy, fused
AdamW, F32 or (--dtype bf16) under autocast with F32 master weights. Weights and tokens are random. Prints one line: tokens/s
(median step), loss of the last step, peak memory. Preloading tcmalloc (LD_PRELOAD=libtcmalloc_minimal.so.4) makes PyTorch faster; a
fair comparison does that.
"""
import argparse
import resource
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SHAPES = {
    "A": dict(layers=6, width=384, heads=6, ffn=1024, vocabulary=8192, batch=16, length=256, tied=False),
    "B": dict(layers=12, width=768, heads=12, ffn=2048, vocabulary=32000, batch=4, length=512, tied=True),
}


def rotate(x, cosines, sines):
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cosines + turned * sines


class Block(nn.Module):
    def __init__(self, width, heads, ffn):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, ffn, bias=False), nn.Linear(width, ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def forward(self, x, cosines, sines):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cosines, sines), rotate(k, cosines, sines)
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(context.transpose(1, 2).reshape(batch, length, width))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        width = shape["width"]
        self.embedding = nn.Embedding(shape["vocabulary"], width)
        self.blocks = nn.ModuleList(Block(width, shape["heads"], shape["ffn"]) for _ in range(shape["layers"]))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, shape["vocabulary"], bias=False)
        if shape["tied"]:
            self.head.weight = self.embedding.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        dim = width // shape["heads"]
        angles = torch.outer(torch.arange(shape["length"]), 10000.0 ** (-torch.arange(0, dim, 2) / dim))
        self.register_buffer("cosines", torch.cat((angles.cos(), angles.cos()), -1))
        self.register_buffer("sines", torch.cat((angles.sin(), angles.sin()), -1))

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cosines, self.sines)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES, default="A", nargs="?")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    shape = SHAPES[args.shape]
    model = Model(shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    size = (shape["batch"], shape["length"])
    tokens, targets = torch.randint(shape["vocabulary"], size), torch.randint(shape["vocabulary"], size)
    seconds = []
    for _ in range(args.steps + 1):  # the first step warms up
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = model(tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - start)
    rate = size[0] * size[1] / statistics.median(seconds[1:])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"pytorch {torch.__version__} shape {args.shape} {args.dtype}: {rate:.0f} tokens/s, loss {loss.item():.4f}, peak {peak:.2f} GB")


if __name__ == "__main__":
    main()
