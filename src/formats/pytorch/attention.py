#? soft_cap
def capped(config, scores):
    """Returns c tanh(scores / c) (Gemma 2)."""
    return torch.tanh(scores / config.attn_logit_softcapping) * config.attn_logit_softcapping


#? end
def eager_attention(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    """softmax(q kᵀ · scaling) v; query head h reads key-value head floor(h · G / H)."""
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = torch.matmul(query, key.transpose(2, 3)) * scaling
#? soft_cap
    scores = capped(module.config, scores)
#? end
    if attention_mask is None and module.is_causal and query.shape[2] > 1:
        attention_mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    elif attention_mask is not None:
        scores = scores + attention_mask
    weights = F.softmax(wide(scores), -1).to(query.dtype)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights


#? sink_logits
def attend_with_sinks(module, query, key, value, mask, scaling):
    """Softmaxes with one more score z_h in every denominator, which no value belongs to (gpt-oss)."""
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = torch.matmul(query, key.transpose(2, 3)) * scaling
#? soft_cap
    scores = capped(module.config, scores)
#? end
    if mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    else:
        scores = scores + mask
    sinks = module.sinks.repeat(scores.shape[1] // module.sinks.shape[0])[None, :, None, None]
    scores = torch.cat((scores, sinks.expand(*scores.shape[:3], 1)), -1)
    weights = F.softmax(wide(scores), -1).to(query.dtype)[..., :-1]
    return torch.matmul(weights, value).transpose(1, 2)


#? end
class Mechanism(nn.Module):
    """What all mechanisms have in common. A token writes states, which are all that is cached; a query reads the states
    of every token that it sees. Layers of a group read what the first of them has written and opened.

        states of a token = write(x)            y = read(x, states of all tokens)
    """

    def __init__(self, config, layer_idx, shared):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        group = config.attention.get("kv_layer_group") or config.attention.get("layer_group_size") or 1
        self.leader = layer_idx - layer_idx % group  # the layer whose states this one reads
#? vision
        self.is_causal = False
#? end
#? !vision
        self.is_causal = True
#? end
        self.num_key_value_groups = 1
        self.shared = (shared,)
#? sink_logits
        self.sinks = nn.Parameter(torch.zeros(config.num_attention_heads))
#? end

    def projection(self, name, inputs, outputs, bias=False):
        module = make_projection(self.config, self.layer_idx, self.shared[0], name, inputs, outputs, bias)
        self.add_module(name, module)

    def norm(self, name, size):
        self.add_module(name, RMSNorm(size, self.config.rms_norm_eps))

#? head_mix
    def components(self, on):
        """Component heads of keys or values in this layer, or None where it does not mix."""
        mix = self.config.attention["head_mix"]
        if on not in mix["on"]:
            return None
        first, last = mix.get("layers") or (0, self.config.num_hidden_layers - 1)
        if not first <= self.layer_idx <= last:
            return None
        count = mix["component_heads"]
        if isinstance(count, list):
            count = count[self.layer_idx]
            return None if count == self.unmixed else count
        return count

    @property
    def unmixed(self):
        a, heads = self.config.attention, self.config.num_key_value_heads
        return max(a.get("num_key_heads", heads), a.get("num_value_heads", heads))

    def mix(self, on, x):
        module = getattr(self, on + "_mix", None)
        return x if module is None else module(x)

#? end
#? knocking
    def knock(self, on, x):
        module = getattr(self, on + "_knock", None)
        # Heads next to their elements, as projections leave them: no map copies its input.
        return x if module is None else module(x.transpose(1, 2)).transpose(1, 2)

    def add_knocking(self, on, heads, size):
        if on in self.config.attention["knocking"]["on"]:
            self.add_module(on + "_knock", knock_with(self.config, heads, size))

#? end
    def attend(self, q, k, v, tokens, scale, heads=slice(None)):
        """softmax(q kᵀ · scale) v of [B, heads, T, d] -> [B, T, heads, d]. heads: which of the model's these are."""
        self.num_key_value_groups = q.shape[1] // k.shape[1]
        mask = tokens.mask
#? alibi
        mask = mask[:, heads]
#? end
#? sink_logits
        return attend_with_sinks(self, q, k, v, mask if mask is not None else tokens.seen(), scale)
#? end
#? !sink_logits
        name = self.config._attn_implementation
#? soft_cap
        if name == "sdpa":
            name = "eager"  # PyTorch's fused kernels have no caps
#? end
#? !soft_cap
        if name == "flex_attention" and mask is None:
            name = "sdpa"  # plain causality, for which PyTorch has faster kernels
#? end
        function = eager_attention if name == "eager" else ALL_ATTENTION_FUNCTIONS[name]
        size, least = v.shape[-1], 0
        if name == "sdpa" and q.shape[2] > 1:
            # PyTorch's fused kernels need equal sizes. Without these kernels PyTorch stores whole matrices of scores.
            least = max(size, q.shape[-1])
        elif name == "flex_attention":
            least = 16  # the smallest size that its kernels compute
        if least > min(size, q.shape[-1]):
            q, k, v = (F.pad(x, (0, max(least - x.shape[-1], 0))) for x in (q, k, v))
            return function(self, q, k, v, mask, dropout=0.0, scaling=scale, **tokens.options)[0][..., :size]
        return function(self, q, k, v, mask, dropout=0.0, scaling=scale, **tokens.options)[0]
#? end

    def finish(self, context):
        """The output projection of [B, T, heads, d]."""
#? head_norm
        context = self.head_norm(context)
#? end
        return self.o_proj(context.flatten(-2))

    def opened(self, states, tokens):
        """What read takes: the states of all tokens, or what the first layer of a group makes of them for all its layers."""
        return states

    def forward(self, x, tokens, cache, opened):
        if not opened:
            states = self.write(x, tokens)
            if cache is not None:
                states = cache.layers[self.layer_idx].append(states)
            opened = self.opened(states, tokens)
        return self.read(x, opened, tokens), opened


MECHANISMS = {}


