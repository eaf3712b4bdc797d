"""Tests the package `crosshead`: models, sessions, generation, errors. Run by `make test-python`."""

import doctest
import gc
import importlib.util
import os
import pathlib
import resource
import subprocess
import sys
import threading
import unittest

import numpy as np
import small

import crosshead


class Models(unittest.TestCase):
    def test_documents_its_examples(self):
        names = {"MODEL": small.model(), "TEXT": small.text()}
        package = pathlib.Path(crosshead.__file__).parent
        documented = [path.stem for path in sorted(package.glob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]
        self.assertGreaterEqual(len(documented), 9)
        for name in documented:
            module = importlib.import_module(f"crosshead.{name}")
            result = doctest.testmod(module, extraglobs=dict(names, Model=crosshead.Model))
            self.assertEqual(result.failed, 0)
            self.assertGreater(result.attempted, 0, name)

    def test_says_what_it_is(self):
        with crosshead.Model(small.model()) as model:
            self.assertEqual((model.vocab_size, model.context_length, model.layers), (300, 128, 2))
            self.assertEqual(model.info().to_dict()["parameters_total"], model.info().parameters_total)
            self.assertGreater(model.info().parameters_total, 0)
            ids = model.encode("To be\0, or not")
            self.assertEqual(model.decode(ids), "To be\0, or not")
            self.assertEqual(model.decode([]), "")

    def test_refuses_what_is_wrong(self):
        with self.assertRaisesRegex(crosshead.ReadWriteError, "nowhere"):
            crosshead.Model("/nowhere")
        with self.assertRaisesRegex(crosshead.ReadWriteError, "does not exist.*hf download"):
            crosshead.Model("meta-llama/Llama-3")
        with self.assertRaises(TypeError):
            crosshead.Model(3)
        with self.assertRaises(crosshead.ArgumentError):
            crosshead.Model("a\0b")
        model = crosshead.Model(small.model())
        with self.assertRaisesRegex(crosshead.ArgumentError, "300"):
            model.decode([300])
        with self.assertRaises(TypeError):
            model.decode(["a"])
        with self.assertRaises(TypeError):
            model.encode(b"bytes")
        session = crosshead.Session(model)
        model.close()
        model.close()
        with self.assertRaisesRegex(crosshead.ClosedError, "closed"):
            model.encode("x")
        self.assertEqual(session.feed([1]).shape, (300,))  # it keeps the weights


class Sessions(unittest.TestCase):
    def setUp(self):
        self.model = crosshead.Model(small.model())

    def test_feeds_at_once_and_one_by_one(self):
        ids = self.model.encode("What is the city but the people?")
        with crosshead.Session(self.model) as session:
            at_once = session.feed_all(ids).copy()
            self.assertEqual(at_once.shape, (len(ids), 300))
            session.truncate(0)
            for i, token in enumerate(ids):
                np.testing.assert_allclose(session.feed([token]), at_once[i], rtol=1e-4, atol=1e-4)
            self.assertEqual(session.length, len(ids))
            self.assertEqual(len(session), len(ids))
            self.assertGreater(session.cache_bytes, 0)

    def test_holds_many_sequences(self):
        with crosshead.Session(self.model, 64, 3, "bf16") as session:
            rows = session.feed(np.array([[1, 2], [3, 4], [1, 2]])).copy()
            self.assertEqual(rows.shape, (3, 300))
            np.testing.assert_array_equal(rows[0], rows[2])
            self.assertEqual(session.step([5, 6]).shape, (2, 300))
            self.assertEqual(session.feed_one(2, [5]).shape, (300,))
            self.assertEqual([session.sequence_length(i) for i in range(3)], [3, 3, 3])
            session.copy(0, 1, 2)
            self.assertEqual(session.sequence_length(1), 2)
            session.reset()
            self.assertEqual(session.length, 0)
            self.assertEqual(session.capacity, 64)

    def test_forks(self):
        with crosshead.Session(self.model) as session:
            session.feed([1, 2, 3])
            fork = session.fork()
            np.testing.assert_array_equal(session.feed([4]), fork.feed([4]))
            session.close()
            self.assertEqual(fork.feed([5]).shape, (300,))

    def test_logits_are_a_view_that_stays_readable(self):
        session = crosshead.Session(self.model)
        first = session.feed([1])
        self.assertFalse(first.flags.writeable)
        self.assertFalse(first.flags.owndata)
        address = first.__array_interface__["data"][0]
        second = session.feed([2])
        self.assertEqual(second.__array_interface__["data"][0], address)
        old = [first[10:]]
        for count in (2, 50, 3, 70):  # the work memory grows under arrays that still live
            old.append(session.feed_all(list(range(count)))[-1])
            session.truncate(2)
        session.close()
        del session, first, second
        gc.collect()
        self.assertTrue(all(np.isfinite(array).all() for array in old))

    def test_moving_changes_nothing(self):
        apart, moved = crosshead.Session(self.model), crosshead.Session(self.model)
        held = []
        for tokens in ([1, 2, 3], [4], [5, 6], [7], [8, 9, 10, 11]):
            held.append(moved.feed(tokens))
            np.testing.assert_array_equal(held[-1], apart.feed(tokens).copy())
        self.assertEqual(apart.length, moved.length)

    def test_gives_dlpack(self):
        session = crosshead.Session(self.model)
        logits = session.feed([1])
        np.testing.assert_array_equal(np.from_dlpack(logits.copy()), logits)
        if np.lib.NumpyVersion(np.__version__) < "2.1.0":
            return  # it lends no arrays that are only for reading
        lent = np.from_dlpack(logits)
        self.assertEqual(lent.__array_interface__["data"][0], logits.__array_interface__["data"][0])
        before = lent.copy()
        del logits
        session.feed_all(list(range(50)))  # its memory grows; what is lent stays where it is
        session.close()
        np.testing.assert_array_equal(lent, before)

    def test_refuses_what_is_wrong(self):
        session = crosshead.Session(self.model, max_tokens=4)
        for wrong in ([], [[]]):
            with self.assertRaisesRegex(crosshead.ArgumentError, "at least one"):
                session.feed(wrong)
        for wrong in ([1.5], ["a"], [True], None, [None], object()):
            with self.assertRaises(TypeError):
                session.feed(wrong)
        for wrong in ([300], [-1], [2**40], [[1], [2]], [[[1]]], 3, np.array([2**63], np.uint64)):
            with self.assertRaises(crosshead.ArgumentError):
                session.feed(wrong)
        with self.assertRaises(crosshead.FullError):
            session.feed([1, 2, 3, 4, 5])
        for call in (lambda: session.feed_one(1, [1]), lambda: session.step([1, 2]), lambda: session.copy(0, 0, 9)):
            with self.assertRaises(crosshead.ArgumentError):
                call()
        for call in (lambda: session.truncate("a"), lambda: session.feed_one("a", [1]), lambda: session.truncate(1.5)):
            with self.assertRaises(TypeError):
                call()
        self.assertEqual(session.length, 0)
        session.close()
        session.close()
        for call in (lambda: session.feed([1]), lambda: session.length, lambda: session.fork(), session.reset):
            with self.assertRaisesRegex(crosshead.ClosedError, "closed"):
                call()
        for settings in (dict(cache="f31"), dict(sequences=0), dict(max_tokens=-1), dict(max_tokens=2**70)):
            with self.assertRaises(crosshead.ArgumentError):
                crosshead.Session(self.model, **settings)
        for settings in (dict(cache=1.5), dict(max_tokens="a")):
            with self.assertRaises(TypeError):
                crosshead.Session(self.model, **settings)
        with self.assertRaises(TypeError):
            crosshead.Session(small.model())

    def test_takes_arrays_that_are_not_contiguous(self):
        ids = np.arange(20, dtype=np.int64)[::3]
        plain = crosshead.Session(self.model).feed(ids.tolist()).copy()
        for array in (ids, ids.astype(np.uint8), ids.astype(">i4"), np.arange(20, dtype=np.int32)[::3]):
            np.testing.assert_array_equal(crosshead.Session(self.model).feed(array), plain)

    def test_belongs_to_one_thread_at_a_time(self):
        session = crosshead.Session(self.model)
        busy = []

        def feed():
            for _ in range(200):
                try:
                    session.feed([1])
                    session.truncate(0)
                except crosshead.BusyError as error:
                    busy.append(error)

        threads = [threading.Thread(target=feed) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        session.reset()
        self.assertEqual(session.feed([1]).shape, (300,))

    def test_ten_thousand_sessions_leak_nothing(self):
        def make(count):
            for _ in range(count):
                crosshead.Session(self.model, max_tokens=32, threads=1).feed([1, 2])

        make(500)
        gc.collect()
        before = resident()
        make(10000)
        gc.collect()
        self.assertLess(resident() - before, 4 << 20)


def resident() -> int:
    """The bytes of memory that this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed: `pip install mypy`")
class Types(unittest.TestCase):
    def test_are_what_mypy_takes(self):
        """The package and a script that uses it, errors of the script's included."""
        cache = os.path.join(sys.prefix, "mypy")  # stays with the environment, as its packages' types do
        command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, "-p", "crosshead", "-m", "typed_user"]
        folder = small.ROOT / "tests/python"
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Generating(unittest.TestCase):
    def setUp(self):
        self.model = crosshead.Model(small.model())

    def test_pieces_are_the_texts(self):
        prompts = ["First", "To be", [1, 2, 3]]
        pieces = {i: "" for i in range(3)}
        made = crosshead.generate(self.model, prompts, max_tokens=12, temperature=0)
        for piece in made:
            pieces[piece.index] += piece.text
        texts = made.texts()
        self.assertEqual([pieces[i] for i in range(3)], [text.text for text in texts])
        for text in texts:
            self.assertEqual((len(text.tokens), text.end, text.generated.tokens), (12, "length", 12))
        alone = crosshead.generate(self.model, "To be", max_tokens=12, temperature=0).texts()[0]
        self.assertEqual(alone.tokens, texts[1].tokens)

    def test_greedy_is_the_likeliest_of_the_logits(self):
        session = crosshead.Session(self.model)
        tokens, logits = [], session.feed([5, 6])
        for _ in range(5):
            tokens.append(int(logits.argmax()))
            logits = session.feed(tokens[-1:])
        made = crosshead.generate(self.model, [5, 6], max_tokens=5, temperature=0).texts()[0]
        self.assertEqual(made.tokens, tokens)

    def test_seeds_and_stops(self):
        texts = [
            crosshead.generate(self.model, ["a", "a"], max_tokens=20, seed=seed).texts() for seed in (1, 1, 2)
        ]
        self.assertEqual([t.tokens for t in texts[0]], [t.tokens for t in texts[1]])
        self.assertEqual(texts[0][1].tokens, texts[2][0].tokens)
        whole = texts[0][0].text
        stopped = crosshead.generate(self.model, "a", max_tokens=20, seed=1, stop=["@@", whole[3:5]]).texts()[0]
        self.assertEqual((stopped.end, stopped.stop_string), ("stop string", whole[3:5]))
        self.assertEqual(stopped.text, whole[: whole.index(whole[3:5])])

    def test_can_be_left(self):
        session = crosshead.Session(self.model, sequences=2)

        def leave():
            made = crosshead.generate(session, ["a", "b"], max_tokens=100)
            for _ in made:
                break
            made.close()
            self.assertEqual(session.length, 0)
            return "stopped" in [text.end for text in made.texts()]

        self.assertTrue(any(leave() for _ in range(50)))  # so small a model may be at the end before it is left

    def test_ends_with_the_process(self):
        script = """
import sys, crosshead
session = crosshead.Session(crosshead.Model(sys.argv[1]), sequences=32, threads=1)
crosshead.generate(session, [[1]] * 3000, max_tokens=100)
"""
        done = subprocess.run([sys.executable, "-c", script, small.model()], capture_output=True, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_arguments_of_other_packages_have_hints(self):
        for given, near in (("max_new_tokens", "max_tokens"), ("top_ks", "top_k"), ("do_sample", "temperature"), ("thread", "threads")):
            with self.assertRaisesRegex(TypeError, rf"^generate\(\) has no argument {given}; did you mean {near}\?$"):
                crosshead.generate(self.model, "a", **{given: 5})
        with self.assertRaisesRegex(TypeError, "generate.* max_tokens"):
            crosshead.generate(self.model, "a", nonsense_of_mine=5)

    def test_one_text_is_at_hand(self):
        made = crosshead.generate(self.model, "To be", max_tokens=6, temperature=0)
        self.assertEqual(made.text, crosshead.generate(self.model, "To be", max_tokens=6, temperature=0).texts()[0].text)
        self.assertIn(repr(made.text), repr(made))
        two = crosshead.generate(self.model, ["a", "b"], max_tokens=2)
        with self.assertRaisesRegex(crosshead.ArgumentError, "texts"):
            two.text
        self.assertIn("2 texts", repr(two))

    def test_refuses_what_is_wrong(self):
        for prompts in ([], "a\0b", [[300]], [[]], ["a" * 100000]):
            with self.assertRaises((crosshead.ArgumentError, crosshead.FullError)):
                crosshead.generate(self.model, prompts, max_tokens=1).texts()
        for options in (dict(temperature=-1), dict(top_p=2), dict(top_k=2**40), dict(stop=[""])):
            with self.assertRaises(crosshead.ArgumentError):
                crosshead.generate(self.model, "a", **dict(dict(max_tokens=1), **options)).texts()
        for options in (dict(stop=[3]), dict(nothing=1), dict(temperature="a")):
            with self.assertRaises(TypeError):
                crosshead.generate(self.model, "a", **options)
        with self.assertRaises(TypeError):
            crosshead.generate(self.model, [1.5])


if __name__ == "__main__":
    unittest.main()
