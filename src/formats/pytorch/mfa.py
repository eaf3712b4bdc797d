#< factored_query
#< keys_values
class MultiMatrixFactorizationAttention(FactoredQuery, KeysAndValues):
    """m large heads over one key and one value head (MFA eqs. 6-8): q_h = RoPE(Q_h S_q x), k = RoPE(S_k x), v = S_v x."""

    def __init__(self, config, layer_idx, shared):
        super().__init__(config, layer_idx, shared)
        self.add_factored_query()
        self.add_query_modules()
        self.add_keys_values()
        self.projection("o_proj", config.num_attention_heads * config.head_dim, config.hidden_size)
#? head_norm
        self.norm("head_norm", config.head_dim)
#? end

    def read(self, x, opened, tokens):
        q = self.finish_queries(self.factored_query(x), tokens)
        k, v = opened
        return self.finish(self.attend(q, k, v, tokens, self.config.head_dim**-0.5))


MECHANISMS["mfa"] = MultiMatrixFactorizationAttention


