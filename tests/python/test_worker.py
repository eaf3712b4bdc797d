"""Tests the worker against the native engine: equal losses and gradient norms for every mechanism; each resumes the other's run.

Run by `make test-python`; CROSSHEAD names the program.
"""

import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

try:
    import torch  # noqa: F401
    import transformers  # noqa: F401
except ImportError as error:
    raise unittest.SkipTest(f"the worker is not tried: {error}; `pip install torch transformers`")

from safetensors.torch import load_file
from test_transformers import CASES, CROSSHEAD, IMAGES, MLA, SIZES, VIT_CASES, attention

from crosshead.worker import model as models, run as worker
from crosshead.worker.messages import Refused
from crosshead.worker.ranks import Ranks

STEPS = ("--steps", "20", "--batch", "2", "--accumulate", "2", "--seq", "32", "--eval-every", "10", "--eval-tokens", "500")
ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "data"
MORE = {
    "coefficients of an MLP": {
        "sharing": {"type": "masa", "projections": ["q", "k", "v", "o"], "atoms": 2, "coefficients": "mlp"}, **attention(type="gqa")},
    "coefficients of an MLP, one dictionary": {
        "num_key_value_heads": 4, "hidden_size": 32, **attention(type="gqa"), "sharing": {
            "type": "masa", "projections": ["q", "k", "v"], "atoms": 3, "common_dictionary": True, "coefficients": "mlp"}},
    "tied": {"tie_word_embeddings": True, **attention(type="gqa")},
    "spectral": {"parametrization": "spectral", "tie_word_embeddings": True, **attention(type="diff")},
    "spectral, knocking": {
        "parametrization": "spectral", **attention(type="gqa", knocking={"type": "mlp", "on": ["v"], "per_head": True})},
    "experts scored by sigmoids": {
        "moe": {"experts": 4, "active": 1, "shared": 1, "expert_intermediate_size": 14, "scoring": "sigmoid", "groups": 2, "active_groups": 2,
                "aux_coefficient": 1}, **attention(**MLA)},
    "yarn where a part of a head turns": {
        "rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16}, **attention(**MLA)},
    "yarn and a content bias": {
        "rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16},
        **attention(type="collaborative", shared_qk_dim=16, content_bias=True)},
    "loss-free balance": {
        "moe": {"experts": 4, "active": 2, "expert_intermediate_size": 16, "balance": "loss_free"}, **attention(type="gqa")},
}
# Steps of this mechanism are close to a singularity: rounding grows from step to step.
RATES = {"tpa": "1e-4"}


def shell(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)


def crosshead(*words):
    ran = shell(CROSSHEAD, *words)
    if ran.returncode:
        raise AssertionError(f"crosshead {' '.join(map(str, words))}: {ran.stderr.strip()}")
    return ran.stdout


def children_of(process):
    """The processes that a process has started, in their order."""
    return [int(word) for word in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def entries(run, event):
    lines = [json.loads(line) for line in pathlib.Path(run, "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == event]


class Replayed:
    """Replaces a CUDA graph: it repeats the passes."""

    def __init__(self, passes, micro):
        self.inputs = {name: tensor.clone() for name, tensor in micro.items()}
        self.passes = passes

    def run(self, micro):
        for name, tensor in micro.items():
            self.inputs[name].copy_(tensor)
        return self.passes(self.inputs)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.text = self.folder / "text.txt"
        self.text.write_text("\n\n".join((DATA / "tinyshakespeare.txt").read_text()[:40000].split("\n\n")))
        self.said = []
        patch = mock.patch.object(worker, "say", lambda event, **members: self.said.append((event, members)))
        patch.start()
        self.addCleanup(patch.stop)

    def config(self, keys, sizes=SIZES, **more):
        whole = {**sizes, **({"vocab_size": 280} if sizes is SIZES else {}), **keys, **more}
        if whole["attention"]["type"] in ("mla", "gla", "mlra"):
            whole.pop("num_key_value_heads", None)
        path = self.folder / "config.json"
        path.write_text(json.dumps({key: value for key, value in whole.items() if value is not None}))
        return path

    def prepare(self, *words):
        out = tempfile.mkdtemp(dir=self.folder)
        crosshead("train", *words, "--engine", "pytorch", "--device", "cpu", "--prepare", "--out", out)
        return out

    def native(self, *words):
        out = tempfile.mkdtemp(dir=self.folder)
        crosshead("train", *words, "--out", out)
        return out

    def agree(self, a, b, steps=20):
        for event, key, most in (("step", "loss", 1e-4), ("step", "grad_norm", 1e-3), ("evaluation", "validation_loss", 1e-4)):
            ours, theirs = entries(a, event), entries(b, event)
            self.assertEqual([line["step"] for line in ours], [line["step"] for line in theirs])
            for one, other in zip(ours, theirs):
                self.assertLess(abs(one[key] - other[key]), most * abs(one[key]), f"{key} of step {one['step']}")
        self.assertEqual(len(entries(b, "step")), steps)


class Agreement(Case):
    def compare(self, config, *words):
        a, b = self.native(config, *words), self.prepare(config, *words)
        self.assertEqual(worker.train(b), 0)
        self.agree(a, b)
        return a, b

    def test_mechanisms(self):
        for name, keys in {**CASES, **MORE}.items():
            with self.subTest(name):
                rate = RATES.get(name, "1e-3")
                self.compare(self.config(keys), "--data", self.text, *STEPS, "--lr", rate)

    def test_documents(self):
        words = ("--data", self.text, *STEPS, "--documents", "--separator", "blank-lines")
        linear = {"type": "gdn", "heads": 2, "head_dim": 8, "value_head_dim": 8}
        for name, keys in {
            "gqa": attention(type="gqa"), "mla": attention(**MLA), "windows": {"sliding_window": 9, **attention(type="gqa")},
            "gdn": {"layer_types": ["linear_attention"] * 2 + ["full_attention"], "linear_attention": linear, **attention(type="gqa")},
            "talking": {"num_key_value_heads": 4, **attention(type="talking")},
            "sinks": {"sliding_window": 4, "attention_sinks": 3, **attention(type="gqa")},
            "learned positions": {"position": "learned", **attention(type="gqa")},
            "chosen heads": attention(type="moh", shared_heads=1, active_heads=2, balance_coefficient=1),
            "loss-free balance": MORE["loss-free balance"],
            "balance loss": {"moe": {"experts": 4, "active": 2, "expert_intermediate_size": 16, "aux_coefficient": 1}, **attention(type="gqa")},
        }.items():
            with self.subTest(name):
                self.compare(self.config(keys), *words)

    def test_a_kernel_of_the_delta_rule(self):
        """In the place of flash-linear-attention's, with its arguments: [B, T, H, d], log decay and steps [B, T, H]."""

        def rule(q, k, v, g, beta, scale):
            state, outputs = q.new_zeros(*q.shape[0:1], q.shape[2], q.shape[3], v.shape[3]), []
            for t in range(q.shape[1]):
                state = state * g[:, t].exp()[..., None, None]
                error = beta[:, t, :, None] * (v[:, t] - torch.einsum("bhkv,bhk->bhv", state, k[:, t]))
                state = state + torch.einsum("bhk,bhv->bhkv", k[:, t], error)
                outputs.append(scale * torch.einsum("bhkv,bhk->bhv", state, q[:, t]))
            calls.append(q.shape)
            return torch.stack(outputs, 1), None

        def with_rule(folder):
            configuration, modeling = import_code(folder)
            modeling.kernel_for = lambda x: rule
            return configuration, modeling

        calls, import_code = [], models.import_code
        with mock.patch.object(models, "import_code", with_rule):
            self.compare(self.config(CASES["gdn in all layers"]), "--data", self.text, *STEPS)
        self.assertTrue(calls)

    def test_images(self):
        pixels = self.folder / "images"
        pixels.mkdir()
        generator = torch.Generator().manual_seed(1)
        for part in ("train", "test"):
            count, size = 64, IMAGES["image_size"]
            values = torch.randint(0, 256, (count * size * size,), dtype=torch.uint8, generator=generator)
            labels = torch.randint(0, IMAGES["num_classes"], (count,), dtype=torch.uint8, generator=generator)
            prefix = "train" if part == "train" else "t10k"
            header = b"".join(n.to_bytes(4, "big") for n in (0x803, count, size, size))
            (pixels / f"{prefix}-images-idx3-ubyte").write_bytes(header + bytes(values.tolist()))
            (pixels / f"{prefix}-labels-idx1-ubyte").write_bytes(
                b"".join(n.to_bytes(4, "big") for n in (0x801, count)) + bytes(labels.tolist()))
        words = ("--images", pixels, "--steps", "20", "--batch", "4", "--eval-every", "10", "--label-smoothing", "0.1",
                 "--augment", "flip+crop")
        for name, keys in VIT_CASES.items():
            with self.subTest(name):
                a, b = self.compare(self.config(keys, IMAGES, num_channels=1), *words)
                tops = [[line["top1"], line["top5"]] for line in entries(a, "evaluation")]
                self.assertEqual(tops, [[line["top1"], line["top5"]] for line in entries(b, "evaluation")])
        with self.subTest("f64"):
            self.compare(self.config(VIT_CASES["vit"], IMAGES, num_channels=1), *words, "--compute", "f64")

    def test_numerics(self):
        experts = {"experts": 7, "active": 1, "shared": 1, "expert_intermediate_size": 5, "aux_coefficient": 5}
        slopes = {"num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 4, "position": "alibi"}  # powers of the root of 2
        gqa = attention(type="gqa")
        for name, keys, kind, loss, norm in (
            ("gqa", gqa, "bf16", 2e-2, 5e-2),
            ("gqa", gqa, "f64", 2e-9, 1e-8),
            ("sink logits", {"init": "fan_in", **attention(type="gqa", sink_logits=True)}, "f64", 2e-9, 1e-8),
            ("alibi", {"parametrization": "spectral", **slopes, **gqa}, "f64", 2e-9, 1e-8),
            ("talking, alibi", {"parametrization": "spectral", **slopes, **attention(type="talking")}, "f64", 2e-9, 1e-8),
            ("a balance loss", {"init": "fan_in", "moe": experts, **gqa}, "f64", 2e-9, 1e-8),
        ):
            with self.subTest(name, kind=kind):
                # The reciprocal of 31 tokens is inexact, in contrast to that of 32.
                words = (self.config(keys), "--data", self.text, *STEPS[:7], "31", *STEPS[8:], "--compute", kind)
                a, b = self.native(*words), self.prepare(*words)
                worker.train(b)
                for one, other in zip(entries(a, "step"), entries(b, "step")):
                    self.assertLess(abs(one["loss"] - other["loss"]), loss * one["loss"])
                    self.assertLess(abs(one["grad_norm"] - other["grad_norm"]), norm * one["grad_norm"])

    def test_models_of_families(self):
        """A family's config.json has keys of its own, and stays as it is."""
        sizes = {**SIZES, "vocab_size": 280, "intermediate_size": 36, "rms_norm_eps": 1e-6}
        experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "router_aux_loss_coef": 1,
                   "norm_topk_prob": True}
        for family, keys in {"llama": {}, "qwen3_moe": experts}.items():
            with self.subTest(family):
                path = self.folder / "config.json"
                path.write_text(json.dumps({**sizes, **keys, "model_type": family}))
                a, b = self.compare(path, "--data", self.text, *STEPS)
                first, second = (json.loads(pathlib.Path(run, "config.json").read_text()) for run in (a, b))
                self.assertEqual(first, second)

    def test_the_finished_model_opens(self):
        b = self.prepare(self.config(attention(**MLA)), "--data", self.text, *STEPS)
        worker.train(b)
        found = json.loads(crosshead("eval", b, "--text", self.text, "--json"))
        self.assertLess(abs(found["loss"] - entries(b, "evaluation")[-1]["validation_loss"]), 1)
        self.assertEqual(entries(b, "done")[0]["step"], 20)


class Resuming(Case):
    def stopped_after(self, run, step):
        """Lets the worker train a run up to a step, as after SIGTERM."""
        driver = worker.Driver(run)

        def hear(event, **members):
            if event == "step" and members["step"] == step:
                driver.stop()

        with mock.patch.object(worker, "say", hear):
            self.assertEqual(driver.drive(), 130)

    def test_the_native_engine_goes_on(self):
        words = (self.config(attention(type="gqa", knocking={"type": "mlp", "on": ["v"]})), "--data", self.text, *STEPS)
        a, b = self.native(*words), self.prepare(*words)
        self.stopped_after(b, 7)
        crosshead("train", "--out", b, "--resume")
        self.agree(a, b)

    def begun(self, config, **more):
        """A run that was interrupted after its ninth step."""
        import crosshead as package

        out = tempfile.mkdtemp(dir=self.folder)
        with self.assertRaises(package.Interrupted):
            package.train(out, config=str(config), data=str(self.text), steps=20, batch=2, accumulate=2, sequence=32, eval_every=10,
                          eval_tokens=500, on_step=lambda step: step.step < 9, **more)
        return out

    def test_the_worker_goes_on(self):
        words = (self.config(attention(**MLA)), "--data", self.text, *STEPS)
        a, b = self.native(*words), self.begun(words[0])
        crosshead("train", "--out", b, "--resume", "--engine", "pytorch", "--device", "cpu", "--python", sys.executable)
        self.agree(a, b)

    def test_a_resumed_run_may_change_options(self):
        words = (self.config(attention(type="gqa")), "--data", self.text, *STEPS[2:], "--schedule", "constant", "--warmup", "0")
        a, b = self.native(*words, "--steps", "20"), self.native(*words, "--steps", "9")
        resume = ("train", "--out", b, "--resume", "--engine", "pytorch", "--device", "cpu", "--prepare")
        crosshead(*resume, "--steps", "20")
        self.assertEqual(worker.train(b), 0)
        self.assertEqual(len(entries(b, "step")), 20)
        crosshead(*resume, "--steps", "24", "--eval-every", "12")
        self.assertEqual(worker.train(b), 0)
        self.assertEqual([line["step"] for line in entries(b, "evaluation")], [9, 10, 20, 24])
        for one, other in zip(entries(a, "step"), entries(b, "step")):
            self.assertLess(abs(one["loss"] - other["loss"]), 1e-4 * one["loss"])

    def test_a_divided_model(self):
        """Checkpoints are those of a model that one process holds, whoever resumes them."""
        knocking = {"type": "linear", "on": ["q", "k", "v"], "decay_to_identity": True}
        groups = attention(**MLA, layer_group_size=2, knocking=knocking)  # layers that read parameters of others; fewer rows than processes
        words = (self.config(groups, tie_word_embeddings=True, vocab_size=301), "--data", self.text, *STEPS)  # 151 and 150 rows
        with self.subTest("begun natively"):
            a, b = self.native(*words), self.begun(words[0])
            crosshead("train", "--out", b, "--resume", "--engine", "pytorch", "--device", "cpu,cpu", "--shard", "--python", sys.executable)
            self.agree(a, b)
            sizes = [{key: (value.shape, value.dtype) for key, value in load_file(f"{run}/{name}").items()}
                     for name in ("checkpoint.safetensors", "model.safetensors") for run in (a, b)]
            self.assertEqual(sizes[0], sizes[1])
            self.assertEqual(sizes[2], sizes[3])
        with self.subTest("ended natively"):
            b = self.begun(words[0], engine="pytorch", device="cpu,cpu", shard=True, python=sys.executable)
            crosshead("train", "--out", b, "--resume")
            self.agree(a, b)

    def test_the_worker_resumes_itself(self):
        words = (self.config(attention(type="gqa")), "--data", self.text, *STEPS)
        a, b = self.native(*words), self.prepare(*words)
        self.stopped_after(b, 10)
        self.assertEqual(worker.train(b), 0)
        self.agree(a, b)
        self.assertEqual([line["step"] for line in entries(b, "resume")], [10])

    def test_smaller_micro_batches(self):
        words = (self.config(attention(type="gqa")), "--data", self.text, *STEPS)
        a, b = self.native(*words), self.prepare(*words)
        first = worker.Trainer.differentiate

        def out_of_memory(trainer, batch, predicted):
            if trainer.micro_batch > 1:
                raise RuntimeError("the compiler failed") from torch.OutOfMemoryError("out of memory")
            return first(trainer, batch, predicted)

        with mock.patch.object(worker.Trainer, "differentiate", out_of_memory):
            self.assertEqual(worker.train(b), 0)
        self.agree(a, b)
        self.assertIn("warning", [event for event, _ in self.said])

    def test_failures_of_the_device(self):
        words = (self.config(attention(type="gqa")), "--data", self.text, *STEPS)
        memory = torch.OutOfMemoryError("CUDA out of memory")
        for place, error, kind, sentence in (
            ("build", memory, "memory", "cpu has too little memory for the weights and the optimizer"),
            ("Trainer.differentiate", memory, "memory", "cpu has too little memory for one sequence of 32 tokens"),
            ("Trainer.update", memory, "memory", "cpu has run out of memory after step 0; resume with a smaller --micro-batch"),
            ("Trainer.update", RuntimeError("CUDA error: unspecified launch failure\nmore"), "io",
             "PyTorch failed after step 0: CUDA error: unspecified launch failure (log.jsonl has the traceback)"),
        ):
            with self.subTest(sentence), mock.patch(f"crosshead.worker.run.{place}", side_effect=error):
                run = self.prepare(*words)
                with self.assertRaises(Refused) as raised:
                    worker.train(run)
                self.assertEqual(raised.exception.kind, kind)
                self.assertTrue(str(raised.exception).startswith(sentence), str(raised.exception))
                if place == "Trainer.update":
                    self.assertIn("unspecified launch failure" if kind == "io" else "out of memory", entries(run, "error")[0]["traceback"])

    def test_gradients_that_stay_in_place(self):
        """As a CUDA graph has them, which is played here by the passes themselves."""

        experts = {"experts": 4, "active": 2, "expert_intermediate_size": 16, "balance": "loss_free"}
        words = (self.config({"moe": experts, **attention(type="gqa")}), "--data", self.text, *STEPS)
        a, b = self.native(*words), self.prepare(*words)
        driver = worker.Driver(b)
        driver.trainer.graphs, driver.trainer.micro_batch = True, 2
        evaluate, out_of_memory = driver._evaluate, []

        def beside_a_graph(micro):
            if driver.trainer.graph is not None:
                out_of_memory.append(driver.run.step)
                raise torch.OutOfMemoryError("out of memory")
            return evaluate(micro)

        with mock.patch("crosshead.worker.step.Graph", Replayed), mock.patch.object(driver, "_evaluate", beside_a_graph):
            self.assertEqual(driver.drive(), 0)
        self.agree(a, b)
        self.assertEqual((out_of_memory, driver.trainer.micro_batch), ([10, 20], 2), "without the graph, memory suffices")
        self.assertTrue(all(gate.choices is None for gate in driver.trainer.balance.experts), "they would hold on to a pass")

    def test_memory_that_runs_out_in_a_capture(self):
        words = (self.config(attention(type="gqa")), "--data", self.text, *STEPS)
        a, b = self.native(*words), self.prepare(*words)
        driver, captured = worker.Driver(b), []
        driver.trainer.graphs, driver.trainer.micro_batch = True, 2

        def capture(passes, micro):
            captured.append(len(micro["tokens"]))
            if captured[-1] == 2:
                raise torch.OutOfMemoryError("out of memory")
            return Replayed(passes, micro)

        with mock.patch("crosshead.worker.step.Graph", capture):
            self.assertEqual(driver.drive(), 0)
        self.agree(a, b)
        self.assertEqual(captured, [2, 1])

    def test_processes_of_torchrun(self):
        """Each trains on the device of its number on its machine."""
        run = mock.Mock(step_sequences=4)
        second = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
        gpus = mock.Mock(is_available=lambda: True, device_count=lambda: 2)
        with mock.patch.dict(os.environ, second), mock.patch.object(torch, "get_device_module", lambda _: gpus):
            for devices, expected in (([], "cuda:1"), (["cuda"], "cuda:1"), (["cuda:0", "cuda:1"], "cuda:1"), (["cuda:0"], "cuda:0")):
                ranks = Ranks(run, devices)
                self.assertEqual(worker.choose_device(ranks.name or "cuda", ranks.local), torch.device(expected), devices)
            with self.assertRaisesRegex(Refused, "2 processes on this machine train on 3 devices"):
                Ranks(run, ["cuda:0", "cuda:1", "cuda:2"])

    def test_the_first_error_is_the_one_reported(self):
        python = self.folder / "python"
        python.write_text("#!/bin/sh\n" + "".join(
            f'echo \'{{"event": "error", "kind": "io", "message": "{word} error"}}\'\n' for word in ("first", "second")) + "exit 1\n")
        python.chmod(0o755)
        ran = shell(CROSSHEAD, "train", self.config(attention(type="gqa")), "--data", self.text, *STEPS, "--engine", "pytorch",
                    "--python", python, "--out", self.folder / "run")
        self.assertEqual((ran.returncode, ran.stderr.splitlines()[-1]), (1, "crosshead train: first error"))

    def test_a_failed_run_does_not_end_a_comparison(self):
        for devices, number in ((["cpu", "cpu"], 9), (["cpu"], 9), (["cpu"], 15)):
            with self.subTest(devices=devices, number=number):
                self.kill_one_run(devices, number)

    def kill_one_run(self, devices, number):
        python = self.folder / "python"
        python.write_text(f'#!/bin/sh\ncase "$3" in */mla) kill -{number} $$ ;; esac\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        out = pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "compared"
        ran = shell(CROSSHEAD, "compare", "--data", self.text, "--mechanisms", "mla,mha", "--params", "100k", "--tokens", "2k",
                    "--batch", "2", "--seq", "64", "--engine", "pytorch", "--device", ",".join(devices), "--python", python, "--out", out)
        self.assertEqual(ran.returncode, 1, ran.stderr)
        self.assertIn(f"killed by signal {number}", ran.stderr)
        found = json.loads((out / "results.json").read_text())
        self.assertEqual([model["name"] for model in found["models"]], ["mha"])
        self.assertEqual((found["engine"], found["devices"]), ("pytorch", devices))
        versions = {"device_name": "cpu", "torch": torch.__version__, "python": platform.python_version()}
        self.assertLessEqual(versions.items(), found["models"][0].items())
        self.assertIn(f"<dt>PyTorch</dt><dd>{torch.__version__}</dd>", (out / "report.html").read_text())

    def test_a_sweep(self):
        out = self.folder / "swept"
        crosshead("sweep", "--data", self.text, "--mechanisms", "mha", "--params", "100k", "--tokens", "2k", "--batch", "2", "--seq", "64",
                  "--evaluations", "6", "--lr", "1e-3,3e-3", "--engine", "pytorch", "--device", "cpu", "--python", sys.executable,
                  "--out", out)
        found = json.loads((out / "results.json").read_text())
        self.assertEqual((found["engine"], found["devices"]), ("pytorch", ["cpu"]))
        versions = {"device_name": "cpu", "torch": torch.__version__, "python": platform.python_version()}
        self.assertEqual(len(found["runs"]), 2)
        for run in found["runs"]:
            self.assertLessEqual(versions.items(), run.items())
        self.assertIn(f"<dt>PyTorch</dt><dd>{torch.__version__}</dd>", (out / "report.html").read_text())


class Processes(Case):
    def start(self, run):
        return subprocess.Popen([sys.executable, "-m", "crosshead.worker", run], stdout=subprocess.PIPE, text=True)

    def test_files_of_the_current_directory_are_no_modules(self):
        for name in ("torch.py", "safetensors.py"):
            (self.folder / name).write_text("raise RuntimeError")
        run = self.prepare(self.config(attention(type="gqa")), "--data", self.text, *STEPS)
        ran = shell(sys.executable, "-m", "crosshead.worker", run, cwd=self.folder)
        self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_sigterm_saves_a_checkpoint(self):
        words = (self.config(attention(type="gqa")), "--data", self.text, *STEPS[2:], "--steps", "100000")
        run = self.prepare(*words)
        process = self.start(run)
        for line in process.stdout:
            if json.loads(line)["event"] == "step":
                break
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.assertEqual(process.returncode, 130)
        self.assertGreater(entries(run, "interrupted")[0]["step"], 0)

    def test_an_interruption_names_the_command_that_continues(self):
        words = (self.config(attention(type="gqa")), "--data", self.text, "--batch", "2", "--seq", "32", "--steps", "100000")
        out, engine = self.folder / "run", ("--engine", "pytorch", "--device", "cpu", "--python", sys.executable)
        process = subprocess.Popen([str(word) for word in (CROSSHEAD, "train", *words, "--out", out, *engine)], stderr=subprocess.PIPE, text=True)
        while not (out / "log.jsonl").exists() or not entries(out, "step"):
            self.assertIsNone(process.poll())
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130)
        self.assertIn(f"`crosshead train --out {out} --resume {' '.join(engine)}` continues", said)

    def test_two_processes_are_as_one(self):
        for name, *more in (("tied",), ("loss-free balance",), ("loss-free balance", "--shard")):
            with self.subTest(name, more=more):
                words = (self.config(MORE[name]), "--data", self.text, *STEPS)
                a, b = self.native(*words), tempfile.mkdtemp(dir=self.folder)
                crosshead("train", *words, "--out", b, "--engine", "pytorch", "--device", "cpu", "--ranks-per-run", "2", "--python",
                          sys.executable, *more)
                self.agree(a, b)

    def test_micro_batches_are_at_most_the_sequences_of_a_process(self):
        words = (self.config(attention(type="gqa")), "--data", self.text, *STEPS[:4], *STEPS[6:], "--micro-batch", "2")
        a, b = self.native(*words), tempfile.mkdtemp(dir=self.folder)
        crosshead("train", *words, "--out", b, "--engine", "pytorch", "--device", "cpu,cpu", "--python", sys.executable)
        self.agree(a, b)

    def test_a_killed_process_ends_the_others(self):
        for more in ((), ("--shard",)):
            with self.subTest(more=more):
                self.kill_one_of_two(*more)

    def kill_one_of_two(self, *more):
        words = (self.config(attention(type="gqa")), "--data", self.text, "--steps", "100000", "--batch", "2", "--seq", "32", *more)
        out = tempfile.mkdtemp(dir=self.folder)
        run = subprocess.Popen([str(CROSSHEAD), "train", *map(str, words), "--out", out, "--engine", "pytorch", "--device", "cpu,cpu",
                                "--checkpoint-every", "5", "--python", sys.executable], stderr=subprocess.PIPE, text=True)
        try:
            while not os.path.exists(os.path.join(out, "log.jsonl")) or len(entries(out, "step")) < 12:
                self.assertIsNone(run.poll())
                time.sleep(0.2)
            first = children_of(run.pid)[0]
            os.kill(children_of(first)[0], signal.SIGKILL)
            _, said = run.communicate(timeout=120)
        finally:
            run.kill()
        self.assertEqual(run.returncode, 1)
        self.assertIn("process 2 of 2 that train this run was killed by signal 9", said)

    def test_bad_input(self):
        config = self.config(attention(type="gqa"))
        words = ("train", config, "--data", self.text, *STEPS, "--engine", "pytorch", "--out", self.folder / "run")
        for more, status, sentence in (
            (("--python", "/no/python"), 1, "/no/python cannot be started (No such file or directory); --python must name a Python that has PyTorch"),
            (("--device", "cuda:99", "--python", sys.executable), 1, "cuda"),
            (("--device", "nonsense", "--python", sys.executable), 1, "nonsense is no device"),
            (("--device", "cpu,cpu,cpu", "--python", sys.executable), 1, "3 devices cannot share 4 sequences a step evenly"),
            (("--device", "cpu,nonsense", "--python", sys.executable), 1, "nonsense is no device"),
            (("--trace", self.folder / "trace"), 2, "--trace"),
        ):
            with self.subTest(more):
                ran = shell(CROSSHEAD, *words, *more)
                self.assertEqual(ran.returncode, status, ran.stderr)
                self.assertIn(sentence, ran.stderr)
                self.assertFalse((self.folder / "run").exists(), "a run that never began leaves nothing behind")
        for command in ("compare", "sweep"):
            ran = shell(CROSSHEAD, command, "--data", self.text, "--mechanisms", "mha,mla,gqa", "--params", "100k", "--tokens", "2k",
                        "--batch", "2", "--seq", "64", *words[-4:-2], "--python", "/no/python", "--out", self.folder / command)
            self.assertEqual(ran.returncode, 1)
            self.assertLessEqual(ran.stderr.count("cannot be started"), 2, "the other runs would fail too")
            self.assertFalse((self.folder / command).exists())
        ran = shell(CROSSHEAD, "train", config, "--data", self.text, "--device", "cpu", "--out", self.folder / "run")
        self.assertIn("--device needs --engine pytorch", ran.stderr)

    def test_a_forecast(self):
        words = ("compare", "--data", self.text, "--mechanisms", "mha,gdn,kha-mlp+moe", "--params", "100k", "--tokens", "2k", "--batch", "2",
                 "--seq", "256", "--engine", "pytorch", "--python", sys.executable, "--out", self.folder / "compared", "--dry-run", "--json")
        temporary = self.folder / "temporary"
        temporary.mkdir()
        ran = shell(CROSSHEAD, *words, "--device", "cpu", env={**os.environ, "TMPDIR": str(temporary)})
        self.assertEqual(ran.returncode, 0, ran.stderr)
        for model in json.loads(ran.stdout)["models"]:
            self.assertGreater(model["seconds"], 0)
            self.assertGreater(model["memory_bytes"], 16 * model["parameters"])
        self.assertEqual(list(temporary.iterdir()), [])
        self.assertFalse((self.folder / "compared").exists())
        found = json.loads(shell(CROSSHEAD, *words, "--device", "nonsense").stdout)
        self.assertIn("nonsense is no device", found["not_estimated"])
        self.assertIsNone(found["total"]["seconds"])

    def test_the_benchmark_of_a_gpu(self):
        ran = shell(sys.executable, ROOT / "bench/gpu.py", "--device", "cpu", "--tiny", "--models", "mha", "--out", self.folder)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        models = json.loads(pathlib.Path(self.folder, "gpu.json").read_text())["models"]
        self.assertEqual([model["name"] for model in models], ["Llama (transformers)", "mha"])
        self.assertTrue(all(model["tokens_per_second"] > 0 for model in models))

    def test_prepared_runs(self):
        run = self.prepare(self.config(attention(type="gqa")), "--data", self.text, *STEPS)
        settings = pathlib.Path(run, "worker.json")
        for change, sentence in (({"version": "0.0.1"}, "0.0.1"), ({"text": str(self.folder)}, "no text"),
                                 ({"device": "cuda:99"}, "cuda")):
            with self.subTest(change):
                before = settings.read_text()
                settings.write_text(json.dumps({**json.loads(before), **change}))
                ran = shell(sys.executable, "-m", "crosshead.worker", run)
                settings.write_text(before)
                self.assertEqual(ran.returncode, 1)
                self.assertIn(sentence, json.loads(ran.stdout.splitlines()[-1])["message"])
        ran = shell(sys.executable, "-m", "crosshead.worker", self.folder)
        self.assertIn("not a run that was prepared", ran.stdout)

    def test_a_resumed_run_has_the_micro_batch_of_its_last_start(self):
        run = self.prepare(self.config(attention(type="gqa")), "--data", self.text, *STEPS, "--batch", "4", "--micro-batch", "2")
        for device, more in (("cpu", ("--micro-batch", "1")), ("cpu,cpu", ())):
            crosshead("train", "--out", run, "--resume", "--engine", "pytorch", "--device", device, "--prepare", *more)
            settings = json.loads(pathlib.Path(run, "worker.json").read_text())
            self.assertEqual((settings["micro_batch"], settings["device"]), (1, device))


if __name__ == "__main__":
    unittest.main()
