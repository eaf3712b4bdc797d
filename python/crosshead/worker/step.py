# mypy: ignore-errors
"""A training step: gradient, clipping, AdamW, schedule."""

import contextlib
import math

import torch
import torch.nn.functional as F

from crosshead.worker.balance import Balance
from crosshead.worker.loss import Head
from crosshead.worker.messages import first_line, say
from crosshead.worker.shards import Whole


# Numbers of modules that differ from layer to layer. As tensors they are inputs of compiled code; as numbers they would be
# part of it.
PER_LAYER = ("initial",)


def rate(options, step):
    """Returns the learning rate of step 1, 2, …: warm-up, then the schedule (docs/train.md)."""
    peak, steps, warmup = options["lr"], options["steps"], options["warmup"]
    if warmup < 0:
        warmup = min(steps // 20, 1000)
    if step <= warmup:
        return peak * step / (warmup + 1)
    if options["schedule"] == "constant" or steps <= warmup + 1:
        return peak
    to_zero = options["schedule"] == "cosine-to-zero"
    final = 0.0 if to_zero else 0.1
    done = (step - warmup - 1) / (steps - warmup - 1 + to_zero)
    return peak * (final + (1 - final) * 0.5 * (1 + math.cos(math.pi * done)))


def ran_out_of_memory(error):
    """Returns True if the device's memory ran out. PyTorch's compiler wraps such an error in one of its own.
    An error that was raised while such an error was handled counts too."""
    while error is not None and not isinstance(error, torch.OutOfMemoryError):
        error = getattr(error, "inner_exception", None) or error.__cause__ or error.__context__
    return error is not None


class Optimizer:
    """AdamW with each tensor's own rate and decay, over PyTorch's fused kernel, which also clips."""

    def __init__(self, model, options, moments, step, shards):
        self.options, self.shards, groups = options, shards, {}
        self.keeps = False
        self.identities = []  # diagonals of matrices that decay towards the identity
        self.names = dict(model.named_parameters())  # a tied matrix once
        self.own = {name: shards.own(parameter) for name, parameter in self.names.items()}
        for name, own in self.own.items():
            row = model.config.tensor(name)
            if not own.numel():
                continue  # fewer rows than processes
            groups.setdefault((row["rate"], bool(row["decay"])), []).append(own)
            if row.get("decay_to_identity"):
                first = shards.first(self.names[name].shape[0]) if own.dim() == 2 else 0
                self.identities.append(own.detach().diagonal(first, -2, -1))
        # A step decays weights by the run's rate · weight_decay. PyTorch multiplies by the tensor's own rate, hence the division.
        self.adamw = torch.optim.AdamW(
            [
                {"params": tensors, "factor": factor, "weight_decay": options["weight_decay"] / factor if decay else 0.0}
                for (factor, decay), tensors in groups.items()
            ],
            lr=options["lr"], betas=(options["beta1"], options["beta2"]), eps=options["eps"], fused=True,
        )
        for name, own in self.own.items():
            self.adamw.state[own] = {
                "step": torch.tensor(float(step), device=own.device),
                "exp_avg": moments["m"][name],
                "exp_avg_sq": moments["v"][name],
            }

    def moments(self):
        """Returns {name: first moment} and {name: second moment}, of whole tensors."""
        return ({name: self.shards.gather(self.adamw.state[own][key], self.names[name].shape[0]) for name, own in self.own.items()}
                for key in ("exp_avg", "exp_avg_sq"))

    def gradients(self):
        """Returns the gradients of this process's rows of all parameters: zeros for parameters that no sequence used."""
        for name, parameter in self.names.items():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            self.own[name].grad = self.shards.own(parameter.grad)
        return [own.grad for own in self.own.values()]

    @torch.no_grad()
    def step(self, lr):
        """Updates the weights and returns the gradient's norm before clipping. A gradient that is not finite changes nothing."""
        gradients = self.gradients()
        wide = torch.float64 if gradients[0].device.type == "cpu" else None  # GPUs add in a tree, which is exact enough
        norm = self.shards.norm(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients, 2, wide))))
        clip = self.options["clip"]
        largest = torch.clamp(norm / clip, min=1.0) if clip > 0 else torch.ones_like(norm)
        # The fused kernel divides gradients by grad_scale, in F32, and does nothing where found_inf is 1.
        self.adamw.grad_scale = largest.float()
        if gradients[0].dtype == torch.float64:
            torch._foreach_div_(gradients, largest)
            self.adamw.grad_scale = None
        self.adamw.found_inf = (~torch.isfinite(norm)).float()
        for group in self.adamw.param_groups:
            group["lr"] = lr * group["factor"]
        self.adamw.step()
        pull = lr * self.options["weight_decay"] * (1 - self.adamw.found_inf)
        for diagonal in self.identities:
            diagonal.add_(pull.to(diagonal.dtype))
        self.forget_gradients()
        return norm

    def keep_gradients(self):
        """Fixes the addresses of gradients, which a CUDA graph needs. From now on they are set to zero after a step."""
        self.keeps = True
        for parameter in self.names.values():
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad

    def forget_gradients(self):
        if self.keeps:
            torch._foreach_zero_([parameter.grad for parameter in self.names.values()])
            return
        for tensor in (*self.names.values(), *self.own.values()):
            tensor.grad = None


def compile_layers(model, device):
    """Compiles the layers one by one. Most are alike and share the code that is compiled for the first."""
    torch._dynamo.config.recompile_limit = 64
    for layer in model.model.layers:
        for module in layer.modules():
            for name, value in list(vars(module).items()):
                if name in PER_LAYER:
                    setattr(module, name, torch.tensor(value, device=device))
        layer.compile(dynamic=False)
    if hasattr(model.model, "norm"):
        model.model.norm.compile(dynamic=False)


class Graph:
    """A micro-batch's passes as a CUDA graph: one call launches them, so the GPU does not wait for Python between kernels."""

    def __init__(self, passes, micro):
        """passes(micro): loss; it adds the gradients to those that the parameters have."""
        self.inputs = {name: tensor.clone() for name, tensor in micro.items()}
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        with torch.cuda.graph(self.graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
            self.loss = passes(self.inputs)

    def run(self, micro):
        for name, tensor in micro.items():
            self.inputs[name].copy_(tensor, non_blocking=True)
        self.graph.replay()
        return self.loss


class Trainer:
    """The model, its optimizer, and the computations of a step."""

    def __init__(self, model, run, moments, device, compiled, ranks, shards):
        self.model, self.run, self.device, self.ranks, self.shards = model, run, device, ranks, shards
        self.sequences = run.step_sequences // ranks.count  # of a step, in this process
        self.dtype = {"BF16": torch.bfloat16, "F64": torch.float64}.get(run.options["dtype"], torch.float32)
        self.weights = next(model.parameters()).dtype
        self.optimizer = Optimizer(model, run.options, moments, run.step, shards)
        self.balance = Balance(model)
        self.vision = run.unit == "images"
        self.head = Head(self.dtype, getattr(model.config, "final_logit_softcapping", 0.0), compiled)
        # Without --micro-batch, 32768 tokens at a time keep a GPU busy without filling it.
        self.micro_batch = self._divisor(run.settings.get("micro_batch") or 32768 // run.options["sequence"])
        self.graphs, self.graph, self.seen = compiled and isinstance(shards, Whole), None, 0
        if compiled:
            compile_layers(model, device)

    def _divisor(self, most):
        """Returns the largest divisor of this process's sequences that is at most `most`; 1 if `most` is 0."""
        return max(n for n in range(1, min(max(most, 1), self.sequences) + 1) if self.sequences % n == 0)

    def halve(self):
        """Makes the micro-batch at most half as large. Returns False if it has one sequence."""
        if self.micro_batch == 1:
            return False
        self.micro_batch = self._divisor(self.micro_batch // 2)
        self.graph, self.seen = None, 0
        return True

    def autocast(self):
        if self.dtype == torch.bfloat16:
            return torch.autocast(self.device.type, torch.bfloat16)
        return contextlib.nullcontext()

    def place(self, batch, part):
        return {name: tensor[part].to(self.device, non_blocking=True) for name, tensor in batch.items()}

    def hidden(self, batch):
        """Returns the input of the LM head: hidden states divided by logits_scaling."""
        with self.autocast():
            options = {"document_starts": batch["starts"]} if "starts" in batch else {}
            hidden = self.model.model(input_ids=batch["tokens"], use_cache=False, **options).last_hidden_state
        divisor = getattr(self.model.config, "logits_scaling", 1.0)
        return hidden if divisor == 1 else hidden / divisor

    def parts(self, begin, end):
        return [slice(i, i + self.micro_batch) for i in range(begin, end, self.micro_batch)]

    def differentiate(self, batch, predicted):
        """Adds this process's gradient of a step. Returns its share of the mean loss, on the device."""
        begin = self.ranks.rank * self.sequences
        loss = torch.zeros((), dtype=torch.float64, device=self.device)
        self.balance.begin()
        for part in self.parts(begin, begin + self.sequences):
            micro = self.place(batch, part)
            micro["scale"] = torch.full((), self.shards.means / predicted, dtype=self.weights, device=self.device)
            loss += self._captured(micro) if self.graphs else self._passes(micro)
        return loss / predicted

    def _captured(self, micro):
        """Runs the passes as a CUDA graph. The fourth micro-batch captures it, after everything is compiled."""
        self.seen += 1
        if self.seen <= 3:
            return self._passes(micro)
        if self.graph is None:
            self.optimizer.keep_gradients()
            try:
                self.graph = Graph(self._passes, micro)
            except RuntimeError as error:
                if ran_out_of_memory(error):
                    raise
                torch.cuda.synchronize()
                self.graphs = False
                say("warning", message=f"this model is trained without a CUDA graph: {first_line(error)}")
                return self._passes(micro)
        return self.graph.run(micro)

    def _passes(self, micro):
        """Returns the summed loss of a micro-batch and adds its gradient to the parameters' gradients."""
        loss, objective = self.shards.call(self._micro_loss, micro)
        term = self.balance.term(self.micro_batch, micro.get("text"), self.run.step_sequences / self.shards.means)
        (objective if term is None else objective + term).backward()
        self.balance.forget_choices()
        return loss

    def _micro_loss(self, micro):
        """Returns the summed loss and the value to differentiate."""
        targets, scale = micro["targets"].flatten().long(), micro["scale"]
        if self.vision:
            smoothing = self.run.options.get("label_smoothing", 0.0)
            loss = F.cross_entropy(self.logits(micro), targets, label_smoothing=smoothing, reduction="sum")
            return loss.detach(), loss * scale
        loss = self.head.loss(self.hidden(micro).flatten(0, 1), self.model.lm_head.weight, targets, scale)
        return loss.detach(), loss

    def logits(self, micro):
        config = self.model.config
        shape = (-1, config.num_channels, config.image_size, config.image_size)
        with self.autocast():
            logits = self.model(pixel_values=micro["pixels"].view(shape).to(self.weights)).logits
        return logits.float() if logits.dtype == torch.bfloat16 else logits

    def update(self, loss):
        """Sums gradients over processes and performs the optimizer's step. Returns loss and gradient norm, on the device."""
        if self.ranks.count > 1:
            if isinstance(self.shards, Whole):  # divided gradients are sums already
                self.ranks.add(self.optimizer.gradients())
            self.ranks.add(self.balance.load)
            self.ranks.add([loss])
        norm = self.optimizer.step(rate(self.run.options, self.run.step + 1))
        self.balance.end()
        return loss, norm

    def forget(self):
        """Drops the gradients of a step that ran out of memory."""
        self.graph, self.optimizer.keeps = None, False
        self.model.zero_grad(set_to_none=True)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
