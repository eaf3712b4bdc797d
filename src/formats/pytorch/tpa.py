class TensorProductAttention(Mechanism):
    """Queries, keys and values are sums of a few products of a vector over heads and one over dims (Zhang et al. 2025):

        k_h = (1 / R) Σ_r A[h, r] RoPE(B[r]),  the same for q and, without RoPE, for v

    The factors are what is kept of a token.
    """

    def __init__(self, config, layer_idx, shared):
        super().__init__(config, layer_idx, shared)
        a, heads, size = config.attention, config.num_attention_heads, config.head_dim
        self.fixed = a.get("a_factors", "contextual") == "fixed"
        self.ranks = {"q": a.get("q_rank") or 0, "k": a["k_rank"], "v": a["v_rank"]}
        for on, rank in self.ranks.items():
            if not rank:
                self.projection("q_proj", config.hidden_size, heads * size)
                continue
            if self.fixed:
                self.add_module("a_" + on, nn.Linear(rank, heads, bias=False))
            else:
                self.projection(f"a_{on}_proj", config.hidden_size, heads * rank)
            self.projection(f"b_{on}_proj", config.hidden_size, rank * size)
        self.projection("o_proj", heads * size, config.hidden_size)
#? head_norm
        self.norm("head_norm", size)
#? end

    def factors(self, on, x, tokens):
        """A [B, T, H, R], or nothing where it is a parameter, and B [B, T, R, d], rotated for queries and keys."""
        b = split_heads(getattr(self, f"b_{on}_proj")(x), self.ranks[on])
#? rope
        if on != "v":
            b = rotate(b, tokens.query_turn if on == "q" else tokens.turn)
#? end
        b = b.transpose(1, 2)
        if self.fixed:
            return (b,)
        return getattr(self, f"a_{on}_proj")(x).unflatten(-1, (-1, self.ranks[on])), b

    def heads_of(self, on, *factors):
        """[B, H, T, d] out of factors."""
        if self.fixed:
            return torch.einsum("hr,btrd->bhtd", getattr(self, "a_" + on).weight, factors[0]) / self.ranks[on]
        return torch.einsum("bthr,btrd->bhtd", *factors) / self.ranks[on]

    def write(self, x, tokens):
        return *self.factors("k", x, tokens), *self.factors("v", x, tokens)

    def read(self, x, states, tokens):
        if self.ranks["q"]:
            q = self.heads_of("q", *self.factors("q", x, tokens))
        else:
            q = split_heads(self.q_proj(x), self.config.num_attention_heads)
#? rope
            q = rotate(q, tokens.query_turn)
#? end
        half = len(states) // 2
        k, v = self.heads_of("k", *states[:half]), self.heads_of("v", *states[half:])
        return self.finish(self.attend(q, k, v, tokens, self.config.head_dim**-0.5))


MECHANISMS["tpa"] = TensorProductAttention


