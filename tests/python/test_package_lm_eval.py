"""Tests `crosshead.lm_eval`, the model class for lm-evaluation-harness. Run by `make test-python`."""

import importlib.util
import pathlib
import unittest

import numpy as np
import small

import crosshead


def request(*arguments):
    """What the harness hands to a model."""
    from lm_eval.api.instance import Instance

    return Instance("loglikelihood", {}, arguments, 0)


def by_hand(model, ids):
    """ln p of every id after those before it, one by one."""
    with crosshead.Session(model) as session:
        total = 0.0
        for token, following in zip(ids, ids[1:]):
            wide = session.feed([token]).astype(np.float64)
            total += wide[following] - np.log(np.exp(wide - wide.max()).sum()) - wide.max()
        return total


@unittest.skipUnless(importlib.util.find_spec("lm_eval"), "lm_eval is not installed: `pip install lm_eval`")
class Harness(unittest.TestCase):
    def setUp(self):
        from crosshead.lm_eval import CrossheadLM

        self.lm = CrossheadLM(small.model())

    def test_scores_are_those_of_the_tokens(self):
        model = self.lm.model
        pairs = [("To be, or", " not to be"), ("What is the", " city"), ("What is the", " people")]
        found = self.lm.loglikelihood([request(*pair) for pair in pairs])
        for (context, continuation), (value, greedy) in zip(pairs, found):
            whole, before = model.encode(context + continuation), model.encode(context)
            self.assertEqual(whole[: len(before)], before)
            self.assertAlmostEqual(value, by_hand(model, whole) - by_hand(model, before), places=3)
            self.assertIsInstance(greedy, bool)

    def test_tasks_are_those_of_eval(self):
        items = small.ROOT / "tests/data/tasks/hellaswag.jsonl"
        samples = []
        crosshead.evaluate(small.model(), task="hellaswag", items=str(items), on_sample=samples.append)
        self.assertGreater(len(samples), 1)
        for sample in samples:
            arguments = [request(*pair) for pair in sample["arguments"]]
            for (value, greedy), resps in zip(self.lm.loglikelihood(arguments), sample["resps"]):
                self.assertAlmostEqual(value, float(resps[0]), places=5)
                self.assertEqual(str(greedy), str(resps[1]))

    def test_rolls_over_a_text_longer_than_the_window(self):
        model, text = self.lm.model, pathlib.Path(small.text()).read_text()[:700]
        ids = model.encode(text, whole=True)
        self.assertGreater(len(ids), 2 * self.lm.window)
        found = self.lm.loglikelihood_rolling([request(text), request(text[:50])])
        first = self.lm._first()
        self.assertAlmostEqual(found[1], by_hand(model, [first] + model.encode(text[:50], whole=True)), places=3)
        window, expected, before = self.lm.window, 0.0, [first] + ids
        for start in range(0, len(ids), window):
            end = min(start + window, len(ids))
            begin = max(0, end - window)  # the harness moves the last window back, so that it is full
            expected += by_hand(model, before[begin : end + 1]) - by_hand(model, before[begin : start + 1])
        self.assertAlmostEqual(found[0], expected, places=2)

    def test_begins_and_ends_texts_as_the_command_does(self):
        """With a tokenizer that puts a beginning token and a blank in front of a text, which are no part of what is decoded."""
        from crosshead.lm_eval import CrossheadLM

        lm, text = CrossheadLM(str(small.ROOT / "tests/data/TinyStories-656K")), "Once upon a time there was a dog."
        self.assertAlmostEqual(lm.loglikelihood_rolling([request(text)])[0], -58.0184, places=3)  # HFLM of lm_eval 0.4.13
        self.assertAlmostEqual(lm.loglikelihood_rolling([request("<s>Hello there")])[0], -103.470, places=2)
        options = {"until": ["zzz"], "max_gen_toks": 4, "do_sample": False}
        self.assertEqual(lm.generate_until([request("Tom and Lily", options)]), ["are friends. They like to play "])
        self.assertEqual(lm.generate_until([request("Once upon a time", {"until": [" "], "max_new_tokens": 9})]), [","])
        for limit in (512, 600):
            with self.assertRaisesRegex(crosshead.ArgumentError, f"max_gen_toks of {limit} leaves no room"):
                lm.generate_until([request("Once", {"until": ["."], "max_gen_toks": limit})])

    def test_generates_until_a_stop_string(self):
        whole = self.lm.generate_until([request("To be", {"until": [], "max_gen_toks": 8})])[0]
        prompt = [self.lm.model.encode("To be", begin=True)]
        self.assertEqual(whole, crosshead.generate(self.lm.model, prompt, max_tokens=8, temperature=0).texts()[0].text)
        stop = whole[2:4]
        cut = self.lm.generate_until([request("To be", {"until": [stop], "max_gen_toks": 8})])[0]
        self.assertEqual(cut, whole[: whole.index(stop)])


if __name__ == "__main__":
    unittest.main()
