#< keys_values
class GroupedQueryAttention(KeysAndValues):
    """MHA (G = H), GQA and MQA (G = 1): y = W_o headnorm(softmax(q kᵀ / √d) v)."""

    def __init__(self, config, layer_idx, shared):
        super().__init__(config, layer_idx, shared)
        width = config.num_attention_heads * config.head_dim
        self.projection("q_proj", config.hidden_size, width, bias=config.attention_bias)
        self.add_query_modules()
        self.add_keys_values()
#? vision
        self.projection("o_proj", width, config.hidden_size, bias=config.attention_bias)
#? end
#? output_bias
        self.projection("o_proj", width, config.hidden_size, bias=True)
#? end
#? !vision|output_bias
        self.projection("o_proj", width, config.hidden_size)
#? end
#? head_norm
        self.norm("head_norm", config.head_dim)
#? end

    def context(self, x, opened, tokens):
        q = self.finish_queries(self.q_proj(x), tokens)
        k, v = opened
#? attention_multiplier
        context = self.attend(q, k, v, tokens, self.config.attention_multiplier)
#? end
#? !attention_multiplier
        context = self.attend(q, k, v, tokens, self.config.head_dim**-0.5)
#? end
#? exclusive
        own = F.normalize(v[:, :, -x.shape[1] :], dim=-1, eps=1e-12).transpose(1, 2)
        own = own.repeat_interleave(q.shape[1] // v.shape[1], 2)
        context = context - (context * own).sum(-1, keepdim=True) * own
#? end
        return context

    def read(self, x, opened, tokens):
        return self.finish(self.context(x, opened, tokens))


MECHANISMS["gqa"] = GroupedQueryAttention


