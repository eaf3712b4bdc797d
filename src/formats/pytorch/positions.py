#? rope
def rope_frequencies(config, dims):
    """Angle per position of each of the dims / 2 rotary pairs."""
    frequencies = [config.rope_theta ** (-2 * i / dims) for i in range(dims // 2)]
#? rope_scaling
    scaling = config.rope_scaling
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "linear":
        frequencies = [f / scaling["factor"] for f in frequencies]
    elif kind == "llama3":
        frequencies = [_llama3_frequency(f, scaling) for f in frequencies]
    elif kind == "yarn":
        frequencies = _yarn_frequencies(frequencies, config, dims)
#? end
    return frequencies


#? rope_scaling
def _llama3_frequency(frequency, scaling):
    """Long wavelengths are stretched by the factor, short ones kept, those between interpolated (Llama 3.1)."""
    context = scaling["original_max_position_embeddings"]
    wavelength = 2 * math.pi / frequency
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    if wavelength < context / high:
        return frequency
    if wavelength > context / low:
        return frequency / scaling["factor"]
    smooth = (context / wavelength - low) / (high - low)
    return (1 - smooth) * frequency / scaling["factor"] + smooth * frequency


def _yarn_frequencies(frequencies, config, dims):
    """YaRN (Peng et al. 2023): pairs that turn less than once in the original context are stretched."""
    scaling = config.rope_scaling
    context = scaling["original_max_position_embeddings"]

    def pair(turns):
        return dims * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(config.rope_theta))

    low = max(math.floor(pair(scaling.get("beta_fast") or 32)), 0)
    high = min(math.ceil(pair(scaling.get("beta_slow") or 1)), dims - 1)
    high += 0.001 if low == high else 0
    ramps = [min(max((i - low) / (high - low), 0), 1) for i in range(dims // 2)]
    return [f / scaling["factor"] * ramp + f * (1 - ramp) for f, ramp in zip(frequencies, ramps)]


def _yarn_mscale(factor, mscale):
    return 0.1 * mscale * math.log(factor) + 1 if factor > 1 else 1


def rope_score_scale(config):
    """YaRN scales cosines and sines of queries and of keys; here queries take the factor of both."""
    scaling = config.rope_scaling or {}
    if scaling.get("rope_type", scaling.get("type")) != "yarn":
        return 1
    factor = scaling.get("attention_factor")
    if not factor:
        mscale, all_dim = scaling.get("mscale"), scaling.get("mscale_all_dim")
        factor = _yarn_mscale(scaling["factor"], mscale if mscale and all_dim else 1)
        factor /= _yarn_mscale(scaling["factor"], all_dim) if mscale and all_dim else 1
    return factor**2


#? end
def rotate(x, positions, config, dims=None):
    """RoPE of the last `dims` of x [B, heads, T, d] (all of them if None), at positions [B, T]."""
    dims = dims or x.shape[-1]
    frequencies = torch.tensor(rope_frequencies(config, dims), dtype=torch.float32, device=x.device)
    angles = positions[:, None, :, None].float() * frequencies
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    kept, turned = x[..., : x.shape[-1] - dims], x[..., x.shape[-1] - dims :]
#? rope_interleaved
    a, b = turned[..., 0::2], turned[..., 1::2]
    turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
#? end
#? !rope_interleaved
    a, b = turned.chunk(2, -1)
    turned = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
#? end
    return torch.cat((kept, turned), -1)


#? end
#? alibi
def alibi_slopes(heads):
    """2^(-8 (h + 1) / H) for H a power of two; else those of the next lower power, then every second of twice that."""
    power = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    return slopes + [2 ** (-4 * (2 * h + 1) / power) for h in range(heads - power)]


#? end
def visible_tokens(attention_mask, queries, keys, device):
    """Which keys each query sees: bool [B or 1, 1, T, S]. The queries are the last T of S tokens."""
    query = torch.arange(keys - queries, keys, device=device)[:, None]
    key = torch.arange(keys, device=device)
    seen = (key <= query)[None, None]
    if attention_mask is not None:
        seen = seen & attention_mask[:, None, None, :].bool() | (key == query)  # padding sees itself
    return seen


def attention_mask_for(config, attention_mask, queries, keys, device, dtype):
    """What attention functions take as their mask; None where plain causality is all."""
#? alibi
    seen = visible_tokens(attention_mask, queries, keys, device)
    slopes = torch.tensor(alibi_slopes(config.num_attention_heads), device=device)
    query = torch.arange(keys - queries, keys, device=device)[:, None]
    distance = (query - torch.arange(keys, device=device)).float()
    bias = -slopes[:, None, None] * distance
    return bias.masked_fill(~seen, torch.finfo(torch.float32).min).to(dtype)
#? end
#? !alibi
    if config._attn_implementation.startswith("flash"):
        return attention_mask
    if attention_mask is None and (queries == keys or queries == 1):
        return None
    return visible_tokens(attention_mask, queries, keys, device)
#? end


def positions_of_keys(positions, keys):
    """Positions of all cached tokens, of which the queries at `positions` [B, T] are the last."""
    return positions[:, -1:] + torch.arange(1 - keys, 1, device=positions.device)


