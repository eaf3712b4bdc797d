class LayerStates(CacheLayerMixin):
    """What one layer keeps of every token: the states that its mechanism writes, [B, T, ...] each."""

    is_compileable = False
    is_croppable = True
    is_sliding = False

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.states = None

    def append(self, states):
        if self.states is None:
            self.states = tuple(states)
        else:
            self.states = tuple(torch.cat(pair, 1) for pair in zip(self.states, states))
        self.is_initialized = True
        return self.states

    def lazy_initialization(self, key_states, value_states):
        pass

    def update(self, key_states, value_states, *args, **kwargs):
        raise NotImplementedError("a Crosshead layer appends the states of its mechanism (append)")

    def get_seq_length(self):
        return self.states[0].shape[1] if self.states else 0

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
        self.states = None

    def reorder_cache(self, beam_idx):
        self._each(lambda state: state.index_select(0, beam_idx.to(state.device)))

    def crop(self, tokens_to_remove):
        kept = max(self.get_seq_length() - abs(tokens_to_remove), 0)
        self._each(lambda state: state[:, :kept])

    def batch_repeat_interleave(self, repeats):
        self._each(lambda state: state.repeat_interleave(repeats, 0))

    def batch_select_indices(self, indices):
        self._each(lambda state: state[indices])


class CrossheadCache(Cache):
    """The states of all layers. Its size is the mechanism's: latents, mixed heads, one key for all."""

    def __init__(self, config):
        super().__init__(layers=[LayerStates() for _ in range(config.num_hidden_layers)])

    def get_seq_length(self, layer_idx=0):
        return max(layer.get_seq_length() for layer in self.layers)

    def elements_per_token(self):
        """Numbers that are kept of a token, without the ids that some mechanisms need."""
        kept = [state for layer in self.layers for state in layer.states or () if state.is_floating_point()]
        return sum(state[0, 0].numel() for state in kept)


