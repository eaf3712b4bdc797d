def window_of(config, layer):
    """How many tokens a layer sees, or None where it sees all of them."""
#? window
    if not config.layer_types or config.layer_types[layer] == "sliding_attention":
        return config.sliding_window
#? end
    return None


#? rope_by_layer
def rotation_of(config, layer):
    """Returns the rotation of a layer's queries and keys: "none", "local" (with its own base frequency) or "global"."""
    if layer in (config.nope_layers or ()):
        return "none"
    return "local" if layer in (config.local_rope_layers or ()) else "global"


#? end
#? !vision
class LayerStates(CacheLayerMixin):
    """What one layer keeps of every token: the states that its mechanism writes, [B, T, ...] each."""

    is_compileable = False
    is_sliding = False

    def __init__(self, window=None, sinks=0):
        super().__init__()
        self.is_croppable = window is None
        self.states = None
        self.seen = 0
        self.window, self.sinks = window, sinks

    def append(self, states):
        if self.states is None:
            self.states = tuple(states)
        else:
            self.states = tuple(torch.cat(pair, 1) for pair in zip(self.states, states))
        self.is_initialized = True
        self.seen += states[0].shape[1]
        whole = self.states
#? window
        if self.window and self.seen > self.window + self.sinks:  # a ring, and the first tokens
            self._each(lambda state: torch.cat((state[:, : self.sinks], state[:, -self.window :]), 1))
#? end
        return whole

    def indices(self, count, device):
        """The positions in the text of what is kept and of `count` tokens after it."""
        after = torch.arange(self.seen, self.seen + count, device=device)
        kept = self.states[0].shape[1] if self.states else 0
        first = torch.arange(min(self.sinks, kept), device=device) if kept < self.seen else after[:0]
        ring = torch.arange(self.seen - kept + first.shape[0], self.seen, device=device)
        return torch.cat((first, ring, after))

    def lazy_initialization(self, key_states, value_states):
        pass

    def update(self, key_states, value_states, *args, **kwargs):
        raise NotImplementedError("a Crosshead layer appends the states of its mechanism (append)")

    def get_seq_length(self):
        return self.seen

    def get_mask_sizes(self, query_length):
        return self.get_seq_length() + query_length, 0

    def get_max_length(self):
        return -1

    def get_max_cache_shape(self):
        return -1

    def _each(self, change):
        if self.states is not None:
            self.states = tuple(change(state) for state in self.states)

    def offload(self):
        self._each(lambda state: state.to("cpu", non_blocking=True))

    def reset(self):
        self.states, self.seen = None, 0

    def reorder_cache(self, beam_idx):
        self._each(lambda state: state.index_select(0, beam_idx.to(state.device)))

    def crop(self, length):
        """Keeps the first `length` tokens; a negative number takes so many from the end."""
        kept = max(self.seen + length, 0) if length <= 0 else min(length, self.seen)
        if kept == self.seen:
            return
        if self.states is not None and self.states[0].shape[1] < self.seen:
            raise ValueError("a layer with a window has let go of older tokens; it cannot be cropped")
        self.seen = kept
        self._each(lambda state: state[:, :kept])

    def batch_repeat_interleave(self, repeats):
        self._each(lambda state: state.repeat_interleave(repeats, 0))

    def batch_select_indices(self, indices):
        self._each(lambda state: state[indices])


#? linear
class FixedStates(LayerStates):
    """What a layer of linear attention keeps of a sequence, whatever its length: its state, and what convolutions see."""

    is_croppable = False

    def replace(self, states, count):
        self.states, self.seen = states, self.seen + count
        self.is_initialized = True

    def indices(self, count, device):
        return torch.arange(self.seen + count, device=device)

    def crop(self, tokens_to_remove):
        removed = min(abs(tokens_to_remove), self.seen)
        if removed and removed < self.seen:
            raise ValueError("a layer of linear attention keeps one state; it cannot be cropped")
        if removed:
            self.reset()


#? end
class CrossheadCache(Cache):
    """The states of all layers. Its size is the mechanism's: latents, mixed heads, one key for all."""

    def __init__(self, config):
        sinks = getattr(config, "attention_sinks", 0)
        windows = [window_of(config, i) for i in range(config.num_hidden_layers)]
        layers = [LayerStates(window, sinks if window else 0) for window in windows]
#? linear
        for i, layer_type in enumerate(config.layer_types):
            if layer_type == "linear_attention":
                layers[i] = FixedStates()
#? end
        super().__init__(layers=layers)
#? longrope
        self.long = None  # True if the factors of long texts rotated the keys
#? end

    def get_seq_length(self, layer_idx=0):
        return max(layer.get_seq_length() for layer in self.layers)

    def _kept(self, fixed):
        for layer in self.layers:
#? linear
            if isinstance(layer, FixedStates) != fixed:
                continue
#? end
            yield from (state for state in layer.states or () if state.is_floating_point())

    def elements_per_token(self):
        """Numbers that are kept of a token, without the ids that some mechanisms need."""
        return sum(state[0, 0].numel() for state in self._kept(False))

    def elements(self):
        """Numbers that are kept of the tokens of a sequence."""
        return sum(state[0].numel() for state in self._kept(False))
#? linear

    def state_elements(self):
        """Numbers that a sequence has besides, whatever its length."""
        return sum(state[0].numel() for state in self._kept(True))
#? end


#? end
