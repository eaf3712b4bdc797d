#? linear
def states_before(carried, added, first):
    """Returns the state before each of N chunks, and the last one: S_n = A_n S_{n−1} + B_n of [B, H, N, …] matrices A = carried and
    B = added. Two chunks compose to one with A = A₂ A₁ and B = A₂ B₁ + B₂. This needs about 2 log2 N rounds and 3 N products."""
    count = carried.shape[2]
    if count % 2:
        before, last = first[:, :, None], first
        if count > 1:
            before, last = states_before(carried[:, :, :-1], added[:, :, :-1], first)
            before = torch.cat((before, last[:, :, None]), 2)
        return before, carried[:, :, -1] @ last + added[:, :, -1]
    (one, two), (b_one, b_two) = ((x[:, :, ::2], x[:, :, 1::2]) for x in (carried, added))
    before, last = states_before(two @ one, two @ b_one + b_two, first)
    return torch.stack((before, one @ before + b_one), 3).flatten(2, 3), last


def gated_delta_rule(q, k, v, decay, steps, state, starts=None, chunk=64):
    """S_t = a_t S_{t−1} + k_t (b_t (v_t − (a_t S_{t−1})ᵀ k_t))ᵀ and o_t = S_tᵀ q_t, chunk by chunk: [B, H, T, d], decay = log a and
    steps = b [B, H, T], state [B, H, d_k, d_v] -> o and the last state. starts [B, T]: the first token that each one remembers.

    The errors e of a chunk solve (I + M diag(b)) e = v − c k S with M = G ∘ k kᵀ below the diagonal, where c and G are the
    products of a from the chunk's beginning and between two tokens. So a chunk's updates are linear in the state S before it,
    and all chunks are computed at once but for that.
    """
    length, chunk = q.shape[2], min(chunk, q.shape[2])
    rest = -length % chunk
    if rest:  # tokens that change nothing
        q, k, v = (F.pad(x, (0, 0, 0, rest)) for x in (q, k, v))
        decay, steps = F.pad(decay, (0, rest)), F.pad(steps, (0, rest))
    q, k, v, sums, b = (x.unflatten(2, (-1, chunk)) for x in (q, k, v, decay, steps[..., None]))
    sums = sums.cumsum(-1)
    since = sums.exp()[..., None]
    between = (sums[..., :, None] - sums[..., None, :]).tril().exp().tril()
    if starts is not None:
        starts = torch.cat((starts, starts[:, -1:].expand(-1, rest)), 1)[:, None].unflatten(2, (-1, chunk))
        place = torch.arange(length + rest, device=q.device).view(1, 1, -1, chunk)
        since = since * (starts < place[..., :1])[..., None]
        between = between * (starts[..., :, None] <= place[..., None, :])
    # The inverse has chunk² elements, and autocast may round products with it. A solution for v and k would move F32 of their sizes.
    system, one = (between * (k @ k.transpose(-1, -2))).tril(-1), torch.eye(chunk, dtype=b.dtype, device=b.device)
    system = system * b.transpose(-1, -2) + one
    solved = b * torch.linalg.solve_triangular(system, one.expand_as(system), upper=False, unitriangular=True)
    alone, by_state = solved @ v, (solved * since.transpose(-1, -2)) @ k
    late = (between[..., -1, :, None] * k).transpose(-1, -2)
    kept = since[..., -1:, :] * torch.eye(k.shape[-1], dtype=k.dtype, device=k.device)
    before, last = states_before(kept - late @ by_state, late @ alone, state)
    u = alone - by_state @ before
    o = since * (q @ before) + (between * (q @ k.transpose(-1, -2))).tril() @ u
    return o.flatten(2, 3)[:, :, :length], last


try:
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule as fla_rule
except ImportError:
    fla_rule = None


def kernel_for(x):
    """The kernel of the package flash-linear-attention, where it is installed; it computes in BF16, on a GPU."""
    return fla_rule if x.is_cuda and x.dtype == torch.bfloat16 else None


class GatedDeltaNet(nn.Module):
    """A layer whose tokens leave a state of a fixed size (Yang et al. 2024): y = W_o [RMSNorm(o) ⊙ silu(W_g x)]."""

    def __init__(self, config, layer_idx):
        super().__init__()
        a, self.layer_idx = config.linear_attention, layer_idx
        self.heads, self.value_heads = a["heads"], a.get("value_heads") or a["heads"]
        self.size = a["head_dim"]
        self.value_size = a.get("value_head_dim") or 2 * self.size
        self.taps = a.get("conv", 4)
        self.most_step = 2.0 if a.get("negative_eigenvalues") else 1.0
        keys, values = self.heads * self.size, self.value_heads * self.value_size
        for name, width in (("q", keys), ("k", keys), ("v", values), ("a", self.value_heads), ("b", self.value_heads)):
            self.add_module(name + "_proj", nn.Linear(config.hidden_size, width, bias=False))
            if self.taps and name in "qkv":
                self.add_module(name + "_conv1d", nn.Conv1d(width, width, self.taps, groups=width, bias=False))
        self.A_log = nn.Parameter(torch.zeros(self.value_heads))
        self.dt_bias = nn.Parameter(torch.zeros(self.value_heads))
        self.gated = a.get("gate", True)
        if self.gated:
            self.g_proj = nn.Linear(config.hidden_size, values, bias=False)
        self.o_norm = RMSNorm(self.value_size, config.rms_norm_eps)
        self.o_proj = nn.Linear(values, config.hidden_size, bias=False)

    def convolved(self, name, x, kept, after, starts):
        """silu(conv(W x)) [B, T, width]; what the next tokens' convolution sees is added to `after`."""
        x = getattr(self, name + "_proj")(x)
        if not self.taps:
            return F.silu(x)
        before = x.new_zeros(x.shape[0], self.taps - 1, x.shape[2]) if kept is None else kept
        rows = torch.cat((before, x), 1)
        after.append(rows[:, rows.shape[1] - self.taps + 1 :])
        # A sum of shifted rows, which compiles into one kernel with what follows.
        weight, count = getattr(self, name + "_conv1d").weight[:, 0].to(rows.dtype), x.shape[1]
        parts = [rows[:, i : i + count] * weight[:, i] for i in range(self.taps)]
        if starts is not None:  # documents apart: each tap reads where its token's document has begun
            places = torch.arange(count, device=x.device)
            parts = [part * (places - (self.taps - 1 - i) >= starts)[..., None] for i, part in enumerate(parts)]
        return F.silu(sum(parts))

    def forward(self, x, tokens, cache, opened):
        if tokens.attention_mask is not None:  # padding leaves nothing behind
            seen = tokens.attention_mask[:, tokens.indices.shape[0] - x.shape[1] : tokens.indices.shape[0]]
            x = x * seen[:, :, None].to(x.dtype)
        kept = cache.layers[self.layer_idx].states if cache is not None else None
        state, *rows = kept or (None,)
        rows, after = rows or (None,) * 3, []
        q, k, v = (split_heads(wide(self.convolved(name, x, row, after, tokens.starts)), heads) for name, row, heads in zip(
            "qkv", rows, (self.heads, self.heads, self.value_heads)))
        q, k = (h * torch.rsqrt(h.pow(2).sum(-1, keepdim=True) + 1e-6) for h in (q, k))
        q, k = (h.repeat_interleave(self.value_heads // self.heads, 1) for h in (q * self.size**-0.5, k))
        decay = -wide(self.A_log).exp() * F.softplus(wide(self.a_proj(x)) + wide(self.dt_bias))
        narrow = self.b_proj(x)
        steps = self.most_step * wide(narrow).sigmoid()
        kernel = kernel_for(narrow) if cache is None and tokens.starts is None else None
        if kernel is not None:
            o = wide(kernel(*(h.transpose(1, 2).to(narrow.dtype) for h in (q, k, v)), decay, steps, scale=1.0)[0])
        else:
            if state is None:
                state = q.new_zeros(x.shape[0], self.value_heads, self.size, self.value_size)
            o, state = gated_delta_rule(q, k, v, decay.transpose(1, 2), steps.transpose(1, 2), state, tokens.starts)
            o = o.transpose(1, 2)
        if cache is not None:
            cache.layers[self.layer_idx].replace((state, *after), x.shape[1])
        o = self.o_norm(o).flatten(-2).to(x.dtype)
        return self.o_proj(o * F.silu(self.g_proj(x)) if self.gated else o), ()


#? end
