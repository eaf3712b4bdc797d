def make_norm(config):
    if config.norm == "layernorm":
        return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
    return RMSNorm(config.hidden_size, config.rms_norm_eps)


class CrossheadLayer(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx, shared):
        super().__init__()
#? residual_multiplier
        self.residual_multiplier = config.residual_multiplier
#? end
#? linear
        self.is_linear = config.layer_types[layer_idx] == "linear_attention"
        if self.is_linear:
            self.linear_attn = GatedDeltaNet(config, layer_idx)
        else:
            self.self_attn = MECHANISMS[config.attention["type"]](config, layer_idx, shared)
        self.leader = layer_idx if self.is_linear else self.self_attn.leader
#? end
#? !linear
        self.self_attn = MECHANISMS[config.attention["type"]](config, layer_idx, shared)
        self.leader = self.self_attn.leader
#? end
#? layer_group
        group = config.attention.get("kv_layer_group") or config.attention.get("layer_group_size")
        self.hands_on = (layer_idx + 1) % group > 0  # the next layer reads what this one has opened, or was handed
#? end
#? moe
        dense = range(config.moe.get("first_dense_layers", 0))
        if layer_idx not in dense and layer_idx not in config.moe.get("dense_layers", ()):
            self.mlp = MixtureOfExperts(config)
        else:
            self.mlp = FeedForward(config, config.intermediate_size, config.mlp_bias)
#? end
#? !moe
        self.mlp = FeedForward(config, config.intermediate_size, config.mlp_bias)
#? end
#? !post_norm|branch_norm
        self.input_layernorm = make_norm(config)
#? end
#? !parallel
        self.post_attention_layernorm = make_norm(config)
#? end
#? both_norms
        self.pre_feedforward_layernorm = make_norm(config)
#? end
#? post_norm|branch_norm|both_norms
        self.post_feedforward_layernorm = make_norm(config)
#? end

    def attention(self, x, tokens, cache, opened):
#? linear
        if self.is_linear:
            return self.linear_attn(x, tokens, cache, opened)
#? end
        return self.self_attn(x, tokens, cache, opened)

    def forward(self, x, tokens, cache, *opened):
#? residual_multiplier
        r = self.residual_multiplier
#? end
#? parallel
        normed = self.input_layernorm(x)
        y, opened = self.attention(normed, tokens, cache, opened)
#? residual_multiplier
        x = x + r * y + r * self.mlp(normed)
#? end
#? !residual_multiplier
        x = x + y + self.mlp(normed)
#? end
#? end
#? !parallel
#? post_norm|branch_norm
        y, opened = self.attention(x, tokens, cache, opened)
#? end
#? !post_norm|branch_norm
        y, opened = self.attention(self.input_layernorm(x), tokens, cache, opened)
#? end
#? branch_norm|both_norms
        y = self.post_attention_layernorm(y)
#? end
#? residual_multiplier
        y = r * y
#? end
#? post_norm
        x = self.post_attention_layernorm(x + y)
        y = self.mlp(x)
#? end
#? !post_norm
        x = x + y
#? branch_norm
        y = self.post_feedforward_layernorm(self.mlp(x))
#? end
#? both_norms
        y = self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))
#? end
#? !branch_norm|both_norms
        y = self.mlp(self.post_attention_layernorm(x))
#? end
#? end
#? residual_multiplier
        y = r * y
#? end
#? post_norm
        x = self.post_feedforward_layernorm(x + y)
#? end
#? !post_norm
        x = x + y
#? end
#? end
#? layer_group
        return (x, *opened) if self.hands_on else (x,)
#? end
#? !layer_group
        return (x,)
#? end


