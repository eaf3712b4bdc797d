# mypy: ignore-errors
"""LM head and cross entropy, a chunk of tokens at a time: no tensor holds the logits of all tokens."""

import torch

CHUNK_ELEMENTS = 1 << 27


def losses_of(x, weight, targets, cap):
    """Returns logits [N, V] in F32 or F64, their log-sum-exp and the cross entropy of each token, 0 without a target.
    cap: each logit z becomes cap tanh(z / cap). 0: no cap."""
    logits = x @ weight.t()
    logits = logits.float() if logits.dtype == torch.bfloat16 else logits
    logits = torch.tanh(logits / cap) * cap if cap else logits
    sums = torch.logsumexp(logits, -1)
    picked = logits.gather(-1, targets.clamp(min=0)[:, None])[:, 0]
    return logits, sums, torch.where(targets >= 0, sums - picked, 0)


def evaluate_chunk(x, weight, targets, cap):
    return losses_of(x, weight, targets, cap)[2].double().sum()


def differentiate_chunk(x, weight, targets, scale, cap):
    """Returns the summed loss, and scale times its gradient with respect to x Wᵀ."""
    logits, sums, losses = losses_of(x, weight, targets, cap)
    words = torch.arange(weight.shape[0], device=x.device)
    hot = words[None] == targets[:, None]
    gradient = torch.exp(logits - sums[:, None]) - hot.to(logits.dtype)
    gradient = gradient * torch.where(targets >= 0, scale, 0)[:, None]
    gradient = gradient * (1 - (logits / cap) ** 2) if cap else gradient
    return losses.double().sum(), gradient.to(x.dtype)


class _Head(torch.autograd.Function):
    """The forward pass computes the loss and the gradients; backward returns those gradients."""

    @staticmethod
    def forward(ctx, x, weight, targets, scale, head):
        low = head.dtype
        narrow, matrix = x.to(low), weight.to(low)
        dx, dweight = torch.empty_like(x), torch.zeros_like(weight)
        loss = torch.zeros((), dtype=torch.float64, device=x.device)
        for part in head.parts(x):
            chunk_loss, gradient = head.differentiate(narrow[part], matrix, targets[part], scale, head.cap)
            loss += chunk_loss
            dx[part] = gradient @ matrix
            dweight += gradient.t() @ narrow[part]
        ctx.save_for_backward(dx, dweight)
        return loss

    @staticmethod
    def backward(ctx, upstream):
        dx, dweight = ctx.saved_tensors
        return dx, dweight, None, None, None


class Head:
    """The mean cross entropy of hidden states [N, D] under a matrix [V, D]. dtype: of the products. cap: of logits, or 0."""

    def __init__(self, dtype, cap, compiled):
        self.dtype, self.cap = dtype, cap
        self.differentiate = torch.compile(differentiate_chunk, dynamic=False) if compiled else differentiate_chunk
        self.evaluate_chunk = torch.compile(evaluate_chunk, dynamic=False) if compiled else evaluate_chunk
        self.vocabulary = 0

    def parts(self, x):
        """Returns slices of equal size, each of at most CHUNK_ELEMENTS logits or of one token."""
        count = x.shape[0]
        pieces = max(1, -(-count * self.vocabulary // CHUNK_ELEMENTS))
        while count % pieces:
            pieces += 1
        return [slice(i, i + count // pieces) for i in range(0, count, count // pieces)]

    def loss(self, x, weight, targets, scale):
        """Returns the summed loss. Its backward pass gives `scale` (a tensor) times the gradients."""
        self.vocabulary = weight.shape[0]
        return _Head.apply(x, weight, targets, scale, self)

    def evaluate(self, x, weight, targets):
        """Returns the summed loss without gradients."""
        self.vocabulary = weight.shape[0]
        narrow, matrix = x.detach().to(self.dtype), weight.detach().to(self.dtype)
        return sum(self.evaluate_chunk(narrow[part], matrix, targets[part], self.cap) for part in self.parts(x))
