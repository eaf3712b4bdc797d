#? residual
class Residual(nn.Module):
    """b a, which compression adds to a matrix."""

    def __init__(self, inputs, outputs, rank):
        super().__init__()
        self.a = nn.Linear(inputs, rank, bias=False)
        self.b = nn.Linear(rank, outputs, bias=False)

    def forward(self, x):
        return self.b(self.a(x))


#? end
#? masa|one_atom
class Atoms(nn.Module):
    """A dictionary [S, out, in] that layers share."""

    def __init__(self, count, outputs, inputs):
        super().__init__()
        self.atoms = nn.Parameter(torch.empty(count, outputs, inputs))


#? end
#? masa
class CombinedAtoms(nn.Module):
    """W = Σ_s c_s D_s: a layer's own combination of shared atoms (MASA eq. 2)."""

    def __init__(self, dictionary, bias):
        super().__init__()
#? !masa_mlp
        self.coefficients = nn.Parameter(torch.empty(dictionary.atoms.shape[0]))
#? end
        if bias:
            self.bias = nn.Parameter(torch.zeros(dictionary.atoms.shape[1]))
        self.dictionary = (dictionary,)  # the model's; a tuple keeps it out of this module's parameters

    def matrix(self):
        return torch.einsum("s,soi->oi", self.coefficients, self.dictionary[0].atoms)

    def forward(self, x):
        return F.linear(x, self.matrix(), getattr(self, "bias", None))


#? end
#? one_atom
class OneAtom(nn.Module):
    """W = D_s: one of the shared atoms."""

    def __init__(self, dictionary, atom, bias):
        super().__init__()
        self.atom = atom
        if bias:
            self.bias = nn.Parameter(torch.zeros(dictionary.atoms.shape[1]))
        self.dictionary = (dictionary,)

    def matrix(self):
        return self.dictionary[0].atoms[self.atom]

    def forward(self, x):
        return F.linear(x, self.matrix(), getattr(self, "bias", None))


#? end
#? low_rank
class Basis(nn.Module):
    """The first factor [rank, in] that the layers of a group share."""

    def __init__(self, rank, inputs):
        super().__init__()
        self.basis = nn.Parameter(torch.empty(rank, inputs))


class LowRank(nn.Module):
    """W = B A, A the layer's own or its group's."""

    def __init__(self, inputs, outputs, rank, basis, bias):
        super().__init__()
        if basis is None:
            self.a = nn.Linear(inputs, rank, bias=False)
        self.b = nn.Linear(rank, outputs, bias=False)
        if bias:
            self.bias = nn.Parameter(torch.zeros(outputs))
        self.basis = (basis,)

    def first(self):
        return self.a.weight if self.basis[0] is None else self.basis[0].basis

    def matrix(self):
        return self.b.weight @ self.first()

    def forward(self, x):
        y = self.b(F.linear(x, self.first()))
        return y + self.bias if hasattr(self, "bias") else y


#? end
#? residual
def add_residual(projection, inputs, outputs, rank):
    """Adds b a to the output of a projection."""
    projection.residual = Residual(inputs, outputs, rank)
    projection.register_forward_hook(lambda module, args, y: y + module.residual(args[0]))
    return projection


#? end
def matrix_of(projection):
    """The [out, in] matrix of a projection, whatever it is made of."""
    weight = projection.matrix() if hasattr(projection, "matrix") else projection.weight
#? residual
    if hasattr(projection, "residual"):
        weight = weight + projection.residual.b.weight @ projection.residual.a.weight
#? end
    return weight


class SharedMatrices(nn.Module):
    """What layers share: dictionaries and bases, by the names of their projections (in groups: of the group first)."""
#? masa_mlp

    def take_coefficients(self, module, layer, layers, name, atoms, size=64):
        """Lets a projection take its coefficients from an MLP, which reads an embedding of the layer (MASA section 3)."""
        home = self.find(name) or self.add(nn.Module(), name)
        if not hasattr(home, "mlp"):
            home.block_embedding = nn.Parameter(torch.empty(layers, size))
            home.mlp = nn.ModuleList(nn.Linear(size, width) for width in (size, size, atoms))
            home.users = ()
        home.users += ((layer, module),)

    def give_coefficients(self):
        """Before every pass: all layers get theirs."""
        for home in self.children():
            if hasattr(home, "mlp"):
                first, second, last = home.mlp
                rows = last(F.gelu(second(F.gelu(first(home.block_embedding)))))
                for layer, module in home.users:
                    module.coefficients = rows[layer]
#? end

    def find(self, *path):
        module = self
        for name in path:
            module = module._modules.get(str(name)) if module is not None else None
        return module

    def add(self, module, *path):
        home = self
        for name in path[:-1]:
            if str(name) not in home._modules:
                home.add_module(str(name), nn.Module())
            home = home._modules[str(name)]
        home.add_module(str(path[-1]), module)
        return module


def group_of(config, layer):
    """The group of layers that share, if the configuration divides them into groups; and how many layers it has."""
    for group, (first, last) in enumerate((config.sharing or {}).get("groups") or []):
        if first <= layer <= last:
            return group, last - first + 1
    return None, config.num_hidden_layers


def make_projection(config, layer, shared, name, inputs, outputs, bias=False):
    """A projection of one layer, from a matrix of its own or from what layers share."""
    sharing = config.sharing or {}
    named = [p + "_proj" if len(p) == 1 else p for p in sharing.get("projections", [])]
    full = f"model.layers.{layer}.self_attn.{name}"
    ranks = config.pytorch.get("ranks", {})
    if name not in named:
        module = nn.Linear(inputs, outputs, bias=bias)
#? sharing
    else:
        group, layers = group_of(config, layer)
        home = () if group is None else (group,)
#? end
#? masa|one_atom
        if sharing.get("common_dictionary"):
            path = (f"common_{outputs}x{inputs}",)
        else:
            path = (*home, name)
        dictionary = shared.find(*path)
        if dictionary is None:
            tensor = ".".join(("model.dictionary", *map(str, path), "atoms"))
            count = ranks.get(tensor) or sharing["atoms"]
            dictionary = shared.add(Atoms(count, outputs, inputs), *path)
#? end
#? masa
        module = CombinedAtoms(dictionary, bias)
#? end
#? masa_mlp
        shared.take_coefficients(module, layer, config.num_hidden_layers, name, sharing["atoms"])
#? end
#? one_atom
        atoms = sharing["atoms"]
        atom = layer * atoms // layers if sharing["type"] == "sequential" else layer % atoms
        module = OneAtom(dictionary, atom, bias)
#? end
#? low_rank
        rank = ranks.get(full + ".b.weight") or sharing["rank"]
        basis = None
        if full + ".a.weight" not in ranks and home:
            basis = shared.find(*home, name) or shared.add(Basis(rank, inputs), *home, name)
        module = LowRank(inputs, outputs, rank, basis, bias)
#? end
#? residual
    rank = ranks.get(full + ".residual.a.weight")
    if rank:
        add_residual(module, inputs, outputs, rank)
#? end
    return module


