class KeysAndValues(Mechanism):
    """Keys and values by head: k = RoPE(norm(knock(mix(W_k x)))), v = knock(mix(W_v x))."""

    def add_keys_values(self):
        c, a = self.config, self.config.attention
        self.key_heads = a.get("num_key_heads") or c.num_key_value_heads
        self.value_heads = a.get("num_value_heads") or c.num_key_value_heads
#? kv_group
        if self.leader != self.layer_idx:
            return
#? end
#? qk_norm
#? qk_norm_over_all
        self.norm("k_norm", self.key_heads * c.head_dim)
#? end
#? !qk_norm_over_all
        self.norm("k_norm", c.head_dim)
#? end
#? end
        for on, heads in (("k", self.key_heads), ("v", self.value_heads)):
            components = None
#? head_mix
            components = self.components(on)
            if components:
                self.add_module(on + "_mix", HeadMix(heads, components))
#? end
#? knocking
            self.add_knocking(on, heads, c.head_dim)
#? end
            width = (components or heads) * c.head_dim
            self.projection(on + "_proj", c.hidden_size, width, bias=c.attention_bias)

    def add_query_modules(self):
        c = self.config
#? knocking
        self.add_knocking("q", c.num_attention_heads, c.head_dim)
#? end
#? qk_norm
#? qk_norm_over_all
        self.norm("q_norm", c.num_attention_heads * c.head_dim)

    def normed(self, norm, x):
        """Returns x after the norm of all heads of a token as one vector."""
        return split_heads(getattr(self, norm)(join_heads(x)), x.shape[1])
#? end
#? !qk_norm_over_all
        self.norm("q_norm", c.head_dim)
#? end
#? end

    def finish_queries(self, q, tokens):
        q = split_heads(q, self.config.num_attention_heads)
#? knocking
        q = self.knock("q", q)
#? end
#? qk_norm
#? qk_norm_over_all
        q = self.normed("q_norm", q)
#? end
#? !qk_norm_over_all
        q = self.q_norm(q)
#? end
#? end
#? rope
        q = rotate(q, tokens.query_turn)
#? end
        return q

    def finish_keys(self, k, turn, mixes=True):
#? head_mix
        k = self.mix("k", k) if mixes else k
#? end
#? knocking
        k = self.knock("k", k)
#? end
#? qk_norm
#? qk_norm_over_all
        k = self.normed("k_norm", k)
#? end
#? !qk_norm_over_all
        k = self.k_norm(k)
#? end
#? end
#? rope
        k = rotate(k, turn)
#? end
        return k

    def finish_values(self, v, mixes=True):
#? head_mix
        v = self.mix("v", v) if mixes else v
#? end
#? knocking
        v = self.knock("v", v)
#? end
        return v

    def mixed_on_read(self, on):
        """Where there are fewer components than heads, components are cached and the rest happens on read."""
#? head_mix
        module = getattr(self, on + "_mix", None)
        return module is not None and module.weight.shape[1] < module.weight.shape[0]
#? end
#? !head_mix
        return False
#? end

    def write(self, x, tokens):
#? head_mix
        if self.training:  # nothing is cached; a matrix that mixes costs less than mixing every token
            k, v = (split_heads(self.mixed_projection(on, x), heads) for on, heads in
                    (("k", self.key_heads), ("v", self.value_heads)))
            return self.finish_keys(k, tokens.turn, False).transpose(1, 2), self.finish_values(v, False).transpose(1, 2)
#? end
        k = split_heads(self.k_proj(x), self.k_proj_heads())
        v = split_heads(self.v_proj(x), self.v_proj_heads())
        if not self.mixed_on_read("k"):
            k = self.finish_keys(k, tokens.turn)
        if not self.mixed_on_read("v"):
            v = self.finish_values(v)
        return k.transpose(1, 2), v.transpose(1, 2)
#? head_mix

    def mixed_projection(self, on, x):
        """Mixed heads of x: (mix ⊗ I) W x."""
        projection, module = getattr(self, on + "_proj"), getattr(self, on + "_mix", None)
        if module is None:
            return projection(x)
        weight, bias, mix = matrix_of(projection), getattr(projection, "bias", None), module.weight
        mixed = (mix @ weight.unflatten(0, (mix.shape[1], -1)).flatten(1)).view(-1, weight.shape[1])
        return F.linear(x, mixed, None if bias is None else (mix @ bias.unflatten(0, (mix.shape[1], -1))).flatten())
#? end

    def k_proj_heads(self):
#? head_mix
        if hasattr(self, "k_mix"):
            return self.k_mix.weight.shape[1]
#? end
        return self.key_heads

    def v_proj_heads(self):
#? head_mix
        if hasattr(self, "v_mix"):
            return self.v_mix.weight.shape[1]
#? end
        return self.value_heads

    def opened(self, states, tokens):
        """Keys and values of all heads, in pairs."""
        k, v = (state.transpose(1, 2) for state in states)
        if self.mixed_on_read("k") and k.shape[1] < self.key_heads:
            k = self.finish_keys(k, tokens.key_turn)
        if self.mixed_on_read("v") and v.shape[1] < self.value_heads:
            v = self.finish_values(v)
        pairs = math.lcm(self.key_heads, self.value_heads)
        return k.repeat_interleave(pairs // k.shape[1], 1), v.repeat_interleave(pairs // v.shape[1], 1)


