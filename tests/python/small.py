"""A small trained model for the tests of the Python package, trained once per process."""

import atexit
import functools
import json
import pathlib
import shutil
import tempfile

import crosshead

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, FOLDER, True)

CONFIG = {
    "model_type": "crosshead",
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "attention": {"type": "mla", "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 16},
}


@functools.lru_cache(None)
def text() -> str:
    """The path of a short text."""
    path = FOLDER / "text.txt"
    path.write_text((ROOT / "data/tinyshakespeare.txt").read_text()[:40000])
    return str(path)


@functools.lru_cache(None)
def config() -> str:
    """The path of a configuration."""
    path = FOLDER / "config.json"
    path.write_text(json.dumps(CONFIG))
    return str(path)


@functools.lru_cache(None)
def model() -> str:
    """The directory of a model that was trained for four steps."""
    out = str(FOLDER / "model")
    crosshead.train(out, config=config(), data=text(), steps=4, batch=2, sequence=32)
    return out


def fresh(name: str) -> str:
    """A path below the tests' folder that is not there yet."""
    path = pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / name
    return str(path)
