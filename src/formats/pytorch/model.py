def make_norm(config):
    if config.norm == "layernorm":
        return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
    return RMSNorm(config.hidden_size, config.rms_norm_eps)


class CrossheadLayer(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx, shared):
        super().__init__()
        self.self_attn = MECHANISMS[config.attention["type"]](config, layer_idx, shared)
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
#? !post_norm
        self.input_layernorm = make_norm(config)
        self.post_attention_layernorm = make_norm(config)

    def forward(self, x, tokens, cache, written):
        x = x + self.self_attn(self.input_layernorm(x), tokens, cache, written)
        return x + self.mlp(self.post_attention_layernorm(x))
#? end
#? post_norm
        self.post_attention_layernorm = make_norm(config)
        self.post_feedforward_layernorm = make_norm(config)

    def forward(self, x, tokens, cache, written):
        x = self.post_attention_layernorm(x + self.self_attn(x, tokens, cache, written))
        return self.post_feedforward_layernorm(x + self.mlp(x))
#? end


class CrossheadPreTrainedModel(PreTrainedModel):
    config_class = CrossheadConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["CrossheadLayer"]
    _skip_keys_device_placement = ["past_key_values"]
#? any_attention_function
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_attention_backend = True
    _can_compile_fullgraph = True
#? end
#? !any_attention_function
    _supports_sdpa = True
    _can_compile_fullgraph = True
#? end

    @classmethod
    def _supports_default_dynamic_cache(cls):
        return False  # CrossheadModel makes a cache of the mechanism's size

    def _names(self):
        """The tensors' names in the checkpoint, by module."""
        prefix = "" if hasattr(self, "model") else "model."
        return {module: prefix + name + "." * bool(name) for name, module in self.named_modules()}

    @torch.no_grad()
    def _init_weights(self, module):
        """The initial weights that Crosshead would begin with: normals truncated at three standard deviations, constants,
        and one-hot rows (the identity, where the matrix is square)."""
        if getattr(self, "_module_names", None) is None:
            self._module_names = self._names()
        for name, tensor in module.named_parameters(recurse=False):
            if getattr(tensor, "_is_hf_initialized", False) or tensor.device.type == "meta":
                continue
            full = self._module_names[module] + name
            if full == "lm_head.weight" and self.config.tie_word_embeddings:
                continue
            row = self.config.tensor(full)
            if row["std"] > 0:
                nn.init.trunc_normal_(tensor, row["start"], row["std"], row["start"] - 3 * row["std"], row["start"] + 3 * row["std"])
            else:
                nn.init.constant_(tensor, row["start"])
            if row["init"] == "one_hot":
                rows, columns = tensor.shape[-2:]
                hot = torch.arange(rows, device=tensor.device) * columns // rows
                tensor += F.one_hot(hot, columns).to(tensor.dtype)

    def parameter_groups(self, lr, weight_decay=0.1):
        """Groups for an optimizer, with the learning rates and the decay that Crosshead trains these tensors with."""
        names = self._names()
        groups = {}
        for module, prefix in names.items():
            for name, tensor in module.named_parameters(recurse=False):
                if not tensor.requires_grad or (prefix + name == "lm_head.weight" and self.config.tie_word_embeddings):
                    continue
                row = self.config.tensor(prefix + name)
                groups.setdefault((row["rate"], row["decay"]), []).append(tensor)
        return [
            {"params": tensors, "lr": lr * rate, "weight_decay": weight_decay if decay else 0.0}
            for (rate, decay), tensors in groups.items()
        ]


class CrossheadModel(CrossheadPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.dictionary = SharedMatrices()
        self.layers = nn.ModuleList(
            CrossheadLayer(config, i, self.dictionary) for i in range(config.num_hidden_layers)
        )
        for layer in self.layers:
            layer.self_attn.first_of_group = (self.layers[layer.self_attn.leader].self_attn,)
#? !post_norm
        self.norm = make_norm(config)
#? end
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.embed_tokens

    def set_input_embeddings(self, value):
        self.embed_tokens = value

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        inputs_embeds=None,
        use_cache=None,
        **kwargs,
    ):
#? gate
        if input_ids is None:
            raise ValueError("input_ids are needed: the embedding gates of EG-MLA read them")
#? end
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        use_cache = self.config.use_cache and not self.training if use_cache is None else use_cache
        if use_cache and past_key_values is None:
            past_key_values = CrossheadCache(self.config)
        past = past_key_values.get_seq_length() if past_key_values is not None else 0
        if position_ids is None:
            position_ids = torch.arange(past, past + x.shape[1], device=x.device)[None]
        position_ids = position_ids.expand(x.shape[0], -1)
        tokens, written = {}, {}
        for i, layer in enumerate(self.layers):
            window = window_of(self.config, i)
            if window not in tokens:
                if past_key_values is None:
                    indices = torch.arange(x.shape[1], device=x.device)
                else:
                    indices = past_key_values.layers[i].indices(x.shape[1], x.device)
                tokens[window] = Tokens(
                    self.config, position_ids, input_ids, attention_mask, indices, window, x.dtype, kwargs
                )
            x = layer(x, tokens[window], past_key_values, written)
#? !post_norm
        x = self.norm(x)
#? end
        return BaseModelOutputWithPast(last_hidden_state=x, past_key_values=past_key_values)


class CrossheadForCausalLM(CrossheadPreTrainedModel, GenerationMixin):
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.model = CrossheadModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_output_embeddings(self):
        return self.lm_head

    def set_output_embeddings(self, value):
        self.lm_head = value

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        inputs_embeds=None,
        labels=None,
        use_cache=None,
        logits_to_keep=0,
        **kwargs,
    ):
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        x = outputs.last_hidden_state
        if isinstance(logits_to_keep, int):
            x = x[:, -logits_to_keep:] if logits_to_keep else x
        else:
            x = x[:, logits_to_keep]
        logits = self.lm_head(x)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=outputs.past_key_values)


__all__ = ["CrossheadForCausalLM", "CrossheadModel", "CrossheadPreTrainedModel"]
