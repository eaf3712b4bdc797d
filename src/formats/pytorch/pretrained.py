class CrossheadPreTrainedModel(PreTrainedModel):
    config_class = CrossheadConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["CrossheadLayer"]
#? !vision
    _skip_keys_device_placement = ["past_key_values", "cache"]
#? end
#? any_attention_function
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _can_compile_fullgraph = True
#? end
#? !any_attention_function
    _supports_sdpa = True
    _can_compile_fullgraph = True
#? end
#? !vision

    @classmethod
    def _supports_default_dynamic_cache(cls):
        return False  # CrossheadModel makes a cache of the mechanism's size
#? end

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
#? linear
            if row["init"] == "uniform":
                most = 3**0.5 * row["std"]
                nn.init.uniform_(tensor, row["start"] - most, row["start"] + most)
                continue
            if row["init"] == "decay_rate":
                tensor.copy_(torch.log(16 * torch.rand_like(tensor).clamp(min=1e-12)))
                continue
            if row["init"] == "decay_bias":
                step = torch.exp(torch.rand_like(tensor) * math.log(100) + math.log(0.001))
                tensor.copy_(step + torch.log(-torch.expm1(-step)))
                continue
#? end
            if row["std"] > 0:
                start, most = row["start"], 3 * row["std"]
                nn.init.trunc_normal_(tensor, start, row["std"], start - most, start + most)
            else:
                nn.init.constant_(tensor, row["start"])
            if row["init"] == "one_hot":
                rows, columns = tensor.shape[-2:]
                hot = torch.arange(rows, device=tensor.device) * columns // rows
                tensor += row["hot"] * F.one_hot(hot, columns).to(tensor.dtype)

    def parameter_groups(self, lr, weight_decay=0.1):
        """Groups for an optimizer, with the learning rates and the decay that Crosshead trains these tensors with. A step's decay
        is lr · weight_decay whatever the tensor's own rate."""
        names = self._names()
        groups = {}
        for module, prefix in names.items():
            for name, tensor in module.named_parameters(recurse=False):
                if not tensor.requires_grad or (prefix + name == "lm_head.weight" and self.config.tie_word_embeddings):
                    continue
                row = self.config.tensor(prefix + name)
                groups.setdefault((row["rate"], row["decay"]), []).append(tensor)
        return [
            {"params": tensors, "lr": lr * rate, "weight_decay": weight_decay / rate if decay else 0.0}
            for (rate, decay), tensors in groups.items()
        ]


