#< gqa
class TalkingHeadsAttention(GroupedQueryAttention):
    """Scores and weights mixed across heads, before and after the softmax (Shazeer et al.; MEA eqs. 7-9)."""

    def __init__(self, config, layer_idx, shared):
        super().__init__(config, layer_idx, shared)
        heads = config.num_attention_heads
        if config.attention.get("mix_logits", True):
            self.logit_mix = nn.Linear(heads, heads, bias=False)
        if config.attention.get("mix_weights", True):
            self.weight_mix = nn.Linear(heads, heads, bias=False)

    def attend(self, q, k, v, tokens, scale):
        scores = torch.matmul(q, k.transpose(2, 3)) * scale
#? alibi
        scores = scores + alibi_bias(self.config, tokens, q.dtype).to(q.dtype)
#? end
        if hasattr(self, "logit_mix"):
            scores = torch.einsum("bhts,gh->bgts", scores, self.logit_mix.weight)
        weights = F.softmax(scores.masked_fill(~tokens.seen(), torch.finfo(scores.dtype).min), -1)
        if hasattr(self, "weight_mix"):
            weights = torch.einsum("bgts,og->bots", weights, self.weight_mix.weight)
        return torch.matmul(weights, v).transpose(1, 2)


MECHANISMS["talking"] = TalkingHeadsAttention


