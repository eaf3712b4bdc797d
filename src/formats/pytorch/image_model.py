class PatchEmbedding(nn.Module):
    """W patch + b of square patches, each flattened as [channels, rows, columns]."""

    def __init__(self, config):
        super().__init__()
        self.size = config.patch_size
        width = config.num_channels * config.patch_size**2
        self.weight = nn.Parameter(torch.empty(config.hidden_size, width))
        self.bias = nn.Parameter(torch.zeros(config.hidden_size))

    def forward(self, pixels):
        patches = pixels.unfold(2, self.size, self.size).unfold(3, self.size, self.size)  # [B, C, rows, columns, P, P]
        patches = patches.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
        return F.linear(patches, self.weight, self.bias)


class CrossheadViTModel(CrossheadPreTrainedModel):
    main_input_name = "pixel_values"

    def __init__(self, config):
        super().__init__(config)
        self.patch_embed = PatchEmbedding(config)
        self.cls_token = nn.Parameter(torch.zeros(config.hidden_size))
        tokens = 1 + (config.image_size // config.patch_size) ** 2
        self.position_embeddings = nn.Parameter(torch.empty(tokens, config.hidden_size))
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

    @can_return_tuple
    def forward(self, pixel_values, **kwargs):
#? masa_mlp
        self.dictionary.give_coefficients()
#? end
        patches = self.patch_embed(pixel_values)
        first = self.cls_token.expand(patches.shape[0], 1, -1)
        x = torch.cat((first, patches), 1) + self.position_embeddings
        indices = torch.arange(x.shape[1], device=x.device)
        tokens, opened = Tokens(self.config, indices[None], None, None, indices, None, x.dtype, kwargs), ()
        for i, layer in enumerate(self.layers):
            x, *opened = layer(x, tokens, None, *(opened if layer.leader < i else ()))
#? !post_norm
        x = self.norm(x)
#? end
        return BaseModelOutput(last_hidden_state=x)


class CrossheadForImageClassification(CrossheadPreTrainedModel):
    main_input_name = "pixel_values"

    def __init__(self, config):
        super().__init__(config)
        self.model = CrossheadViTModel(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_classes)
        self.post_init()

    @can_return_tuple
    def forward(self, pixel_values, labels=None, **kwargs):
        x = self.model(pixel_values, **kwargs).last_hidden_state
        logits = self.classifier(x[:, 0])
        loss = None if labels is None else F.cross_entropy(wide(logits), labels)
        return ImageClassifierOutput(loss=loss, logits=logits)


__all__ = ["CrossheadForImageClassification", "CrossheadViTModel", "CrossheadPreTrainedModel"]
