class GroupedTiedAttention(Mechanism):
    """A group's value is also the first half of its key; the second half is one rotary vector for all groups:

        t = knock(mix(W_kv x)),  r = W_r x;   k_g = (t_g[0 : d/2], RoPE(r)),  v_g = t_g
    """

    def __init__(self, config, layer_idx, shared):
        super().__init__(config, layer_idx, shared)
        heads, groups, size = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.projection("q_proj", config.hidden_size, heads * size)
        components = None
#? head_mix
        components = self.components("v")
        if components and self.leader == layer_idx:
            self.v_mix = HeadMix(groups, components)
#? end
        self.tied_heads = components or groups
        if self.leader == layer_idx:
            self.projection("kv_proj", config.hidden_size, self.tied_heads * size)
            self.projection("k_rope_proj", config.hidden_size, size // 2)
#? knocking
            self.add_knocking("v", groups, size)
        self.add_knocking("q", heads, size)
#? end
#? qk_norm
        self.norm("q_norm", size)
        if self.leader == layer_idx:
            self.norm("k_norm", size)
#? end
        self.projection("o_proj", heads * size, config.hidden_size)
#? head_norm
        self.norm("head_norm", size)
#? end

    def finish_tied(self, tied):
#? head_mix
        tied = self.mix("v", tied)
#? end
#? knocking
        tied = self.knock("v", tied)
#? end
        return tied

    def write(self, x, tokens):
        tied = split_heads(self.kv_proj(x), self.tied_heads)
        if self.tied_heads >= self.config.num_key_value_heads:
            tied = self.finish_tied(tied)
        rotary = self.k_rope_proj(x)[:, None]
#? rope
#? !qk_norm
        rotary = rotate(rotary, tokens.turn)
#? end
#? end
        return tied.transpose(1, 2), rotary.transpose(1, 2)

    def opened(self, states, tokens):
        """Keys, and values, which are the tied states."""
        half = self.config.head_dim // 2
        tied, rotary = (state.transpose(1, 2) for state in states)
        if self.tied_heads < self.config.num_key_value_heads:
            tied = self.finish_tied(tied)
        k = torch.cat((tied[..., :half], rotary.expand(-1, tied.shape[1], -1, -1)), -1)
#? qk_norm
        k = self.k_norm(k)
#? rope
        k = rotate(k, tokens.key_turn, half)
#? end
#? end
        return k, tied

    def read(self, x, opened, tokens):
        size = self.config.head_dim
        k, tied = opened
        q = split_heads(self.q_proj(x), self.config.num_attention_heads)
#? knocking
        q = self.knock("q", q)
#? end
#? qk_norm
        q = self.q_norm(q)
#? end
#? rope
        q = rotate(q, tokens.query_turn, size // 2)
#? end
        return self.finish(self.attend(q, k, tied, tokens, size**-0.5))


MECHANISMS["gta"] = GroupedTiedAttention


