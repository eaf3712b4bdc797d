# transformers 5.24 renamed past_key_values. Both names may be passed; outputs have the one of the installed version.
CACHE = "cache" if "cache" in BaseModelOutputWithPast.__dataclass_fields__ else "past_key_values"


class CrossheadModel(CrossheadPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
#? learned_positions
        self.embed_positions = nn.Embedding(config.max_position_embeddings, config.hidden_size)
#? end
        self.dictionary = SharedMatrices()
        self.layers = nn.ModuleList(
            CrossheadLayer(config, i, self.dictionary) for i in range(config.num_hidden_layers)
        )
        for layer in self.layers:
#? linear
            if layer.is_linear:
                continue
#? end
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

    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        inputs_embeds=None,
        use_cache=None,
        cache=None,
        document_starts=None,
        **kwargs,
    ):
        """document_starts [B, T]: the first token that each one sees, to keep documents apart in training."""
        cache = past_key_values if cache is None else cache
        keep_all = kwargs.pop("output_hidden_states", None) or self.config.output_hidden_states
        if kwargs.pop("output_attentions", None):
            raise ValueError("weights of attention are not kept; leave output_attentions out")
#? gate
        if input_ids is None:
            raise ValueError("input_ids are needed: the embedding gates of EG-MLA read them")
#? end
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        use_cache = self.config.use_cache and not self.training if use_cache is None else use_cache
        if use_cache and cache is None:
            cache = CrossheadCache(self.config)
        past = cache.get_seq_length() if cache is not None else 0
        if position_ids is None:
            position_ids = torch.arange(past, past + x.shape[1], device=x.device)[None]
#? learned_positions
        if past + x.shape[1] > self.config.max_position_embeddings:
            raise ValueError(f"the model has learned positions for {self.config.max_position_embeddings} tokens; the text is longer")
        x = x + self.embed_positions(position_ids if document_starts is None else position_ids - document_starts)
#? end
#? embedding_multiplier
        x = x * self.config.embedding_multiplier
#? end
#? longrope
        original, length = self.config.rope_scaling["original_max_position_embeddings"], past + x.shape[1]
        if past and cache.long != (length > original):
            raise ValueError(
                f"LongRoPE has other factors for texts of more than {original} tokens, so a cache does not continue past that length "
                "or back: compute the text from its first token"
            )
        if cache is not None:
            cache.long = length > original
#? end
#? window
        padded = attention_mask is not None and not torch.compiler.is_compiling() and not attention_mask[:, 0].all()
        if self.config.attention_sinks and padded:
            raise ValueError("attention_sinks are the first tokens of a text: generate without padding on the left")
#? end
#? masa_mlp
        self.dictionary.give_coefficients()
#? end
        tokens, opened, hidden = {}, (), (x,)
        for i, layer in enumerate(self.layers):
#? rope_by_layer
            kind = window, rotation = window_of(self.config, i), rotation_of(self.config, i)
#? end
#? !rope_by_layer
            kind = window = window_of(self.config, i)
#? end
            if kind not in tokens:
                if cache is None:
                    indices = torch.arange(x.shape[1], device=x.device)
                else:
                    indices = cache.layers[layer.leader].indices(x.shape[1], x.device)
                tokens[kind] = Tokens(
                    self.config, position_ids, input_ids, attention_mask, indices, window, x.dtype, kwargs, document_starts,
#? rope_by_layer
                    rotation=rotation,
#? end
#? longrope
                    length=length,
#? end
                )
            x, *opened = layer(x, tokens[kind], cache, *(opened if layer.leader < i else ()))
            hidden += (x,) if keep_all else ()
#? !post_norm
        x = self.norm(x)
#? end
        hidden = (*hidden[:-1], x) if keep_all else None
        return BaseModelOutputWithPast(last_hidden_state=x, hidden_states=hidden, **{CACHE: cache})


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

    @can_return_tuple
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
        cache=None,
        **kwargs,
    ):
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            cache=past_key_values if cache is None else cache,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        x = outputs.last_hidden_state
        if isinstance(logits_to_keep, int):
            x = x[:, -logits_to_keep:] if logits_to_keep else x
        else:
            x = x[:, logits_to_keep]
#? logits_scaling
        x = x / self.config.logits_scaling
#? end
        logits = self.lm_head(x)
#? final_soft_cap
        logits = torch.tanh(logits / self.config.final_logit_softcapping) * self.config.final_logit_softcapping
#? end
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
        return CausalLMOutputWithPast(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, **{CACHE: getattr(outputs, CACHE)}
        )


__all__ = ["CrossheadForCausalLM", "CrossheadModel", "CrossheadPreTrainedModel"]
