#? alibi|window|soft_cap|rope_scaling|rope_by_layer
KEPT = {}


def kept(key, make):
    """make(), once in a process for each key: what comes from the host or takes long, and never changes."""
    if torch.compiler.is_compiling():
        return make()
    if key not in KEPT:
        with torch.inference_mode(False):
            KEPT[key] = make()
    return KEPT[key]


#? end
#? rope
#? rope_scaling|rope_by_layer
def rope_frequencies(tokens, dims):
    """Returns the angle per position of each of the dims / 2 rotary pairs."""
    config = tokens.config
#? rope_by_layer
    if tokens.rotation == "local":
        return [config.local_rope_theta ** (-2 * i / dims) for i in range(dims // 2)]
#? end
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
#? longrope
    # LongRoPE (Ding et al. 2024) divides each pair's frequency by a factor. Texts longer than in pretraining have other factors.
    factors = scaling["long_factor" if tokens.length > scaling["original_max_position_embeddings"] else "short_factor"]
    frequencies = [f / factor for f, factor in zip(frequencies, factors)]
#? end
#? end
    return frequencies


#? end
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

    low, high = pair(scaling.get("beta_fast") or 32), pair(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    high += 0.001 if low == high else 0
    ramps = [min(max((i - low) / (high - low), 0), 1) for i in range(dims // 2)]
    return [f / scaling["factor"] * ramp + f * (1 - ramp) for f, ramp in zip(frequencies, ramps)]


def _yarn_mscale(factor, mscale):
    return 0.1 * mscale * math.log(factor) + 1 if factor > 1 else 1


def rope_score_scale(config):
    """YaRN and LongRoPE scale cosines and sines of queries and of keys; here queries take the factor of both."""
    scaling = config.rope_scaling or {}
#? longrope
    original = scaling["original_max_position_embeddings"]
    longer = scaling.get("factor") or config.max_position_embeddings / original
    factor = math.sqrt(1 + math.log(longer) / math.log(original)) if longer > 1 else 1
    return (scaling.get("attention_factor") or factor) ** 2
#? end
#? !longrope
    if scaling.get("rope_type", scaling.get("type")) != "yarn":
        return 1
    factor = scaling.get("attention_factor")
    if not factor:
        mscale, all_dim = scaling.get("mscale"), scaling.get("mscale_all_dim")
        factor = _yarn_mscale(scaling["factor"], mscale if mscale and all_dim else 1)
        factor /= _yarn_mscale(scaling["factor"], all_dim) if mscale and all_dim else 1
    return factor**2
#? end


#? end
def turn_of(tokens, positions):
#? rope_by_layer
    """Returns cosines and sines [B, 1, T, pairs] of the angles at positions [B, T]; None if the layer rotates nothing."""
    if tokens.rotation == "none":
        return None
#? end
#? !rope_by_layer
    """Returns cosines and sines [B, 1, T, pairs] of the angles at positions [B, T]."""
#? end
    config = tokens.config
    # On the device, since a copy from the host would wait for what it still computes. Apple's GPUs know no doubles.
    real = torch.float32 if positions.device.type == "mps" else torch.float64
#? gta
    dims = config.head_dim // 2
#? end
#? mla|gla|mlra
    dims = config.attention["qk_rope_head_dim"]
#? end
#? !gta|mla|gla|mlra
#? partial_rotary
    dims = int(config.head_dim * config.partial_rotary_factor)
#? end
#? !partial_rotary
    dims = config.head_dim
#? end
#? end
#? rope_scaling|rope_by_layer
    numbers = tuple(rope_frequencies(tokens, dims))
    frequencies = kept((numbers, positions.device), lambda: torch.tensor(numbers, dtype=real, device=positions.device))
#? end
#? !rope_scaling|rope_by_layer
    frequencies = config.rope_theta ** (-torch.arange(0, dims, 2, dtype=real, device=positions.device) / dims)
#? end
    angles = positions[:, None, :, None] * frequencies
    return angles.cos().to(tokens.dtype), angles.sin().to(tokens.dtype)


def rotate(x, turn, dims=None):
#? partial_rotary
    """RoPE of the first dims of x [B, heads, T, d] by the angles of their positions."""
#? end
#? !partial_rotary
    """RoPE of the last `dims` of x [B, heads, T, d] (all of them if None) by the angles of their positions."""
#? end
#? rope_by_layer
    if turn is None:
        return x
#? end
    cos, sin = (part.to(x.dtype) for part in turn)
#? partial_rotary
    dims = 2 * cos.shape[-1]
    turned, kept = x[..., :dims], x[..., dims:]
#? end
#? !partial_rotary
    dims = dims or x.shape[-1]
    kept, turned = x[..., : x.shape[-1] - dims], x[..., x.shape[-1] - dims :]
#? end
#? rope_interleaved
    a, b = turned[..., 0::2], turned[..., 1::2]
    turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
#? end
#? !rope_interleaved
    a, b = turned.chunk(2, -1)
    turned = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
#? end
#? partial_rotary
    return torch.cat((turned, kept), -1)
#? end
#? !partial_rotary
    return torch.cat((kept, turned), -1)
#? end


#? end
#? alibi
def alibi_slopes(heads):
    """2^(-8 (h + 1) / H) for H a power of two; else those of the next lower power, then every second of twice that."""
    power = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    return slopes + [2 ** (-4 * (2 * h + 1) / power) for h in range(heads - power)]


def alibi_bias(config, tokens, dtype):
    """−slope_h (i − j): [1, H, T, S], in F64 if dtype is F64, else in F32."""
    heads, device = config.num_attention_heads, tokens.indices.device
    real = torch.float64 if dtype == torch.float64 else torch.float32
    slopes = kept(("alibi", heads, device, real), lambda: torch.tensor(alibi_slopes(heads), dtype=real, device=device))
    distance = tokens.indices[-tokens.positions.shape[1] :, None] - tokens.indices
    return -slopes[None, :, None, None] * distance.to(real)


#? end
class Tokens:
    """The tokens of one pass and the keys that they may see. indices [S]: the keys' positions in the text, the last T of which are
    the tokens' own."""

    def __init__(
        self, config, positions, ids, attention_mask, indices, window, dtype, options, starts=None,
#? rope_by_layer
        rotation="global",
#? end
#? longrope
        length=0,
#? end
    ):
        self.starts = starts  # [B, T]: the first token that each one sees, where documents are kept apart
        self.positions, self.ids, self.indices, self.options = positions, ids, indices, dict(options)
        self.config, self.attention_mask, self.window = config, attention_mask, window
        self.dtype = dtype
#? rope_by_layer
        self.rotation = rotation  # how the layer rotates queries and keys: rotation_of
#? end
#? longrope
        self.length = length  # of the text so far
#? end
        self.mask = self.make_mask(dtype)
#? rope
        self.turn = self.query_turn = turn_of(self, positions)
#? end
#? rope_scaling
        scale = rope_score_scale(config)
#? rope_by_layer
        scale = scale if rotation == "global" else 1
#? end
        self.query_turn = tuple(part * scale for part in self.turn) if scale != 1 else self.turn
#? end
#? !rope
        self.turn = self.query_turn = self.key_turn = None
#? end
#? rope

    @property
    def key_turn(self):
        """The same of all keys: a text's tokens are at consecutive positions."""
        if self.indices.shape[0] == self.positions.shape[1]:
            return self.turn
        return turn_of(self, self.positions[:, -1:] + (self.indices - self.indices[-1]))
#? end

    @property
    def one(self):
        """Whether one query reads several tokens: linear maps may then wait until its sums."""
        return self.positions.shape[1] == 1 and self.indices.shape[0] > 1

    def seen(self):
        """Which keys each query sees: bool [B or 1, 1, T, S]."""
#? vision
        count = self.indices.shape[0]
        return torch.ones(1, 1, count, count, dtype=torch.bool, device=self.indices.device)
#? end
#? !vision
        query, key = self.indices[-self.positions.shape[1] :, None], self.indices
        first = 0 if self.starts is None else self.starts[:, None, :, None]
        seen = (key <= query)[None, None]
#? window
        if self.window:
            seen = seen & ((query - key < self.window) | (key < first + self.config.attention_sinks))
#? end
        if self.starts is not None:
            seen = seen & (key >= first)
        if self.attention_mask is not None:
            seen = seen & self.attention_mask[:, None, None, self.indices].bool() | (key == query)  # padding sees itself
        return seen
#? end

#? any_attention_function
    def block_mask(self, queries, keys):
        """seen() for flex_attention, which skips blocks that nobody sees."""
        starts, device = self.starts, self.indices.device
#? window
        window, sinks = self.window, self.config.attention_sinks
#? end
        if self.attention_mask is not None or queries != keys:
            seen = self.seen()
            rows = seen.shape[0] if seen.shape[0] > 1 else None
            return create_block_mask(
                lambda b, h, q, k: seen[b * (rows is not None), 0, q, k], rows, None, queries, keys, device=device
            )

        def sees(b, h, q, k):
            first = 0 if starts is None else starts[b, q]
            seen = (k <= q) & (k >= first)
#? window
            if window:
                seen = seen & ((q - k < window) | (k < first + sinks))
#? end
            return seen

#? window|soft_cap
        if starts is None:
            return kept(
                (self.window, self.config.attention_sinks, keys, device),
                lambda: create_block_mask(sees, None, None, keys, keys, device=device),
            )
#? end
        return create_block_mask(sees, starts.shape[0], None, keys, keys, device=device)

#? end
    def make_mask(self, dtype):
        """What attention functions take as their mask; None where plain causality is all."""
#? alibi
        seen, bias = self.seen(), alibi_bias(self.config, self, dtype)
        return bias.masked_fill(~seen, torch.finfo(torch.float32).min).to(dtype)
#? end
#? vision
        return None
#? end
#? !vision
#? !alibi
        queries, keys = self.positions.shape[1], self.indices.shape[0]
#? window
        if self.window:
            self.options["sliding_window"] = self.window
#? end
#? soft_cap
        self.options["softcap"] = self.config.attn_logit_softcapping
#? end
        if self.config._attn_implementation.startswith("flash"):
            return None if self.attention_mask is None else self.attention_mask[:, self.indices]
#? any_attention_function
#? soft_cap
        if self.config._attn_implementation == "flex_attention":
            return self.block_mask(queries, keys)
#? end
        causal = self.attention_mask is None and self.starts is None and not (self.window and self.window < keys)
        if self.config._attn_implementation == "flex_attention" and not (causal and queries == keys):
            return self.block_mask(queries, keys)
#? end
        plain = self.attention_mask is None and self.starts is None and (queries == keys or queries == 1)
        if plain and (not self.window or keys <= self.window):
            return None
        return self.seen()
#? end
#? end


