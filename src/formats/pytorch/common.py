import math

import torch
import torch.nn.functional as F
from torch import nn
#? any_attention_function
#? !vision
from torch.nn.attention.flex_attention import create_block_mask
#? end
#? end
#? !vision
from transformers import GenerationMixin, PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin
#? end
#? vision
from transformers import PreTrainedModel
#? end
from transformers.modeling_layers import GradientCheckpointingLayer
#? vision
from transformers.modeling_outputs import BaseModelOutput, ImageClassifierOutput
#? end
#? !vision
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
#? end
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils import can_return_tuple

#? vision
from .configuration_crosshead import CrossheadViTConfig as CrossheadConfig
#? end
#? !vision
from .configuration_crosshead import CrossheadConfig
#? end


def wide(x):
    """x in F32; in F64 if it is that."""
    return x if x.dtype == torch.float64 else x.float()


class RMSNorm(nn.Module):
    """x / sqrt(mean(x²) + eps) · weight, over the last dimension."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        y = wide(x)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * y.to(x.dtype)


def split_heads(x, heads):
    """[B, T, heads · d] -> [B, heads, T, d]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(x):
    """[B, heads, T, d] -> [B, T, heads · d]."""
    return x.transpose(1, 2).flatten(-2)


