#< keys_values
class DifferentialAttention(KeysAndValues):
    """Heads in pairs, whose weights are subtracted (Ye et al.; MEA eqs. 4-6):

        C_i = (softmax(q_2i k_2iᵀ / √d) − λ softmax(q_2i+1 k_2i+1ᵀ / √d)) (v_2i, v_2i+1)
        y   = W_o (1 − λ_init) headnorm(C)
    """

    def __init__(self, config, layer_idx, shared):
        super().__init__(config, layer_idx, shared)
        heads, size = config.num_attention_heads, config.head_dim
        self.initial = 0.8 - 0.6 * math.exp(-0.3 * layer_idx)
        self.projection("q_proj", config.hidden_size, heads * size, bias=config.attention_bias)
        self.add_query_modules()
        self.add_keys_values()
        if config.attention.get("diff_lambda", "reparameterized") == "per_pair":
            self.register_parameter("lambda", nn.Parameter(torch.full((heads // 2,), self.initial)))
        else:
            for name in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
                self.register_parameter(name, nn.Parameter(torch.empty(size)))
#? vision
        self.projection("o_proj", heads * size, config.hidden_size, bias=config.attention_bias)
#? end
#? output_bias
        self.projection("o_proj", heads * size, config.hidden_size, bias=True)
#? end
#? !vision|output_bias
        self.projection("o_proj", heads * size, config.hidden_size)
#? end
#? head_norm
        self.norm("head_norm", 2 * size)
#? end

    def subtracted(self):
        """λ, one for the layer or one a pair."""
        if "lambda" in self._parameters:  # a keyword, which torch.compile cannot read as an attribute
            return self._parameters["lambda"][:, None]
        first = torch.exp(torch.dot(self.lambda_q1, self.lambda_k1))
        return first - torch.exp(torch.dot(self.lambda_q2, self.lambda_k2)) + self.initial

    def read(self, x, opened, tokens):
        q = self.finish_queries(self.q_proj(x), tokens)
        k, v = opened
        v = torch.cat((v[:, 0::2], v[:, 1::2]), -1)  # both values of a pair
        scale = self.config.head_dim**-0.5
        even, odd = slice(0, None, 2), slice(1, None, 2)
        first = self.attend(q[:, even], k[:, even], v, tokens, scale, even)
        second = self.attend(q[:, odd], k[:, odd], v, tokens, scale, odd)
        context = first - self.subtracted() * second
#? head_norm
        context = (1 - self.initial) * self.head_norm(context)
#? end
        return self.o_proj(context.flatten(-2))


MECHANISMS["diff"] = DifferentialAttention


