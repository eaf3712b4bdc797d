#? knocking
class HeadwiseLinear(nn.Module):
    """A map [heads, d, d] of its own for every head of [B, T, heads, d]."""

    def __init__(self, heads, size):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(size).repeat(heads, 1, 1))

    def forward(self, x):
        return torch.einsum("bthi,hoi->btho", x, self.weight)


def knocking_map(config, heads, size):
    if config.attention["knocking"].get("per_head"):
        return HeadwiseLinear(heads, size)
    return nn.Linear(size, size, bias=False)


#? end
#? knocking_linear
def knock_with(config, heads, size):
    """x Wᵀ, one W for all heads (KHA eq. 5)."""
    return knocking_map(config, heads, size)


#? end
#? knocking_mlp
class KnockingMLP(nn.Module):
    """2 (x Wᵤᵀ ⊙ σ(x W_gᵀ)) W_dᵀ, shared by all heads (KHA eqs. 7-9)."""

    def __init__(self, config, heads, size):
        super().__init__()
        self.up = knocking_map(config, heads, size)
        self.gate = knocking_map(config, heads, size)
        self.down = knocking_map(config, heads, size)

    def forward(self, x):
        return self.down(2 * self.up(x) * torch.sigmoid(self.gate(x)))


knock_with = KnockingMLP


#? end
#? knocking_gate
class KnockingGate(nn.Module):
    """2 x ⊙ σ(x W_gᵀ), the negative control of the KHA paper."""

    def __init__(self, config, heads, size):
        super().__init__()
        self.gate = knocking_map(config, heads, size)

    def forward(self, x):
        return 2 * x * torch.sigmoid(self.gate(x))


knock_with = KnockingGate


#? end
#? head_mix
class HeadMix(nn.Module):
    """K_g = Σ_j mix[g, j] K_j: heads as linear combinations of component heads (MEA eqs. 10-12)."""

    def __init__(self, heads, components):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, components))

    def forward(self, x):
        return torch.einsum("bjtd,gj->bgtd", x, self.weight)


#? end
