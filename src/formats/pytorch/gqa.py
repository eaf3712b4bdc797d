class GroupedQueryAttention(KeysAndValues):
    """MHA (G = H), GQA and MQA (G = 1): y = W_o headnorm(softmax(q kᵀ / √d) v)."""

    def __init__(self, config, layer_idx, shared):
        super().__init__(config, layer_idx, shared)
        width = config.num_attention_heads * config.head_dim
        self.projection("q_proj", config.hidden_size, width, bias=config.attention_bias)
        self.add_query_modules()
        self.add_keys_values()
        self.projection("o_proj", width, config.hidden_size)
#? head_norm
        self.norm("head_norm", config.head_dim)
#? end

    def context(self, x, states, positions, mask, **kwargs):
        q = self.finish_queries(self.q_proj(x), positions)
        k, v = self.keys_and_values(states, positions)
        return self.attend(q, k, v, mask, self.config.head_dim**-0.5, **kwargs)

    def read(self, x, states, positions, mask, **kwargs):
        return self.finish(self.context(x, states, positions, mask, **kwargs))


MECHANISMS["gqa"] = GroupedQueryAttention


