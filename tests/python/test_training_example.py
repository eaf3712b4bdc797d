"""Tests that examples/pytorch/train.py trains an export, continues from its checkpoint, and writes a model that Crosshead opens."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

NEEDED = ("torch", "transformers")
MISSING = [name for name in NEEDED if not importlib.util.find_spec(name)]
CROSSHEAD = os.environ.get("CROSSHEAD", "build/crosshead")
ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = {
    "model_type": "crosshead",
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 44,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "max_position_embeddings": 32,
    "tie_word_embeddings": True,
    "parametrization": "spectral",
    "attention": {"type": "gqa", "knocking": {"type": "linear", "on": ["v"]}},
}


def shell(*words: object) -> str:
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if ran.returncode:
        raise AssertionError(f"{words[0]}: {ran.stderr[-2000:]}")
    return ran.stdout


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class TrainingExample(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.text = self.folder / "text.txt"
        self.text.write_text((ROOT / "data/tinyshakespeare.txt").read_text()[:20000])
        self.model = self.folder / "model"
        (self.folder / "model.json").write_text(json.dumps(CONFIG))
        tokenizer = self.folder / "tok.json"
        shell(CROSSHEAD, "tokenizer", "train", "--data", self.text, "--vocab", "300", "--out", tokenizer)
        shell(CROSSHEAD, "export", self.folder / "model.json", "--format", "transformers", "--untrained",
              "--tokenizer", tokenizer, "--out", self.model)
        self.tokens = self.folder / "text.ids"
        self.tokens.write_text(shell(CROSSHEAD, "tokenize", self.model, self.text, "--whole"))

    def train(self, out: str, steps: int, *words: str) -> str:
        return shell(sys.executable, ROOT / "examples/pytorch/train.py", self.model, self.tokens, "--out", self.folder / out,
                     "--steps", steps, "--batch", 4, "--micro-batch", 2, "--device", "cpu", "--dtype", "f32",
                     "--lr", "0.005", "--warmup", "8", "--log-every", "1", *words)

    def loss(self, out: str) -> float:
        return float(json.loads(shell(CROSSHEAD, "eval", self.folder / out, "--data", self.text, "--json"))["loss"])

    def test_a_continued_run_equals_an_unbroken_one(self) -> None:
        unbroken = self.train("unbroken", 6)
        first = self.train("continued", 3)
        rest = self.train("continued", 6)
        self.assertEqual(rest.splitlines()[0], "continues after step 3")
        losses = [[line.split(",")[0].split("loss ")[1] for line in lines if ", " in line]
                  for lines in (unbroken.splitlines(), first.splitlines() + rest.splitlines())]
        self.assertEqual(len(losses[0]), 6)
        self.assertEqual(*losses)
        self.assertAlmostEqual(self.loss("unbroken"), self.loss("continued"), places=5)
        self.assertLess(self.loss("continued"), 5.5)  # ln 300 is 5.7
        self.assertTrue((self.folder / "continued/tokenizer.json").is_file())

    def test_a_class_of_transformers_is_refused(self) -> None:
        config = {"model_type": "llama", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 44, "num_hidden_layers": 1,
                  "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 32}
        (self.model / "config.json").write_text(json.dumps(config))
        with self.assertRaisesRegex(AssertionError, "--own-code"):
            self.train("refused", 1)


if __name__ == "__main__":
    unittest.main()
