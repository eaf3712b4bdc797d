"""Tests a model in forked and spawned child processes, and the examples of docs/python.md. Run by `make test-python`."""

import multiprocessing
import os
import re
import unittest

import small

import crosshead

STORIES = str(small.ROOT / "tests/data/TinyStories-656K")


def largest(_=None):
    with crosshead.Model(STORIES) as model:
        return float(crosshead.Session(model).feed(model.encode("Once upon a time", begin=True)).max())


@unittest.skipUnless(hasattr(os, "fork"), "no fork() here")
class Processes(unittest.TestCase):
    def test_a_forked_child_gets_a_sentence_and_a_spawned_one_answers(self):
        here = largest()
        with multiprocessing.get_context("fork").Pool(1) as pool:
            with self.assertRaisesRegex(crosshead.ForkedError, "spawn"):
                pool.apply_async(largest).get(60)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            self.assertEqual(pool.apply_async(largest).get(120), here)

    def test_what_does_not_compute_works_in_a_forked_child(self):
        model = crosshead.Model(STORIES)
        child = os.fork()
        if child == 0:
            os._exit(0 if model.vocab_size == 2048 and model.encode("To be") else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


class Page(unittest.TestCase):
    def test_a_session_continues_as_generate_does(self):
        page = (small.ROOT / "docs/python.md").read_text(encoding="utf-8")
        example = re.search(r"A session returns the logits themselves:\n\n```python\n(.*?)```", page, re.S).group(1)
        self.assertIn("model.encode(", example)
        with crosshead.Model(STORIES) as model:
            chosen, names = [], {"crosshead": crosshead, "model": model}
            exec(example.replace("[int(logits.argmax())]", "[keep(logits)]"), names | {"keep": lambda logits: chosen.append(int(logits.argmax())) or chosen[-1]})
            made = crosshead.generate(model, ["Once upon"], max_tokens=len(chosen), temperature=0, cache="bf16").texts()[0]
            self.assertEqual(model.decode(chosen), made.text)
            self.assertGreater(len(chosen), 10)


if __name__ == "__main__":
    unittest.main()
