#< keys_values
#? exclusive
def exclude(y, v):
    """z = y − (y · v̂) v̂: contexts [B, T, H, d] without their part along the values of their own tokens."""
    own = v[:, :, -y.shape[1] :].transpose(1, 2)
    own = own.repeat_interleave(y.shape[2] // own.shape[2], 2)
    own = own / own.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    return y - (y * own).sum(-1, keepdim=True) * own


#? end
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

    def context(self, x, states, tokens):
        q = self.finish_queries(self.q_proj(x), tokens)
        k, v = self.keys_and_values(states, tokens)
#? exclusive
        return exclude(self.attend(q, k, v, tokens, self.config.head_dim**-0.5), v)
#? end
#? !exclusive
        return self.attend(q, k, v, tokens, self.config.head_dim**-0.5)
#? end

    def read(self, x, states, tokens):
        return self.finish(self.context(x, states, tokens))


MECHANISMS["gqa"] = GroupedQueryAttention


