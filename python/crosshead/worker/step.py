# mypy: ignore-errors
"""A training step: gradient, clipping, AdamW, schedule."""

import contextlib
import math

import torch
import torch.nn.functional as F

from crosshead.worker.balance import Balance
from crosshead.worker.loss import Head
from crosshead.worker.messages import say


# Numbers of modules that differ from layer to layer. As tensors they are inputs of compiled code; as numbers they would be
# part of it.
PER_LAYER = ("initial",)


def rate(options, step):
    """The learning rate of step 1, 2, …: warm-up, then the schedule (docs/train.md)."""
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


class Optimizer:
    """AdamW with each tensor's own rate and decay, over PyTorch's fused kernel, which also clips."""

    def __init__(self, model, options, moments, step):
        self.options, groups = options, {}
        self.keeps = False
        self.identities = []  # matrices that decay towards the identity, with their rate
        self.names = dict(model.named_parameters())  # a tied matrix once
        for name, parameter in self.names.items():
            row = model.config.tensor(name)
            groups.setdefault((row["rate"], bool(row["decay"])), []).append(parameter)
            if row.get("decay_to_identity"):
                self.identities.append(parameter)
        # Decay is rate · weight_decay a step, whatever the tensor's own rate; PyTorch multiplies by the latter.
        self.adamw = torch.optim.AdamW(
            [
                {"params": tensors, "factor": factor, "weight_decay": options["weight_decay"] / factor if decay else 0.0}
                for (factor, decay), tensors in groups.items()
            ],
            lr=options["lr"], betas=(options["beta1"], options["beta2"]), eps=options["eps"], fused=True,
        )
        for name, parameter in self.names.items():
            self.adamw.state[parameter] = {
                "step": torch.tensor(float(step), device=parameter.device),
                "exp_avg": moments["m"][name].view_as(parameter),
                "exp_avg_sq": moments["v"][name].view_as(parameter),
            }

    def moments(self):
        states = {name: self.adamw.state[parameter] for name, parameter in self.names.items()}
        return ({name: state["exp_avg"] for name, state in states.items()},
                {name: state["exp_avg_sq"] for name, state in states.items()})

    def gradients(self):
        """The gradients of all parameters. What no sequence used has zeros."""
        for parameter in self.names.values():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        return [parameter.grad for parameter in self.names.values()]

    @torch.no_grad()
    def step(self, lr):
        """One update; the gradient's norm before clipping. A gradient that is not finite changes nothing."""
        parameters, gradients = list(self.names.values()), self.gradients()
        wide = torch.float64 if parameters[0].device.type == "cpu" else None  # GPUs add in a tree, which is exact enough
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients, 2, wide)))
        clip = self.options["clip"]
        largest = torch.clamp(norm / clip, min=1.0) if clip > 0 else torch.ones_like(norm)
        # The fused kernel divides gradients by grad_scale and does nothing where found_inf is 1.
        self.adamw.grad_scale = largest.float()
        self.adamw.found_inf = (~torch.isfinite(norm)).float()
        for group in self.adamw.param_groups:
            group["lr"] = lr * group["factor"]
        self.adamw.step()
        pull = lr * self.options["weight_decay"] * (1 - self.adamw.found_inf)
        for parameter in self.identities:
            parameter.diagonal(dim1=-2, dim2=-1).add_(pull.to(parameter.dtype))
        self.forget_gradients()
        return norm

    def keep_gradients(self):
        """From here on gradients stay where they are in memory, as a CUDA graph needs it, and are set to zero after a step."""
        self.keeps = True
        for parameter in self.names.values():
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad

    def forget_gradients(self):
        if self.keeps:
            torch._foreach_zero_([parameter.grad for parameter in self.names.values()])
            return
        for parameter in self.names.values():
            parameter.grad = None


def compile_layers(model, device):
    """Compiles the layers one by one. Most are alike, and what is compiled for the first serves the others."""
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
    """A micro-batch's passes as a CUDA graph: the GPU gets them in one call, and need not wait for Python between kernels."""

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
    """The model, its optimizer, and what a step does with a batch."""

    def __init__(self, model, run, groups, device, compiled, ranks):
        self.model, self.run, self.device, self.ranks = model, run, device, ranks
        self.sequences = run.step_sequences // ranks.count  # of a step, in this process
        self.dtype = {"BF16": torch.bfloat16, "F64": torch.float64}.get(run.options["dtype"], torch.float32)
        self.optimizer = Optimizer(model, run.options, groups, run.step)
        self.balance = Balance(model, run.config)
        self.vision = run.unit == "images"
        self.head = Head(self.dtype, compiled)
        self.micro_batch = run.settings.get("micro_batch") or self._first_micro_batch()
        self.graphs, self.graph, self.seen = compiled, None, 0
        if compiled:
            compile_layers(model, device)

    def _first_micro_batch(self):
        """The most sequences, among the divisors of a step's, that keep a GPU busy without filling it."""
        most = max(1, 32768 // self.run.options["sequence"])
        return max(n for n in range(1, most + 1) if self.sequences % n == 0)

    def halve(self):
        """A smaller micro-batch; False where it has one sequence."""
        if self.micro_batch == 1:
            return False
        self.micro_batch = max(n for n in range(1, self.micro_batch // 2 + 1) if self.sequences % n == 0)
        self.graph, self.seen = None, 0
        return True

    def autocast(self):
        if self.dtype == torch.bfloat16:
            return torch.autocast(self.device.type, torch.bfloat16)
        return contextlib.nullcontext()

    def place(self, batch, part):
        return {name: tensor[part].to(self.device, non_blocking=True) for name, tensor in batch.items()}

    def hidden(self, batch):
        with self.autocast():
            options = {"document_starts": batch["starts"]} if "starts" in batch else {}
            return self.model.model(input_ids=batch["tokens"], use_cache=False, **options).last_hidden_state

    def parts(self, begin, end):
        return [slice(i, i + self.micro_batch) for i in range(begin, end, self.micro_batch)]

    def differentiate(self, batch, predicted):
        """Adds this process's gradient of a step; its share of the mean loss, on the device."""
        begin = self.ranks.rank * self.sequences
        loss = torch.zeros((), dtype=torch.float64, device=self.device)
        self.balance.begin()
        for part in self.parts(begin, begin + self.sequences):
            micro = self.place(batch, part)
            micro["scale"] = torch.full((), 1 / predicted, device=self.device)
            loss += self._captured(micro) if self.graphs else self._passes(micro)
        return loss / predicted

    def _captured(self, micro):
        """The passes by a CUDA graph, which the fourth micro-batch makes: by then all is compiled."""
        self.seen += 1
        if self.seen <= 3:
            return self._passes(micro)
        if self.graph is None:
            self.optimizer.keep_gradients()
            try:
                self.graph = Graph(self._passes, micro)
            except RuntimeError as error:
                torch.cuda.synchronize()
                self.graphs = False
                say("warning", message=f"this model is trained without a CUDA graph: {str(error).splitlines()[0]}")
                return self._passes(micro)
        return self.graph.run(micro)

    def _passes(self, micro):
        """The summed loss of a micro-batch, whose gradient is added to the parameters'."""
        loss, objective = self._micro_loss(micro)
        term = self.balance.term(self.micro_batch, micro.get("text"), self.run.step_sequences)
        (objective if term is None else objective + term).backward()
        return loss

    def _micro_loss(self, micro):
        """The summed loss, and what is differentiated."""
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
            logits = self.model(pixel_values=micro["pixels"].view(shape)).logits
        return logits.float() if logits.dtype == torch.bfloat16 else logits

    def update(self, loss):
        """The optimizer's step after all processes have their gradients; loss and gradient norm, on the device."""
        if self.ranks.count > 1:
            self.ranks.add(self.optimizer.gradients())
            self.ranks.add(self.balance.load)
            self.ranks.add([loss])
        norm = self.optimizer.step(rate(self.run.options, self.run.step + 1))
        self.balance.end()
        return loss, norm

    def forget(self):
        """Drops a step that ran out of memory."""
        self.graph, self.optimizer.keeps = None, False
        self.model.zero_grad(set_to_none=True)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
