#< mla
class GroupedLatentAttention(MultiHeadLatentAttention):
    """MLA whose heads read one of several latents, by groups (Zadouri et al. 2025):

        λ_j = s norm_j((W_a x)_j);   head h: (k, v) = B_h λ_⌊h g / H⌋
    """

    defaults = {"latent_heads": 2, "latent_scale": False}
    branches = 1

    def add_latents(self, heads):
        c, a = self.config, {**self.defaults, **self.config.attention}
        self.latents = a["latent_heads"]
        width = self.latent // self.latents
        scaled = a["latent_scale"]
        self.latent_scale = (c.hidden_size / width) ** 0.5 if scaled else 1.0
        self.query_scale = (c.hidden_size / a["q_lora_rank"]) ** 0.5 if scaled and a.get("q_lora_rank") else 1.0
        if self.leader == self.layer_idx:
            self.projection("kv_a_proj_with_mqa", c.hidden_size, self.latent + self.rope)
            self.latent_norm("kv_a_layernorm", self.latent)
            self.projection("kv_b_proj", width, self.branches * heads * (self.nope + self.value))

    def write(self, x, tokens):
        latent, rotary = self.kv_a_proj_with_mqa(x).split((self.latent, self.rope), -1)
        parts, norm = latent.unflatten(-1, (self.latents, -1)), self.kv_a_layernorm
        rms = torch.rsqrt(wide(parts).pow(2).mean(-1, keepdim=True) + norm.eps)
        latent = (parts * rms.to(x.dtype)).flatten(-2) * norm.weight * self.latent_scale
        return (torch.cat((latent, self.rotated(rotary, tokens)), -1),)

    def expanded(self, latent, ids):
        """k_h and v_h of all heads, from latents."""
        heads = self.branches * self.config.num_attention_heads
        latent = latent.unflatten(-1, (self.latents, -1)).repeat_interleave(heads // self.latents, 2)
        matrix = matrix_of(self.kv_b_proj).unflatten(0, (heads, -1))
        k, v = torch.einsum("bthw,how->bhto", latent, matrix).split((self.nope, self.value), -1)
#? knocking
        k, v = self.knock("k", k), self.knock("v", v)
#? end
        return k, v


MECHANISMS["gla"] = GroupedLatentAttention


