#< gqa
class HeadGate(nn.Module):
    """How much each token weighs each head: some heads always, the best of the others."""

    def __init__(self, config):
        super().__init__()
        a = config.attention
        self.shared_heads, self.active = a.get("shared_heads") or 0, a["active_heads"]
        self.routed = nn.Linear(config.hidden_size, config.num_attention_heads - self.shared_heads, bias=False)
        if self.shared_heads > 1:
            self.shared = nn.Linear(config.hidden_size, self.shared_heads, bias=False)
        if self.shared_heads:
            self.stage = nn.Linear(config.hidden_size, 2, bias=False)

    def forward(self, x):
        """g [B, T, H]: r_i = k p_i / Σ p over the k largest, and u = s softmax(W_s x) of the shared ones."""
        p = F.softmax(wide(self.routed(x)), -1)
        chosen = p.detach().topk(self.active, -1)[1]
        if self.training:
            self.choices = chosen, p  # a loss that keeps the choices even reads them
        on = torch.zeros_like(p).scatter(-1, chosen, 1.0)
        r = (self.active * p * on / (p * on).sum(-1, keepdim=True)).to(x.dtype)
        if not self.shared_heads:
            return r
        stage = 2 * F.softmax(self.stage(x), -1)
        u = torch.ones_like(stage[..., :1])
        if self.shared_heads > 1:
            u = self.shared_heads * F.softmax(self.shared(x), -1)
        return torch.cat((stage[..., :1] * u, stage[..., 1:] * r), -1)


class MixtureOfHeadAttention(GroupedQueryAttention):
    """y = W_o [g_1 o_1 … g_H o_H]: grouped-query attention whose heads each token weighs (Jin et al. 2024).

    In training, Crosshead adds a loss that keeps the choices even; here it is left to the caller.
    """

    def __init__(self, config, layer_idx, shared):
        super().__init__(config, layer_idx, shared)
        self.head_gate = HeadGate(config)

    def read(self, x, opened, tokens):
        context = self.context(x, opened, tokens)
#? head_norm
        context = self.head_norm(context)
#? end
        return self.o_proj((context * self.head_gate(x)[..., None]).flatten(-2))


MECHANISMS["moh"] = MixtureOfHeadAttention


