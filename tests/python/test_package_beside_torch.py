"""Tests the package `crosshead` and PyTorch in one process, loaded in both orders. Run by `make test-python`."""

import importlib.util
import os
import subprocess
import sys
import unittest

import small

ORDERS = {"crosshead first": "import crosshead, torch", "torch first": "import torch, crosshead"}

# Products of torch and passes of ours by turns, with all threads, then both at the same time.
SCRIPT = """
{order}
import sys, threading
torch.manual_seed(1)
a = torch.randn(400, 400)
product = a @ a
model = crosshead.Model(sys.argv[1])
session = crosshead.Session(model, threads=4)
logits = session.feed([1, 2, 3]).copy()

def ours(session, count):
    for _ in range(count):
        session.truncate(0)
        assert (session.feed([1, 2, 3]) == logits).all()

def theirs(count):
    for _ in range(count):
        assert torch.equal(a @ a, product)

for _ in range(50):
    ours(session, 1)
    theirs(1)
thread = threading.Thread(target=theirs, args=(50,))
thread.start()
ours(session, 200)
thread.join()
tensor = torch.from_numpy(session.feed([4]).copy())
assert tensor.shape == (300,) and torch.equal(torch.from_dlpack(tensor.numpy()), tensor)
loss = torch.nn.Linear(300, 1)(tensor).sum()
loss.backward()
text = crosshead.generate(model, "To be", max_tokens=8, temperature=0, threads=4).texts()[0]
print(text.tokens)
"""


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed: `pip install torch`")
class BesideTorch(unittest.TestCase):
    def test_both_orders(self):
        written = []
        for name, order in ORDERS.items():
            with self.subTest(name):
                command = [sys.executable, "-c", SCRIPT.format(order=order), small.model()]
                done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ)
                self.assertEqual(done.returncode, 0, done.stderr)
                written.append(done.stdout)
        self.assertEqual(written[0], written[1])
        self.assertTrue(written[0].startswith("["))


if __name__ == "__main__":
    unittest.main()
