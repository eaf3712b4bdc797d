# mypy: ignore-errors
"""The model's PyTorch code with the run's weights."""

import importlib.util
import itertools
import json
import os
import sys

import torch

from crosshead.worker.files import CODE
from crosshead.worker.messages import Refused


_packages = itertools.count()


def import_code(folder):
    """Returns the modules configuration_crosshead and modeling_crosshead of a folder, imported as a package with a new name."""
    name = f"crosshead_exported_{next(_packages)}"
    package = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, None, is_package=True))
    package.__path__ = [folder]
    sys.modules[name] = package
    return importlib.import_module(name + ".configuration_crosshead"), importlib.import_module(name + ".modeling_crosshead")


def construct(folder, device, dtype, divide=lambda model: model):
    """Returns a model from a folder's code and config.json, with uninitialised tensors on a device. divide(model) may divide the
    model over processes before its tensors have memory. It returns the outermost module."""
    configuration, modeling = import_code(folder)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        members = json.load(file)
    vision = members["model_type"] == "crosshead_vit"
    for key in ("architectures", "auto_map", "model_type", "dtype"):
        members.pop(key, None)
    config = (configuration.CrossheadViTConfig if vision else configuration.CrossheadConfig)(**members)
    blocks = getattr(modeling.CrossheadPreTrainedModel, "_supports_flex_attn", False) and not vision
    config._attn_implementation = "flex_attention" if blocks and torch.device(device).type == "cuda" and dtype != torch.float64 else "sdpa"
    if not vision:
        config.use_cache = False
    if torch.device(device).type == "cuda" and config.attention.get("v_head_dim"):
        torch.backends.cuda.enable_cudnn_sdp(False)  # its backward pass fails where values are narrower than keys
    with torch.device("meta"):
        model = (modeling.CrossheadForImageClassification if vision else modeling.CrossheadForCausalLM)(config)
    model.to(dtype)
    model.tie_weights()
    divide(model).to_empty(device=device)
    model.tie_weights()
    return model.train()


def build(run, device, dtype, shards):
    """Returns the run's model with its weights. Each process has its rows of a divided model."""
    model = construct(run.file(CODE), device, dtype, lambda model: shards.divide(model, device))
    named = state_of(model)

    def put(name, tensor):
        if name in named:
            whole = tensor.view(named[name].shape)
            if shards.divides(named[name]):
                named[name].to_local().copy_(shards.own(whole))
            else:
                named[name].copy_(whole)

    with torch.no_grad():
        stored = run.load("weight", put)
    if named.keys() != stored.keys():
        strange = sorted(named.keys() ^ stored.keys())[0]
        raise Refused("io", f"{run.path}: checkpoint and model code differ in the tensor {strange}; prepare the run again")
    return model


def state_of(model):
    """Returns parameters and buffers by Crosshead's names; a tied matrix once."""
    named = dict(model.named_parameters())
    named.update((name, buffer) for name, buffer in model.named_buffers() if name in model.state_dict())
    return named
