class Mixing(nn.Module):
    """A vector per head, which weighs the dims of the shared query."""

    def __init__(self, heads, size):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, size))


class CollaborativeAttention(Mechanism):
    """One query and one key for all heads, which each weigh their dims (Cordonnier et al. 2020):

        s_h = ((q ⊙ m_h) · k + u_h · x) / √d,  blocks of d rotated, each as a head
    """

    def __init__(self, config, layer_idx, shared):
        super().__init__(config, layer_idx, shared)
        heads, size, width = config.num_attention_heads, config.head_dim, config.attention["shared_qk_dim"]
        self.projection("q_proj", config.hidden_size, width)
        self.projection("k_proj", config.hidden_size, width)
        self.mixing = Mixing(heads, width)
        if config.attention.get("content_bias"):
            self.content_bias = nn.Linear(config.hidden_size, heads, bias=False)
        self.projection("v_proj", config.hidden_size, config.num_key_value_heads * size)
#? knocking
        self.add_knocking("v", config.num_key_value_heads, size)
#? end
        self.projection("o_proj", heads * size, config.hidden_size)
#? head_norm
        self.norm("head_norm", size)
#? end

    def turned(self, x, turn):
        """RoPE of [B, heads, T, D̃], block by block."""
#? rope
        blocks = x.unflatten(-1, (-1, self.config.head_dim)).transpose(2, 3).flatten(1, 2)
        blocks = rotate(blocks, turn)
        x = blocks.unflatten(1, (x.shape[1], -1)).transpose(2, 3).flatten(-2)
#? end
        return x

    def write(self, x, tokens):
        k = self.turned(self.k_proj(x)[:, None], tokens.turn)[:, 0]
        if hasattr(self, "content_bias"):
            k = torch.cat((k, self.content_bias(x)), -1)
        v = split_heads(self.v_proj(x), self.config.num_key_value_heads)
#? knocking
        v = self.knock("v", v)
#? end
        return k, v.transpose(1, 2)

    def read(self, x, states, tokens):
        heads = self.config.num_attention_heads
        q = self.turned(self.q_proj(x)[:, None] * self.mixing.weight[:, None], tokens.query_turn)
        if hasattr(self, "content_bias"):  # head h's query ends in row h of the identity
            rows = torch.eye(heads, dtype=q.dtype, device=q.device)[None, :, None]
            q = torch.cat((q, rows.expand(q.shape[0], -1, q.shape[2], -1)), -1)
        k, v = states[0][:, None], states[1].transpose(1, 2)
        k = k.expand(-1, v.shape[1], -1, -1)
        return self.finish(self.attend(q, k, v, tokens, self.config.head_dim**-0.5))


MECHANISMS["collaborative"] = CollaborativeAttention


