# mypy: ignore-errors
"""Steps, evaluations and checkpoints of a run, in the order of the native engine."""

import collections
import math
import platform
import signal
import time
import traceback

import torch

from crosshead.worker.data import Ahead, Batches
from crosshead.worker.files import Log, NoLog, Run
from crosshead.worker.messages import Refused, first_line, say
from crosshead.worker.model import build, state_of
from crosshead.worker.ranks import Ranks
from crosshead.worker.shards import Shards, Whole
from crosshead.worker.step import Trainer, ran_out_of_memory, rate

CHECKPOINT_SECONDS = 600


class Interrupted(Exception):
    """SIGTERM or SIGINT was received."""


def choose_device(name, local=0):
    """Returns the device with this name, or for None the machine's accelerator, else the CPU. local: this process's number on the
    machine, which is the device's if the name has none."""
    if not name:
        name = next((kind for kind in ("cuda", "xpu") if getattr(torch, kind).is_available()), "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise Refused("config", f"{name} is no device; cuda, cuda:1, cpu and xpu are") from error
    if device.type == "cpu":
        return device
    if device.type not in ("cuda", "xpu"):
        raise Refused("config", f"the worker does not train on {device.type}; cuda, cuda:1, cpu and xpu are devices for it")
    library = torch.get_device_module(device)
    if not library.is_available():
        raise Refused("config", f"PyTorch {torch.__version__} sees no {device.type} device here; the device cpu trains without one")
    count = library.device_count()
    index = local if device.index is None else device.index
    if index >= count:
        raise Refused("config", f"there is no {name}: this machine has {count} {device.type} device{'s' * (count != 1)}, "
                                f"numbered from 0")
    return torch.device(device.type, index)


class Clock:
    """The time between two points of a device's work, without waiting for it."""

    def __init__(self, device):
        self.device = device

    def mark(self):
        if self.device.type == "cpu":
            return time.perf_counter()
        event = torch.get_device_module(self.device).Event(enable_timing=True)
        event.record()
        return event

    def between(self, first, last):
        return last - first if isinstance(first, float) else first.elapsed_time(last) / 1000

    def passed(self, mark):
        return isinstance(mark, float) or mark.query()


class Driver:
    """One run from its checkpoint to its end, or to a signal."""

    def __init__(self, path):
        self.run = Run(path)
        named = self.run.settings.get("device")
        self.ranks = Ranks(self.run, named.split(",") if named else [])
        try:
            self._open()
        except BaseException as error:
            self.ranks.abandon()
            if ran_out_of_memory(error):
                raise Refused("memory", f"{self._memory()} for the weights and the optimizer of this model; end what else uses it, or "
                                        "give a device with more memory") from error
            raise

    def _memory(self):
        if self.device.type != "cuda":
            return f"{self.device} has too little memory"
        free, total = torch.cuda.mem_get_info(self.device)
        free += torch.cuda.memory_reserved(self.device)  # memory of this process
        return f"{self.device} has {free / 1e9:.1f} GB of its {total / 1e9:.1f} GB free, which is too little"

    def _open(self):
        options = self.run.options
        self.device = choose_device(self.ranks.name, self.ranks.local)
        if self.device.type != "cpu":
            torch.get_device_module(self.device).set_device(self.device)
        if self.device.type == "cuda":
            # All work runs on one stream that a CUDA graph can capture; the default stream cannot be captured. Autograd adds up the
            # gradients of a parameter on the stream where it was first used.
            torch.cuda.set_stream(torch.cuda.Stream())
        self.ranks.connect(self.device)
        if options["dtype"] != "F64":
            torch.set_float32_matmul_precision("highest")
        self.batches = Batches(self.run, self.device.type == "cuda")
        dtype = torch.float64 if options["dtype"] == "F64" else torch.float32
        self.divided = self.ranks.count > 1 and self.run.settings.get("shard", False)  # otherwise every process holds the whole model
        self.shards = Shards(self.ranks) if self.divided else Whole()
        self.model = build(self.run, self.device, dtype, self.shards)
        shapes = {name: tensor.shape for name, tensor in state_of(self.model).items()}

        def place(name, moment):
            return self.shards.own(moment.view(shapes[name])).to(self.device, dtype)

        moments = {group: self.run.load(group, place) for group in "mv"}
        self.saved = set(moments["m"])  # names of tensors; the model may have buffers besides
        compiled = self.device.type == "cuda" and self.run.settings.get("compile", True)
        self.trainer = Trainer(self.model, self.run, moments, self.device, compiled, self.ranks, self.shards)
        self.log = Log(self.run) if self.ranks.leads else NoLog()
        self.clock, self.pending = Clock(self.device), collections.deque()
        self.stopping, self.last_saved, self.saved_step = False, time.monotonic(), self.run.step

    def stop(self, *_):
        self.stopping = True

    # ---- Steps ----

    def take_step(self, ahead):
        batch, predicted, tokens = ahead.next()
        if predicted == 0:
            raise Refused("io", f"step {self.run.step + 1} has nothing to predict")
        began = self.clock.mark()
        while True:
            loss = None
            try:
                loss = self.trainer.differentiate(batch, predicted)
            except RuntimeError as error:
                if not ran_out_of_memory(error):
                    raise
                self._refuse_divided()
            if not self.ranks.any(loss is None):
                break
            self.trainer.forget()
            if not self.trainer.halve():
                raise Refused("memory", f"{self.device} has too little memory for one sequence of "
                                        f"{self.run.options['sequence']} tokens; shorter sequences or a smaller model fits")
            say("warning", message=f"out of memory: {self.trainer.micro_batch} sequences at a time from here on")
        loss, norm = self.trainer.update(loss)
        self.run.step += 1
        results = torch.stack((loss.double(), norm.double()))
        if self.device.type != "cpu":
            results = results.to("cpu", non_blocking=True)
        ended = self.clock.mark()
        self.pending.append((self.run.step, tokens, results, began, ended))

    def _refuse_divided(self):
        """Raises an error for a divided model: its processes wait for one another within a step, so they cannot repeat it."""
        if self.divided:
            raise Refused("memory", f"{self.device} has too little memory for {self.trainer.micro_batch} sequences at a time; give a "
                                    f"smaller --micro-batch, or more devices")

    def report(self, wait):
        """Logs the steps that the device has finished. With `wait` it waits for all of them."""
        while self.pending and (wait or len(self.pending) > 2 or self.clock.passed(self.pending[0][-1])):
            step, tokens, results, began, ended = self.pending.popleft()
            if not isinstance(ended, float):
                ended.synchronize()
            loss, norm = results.tolist()
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise Refused("numeric", self._not_finite(step, loss, norm))
            seconds = self.clock.between(began, ended)
            unit = self.run.unit
            self.run.losses.append(loss)
            self.run.seconds += seconds
            self.run.tokens += tokens
            lr = rate(self.run.options, step)
            self.log.write("step", step=step, **{unit: self.run.tokens}, loss=loss, lr=lr, grad_norm=norm,
                           **{unit + "_per_second": round(tokens / max(seconds, 1e-9), 1)}, seconds=round(seconds, 4))
            say("step", step=step, tokens=self.run.tokens, step_tokens=tokens, loss=loss, lr=lr, grad_norm=norm, seconds=seconds)

    def _not_finite(self, step, loss, norm):
        weight = next((name for name, tensor in state_of(self.model).items() if not torch.isfinite(self.shards.own(tensor)).all()), None)
        if weight:
            return f"step {step}: the loss is {loss:g} because the weight {weight} holds a value that is not finite"
        if not math.isfinite(loss):
            return f"step {step}: the loss is {loss:g}; the weights before it are finite, a lower learning rate may help"
        return f"step {step}: a gradient is not finite (the loss is {loss:g}); a lower learning rate or clipping norm may help"

    # ---- Evaluations ----

    def evaluation_due(self):
        run = self.run
        every = run.options["eval_every"]
        last = run.step == run.options["steps"]
        possible = run.step > 0 and not run.evaluated() and self.batches.validation_sequences > 0
        return possible and (last or (every > 0 and run.step % every == 0))

    def evaluate(self):
        """Computes the mean loss over the first validation sequences; the options say how many."""
        run, trainer = self.run, self.trainer
        total = self.batches.validation_sequences
        if run.options["eval_tokens"] > 0:
            total = min(total, -(-run.options["eval_tokens"] // run.options["sequence"]))
        sums = torch.zeros(4, dtype=torch.float64, device=self.device)  # loss, targets, first choices, among the first five
        first = 0
        while first < total:
            micro, found = trainer.micro_batch, None
            begin = first + self.ranks.rank * micro
            batch = self.batches.validate(begin, micro)
            batch["targets"][max(0, total - begin):] = -1
            try:
                found = self.shards.call(self._evaluate, trainer.place(batch, slice(None)))
            except RuntimeError as error:
                if not ran_out_of_memory(error):
                    raise
                self._refuse_divided()
            if self.ranks.any(found is None):
                graph = trainer.graph is not None
                trainer.forget()
                if self.ranks.any(graph):
                    continue  # a captured pass had reserved its memory; without it the evaluation may fit
                if not trainer.halve():
                    raise Refused("memory", f"{self.device} has too little memory to evaluate one sequence")
                say("warning", message=f"out of memory: {trainer.micro_batch} sequences at a time from here on")
                continue
            sums += found
            first += micro * self.ranks.count
            if self.ranks.any(self.stopping):
                raise Interrupted
        self.ranks.add([sums])
        loss, count, top1, top5 = sums.tolist()
        point = [run.step, loss / max(count, 1)] + ([top1 / count, top5 / count] if trainer.vision else [])
        if not math.isfinite(point[1]):
            raise Refused("numeric", f"the validation loss after step {run.step} is {point[1]:g}")
        if run.evaluated():
            run.validation.pop()
        run.validation.append([float(number) for number in point])
        more = dict(zip(("top1", "top5"), point[2:]))
        self.log.write("evaluation", step=run.step, **{run.unit: run.tokens}, validation_loss=point[1], **more)
        say("evaluation", step=run.step, validation_loss=point[1], **more)

    def _evaluate(self, micro):
        """Returns sums over a micro-batch. The layers run as in training, so that their compiled code is reused."""
        trainer, targets = self.trainer, micro["targets"].flatten().long()
        count = (targets >= 0).sum().double()
        if not trainer.vision:
            hidden = trainer.hidden(micro).detach().flatten(0, 1)
            trainer.balance.forget_choices()
            loss = trainer.head.evaluate(hidden, self.model.lm_head.weight, targets)
            return torch.stack((loss, count, torch.zeros_like(loss), torch.zeros_like(loss)))
        logits = trainer.logits(micro).detach()
        trainer.balance.forget_choices()
        seen = targets >= 0
        losses = torch.nn.functional.cross_entropy(logits, targets, ignore_index=-1, reduction="none").double()
        label = logits.gather(-1, targets.clamp(min=0)[:, None])
        place = (logits > label).sum(-1)
        return torch.stack(((losses * seen).sum(), count, ((place == 0) & seen).sum().double(),
                            ((place < 5) & seen).sum().double()))

    # ---- Checkpoints ----

    def checkpoint_due(self):
        every, run = self.run.options["checkpoint_every"], self.run
        if run.step == self.saved_step:
            return False
        if run.step == run.options["steps"]:
            return True
        return run.step % every == 0 if every > 0 else self.ranks.any(time.monotonic() - self.last_saved >= CHECKPOINT_SECONDS)

    def save(self):
        self.report(wait=True)
        self.saved_step, self.last_saved = self.run.step, time.monotonic()
        weights = self.weights()
        m, v = self.trainer.optimizer.moments()
        if self.ranks.leads:
            for moments in (m, v):
                for name in weights.keys() - moments.keys():  # tensors that the optimizer does not update
                    moments[name] = torch.zeros_like(weights[name])
            self.run.save({"weight": weights, "m": m, "v": v})
        self.ranks.any(False)  # the others wait for the file here: sums on devices have a short limit

    def weights(self):
        """Returns {name: whole tensor}, for a file."""
        self.shards.reshard()
        return {name: self.shards.whole(tensor) for name, tensor in state_of(self.model).items() if name in self.saved}

    # ---- The whole run ----

    def drive(self):
        """Trains to the end and returns the exit status of the process."""
        with self.log:
            try:
                status = self._drive()
            except BaseException:
                self.ranks.abandon()
                raise
            self.ranks.close()
            return status

    def _drive(self):
        run = self.run
        parameters = sum(tensor.numel() for tensor in state_of(self.model).values())
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type
        self.log.start(parameters, 16 * parameters // (self.ranks.count if self.divided else 1), self.device, name)
        say("started", step=run.step, device=str(self.device), name=name, torch=torch.__version__,
            python=platform.python_version())
        ahead = Ahead(self.batches, run.step, run.options["steps"], run.step_sequences)
        try:
            self._take_steps(ahead)
        except Interrupted:
            self.report(wait=True)
            if run.step != self.saved_step:
                self.save()
            self.log.write("interrupted", step=run.step)
            return 130
        except (Refused, RuntimeError) as error:
            cause, more = error, {}
            if isinstance(error, RuntimeError):
                cause = self.ranks.cause(error) if self.divided else error
                cause = cause if isinstance(cause, Refused) else self._failure(cause)
            if isinstance(error.__cause__ or error, RuntimeError):
                more["traceback"] = traceback.format_exc()
            self.log.write("error", step=run.step, message=str(cause), **more)
            raise cause from error
        finally:
            ahead.close()
        weights = self.weights()
        if self.ranks.leads:
            run.save_model(weights)
        self.log.write("done", step=run.step)
        say("done", step=run.step)
        return 0

    def _failure(self, error):
        """Returns an error of PyTorch as one sentence."""
        place = "log.jsonl" if self.ranks.leads else "standard error"
        if not self.ranks.leads:
            traceback.print_exc()
        if ran_out_of_memory(error):
            return Refused("memory", f"{self.device} has run out of memory after step {self.run.step}; resume with a smaller "
                                     "--micro-batch")
        return Refused("io", f"PyTorch failed after step {self.run.step}: {first_line(error)} ({place} has the traceback)")

    def _take_steps(self, ahead):
        run = self.run
        while True:
            if self.evaluation_due():
                self.report(wait=True)
                self.evaluate()
                self.saved_step = -1
            if self.checkpoint_due():
                self.save()
            if run.step == run.options["steps"]:
                return
            if self.ranks.any(self.stopping):
                raise Interrupted
            self.take_step(ahead)
            self.report(wait=False)


def train(path):
    """Trains the run and returns the exit status of the process."""
    driver = Driver(path)
    signal.signal(signal.SIGTERM, driver.stop)
    signal.signal(signal.SIGINT, driver.stop)
    return driver.drive()
