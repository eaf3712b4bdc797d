#< gqa
class GatedAttention(GroupedQueryAttention):
    """y = W_o (σ(W_g x) ⊙ headnorm(softmax(q kᵀ / √d) v)): the output of each head passes a gate (Qiu et al. 2025)."""

    def __init__(self, config, layer_idx, shared):
        super().__init__(config, layer_idx, shared)
        self.projection("g_proj", config.hidden_size, config.num_attention_heads * config.head_dim)

    def read(self, x, opened, tokens):
        context = self.context(x, opened, tokens)
#? head_norm
        context = self.head_norm(context)
#? end
        return self.o_proj(context.flatten(-2) * torch.sigmoid(self.g_proj(x)))


MECHANISMS["gated"] = GatedAttention


