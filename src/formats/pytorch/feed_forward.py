#? !clamped
ACTIVATIONS = {
    "silu": (F.silu, True),
    "geglu": (F.gelu, True),
    "reglu": (F.relu, True),
    "relu2_glu": (lambda x: F.relu(x).square(), True),
    "geglu_tanh": (lambda x: F.gelu(x, approximate="tanh"), True),
    "gelu": (F.gelu, False),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), False),
    "relu": (F.relu, False),
    "relu2": (lambda x: F.relu(x).square(), False),
}


#? end
#? clamped
class FeedForward(nn.Module):
    """W_down (g σ(α g) ⊙ (u + 1)), with g = min(W_gate x, limit) and u = W_up x clamped to ± limit (gpt-oss)."""

    def __init__(self, config, width, bias):
        super().__init__()
        self.alpha, self.limit = config.swiglu_alpha, config.swiglu_limit
        self.gate_proj = nn.Linear(config.hidden_size, width, bias=bias)
        self.up_proj = nn.Linear(config.hidden_size, width, bias=bias)
        self.down_proj = nn.Linear(width, config.hidden_size, bias=bias)

    def forward(self, x):
        gate, up = self.gate_proj(x).clamp(max=self.limit), self.up_proj(x).clamp(-self.limit, self.limit)
        return self.down_proj(gate * torch.sigmoid(self.alpha * gate) * (up + 1))


#? end
#? !clamped
class FeedForward(nn.Module):
    """W_down (f(W_gate x) ⊙ W_up x), or W_down f(W_up x) without a gate."""

    def __init__(self, config, width, bias):
        super().__init__()
        self.activation, gated = ACTIVATIONS[config.hidden_act]
        if gated:
            self.gate_proj = nn.Linear(config.hidden_size, width, bias=bias)
        self.up_proj = nn.Linear(config.hidden_size, width, bias=bias)
        self.down_proj = nn.Linear(width, config.hidden_size, bias=bias)

    def forward(self, x):
        if not hasattr(self, "gate_proj"):
            return self.down_proj(self.activation(self.up_proj(x)))
        return self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))


#? end
#? moe
class Router(nn.Module):
    """Which experts a token is sent to, and with what weights."""

    def __init__(self, config):
        super().__init__()
        self.moe = config.moe
        self.weight = nn.Parameter(torch.empty(config.moe["experts"], config.hidden_size))
#? router_bias
        self.bias = nn.Parameter(torch.zeros(config.moe["experts"]))
#? end
        if config.moe.get("balance", "aux") == "loss_free":
            self.register_buffer("e_score_correction_bias", torch.zeros(config.moe["experts"]))

    def forward(self, x):
        moe, active, groups = self.moe, self.moe["active"], self.moe.get("groups") or 1
        sigmoid = moe.get("scoring", "softmax") == "sigmoid"
        logits = F.linear(wide(x), wide(self.weight))
#? router_bias
        logits = logits + wide(self.bias)
#? end
        scores = torch.sigmoid(logits) if sigmoid else F.softmax(logits, -1)
        choice = logits.detach()
        if groups > 1 or hasattr(self, "e_score_correction_bias"):
            choice = scores.detach()
        if hasattr(self, "e_score_correction_bias"):
            choice = choice + self.e_score_correction_bias
        if groups > 1:
            by_group = choice.unflatten(-1, (groups, -1))
            value = by_group.topk(min(2, by_group.shape[-1]), -1)[0].sum(-1) if sigmoid else by_group.amax(-1)
            best = torch.zeros_like(value).scatter(-1, value.topk(moe["active_groups"], -1)[1], 1.0).bool()
            choice = by_group.masked_fill(~best[..., None], float("-inf")).flatten(-2)
        chosen = choice.topk(active, -1)[1]
        if self.training:
            # A loss that keeps the experts' loads even reads them, as probabilities.
            self.choices = chosen, F.softmax(logits, -1) if sigmoid else scores
        weights = scores.gather(-1, chosen)
        if moe.get("renormalise", True) and (active > 1 or sigmoid):
            weights = weights / weights.sum(-1, keepdim=True)
        return chosen, (weights * moe.get("scale", 1.0)).to(x.dtype), scores


class MixtureOfExperts(nn.Module):
    """shared(x) + Σ over the chosen experts e of w_e expert_e(x)."""

    def __init__(self, config):
        super().__init__()
        moe = config.moe
        width = moe["expert_intermediate_size"]
        self.experts = nn.ModuleList(FeedForward(config, width, config.mlp_bias) for _ in range(moe["experts"]))
        self.gate = Router(config)
        if moe.get("shared"):
            self.shared_experts = FeedForward(config, moe["shared"] * width, config.mlp_bias)

    def forward(self, x):
        flat = x.flatten(0, -2)
        chosen, weights, _ = self.gate(flat)
        # Every expert sees every token, with a weight of zero where it is not chosen: no step depends on the data, so
        # torch.compile makes one graph.
        spread = torch.zeros(flat.shape[0], len(self.experts), dtype=x.dtype, device=x.device)
        spread = spread.scatter(-1, chosen, weights)
        y = sum(spread[:, e, None] * expert(flat) for e, expert in enumerate(self.experts))
        if hasattr(self, "shared_experts"):
            y = y + self.shared_experts(flat)
        return y.view_as(x)


#? end
