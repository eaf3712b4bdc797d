"""The configuration of a Crosshead model for transformers: the keys of its config.json, each with its default."""

from transformers import PretrainedConfig


#? !vision
class CrossheadConfig(PretrainedConfig):
    model_type = "crosshead"
#? end
#? vision
class CrossheadViTConfig(PretrainedConfig):
    model_type = "crosshead_vit"
#? end
    keys_to_ignore_at_inference = ["past_key_values"]
    rope_scaling = None  # a key of ours, not transformers' older name of rope_parameters

    def __init__(
        self,
#? !vision
        vocab_size=256,
#? end
#? vision
        image_size=32,
        patch_size=4,
        num_channels=3,
        num_classes=10,
#? end
        hidden_size=64,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=None,
        head_dim=None,
#? !vision
        max_position_embeddings=2048,
#? end
        rms_norm_eps=1e-5,
#? !vision
        layer_norm_eps=1e-5,
        norm="rmsnorm",
        hidden_act="silu",
        mlp_bias=False,
        position="rope",
#? end
#? vision
        layer_norm_eps=1e-6,
        norm="layernorm",
        hidden_act="gelu",
        mlp_bias=True,
        position="none",
#? end
        norm_placement="pre",
        attention_bias=False,
#? !vision
        rope_theta=10000.0,
        rope_interleaved=False,
        rope_scaling=None,
#? end
        attention=None,
        sharing=None,
#? !vision
        moe=None,
        sliding_window=None,
        attention_sinks=0,
        layer_types=None,
        linear_attention=None,
#? end
#? embedding_multiplier
        embedding_multiplier=1.0,
#? end
#? residual_multiplier
        residual_multiplier=1.0,
#? end
#? attention_multiplier
        attention_multiplier=None,
#? end
#? logits_scaling
        logits_scaling=1.0,
#? end
#? soft_cap
        attn_logit_softcapping=None,
#? end
#? final_soft_cap
        final_logit_softcapping=None,
#? end
#? partial_rotary
        partial_rotary_factor=1.0,
#? end
#? rope_by_layer
        nope_layers=None,
        local_rope_layers=None,
        local_rope_theta=None,
#? end
#? clamped
        swiglu_alpha=1.702,
        swiglu_limit=7.0,
#? end
        init="default",
        parametrization="standard",
#? !vision
        tie_word_embeddings=False,
        use_cache=True,
#? end
        pytorch=None,
        **kwargs,
    ):
#? !vision
        self.vocab_size = vocab_size
#? end
#? vision
        self.image_size = image_size
        self.patch_size = patch_size
        self.num_channels = num_channels
        self.num_classes = num_classes
#? end
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.attention = dict(attention or {"type": "gqa"})
        one_head = self.attention.get("type") in ("mfa", "mfa_kr")
        self.num_key_value_heads = num_key_value_heads or (1 if one_head else num_attention_heads)
        self.head_dim = head_dim or hidden_size // num_attention_heads
#? !vision
        self.max_position_embeddings = max_position_embeddings
#? end
        self.rms_norm_eps = rms_norm_eps
        self.layer_norm_eps = layer_norm_eps
        self.norm = norm
        self.norm_placement = norm_placement
        self.hidden_act = hidden_act
        self.mlp_bias = mlp_bias
        self.attention_bias = attention_bias
        self.position = position
#? !vision
        self.rope_theta = rope_theta
        self.rope_interleaved = rope_interleaved
        self.rope_scaling = rope_scaling
#? end
        self.sharing = sharing
#? !vision
        self.moe = moe
        self.sliding_window = sliding_window
        self.attention_sinks = attention_sinks
        self.layer_types = layer_types
        self.linear_attention = linear_attention
#? end
#? embedding_multiplier
        self.embedding_multiplier = embedding_multiplier
#? end
#? residual_multiplier
        self.residual_multiplier = residual_multiplier
#? end
#? attention_multiplier
        self.attention_multiplier = attention_multiplier
#? end
#? logits_scaling
        self.logits_scaling = logits_scaling
#? end
#? soft_cap
        self.attn_logit_softcapping = attn_logit_softcapping
#? end
#? final_soft_cap
        self.final_logit_softcapping = final_logit_softcapping
#? end
#? partial_rotary
        self.partial_rotary_factor = partial_rotary_factor
#? end
#? rope_by_layer
        self.nope_layers = nope_layers
        self.local_rope_layers = local_rope_layers
        self.local_rope_theta = local_rope_theta
#? end
#? clamped
        self.swiglu_alpha = swiglu_alpha
        self.swiglu_limit = swiglu_limit
#? end
        self.init = init
        self.parametrization = parametrization
#? !vision
        self.use_cache = use_cache
#? end
        # What only this code needs. "tensors": how training starts and how large its steps are, a star for the numbers of
        # layers and experts; "ranks": ranks of factors and numbers of atoms.
        self.pytorch = pytorch or {}
#? vision
        super().__init__(**kwargs)
#? end
#? !vision
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)
#? end

    def tensor(self, name):
        """The row of a tensor in "tensors", with one value for its layer."""
        parts = name.split(".")
        layer = int(parts[2]) if parts[1] == "layers" else 0
        starred = ".".join("*" if part.isdigit() and before in ("layers", "experts") else part
                           for before, part in zip([""] + parts, parts))
        row = dict(self.pytorch["tensors"][starred])
        for key in ("std", "start", "rate", "hot"):
            if isinstance(row.get(key), list):
                row[key] = row[key][layer]
        return row


#? vision
__all__ = ["CrossheadViTConfig"]
__all__ = ["CrossheadConfig"]
#? end
