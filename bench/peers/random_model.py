#!/usr/bin/env python3
"""Writes models with random weights in the formats of other programs. Speed does not depend on the values.

    random_model.py CONFIG.json OUT.gguf --type f32|f16|bf16|q8_0|q4_0
    random_model.py CONFIG.json OUT.bin            (a llama2.c checkpoint, F32)

CONFIG is a configuration of dense or grouped-query attention, as bench/configs has them. The GGUF file has no vocabulary.
"""
import argparse
import array
import json
import os
import random
import struct

GGML = {"f32": (0, 1, 4), "f16": (1, 1, 2), "q4_0": (2, 32, 18), "q8_0": (8, 32, 34), "bf16": (30, 1, 2)}
FILE_TYPE = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 7, "bf16": 32}
U32, F32, STRING = 4, 6, 8
ALIGNMENT = 32


def read_shape(path):
    with open(path) as file:
        c = json.load(file)
    heads = c["num_attention_heads"]
    kv_heads = c.get("num_key_value_heads", heads)
    return dict(layers=c["num_hidden_layers"], width=c["hidden_size"], heads=heads, kv_heads=kv_heads,
                dim=c.get("head_dim", c["hidden_size"] // heads), ffn=c["intermediate_size"],
                vocabulary=c["vocab_size"], tied=c.get("tie_word_embeddings", False),
                context=max(c.get("max_position_embeddings", 0), 32768), theta=c.get("rope_theta", 10000.0))


def pattern(kind):
    """Returns some random elements of a type, in whole blocks."""
    source = random.Random(1)
    if kind == "f32":
        return array.array("f", (source.gauss(0, 0.02) for _ in range(1 << 16))).tobytes()
    if kind == "bf16":
        floats = array.array("f", (source.gauss(0, 0.02) for _ in range(1 << 16))).tobytes()
        return b"".join(floats[i + 2:i + 4] for i in range(0, len(floats), 4))
    if kind == "f16":
        return struct.pack("<%de" % (1 << 16), *(source.gauss(0, 0.02) for _ in range(1 << 16)))
    scale, rest = struct.pack("<e", 0.0005), GGML[kind][2] - 2
    return b"".join(scale + source.randbytes(rest) for _ in range(1 << 12))


def write_random(file, kind, count):
    """Writes `count` elements by repeating one piece."""
    _, block, size = GGML[kind]
    left, piece = count // block * size, pattern(kind)
    while left > 0:
        file.write(piece[:left])
        left -= len(piece)


# --- GGUF ----------------------------------------------------------------------------------------------------------

def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, value):
    packed = text(value) if kind == STRING else struct.pack("<f" if kind == F32 else "<I", value)
    return text(key) + struct.pack("<I", kind) + packed


def tensors_of(shape):
    """Yields (name, dimensions from the fastest on, true for a matrix)."""
    width, q, kv = shape["width"], shape["heads"] * shape["dim"], shape["kv_heads"] * shape["dim"]
    yield "token_embd.weight", (width, shape["vocabulary"]), True
    yield "output_norm.weight", (width,), False
    if not shape["tied"]:
        yield "output.weight", (width, shape["vocabulary"]), True
    for layer in range(shape["layers"]):
        name = "blk.%d." % layer
        yield name + "attn_norm.weight", (width,), False
        yield name + "attn_q.weight", (width, q), True
        yield name + "attn_k.weight", (width, kv), True
        yield name + "attn_v.weight", (width, kv), True
        yield name + "attn_output.weight", (q, width), True
        yield name + "ffn_norm.weight", (width,), False
        yield name + "ffn_gate.weight", (width, shape["ffn"]), True
        yield name + "ffn_up.weight", (width, shape["ffn"]), True
        yield name + "ffn_down.weight", (shape["ffn"], width), True


def write_gguf(shape, kind, path):
    metadata = [entry("general.architecture", STRING, "llama"), entry("general.alignment", U32, ALIGNMENT),
                entry("general.file_type", U32, FILE_TYPE[kind]), entry("tokenizer.ggml.model", STRING, "no_vocab"),
                entry("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
                entry("llama.rope.freq_base", F32, shape["theta"])]
    metadata += [entry("llama." + key, U32, shape[value]) for key, value in
                 (("block_count", "layers"), ("embedding_length", "width"), ("feed_forward_length", "ffn"),
                  ("attention.head_count", "heads"), ("attention.head_count_kv", "kv_heads"),
                  ("attention.key_length", "dim"), ("attention.value_length", "dim"),
                  ("rope.dimension_count", "dim"), ("vocab_size", "vocabulary"), ("context_length", "context"))]
    head, offset, rows = b"", 0, list(tensors_of(shape))
    uneven = [name for name, dimensions, matrix in rows if matrix and dimensions[0] % GGML[kind][1]]
    if uneven:
        raise SystemExit("random_model.py: rows of %s are no whole blocks of %s" % (uneven[0], kind))
    for name, dimensions, matrix in rows:
        number, block, size = GGML[kind if matrix else "f32"]
        head += text(name) + struct.pack("<I%dQIQ" % len(dimensions), len(dimensions), *dimensions, number, offset)
        count = dimensions[0] * (dimensions[1] if matrix else 1)
        offset += -(-count // block * size // ALIGNMENT) * ALIGNMENT
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(rows), len(metadata)) + b"".join(metadata) + head)
        for _, dimensions, matrix in rows:
            file.write(b"\0" * (-file.tell() % ALIGNMENT))
            if matrix:
                write_random(file, kind, dimensions[0] * dimensions[1])
            else:
                file.write(array.array("f", [1.0] * dimensions[0]).tobytes())
        file.write(b"\0" * (-file.tell() % ALIGNMENT))


# --- llama2.c --------------------------------------------------------------------------------------------------------

def write_llama2c(shape, path, context=1024):
    if shape["heads"] * shape["dim"] != shape["width"]:
        raise SystemExit("llama2.c knows heads of width / heads only")
    width, layers, kv = shape["width"], shape["layers"], shape["kv_heads"] * shape["dim"]
    vocabulary = shape["vocabulary"] if shape["tied"] else -shape["vocabulary"]
    ones, matrices = array.array("f", [1.0] * width).tobytes(), [width * width, width * kv, width * kv, width * width]
    with open(path, "wb") as file:
        file.write(struct.pack("<7i", width, shape["ffn"], layers, shape["heads"], shape["kv_heads"], vocabulary, context))
        write_random(file, "f32", shape["vocabulary"] * width)
        file.write(ones * layers)
        for count in matrices:
            write_random(file, "f32", layers * count)
        file.write(ones * layers)
        for _ in range(3):
            write_random(file, "f32", layers * width * shape["ffn"])
        file.write(ones)
        file.write(b"\0" * (4 * context * shape["dim"]))  # tables of rotations, which are not read
        if not shape["tied"]:
            write_random(file, "f32", shape["vocabulary"] * width)


def make(config, path, kind="f32"):
    """Writes the model of a configuration to `path`, unless the file exists, and returns `path`."""
    if not os.path.exists(path):
        shape, beside = read_shape(config), path + ".part"
        if path.endswith(".bin"):
            write_llama2c(shape, beside)
        else:
            write_gguf(shape, kind, beside)
        os.replace(beside, path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("out")
    parser.add_argument("--type", choices=GGML, default="f32")
    args = parser.parse_args()
    make(args.config, args.out, args.type)


if __name__ == "__main__":
    main()
