#< gla
class MultiHeadLowRankAttention(GroupedLatentAttention):
    """Every head reads several latents, each in a branch with a softmax of its own (MLRA, 2026):

        o_h = s_o Σ_β softmax(q_h · (k_βh, r) / √(n + r)) v_βh
    """

    defaults = {"latent_heads": 4, "latent_scale": True, "branch_scale": True, "branches": None}

    def add_latents(self, heads):
        a = {**self.defaults, **self.config.attention}
        self.branches = a["branches"] or a["latent_heads"]
        self.output_scale = self.branches**-0.5 if a["branch_scale"] else 1.0
        super().add_latents(heads)

    def read(self, x, opened, tokens):
        q, (k, v) = self.queries(x, tokens), opened
        heads, context = q.shape[1], 0
        for branch in range(self.branches):
            here = slice(branch * heads, (branch + 1) * heads)
            context = context + self.attend(q, k[:, here], v[:, here], tokens, self.scale)
        return self.finish(self.output_scale * context)


MECHANISMS["mlra"] = MultiHeadLowRankAttention


