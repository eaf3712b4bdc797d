class MultiHeadLatentAttention(Mechanism):
    """All heads' keys and values from one latent vector per token (DeepSeek-V2):

        c = norm(W_a x),  r = RoPE(W_r x);   (k_h, v_h) = heads of W_b c;   key of head h: (k_h, r)
    """

    def __init__(self, config, layer_idx, shared):
        super().__init__(config, layer_idx, shared)
        a, heads = config.attention, config.num_attention_heads
        self.nope, self.rope, self.value = a["qk_nope_head_dim"], a["qk_rope_head_dim"], a["v_head_dim"]
        self.latent = a.get("kv_lora_rank") or 0
        self.shares_latent = a.get("layer_group_shares", "all") == "latent"
        self.expands = self.leader == layer_idx or self.shares_latent
        self.scale = (self.nope + self.rope) ** -0.5
#? rope_scaling
        scaling = config.rope_scaling
        if scaling.get("rope_type", scaling.get("type")) == "yarn" and scaling.get("mscale_all_dim"):
            self.scale *= _yarn_mscale(scaling["factor"], scaling["mscale_all_dim"]) ** 2
#? end
        self.add_query()
        self.add_latents(heads)
#? knocking
        self.add_knocking("q", heads, self.nope)
        if self.expands:
            self.add_knocking("k", heads, self.nope)
            self.add_knocking("v", heads, self.value)
#? end
#? qk_norm
        self.norm("q_norm", self.nope + self.rope)
        if self.expands:
            self.norm("k_norm", self.nope + self.rope)
#? end
        self.projection("o_proj", heads * self.value, config.hidden_size)
#? head_norm
        self.norm("head_norm", self.value)
#? end

    def latent_norm(self, name, size):
        self.add_module(name, RMSNorm(size, self.config.attention.get("latent_norm_eps") or self.config.rms_norm_eps))

    def add_query(self):
        c = self.config
        width = c.num_attention_heads * (self.nope + self.rope)
        rank = c.attention.get("q_lora_rank")
        if rank:
            self.projection("q_a_proj", c.hidden_size, rank)
            self.latent_norm("q_a_layernorm", rank)
        self.projection("q_b_proj" if rank else "q_proj", rank or c.hidden_size, width)

    def queries(self, x, tokens):
        if hasattr(self, "q_a_proj"):
            low = self.q_a_layernorm(self.q_a_proj(x))
#? gla|mlra
            low = low * self.query_scale
#? end
            q = self.q_b_proj(low)
        else:
            q = self.q_proj(x)
        q = split_heads(q, self.config.num_attention_heads)
#? knocking
        q = torch.cat((self.knock("q", q[..., : self.nope]), q[..., self.nope :]), -1)
#? end
#? qk_norm
        q = self.q_norm(q)
#? end
#? rope
        q = rotate(q, tokens.query_turn, self.rope)
#? end
        return q

    def rotated(self, rotary, tokens):
        """The rotary key [B, T, r] that all heads share, as it is written."""
#? rope
#? !qk_norm
        rotary = rotate(rotary[:, None], tokens.turn)[:, 0]
#? end
#? end
        return rotary

    def keys(self, k, rotary, tokens):
        """Whole keys of all heads from (k_h, r)."""
        k = torch.cat((k, rotary[:, None].expand(-1, k.shape[1], -1, -1)), -1)
#? qk_norm
        k = self.k_norm(k)
#? rope
        k = rotate(k, tokens.key_turn, self.rope)
#? end
#? end
        return k

#? !mla_apart
    def keys_and_values(self, states, tokens):
        latent, rotary = states[0].split((self.latent, self.rope), -1)
        k, v = self.expanded(latent, states[-1])
        return self.keys(k, rotary, tokens), v

#? end
    def opened(self, states, tokens):
        """Keys and values of all heads, if the layers of a group share them; else the latents."""
#? mla_absorbs
        if tokens.one:
            return states
#? end
        return states if self.shares_latent else self.keys_and_values(states, tokens)

    def read(self, x, opened, tokens):
        q = self.queries(x, tokens)
#? mla_absorbs
        if tokens.one:
            return self.read_absorbed(q, opened[0], tokens)
#? end
        k, v = self.keys_and_values(opened, tokens) if self.shares_latent else opened
        return self.finish(self.attend(q, k, v, tokens, self.scale))

#? mla
#? !mla_apart
    def add_latents(self, heads):
        c = self.config
        if self.leader == self.layer_idx:
            self.projection("kv_a_proj_with_mqa", c.hidden_size, self.latent + self.rope)
            self.latent_norm("kv_a_layernorm", self.latent)
        if self.expands:
            self.projection("kv_b_proj", self.latent, heads * (self.nope + self.value))
#? gate
            self.add_gate(heads)

    def add_gate(self, heads):
        """The embedding gate of EG-MLA: the expanded latent is multiplied by a vector of the token's id, and normalised."""
        a, width = self.config.attention, heads * (self.nope + self.value)
        self.kv_gate_embed = nn.Embedding(self.config.vocab_size, a["gate_embedding_dim"])
        self.projection("kv_gate_proj", a["gate_embedding_dim"], width)
        if a.get("gate_norm", True):
            self.kv_gate_norm = nn.LayerNorm(width, eps=1e-5)

    def gated(self, kv, ids):
        """LayerNorm(B l ⊙ γ), γ = U E[id] (EG-MLA eqs. 7-9)."""
        gate = self.kv_gate_proj(self.kv_gate_embed(ids))
        kv = kv + gate if self.config.attention.get("gate_op", "multiply") == "add" else kv * gate
        return self.kv_gate_norm(kv) if hasattr(self, "kv_gate_norm") else kv
#? end

    def write(self, x, tokens):
        latent, rotary = self.kv_a_proj_with_mqa(x).split((self.latent, self.rope), -1)
        state = torch.cat((self.kv_a_layernorm(latent), self.rotated(rotary, tokens)), -1)
#? gate
        return state, tokens.ids
#? end
#? !gate
        return (state,)
#? end

    def expanded(self, latent, ids):
        """k_h and v_h of all heads, from latents."""
        kv = self.kv_b_proj(latent)
#? knocking
        k, v = split_heads(kv, self.config.num_attention_heads).split((self.nope, self.value), -1)
        kv = join_heads(torch.cat((self.knock("k", k), self.knock("v", v)), -1))
#? end
#? gate
        kv = self.gated(kv, ids)
#? end
        return split_heads(kv, self.config.num_attention_heads).split((self.nope, self.value), -1)

#? mla_absorbs
    def read_absorbed(self, q, state, tokens):
        """One query: W_UK goes into the query and W_UV into the sum of latents, so that the cache is never expanded."""
        expander = self if self.expands else self.first_of_group[0]
        matrix = matrix_of(expander.kv_b_proj).unflatten(0, (q.shape[1], -1))
        into_query, out_of_sum = matrix.split((self.nope, self.value), 1)
        nope, turned = q.split((self.nope, self.rope), -1)
        q = torch.cat((torch.einsum("bhtn,hnc->bhtc", nope, into_query), turned), -1)
        latents = self.attend(q, state[:, None], state[:, None, :, : self.latent], tokens, self.scale)
        return self.finish(torch.einsum("bthc,hvc->bthv", latents, out_of_sum))
#? end
#? end
#? mla_apart
    def add_latents(self, heads):
        """Keys and values compressed apart (MFA eqs. 4-5); a side without a latent is written as it is."""
        c, a = self.config, self.config.attention
        self.key_latent, self.value_latent = a.get("k_lora_rank") or 0, a.get("v_lora_rank") or 0
        if self.leader != self.layer_idx:
            return
        if self.key_latent:
            self.projection("k_a_proj_with_mqa", c.hidden_size, self.key_latent + self.rope)
            self.latent_norm("k_a_layernorm", self.key_latent)
            self.projection("k_b_proj", self.key_latent, heads * self.nope)
        else:
            self.projection("k_proj", c.hidden_size, heads * self.nope)
            self.projection("k_rope_proj", c.hidden_size, self.rope)
        if self.value_latent:
            self.projection("v_a_proj", c.hidden_size, self.value_latent)
            self.latent_norm("v_a_layernorm", self.value_latent)
            self.projection("v_b_proj", self.value_latent, heads * self.value)
        else:
            self.projection("v_proj", c.hidden_size, heads * self.value)

    def heads_of(self, on, flat):
        x = split_heads(flat, self.config.num_attention_heads)
#? knocking
        x = self.knock(on, x)
#? end
        return x

    def write(self, x, tokens):
        if self.key_latent:
            keys, rotary = self.k_a_proj_with_mqa(x).split((self.key_latent, self.rope), -1)
            keys = self.k_a_layernorm(keys)
        else:
            keys, rotary = join_heads(self.heads_of("k", self.k_proj(x))), self.k_rope_proj(x)
        keys = torch.cat((keys, self.rotated(rotary, tokens)), -1)
        if self.value_latent:
            return keys, self.v_a_layernorm(self.v_a_proj(x))
        return keys, join_heads(self.heads_of("v", self.v_proj(x)))

    def keys_and_values(self, states, tokens):
        heads = self.config.num_attention_heads
        keys, rotary = states[0].split((states[0].shape[-1] - self.rope, self.rope), -1)
        k = self.heads_of("k", self.k_b_proj(keys)) if self.key_latent else split_heads(keys, heads)
        v = self.heads_of("v", self.v_b_proj(states[1])) if self.value_latent else split_heads(states[1], heads)
        return self.keys(k, rotary, tokens), v
#? end
#? end


MECHANISMS["mla"] = MultiHeadLatentAttention


