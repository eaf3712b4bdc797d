# mypy: ignore-errors
"""A model divided over the processes (FSDP2): each holds some rows of every parameter, and of its gradient and moments."""

import warnings

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard


class Whole:
    """Replaces Shards if every process holds the whole model."""

    means = 1

    def divide(self, model, device):
        return model

    def divides(self, tensor):
        return False

    def own(self, tensor):
        return tensor

    def first(self, count):
        return 0

    def gather(self, own, count):
        return own

    def whole(self, tensor):
        return tensor

    def norm(self, own):
        return own

    def call(self, function, *arguments):
        return function(*arguments)

    def reshard(self):
        pass


class Outside(torch.nn.Module):
    """Calls a function while the parameters outside the layers are whole."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, function, *arguments):
        return function(*arguments)


class Shards:
    """This process's rows of tensors [rows, …]. A layer is whole only while it computes."""

    def __init__(self, ranks):
        self.ranks, self.rank, self.count, self.outside = ranks, ranks.rank, ranks.count, None
        self.means = ranks.count  # FSDP2 divides sums of gradients by this

    def divide(self, model, device):
        """Divides a model whose tensors have no memory yet: this process will hold its rows of every parameter. Returns the
        outermost module. Its to_empty pads unequal parts of the parameters outside the layers."""
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module")  # layers return views, which nothing changes in place
        mesh = DeviceMesh.from_group(dist.group.WORLD, device.type)
        units = {}
        for layer in model.model.layers:  # some layers read parameters of their group's first
            units.setdefault(layer.leader, []).append(layer)
        for layers in units.values():
            fully_shard(layers if len(layers) > 1 else layers[0], mesh=mesh)
        self.outside = fully_shard(Outside(model), mesh=mesh)
        return self.outside

    def call(self, function, *arguments):
        return self.outside(function, *arguments)

    def reshard(self):
        """Frees the other processes' rows after a forward pass without a backward pass."""
        self.outside.reshard()

    def divides(self, tensor):
        """Returns True if each process has a part of the tensor."""
        return hasattr(tensor, "to_local")

    def _each(self, count):
        return -(-count // self.count)

    def first(self, count):
        """Returns the index of this process's first row, of `count` rows."""
        return min(self._each(count) * self.rank, count)

    def own(self, tensor):
        """Returns this process's rows: a copy of those of a whole tensor, or those of a divided tensor in place."""
        if self.divides(tensor):
            return tensor.detach().to_local()
        first = self.first(tensor.shape[0])
        return tensor[first:first + self._each(tensor.shape[0])].clone()

    def gather(self, own, count):
        """Returns the whole tensor of `count` rows in the first process, in host memory; None in the others."""
        padded = own.new_zeros(self._each(count), *own.shape[1:])
        padded[:own.shape[0]] = own
        whole = own.new_empty(self.count * padded.shape[0], *own.shape[1:])
        dist.all_gather_into_tensor(whole, padded)
        return whole[:count].cpu() if self.rank == 0 else None

    def norm(self, own):
        """Returns the norm over all processes, given that of this process's share."""
        squares = own.square()
        self.ranks.add([squares])
        return squares.sqrt()

    def whole(self, tensor):
        """Gathers a parameter. A buffer is whole already."""
        return self.gather(self.own(tensor), tensor.shape[0]) if self.divides(tensor) else tensor
