#< factored_query
class KeyReuseAttention(FactoredQuery, Mechanism):
    """MFA-KR: the value is the key and a gated linear map of it, v = k + α ⊙ (N k) (MFA eq. 9).

    The key before RoPE is all that is kept. The map is linear, so one query applies it to its weighted sums of keys.
    """

    def __init__(self, config, layer_idx, shared):
        super().__init__(config, layer_idx, shared)
        size, heads = config.head_dim, config.num_attention_heads
        self.add_factored_query()
        self.made = config.attention.get("value_reuse", "gated")
        if self.leader == layer_idx:
            self.add_key(size)
#? knocking
        self.add_knocking("q", heads, size)
#? end
#? qk_norm
        self.norm("q_norm", size)
#? end
        self.projection("o_proj", heads * size, config.hidden_size)
#? head_norm
        self.norm("head_norm", size)
#? end

    def add_key(self, size):
        self.projection("k_proj", self.config.hidden_size, size)
        if self.made != "key":
            self.projection("v_reuse", size, size)
        if self.made == "gated":
            self.v_reuse.gate = nn.Parameter(torch.zeros(size))
#? knocking
        self.add_knocking("k", 1, size)
#? end
#? qk_norm
        self.norm("k_norm", size)
#? end

    def write(self, x, tokens):
        return (self.k_proj(x)[:, :, None],)

    def values(self, k):
        """(I + diag(α) N) k, or what "value_reuse" leaves of it."""
        if self.made == "key":
            return k
        mapped = self.v_reuse(k)
        if self.made == "projection":
            return mapped
        return k + (self.v_reuse.gate * mapped if self.made == "gated" else mapped)

    def opened(self, states, tokens):
        """The key, and the value, or with one query the key that sums of values are made of."""
        kept = states[0].transpose(1, 2)
        k, v = kept, kept if tokens.one else self.values(kept)
#? knocking
        k = self.knock("k", k)
#? end
#? qk_norm
        k = self.k_norm(k)
#? end
#? rope
        k = rotate(k, tokens.key_turn)
#? end
        return k, v

    def read(self, x, opened, tokens):
        q = split_heads(self.factored_query(x), self.config.num_attention_heads)
#? knocking
        q = self.knock("q", q)
#? end
#? qk_norm
        q = self.q_norm(q)
#? end
#? rope
        q = rotate(q, tokens.query_turn)
#? end
        context = self.attend(q, *opened, tokens, self.config.head_dim**-0.5)
        return self.finish(self.first_of_group[0].values(context) if tokens.one else context)


MECHANISMS["mfa_kr"] = KeyReuseAttention


