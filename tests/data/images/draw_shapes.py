#!/usr/bin/env python3
"""Draws the small image sets of the tests: shapes in the formats of CIFAR-10 and IDX. draw_shapes.py DIRECTORY

Ten classes: disc, square, triangle up, triangle down, plus, ring, horizontal bar, vertical bar, diamond, cross. Colours,
places and sizes are random, from a fixed seed: the same files come out every time.
"""
import gzip
import pathlib
import random
import struct
import sys


def inside(label, x, y):
    """Whether the point, from -1 to 1, is in the shape."""
    ax, ay = abs(x), abs(y)
    return [
        x * x + y * y < 0.8,
        max(ax, ay) < 0.75,
        ay < 0.8 and ax < (y + 0.8) / 1.6 * 0.9,
        ay < 0.8 and ax < (0.8 - y) / 1.6 * 0.9,
        min(ax, ay) < 0.25 and max(ax, ay) < 0.9,
        0.3 < x * x + y * y < 0.85,
        ay < 0.3 and ax < 0.95,
        ax < 0.3 and ay < 0.95,
        ax + ay < 0.85,
        min(abs(x - y), abs(x + y)) < 0.35 and max(ax, ay) < 0.85,
    ][label]


def draw(rng, label, size, channels):
    """The planes of an image, one after the other."""
    back = [rng.randrange(0, 120, 24) for _ in range(channels)]
    front = [rng.randrange(140, 256, 23) for _ in range(channels)]
    radius = size * rng.uniform(0.28, 0.42)
    cx = size / 2 + rng.uniform(-1, 1) * (size / 2 - radius)
    cy = size / 2 + rng.uniform(-1, 1) * (size / 2 - radius)
    mask = [inside(label, (x + 0.5 - cx) / radius, (y + 0.5 - cy) / radius) for y in range(size) for x in range(size)]
    return b"".join(bytes(front[c] if m else back[c] for m in mask) for c in range(channels))


def pack(path, data):
    path.write_bytes(gzip.compress(data, 9, mtime=0))


def cifar(path, rng, count):
    pack(path, b"".join(bytes([i % 10]) + draw(rng, i % 10, 32, 3) for i in range(count)))


def idx(directory, name, rng, count, size, classes):
    images = b"".join(draw(rng, i % classes, size, 1) for i in range(count))
    pack(directory / (name + "-images-idx3-ubyte.gz"), struct.pack(">IIII", 0x803, count, size, size) + images)
    labels = bytes(i % classes for i in range(count))
    (directory / (name + "-labels-idx1-ubyte")).write_bytes(struct.pack(">II", 0x801, count) + labels)


def main():
    root = pathlib.Path(sys.argv[1])
    rng = random.Random(1)
    (root / "shapes-cifar").mkdir(parents=True, exist_ok=True)
    (root / "shapes-idx").mkdir(parents=True, exist_ok=True)
    cifar(root / "shapes-cifar" / "data_batch_1.bin.gz", rng, 320)
    cifar(root / "shapes-cifar" / "data_batch_2.bin.gz", rng, 320)
    cifar(root / "shapes-cifar" / "test_batch.bin.gz", rng, 100)
    idx(root / "shapes-idx", "train", rng, 600, 12, 6)
    idx(root / "shapes-idx", "t10k", rng, 120, 12, 6)


if __name__ == "__main__":
    main()
