"""Tests the package `crosshead`: training, comparing, evaluating, shrinking, converting. Run by `make test-python`."""

import importlib.util
import os
import pathlib
import signal
import threading
import time
import unittest

import small

import crosshead
from crosshead import structs

RUN = dict(batch=2, sequence=32)


def train(**settings):
    return crosshead.train(small.fresh("run"), config=small.config(), data=small.text(), **{**RUN, **settings})


class Training(unittest.TestCase):
    def test_tells_its_steps(self):
        steps, starts, evaluations = [], [], []
        result = train(steps=3, on_step=steps.append, on_start=starts.append, on_evaluation=evaluations.append)
        self.assertEqual([step.step for step in steps], [1, 2, 3])
        self.assertIsInstance(steps[0], structs.TrainStep)
        self.assertEqual(starts[0].steps, 3)
        self.assertEqual(result.steps, 3)
        self.assertAlmostEqual(evaluations[-1].loss, result.validation_loss)

    def test_stops_and_goes_on(self):
        out = small.fresh("run")
        settings = dict(config=small.config(), data=small.text(), steps=6, **RUN)
        with self.assertRaisesRegex(crosshead.Interrupted, "2"):
            crosshead.train(out, on_step=lambda step: step.step < 2, **settings)
        resumed = crosshead.train(out, resume=True)
        self.assertEqual(resumed.validation_loss, train(steps=6).validation_loss)

    def test_raises_what_a_callback_raises(self):
        for callback in ("on_step", "on_start", "on_preparation", "on_evaluation"):
            with self.subTest(callback), self.assertRaisesRegex(ZeroDivisionError, "division"):
                train(steps=2, **{callback: lambda *_: 1 / 0})

    def test_ctrl_c_ends_it(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
        self.addCleanup(signal.signal, signal.SIGINT, before)

        def interrupt():
            time.sleep(1)
            os.kill(os.getpid(), signal.SIGINT)

        for callbacks in ({}, {"on_step": lambda step: True}):
            thread = threading.Thread(target=interrupt)
            thread.start()
            with self.subTest(callbacks), self.assertRaises(KeyboardInterrupt):
                train(steps=10**6, **callbacks)
            thread.join()

    def test_refuses_what_is_wrong(self):
        with self.assertRaisesRegex(TypeError, "did you mean steps"):
            train(stepps=3)
        with self.assertRaisesRegex(TypeError, "callable"):
            train(on_step=3)
        with self.assertRaisesRegex(crosshead.ArgumentError, "cosine"):
            train(schedule="cosin")
        with self.assertRaisesRegex(crosshead.ArgumentError, "range"):
            train(steps=2**70)
        # The program's options become keywords.
        with self.assertRaisesRegex(crosshead.ArgumentError, "^sequence .*max_position"):
            train(sequence=1000)
        for wrong in (dict(steps="a"), dict(tokenizer=3), dict(user=3), dict(stop=len), dict(step=len), dict(on_data=len)):
            with self.assertRaises(TypeError):
                train(**wrong)
        with self.assertRaises(crosshead.Error):
            crosshead.train(small.fresh("run"))


class Comparing(unittest.TestCase):
    def test_compares(self):
        out, begun = small.fresh("compare"), []
        settings = dict(data=small.text(), mechanisms=["mha", "mla"], parameters=50000, tokens=4000, batch=2, sequence=32, vocab=300)
        settings["rates"] = {"mla": 6e-3}
        foreseen = crosshead.foresee(out, **settings)
        self.assertEqual((foreseen.total.runs, foreseen.total.finished, os.path.exists(out)), (2, 0, False))
        found = crosshead.compare(
            out, on_begin=lambda position, model: begun.append((position.name, model.mechanism)), **settings
        )
        self.assertEqual([model.lr for model in found.results.models], [4e-3, 6e-3])
        self.assertEqual([name for name, _ in begun], ["mha", "mla"])
        self.assertIn(found.verdict.kind, ("take", "not_distinguishable", "undecided"))
        written = found.results.to_dict()["verdict"]["choices"]
        self.assertEqual([choice.name for choice in found.verdict.choices], [choice["name"] for choice in written])
        self.assertEqual(found.verdict.choices[0].behind.high, written[0]["behind"]["high"])
        self.assertIn(found.verdict.sentence.split(".")[0], str(found).replace("\n", " "))
        self.assertIn("<iframe", found._repr_html_())
        self.assertTrue(os.path.exists(os.path.join(out, "report.html")))
        if importlib.util.find_spec("pandas"):
            self.assertEqual(len(found.to_pandas()), 2)
        self.assertEqual(crosshead.foresee(out, **settings).total.finished, 2)
        items, asked = pathlib.Path(small.fresh("items.jsonl")), []
        items.write_text('{"text": "To be or not to be"}\n')
        answered = crosshead.compare(
            out, tasks={"lambada_openai": items}, on_asking=lambda run, task, *_: asked.append((run.name, task)), **settings
        )
        self.assertEqual({name for name, _ in asked}, {"mha", "mla"})
        self.assertEqual([model.tasks[0].items for model in answered.results.models], [1, 1])
        with self.assertRaises(crosshead.ArgumentError):
            crosshead.compare(out, data=small.text(), mechanisms="mhaa")
        with self.assertRaisesRegex(TypeError, r"ladder\[1\]"):
            crosshead.foresee(out, **settings, ladder=[50000, True])
        with self.assertRaisesRegex(crosshead.ArgumentError, "four|4"):
            crosshead.foresee(out, **settings, ladder=[50000, 4e4])

    def test_raises_what_a_callback_raises(self):
        for callback in ("on_begin", "on_step", "on_prepared", "on_model"):
            with self.subTest(callback), self.assertRaises(KeyError):
                crosshead.compare(
                    small.fresh("compare"),
                    data=small.text(),
                    mechanisms="mha",
                    parameters=50000,
                    tokens=2000,
                    vocab=300,
                    **{callback: lambda *_: {}["nothing"]},
                )


class Others(unittest.TestCase):
    def test_evaluates(self):
        found = crosshead.evaluate(small.model(), text=small.text(), limit=200)
        self.assertEqual(found.tokens, 199)
        done = []
        with crosshead.Model(small.model()) as model:
            again = crosshead.evaluate(model, text=small.text(), limit=200, on_progress=lambda *at: done.append(at))
        self.assertEqual(found.loss, again.loss)
        self.assertTrue(done)
        with self.assertRaises(crosshead.Interrupted):
            crosshead.evaluate(small.model(), text=small.text(), on_progress=lambda *_: False)
        for wrong in ({}, {"text": "a", "task": "b"}):
            with self.assertRaises(TypeError):
                crosshead.evaluate(small.model(), **wrong)

    def test_evaluates_tasks_in_which_the_model_writes(self):
        model = str(small.ROOT / "tests/data/TinyStories-656K")
        samples = []
        found = crosshead.evaluate(model, task="ruler:niah_single_1", lengths="400", limit=2, threads=1, on_sample=samples.append)
        self.assertEqual((found.n, found.lengths, len(samples)), (2, [400], 2))
        items = pathlib.Path(small.fresh("items.jsonl"))
        items.write_text('{"question": "How many cats?", "answer": "#### 2"}\n')
        found = crosshead.evaluate(model, task="gsm8k", items=items, examples=0, threads=1, on_sample=samples.append)
        self.assertEqual(found.filters.strict_match.exact_match, 0)
        self.assertTrue(samples[-1]["resps"][0])

    def test_shrinks_and_converts(self):
        quantised = small.fresh("q8")
        crosshead.quantize(small.model(), quantised, type="q8_0")
        with crosshead.Model(quantised) as model:
            self.assertEqual(model.vocab_size, 300)
        smaller = small.fresh("svd")
        self.assertTrue(crosshead.compress(small.model(), smaller, method="svd", ratio=0.2).to_dict())
        for format in ("safetensors", "transformers"):
            exported = small.fresh("exported")
            crosshead.export_model(small.model(), exported, format=format)
            crosshead.import_model(exported, small.fresh("imported"))
        with self.assertRaises(ZeroDivisionError):
            crosshead.quantize(small.model(), small.fresh("q8"), on_progress=lambda *_: 1 / 0)
        with self.assertRaises(crosshead.ArgumentError):
            crosshead.compress(small.model(), small.fresh("x"), method="zip")

    def test_plans(self):
        line = "name=mine,gb/s=900,flop/s=120T,memory=48GB"
        found = crosshead.plan(small.config(), mechanisms=["mha", "gqa"], devices=line, context=64)
        self.assertEqual(len(found.to_dict()["candidates"]), 3)
        with self.assertRaises(crosshead.ArgumentError):
            crosshead.plan(small.config(), devices="nothing", context=64)
        with self.assertRaises(crosshead.ArgumentError):
            crosshead.plan(small.config(), devices=[], context=64)


class Documentation(unittest.TestCase):
    def test_every_setting_is_named_with_its_meaning(self):
        takers = {"compare": "CompareSettings", "train": "TrainSettings", "compress": "CompressSettings", "evaluate": "EvaluateSettings"}
        for name, title in takers.items():
            text = " ".join(getattr(crosshead, name).__doc__.split())
            for setting in getattr(crosshead.structs, title).__annotations__:
                self.assertRegex(text, rf" {setting}: \S+ \S+", name)
        self.assertIn('"parameters", "active", "flops"', " ".join(crosshead.compare.__doc__.split()))

    def test_a_configuration_of_a_size(self):
        made = crosshead.config("mla", parameters=3_000_000, vocab=512, sequence=64)
        self.assertEqual((made["attention"]["type"], made["vocab_size"], made["max_position_embeddings"]), ("mla", 512, 64))
        like = crosshead.config("mqa", like=small.model())
        self.assertEqual(like["vocab_size"], 300)
        with self.assertRaisesRegex(crosshead.ArgumentError, r"^unknown name 'gqa8'; did you mean gqa:8\?$"):
            crosshead.config("gqa8")


if __name__ == "__main__":
    unittest.main()
