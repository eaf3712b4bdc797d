# mypy: ignore-errors
"""Times steps of models that are not trained, for a forecast: `python -m crosshead.worker measure FOLDER`."""

import gc
import json
import os
import statistics
import time

import torch

from crosshead.worker.files import CODE
from crosshead.worker.messages import Refused, say
from crosshead.worker.model import construct
from crosshead.worker.run import choose_device
from crosshead.worker.shards import Whole
from crosshead.worker.step import Trainer, ran_out_of_memory

SECONDS = 1.0  # time for the passes of a model


class Sketch:
    """The part of a run that a trainer reads."""

    def __init__(self, described, plan):
        self.options, self.config, self.settings, self.step = described["options"], described["config"], plan, 0
        self.unit = "images" if self.config["model_type"] == "crosshead_vit" else "tokens"
        self.step_sequences, self.count, self.rank = self.options["batch"] * self.options["accumulate"], plan["devices"], 0


class Measurement:
    """A model with arbitrary weights, and a micro-batch of arbitrary tokens."""

    def __init__(self, folder, run, device):
        self.run, self.device, self.cuda = run, device, device.type == "cuda"
        dtype = torch.float64 if run.options["dtype"] == "F64" else torch.float32
        model = construct(folder, device, dtype)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0, 0.02)
            for buffer in model.buffers():
                buffer.zero_()
        moments = {group: {name: torch.zeros_like(value) for name, value in model.named_parameters()} for group in "mv"}
        self.trainer = Trainer(model, run, moments, device, self.cuda, run, Whole())
        self.states = 4 * sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())

    def micro_batch(self):
        config, size = self.trainer.model.config, self.trainer.micro_batch
        if self.trainer.vision:
            shape, words = (size, 1), config.num_classes
            more = {"pixels": torch.rand(size, config.num_channels * config.image_size ** 2, device=self.device)}
        else:
            shape, words = (size, self.run.options["sequence"]), config.vocab_size
            more = {"tokens": torch.randint(words, shape, dtype=torch.int32, device=self.device)}
        targets = torch.randint(words, shape, dtype=torch.int32, device=self.device)
        return {**more, "targets": targets, "scale": torch.full((), 1 / targets.numel(), dtype=self.trainer.weights, device=self.device)}

    def seconds(self, function):
        began = time.perf_counter()
        function()
        if self.cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - began

    def usual(self, function, unmeasured):
        """Returns the median time of a function's calls after `unmeasured` + 1, or the time of that call if it takes SECONDS."""
        first = [self.seconds(function) for _ in range(unmeasured + 1)][-1]
        times = [first]
        while sum(times) < SECONDS and len(times) < 20:
            times.append(self.seconds(function))
        return statistics.median(times[1:] or times)

    def activations(self, micro):
        """Returns the bytes that a forward pass saves for its backward pass, without the parameters."""
        held, own = {}, {parameter.untyped_storage().data_ptr() for parameter in self.trainer.model.parameters()}

        def note(tensor):
            storage = tensor.untyped_storage()
            held.setdefault(storage.data_ptr(), storage.nbytes())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            self.trainer._micro_loss(micro)
        return sum(size for place, size in held.items() if place not in own)

    def measure(self):
        trainer = self.trainer
        while True:
            micro = self.micro_batch()
            trainer.balance.begin()
            try:
                passes = self.usual(lambda: (trainer._captured if trainer.graphs else trainer._passes)(micro), 4 if self.cuda else 0)
                break
            except RuntimeError as error:
                if not ran_out_of_memory(error):
                    raise
                trainer.forget()
                if not trainer.halve():
                    raise Refused("memory", f"{self.device} has too little memory for one sequence of "
                                            f"{self.run.options['sequence']} tokens") from None
        update = self.usual(lambda: trainer.optimizer.step(1e-9), 1 if self.cuda else 0)
        return passes * trainer.sequences / trainer.micro_batch, update, micro

    def forecast(self, described):
        """Returns the seconds of a step and the bytes of memory."""
        if self.cuda:
            passes, update, _ = self.measure()
            return passes + update, torch.cuda.max_memory_allocated()
        # A CPU is slow: it computes one short sequence, and the result is scaled.
        whole, self.run.options["sequence"] = self.run.options["sequence"], described["cpu_sequence"]
        chosen, self.trainer.micro_batch = self.trainer.micro_batch, 1
        passes, update, micro = self.measure()
        micro_batches = chosen * whole / described["cpu_sequence"]
        return passes * described["cpu_factor"] + update, self.states + self.activations(micro) * micro_batches


def measure(folder):
    """Reports each model of a folder as it is measured."""
    with open(os.path.join(folder, "measure.json"), encoding="utf-8") as file:
        plan = json.load(file)
    device = choose_device((plan.get("device") or "").split(",")[0])
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.cuda.set_stream(torch.cuda.Stream())
    torch.set_float32_matmul_precision("highest")
    for index, described in enumerate(plan["models"]):
        gc.collect()  # a model's layers refer to one another
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        one = Measurement(os.path.join(folder, str(index), CODE), Sketch(described, plan), device)
        seconds, memory = one.forecast(described)
        if plan["shard"]:
            memory -= one.states * (1 - 1 / plan["devices"])
        say("measured", index=index, seconds=seconds, memory_bytes=int(memory))
        del one
    return 0
