"""Tests `crosshead export --format transformers` against the program: logits, gradients, caches, generation, and importing it back.

Every configuration is exported untrained, gets random weights in PyTorch, is saved, and is opened by both programs.
Run by `make test-python`; CROSSHEAD names the program.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings
from unittest import mock

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_MODULES_CACHE", tempfile.mkdtemp())
warnings.simplefilter("ignore")

try:
    import torch
    import transformers
except ImportError as error:
    raise unittest.SkipTest(f"exported models are not tried in PyTorch: {error}; `pip install torch transformers`")

from safetensors.torch import load_file, save_file
from torch.nn.attention.flex_attention import flex_attention
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageClassification

CROSSHEAD = os.environ.get("CROSSHEAD", "build/crosshead")
REFERENCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/reference")
torch.set_num_threads(1)  # the models are so small that a second thread only waits
os.environ.setdefault("OMP_NUM_THREADS", "1")
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SIZES = {
    "model_type": "crosshead",
    "vocab_size": 61,
    "hidden_size": 24,
    "intermediate_size": 36,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
}
MLA = {"type": "mla", "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5}
EGMLA = {**MLA, "gate_embedding_dim": 7}
APART = {"type": "mla", "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5}
LONGROPE = {
    "rope_type": "longrope", "original_max_position_embeddings": 2,
    "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.5, 2.0, 3.0, 4.0]}
LINEAR = {"knocking": {"type": "linear", "on": ["q", "k", "v"]}}
YARN = {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16, "mscale": 0.7, "mscale_all_dim": 0.7}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8,
    "low_freq_factor": 1,
    "high_freq_factor": 4,
    "original_max_position_embeddings": 16,
}


def attention(**keys):
    return {"attention": keys}


# A name, and what the configuration has beyond SIZES; None takes a key away.
CASES = {
    "head norm": attention(type="gqa", head_norm=True),
    "key and value groups": attention(type="gqa", num_key_heads=1, num_value_heads=4, head_norm=True),
    "components of key and value groups": attention(
        type="gated", num_key_heads=4, num_value_heads=2, qk_norm=True, head_norm=True,
        head_mix={"on": ["k", "v"], "component_heads": 3}, knocking={"type": "linear", "on": ["q", "k", "v"], "per_head": True}),
    "fpba": {"hidden_size": 12, "num_attention_heads": 12, "head_dim": 12, "num_key_value_heads": 1, "position": "none", **attention(type="gqa")},
    "biases and yarn": {"attention_bias": True, "rope_scaling": YARN, **attention(type="gqa", head_norm=True)},
    "alibi": {"position": "alibi", **attention(type="gqa")},
    "no positions": {"position": "none", **attention(type="gqa", head_norm=True)},
    "interleaved llama3": {"rope_interleaved": True, "rope_scaling": LLAMA3, **attention(type="gqa")},
    "multipliers": {
        "embedding_multiplier": 3.0, "residual_multiplier": 0.4, "attention_multiplier": 0.2, "logits_scaling": 2.5,
        **attention(type="gqa", head_norm=True)},
    "soft caps and norms on both sides": {
        "norm_placement": "both", "attn_logit_softcapping": 1.5, "final_logit_softcapping": 0.7, "hidden_act": "geglu_tanh",
        "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        **attention(type="gqa", head_norm=True)},
    "soft caps with alibi": {
        "position": "alibi", "attn_logit_softcapping": 1.0, "norm_placement": "both", "residual_multiplier": 1.5, **attention(type="diff")},
    "soft caps of latents": {"attn_logit_softcapping": 0.5, "final_logit_softcapping": 3.0, "norm_placement": "branch", **attention(**MLA)},
    "soft caps with sink logits": {"attn_logit_softcapping": 0.8, **attention(type="gqa", sink_logits=True)},
    "norms of branches and of all heads": {
        "norm_placement": "branch", "residual_multiplier": 0.7, **attention(type="gqa", qk_norm=True, qk_norm_over="all", **LINEAR)},
    "norms of all heads that are mixed": {
        "num_key_value_heads": 4, "norm_placement": "post", "residual_multiplier": 0.7,
        **attention(type="gqa", qk_norm=True, qk_norm_over="all", head_mix={"on": ["k", "v"], "component_heads": 3})},
    "learned positions": {
        "position": "learned", "norm": "layernorm", "attention_output_bias": True, "mlp_bias": True,
        "hidden_act": "gelu_tanh", "embedding_multiplier": 0.5, **attention(type="gqa", head_norm=True)},
    "output bias": {"attention_output_bias": True, **attention(type="diff")},
    "halves in parallel, a part of a head turns": {
        "parallel_residual": True, "norm": "layernorm", "head_dim": 12, "partial_rotary_factor": 1 / 3, "residual_multiplier": 0.6,
        "rope_interleaved": True, **attention(type="gqa", qk_norm=True)},
    "halves in parallel with a linear layer": {
        "parallel_residual": True, "layer_types": ["linear_attention", "full_attention", "linear_attention"],
        "linear_attention": {"type": "gdn", "heads": 2, "head_dim": 4}, **attention(type="gqa")},
    "rotation by layer": {
        "nope_layers": [1], "local_rope_layers": [2], "local_rope_theta": 100.0, "rope_scaling": YARN, "partial_rotary_factor": 0.5,
        "sliding_window": 4, "layer_types": ["full_attention", "full_attention", "sliding_attention"],
        **attention(type="gqa", head_mix={"on": ["k"], "component_heads": 1})},
    "longrope of short texts": {
        "rope_scaling": {**LONGROPE, "original_max_position_embeddings": 64, "factor": 4}, **attention(type="gqa", head_norm=True)},
    "longrope of long texts": {
        "sliding_window": 6, "rope_scaling": LONGROPE, "rope_interleaved": True, **attention(type="gqa", head_norm=True)},
    "experts with clamps and biases": {
        "hidden_act": "clamped_swiglu", "swiglu_limit": 0.5, "mlp_bias": True,
        "rope_scaling": {**YARN, "truncate": False},
        "moe": {"experts": 4, "active": 2, "shared": 1, "expert_intermediate_size": 10, "router_bias": True, "dense_layers": [1]},
        **attention(type="gqa", sink_logits=True)},
    "knocking": attention(type="gqa", qk_norm=True, **LINEAR),
    "knocking per head": attention(type="gqa", knocking={"type": "mlp", "on": ["q", "k", "v"], "per_head": True}),
    "knocking gate": attention(type="diff", knocking={"type": "gate", "on": ["v"]}),
    "mea": {"num_key_value_heads": 4, **attention(type="gqa", head_norm=True, head_mix={"on": ["k", "v"], "component_heads": 6})},
    "virtual heads": {
        "num_key_value_heads": 4,
        **attention(type="gqa", qk_norm=True, head_mix={"on": ["k", "v"], "component_heads": 2, "layers": [1, 2]}, **LINEAR),
    },
    "component heads by layer": {
        "num_key_value_heads": 4, **attention(type="gqa", head_mix={"on": ["v"], "component_heads": [2, 4, 3]}),
    },
    "gta": attention(type="gta", qk_norm=True, knocking={"type": "linear", "on": ["q", "v"]}),
    "gta with components": attention(type="gta", head_mix={"on": ["v"], "component_heads": 1}, head_norm=True),
    "mla": {"hidden_act": "gelu", **attention(**MLA)},  # with a gate it is DeepSeek's
    "mla with everything": {"rope_scaling": YARN, **attention(**MLA, q_lora_rank=9, qk_norm=True, head_norm=True, **LINEAR)},
    "mla in groups": attention(**MLA, layer_group_size=2),
    "latents apart": attention(**APART, k_lora_rank=7, v_lora_rank=9, **LINEAR),
    "latent of keys": attention(**APART, k_lora_rank=7, qk_norm=True),
    "values apart, a map each": attention(
        **APART, k_lora_rank=7, q_lora_rank=5, knocking={"type": "linear", "on": ["q", "k", "v"], "per_head": True}),
    "latent of values in groups": attention(**APART, v_lora_rank=9, layer_group_size=3),
    "egmla": attention(**EGMLA),
    "egmla, added": attention(**EGMLA, gate_op="add", gate_norm=False, **LINEAR),
    "egmla, shared latents": attention(**EGMLA, layer_group_size=2, layer_group_shares="latent"),
    "mfa": {"num_key_value_heads": None, **attention(type="mfa", q_lora_rank=12, qk_norm=True, **LINEAR)},
    "mfa_kr": {"num_key_value_heads": None, **attention(type="mfa_kr", q_a_norm=True)},
    "mfa_kr, residual": {
        "num_key_value_heads": None,
        **attention(type="mfa_kr", value_reuse="residual", qk_norm=True, knocking={"type": "linear", "on": ["q", "k"]}),
    },
    "mfa_kr, projection": {"num_key_value_heads": None, **attention(type="mfa_kr", value_reuse="projection")},
    "mfa_kr, key": {"num_key_value_heads": None, **attention(type="mfa_kr", value_reuse="key", head_norm=True)},
    "diff": attention(type="diff", **LINEAR),
    "diff, a pair each, alibi": {"position": "alibi", **attention(type="diff", diff_lambda="per_pair", head_norm=False)},
    "gated": attention(type="gated", head_norm=True, qk_norm=True),
    "talking": {"num_key_value_heads": 4, **attention(type="talking", qk_norm=True)},
    "talking, one mix, alibi": {"num_key_value_heads": 4, "position": "alibi", **attention(type="talking", mix_logits=False)},
    "exclusive": attention(type="gqa", exclusive=True, qk_norm=True, **LINEAR),
    "exclusive, gated": {"num_key_value_heads": 4, **attention(type="gated", exclusive=True, head_mix={"on": ["v"], "component_heads": 2})},
    "moh": attention(type="moh", shared_heads=1, active_heads=2, head_norm=True),
    "moh, exclusive": attention(type="moh", shared_heads=1, active_heads=2, exclusive=True, qk_norm=True),
    "moh without shared heads": {"position": "alibi", **attention(type="moh", active_heads=3, **LINEAR)},
    "tpa": {"num_key_value_heads": None, **attention(type="tpa", q_rank=3, k_rank=2, v_rank=1, head_norm=True)},
    "tpa, fixed": {"num_key_value_heads": None, **attention(type="tpa", a_factors="fixed", k_rank=2, v_rank=3)},
    "tpa, dense queries": {"num_key_value_heads": None, "rope_interleaved": True, **attention(type="tpa", k_rank=1, v_rank=2)},
    "collaborative": attention(type="collaborative", shared_qk_dim=16, head_norm=True, knocking={"type": "mlp", "on": ["v"]}),
    "collaborative, content bias": attention(type="collaborative", shared_qk_dim=24, content_bias=True),
    "gla": attention(**{**MLA, "type": "gla"}, head_norm=True),
    "gla, scaled": attention(**{**MLA, "type": "gla", "kv_lora_rank": 12}, latent_heads=4, latent_scale=True, q_lora_rank=9, **LINEAR),
    "mlra": attention(**{**MLA, "type": "mlra", "kv_lora_rank": 12}),
    "mlra, two branches": attention(
        **{**MLA, "type": "mlra", "kv_lora_rank": 12}, branches=2, branch_scale=False, latent_scale=False, q_lora_rank=5, **LINEAR),
    "window": {"sliding_window": 3, **attention(type="gqa", head_norm=True)},
    "window and sinks": {"sliding_window": 2, "attention_sinks": 2, "position": "alibi", **attention(type="gqa")},
    "some layers slide": {
        "sliding_window": 4, "attention_sinks": 1,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "num_key_value_heads": None, **attention(type="mfa_kr", qk_norm=True),
    },
    "windows of latents": {"sliding_window": 4, **attention(**EGMLA, qk_norm=True)},
    "windows of components": {
        "sliding_window": 2, "num_key_value_heads": 4,
        **attention(type="gqa", qk_norm=True, head_mix={"on": ["k", "v"], "component_heads": 2}, **LINEAR),
    },
    "windows of factors": {"sliding_window": 3, "num_key_value_heads": None, **attention(type="tpa", q_rank=3, k_rank=2, v_rank=1)},
    "talking through windows": {"sliding_window": 3, "attention_sinks": 2, "num_key_value_heads": 4, **attention(type="talking")},
    "sink logits": attention(type="gqa", sink_logits=True),
    "sink logits and windows": {"sliding_window": 3, "attention_sinks": 1, **attention(**MLA, sink_logits=True)},
    "sink logits in branches": attention(**{**MLA, "type": "mlra", "kv_lora_rank": 12}, sink_logits=True),
    "layers in groups": attention(type="gqa", kv_layer_group=2, qk_norm=True, **LINEAR),
    "groups of tied layers": {"sliding_window": 4, **attention(type="gta", kv_layer_group=2, head_mix={"on": ["v"], "component_heads": 1})},
    "groups of reused keys": {"num_key_value_heads": None, **attention(type="mfa_kr", kv_layer_group=3, qk_norm=True)},
    "groups of latents": attention(**{**MLA, "type": "gla"}, kv_layer_group=2),
    "groups of chosen heads": attention(type="moh", kv_layer_group=2, active_heads=2, exclusive=True, head_mix={"on": ["v"], "component_heads": 1}),
    "gdn": {"layer_types": ["linear_attention", "full_attention", "linear_attention"],
            "linear_attention": {"type": "gdn", "heads": 2, "head_dim": 5}, **attention(type="gqa", qk_norm=True)},
    "gdn in all layers": {
        "layer_types": ["linear_attention"] * 3, "norm_placement": "post",
        "linear_attention": {"type": "gdn", "heads": 1, "value_heads": 3, "head_dim": 4, "value_head_dim": 6, "conv": 3, "gate": False},
        **attention(type="gqa"),
    },
    "gdn beside windows": {
        "layer_types": ["linear_attention", "sliding_attention", "full_attention"], "sliding_window": 3,
        "linear_attention": {"type": "gdn", "heads": 2, "head_dim": 3, "conv": 0, "negative_eigenvalues": True},
        **attention(**MLA),
    },
    "masa": {"sharing": {"type": "masa", "projections": ["q", "k", "v", "o"], "atoms": 2}, **attention(type="gqa", head_norm=True)},
    "masa in groups": {
        "sharing": {"type": "masa", "projections": ["q_b_proj", "kv_b_proj"], "atoms": 2, "groups": [[0, 1], [2, 2]]},
        **attention(**MLA, q_lora_rank=9),
    },
    "common dictionary": {
        "num_key_value_heads": 4,
        "sharing": {"type": "masa", "projections": ["q", "k", "v"], "atoms": 4, "common_dictionary": True},
        **attention(type="gqa", qk_norm=True, head_norm=True),
    },
    "sequential": {"sharing": {"type": "sequential", "projections": ["q", "o"], "atoms": 2}, **attention(type="gated")},
    "repeat": {"sharing": {"type": "repeat", "projections": ["k_proj"], "atoms": 2}, **attention(type="diff")},
    "low rank": {
        "num_key_value_heads": None,
        "sharing": {"type": "low_rank", "projections": ["q_a_proj", "v_reuse", "o"], "rank": 5},
        **attention(type="mfa_kr"),
    },
    "basis of a group": {
        "sharing": {"type": "low_rank", "projections": ["q", "v"], "rank": 5, "groups": [[0, 1], [2, 2]]},
        **attention(type="gqa", head_norm=True),
    },
    "experts": {
        "moe": {"experts": 5, "active": 2, "shared": 1, "expert_intermediate_size": 14, "first_dense_layers": 1},
        **attention(**MLA),
    },
    "experts in groups": {
        "moe": {
            "experts": 6, "active": 2, "expert_intermediate_size": 14, "balance": "loss_free", "scoring": "sigmoid",
            "scale": 1.5, "groups": 3, "active_groups": 2, "dense_layers": [1],
        },
        **attention(type="gqa", head_norm=True),
    },
    "norms behind": {"norm": "layernorm", "norm_placement": "post", "hidden_act": "relu2_glu", "mlp_bias": True, **attention(**MLA)},
    "tied, without a gate": {"tie_word_embeddings": True, "hidden_act": "gelu", **attention(type="gqa")},
}

EXPERTS = {"experts": 6, "active": 2, "shared": 1, "expert_intermediate_size": 16}
SIGMOIDS = {**EXPERTS, "balance": "loss_free", "scoring": "sigmoid", "scale": 1.5}
# A name, the model_type as which it leaves, and what the configuration has beyond SIZES.
DEEPSEEK_CASES = {
    "dense": ("deepseek_v3", attention(**MLA)),
    "dense, low-rank queries, yarn": ("deepseek_v3", {"rope_scaling": YARN, **attention(**MLA, q_lora_rank=9)}),
    "dense, neighbours, tied": (
        "deepseek_v3", {"rope_interleaved": True, "tie_word_embeddings": True, "rms_norm_eps": 0.01, **attention(**MLA, latent_norm_eps=1e-6)}),
    "experts with softmax": (
        "deepseek_v2", {"moe": {**EXPERTS, "shared": 2, "renormalise": False, "first_dense_layers": 1, "scale": 2}, **attention(**MLA)}),
    "experts with softmax in groups": (
        "deepseek_v2", {"moe": {**EXPERTS, "renormalise": False, "groups": 3, "active_groups": 2}, "rope_scaling": YARN, **attention(**MLA)}),
    "experts with sigmoids": ("deepseek_v3", {"moe": SIGMOIDS, **attention(**MLA, q_lora_rank=9)}),
    "experts with sigmoids in groups": (
        "deepseek_v3", {"moe": {**SIGMOIDS, "groups": 3, "active_groups": 2, "first_dense_layers": 1}, **attention(**MLA)}),
    # What those classes lack leaves with code.
    "weights that add up to 1": ("crosshead", {"moe": EXPERTS, **attention(**MLA)}),
    "no shared expert": ("crosshead", {"moe": {**SIGMOIDS, "shared": 0}, **attention(**MLA)}),
    "a dense layer between": ("crosshead", {"moe": {**SIGMOIDS, "dense_layers": [1]}, **attention(**MLA)}),
    "heads that do not divide the width": (
        "crosshead", {"num_attention_heads": 5, "moe": {**EXPERTS, "renormalise": False}, **attention(**MLA)}),
    "no rotation": ("crosshead", {"position": "none", **attention(**MLA)}),
    "latents apart from keys": ("crosshead", attention(**APART, k_lora_rank=7, v_lora_rank=9)),
}

# What leaves as transformers' own class, unless --own-code is given.
OWN_CODE_CASES = {
    "deepseek": {"rope_interleaved": True, "moe": SIGMOIDS, "rms_norm_eps": 1e-6, **attention(**MLA, q_lora_rank=9, latent_norm_eps=1e-6)},
    "qwen3": attention(type="gqa", qk_norm=True),
}

COMPILED = ("mla in groups", "diff, a pair each, alibi", "some layers slide", "experts in groups", "common dictionary")

IMAGES = {
    "model_type": "crosshead_vit",
    "image_size": 16,
    "patch_size": 4,
    "num_classes": 7,
    "hidden_size": 24,
    "intermediate_size": 36,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "head_dim": 8,
}
VIT_CASES = {
    "vit": {"attention_bias": True, **attention(type="gqa", qk_norm=True)},
    "vit with mla": {"num_channels": 1, **attention(**MLA, **LINEAR)},
    "vit with mfa_kr, norms behind": {"norm_placement": "post", **attention(type="mfa_kr", qk_norm=True)},
    "vit with masa": {"sharing": {"type": "masa", "projections": ["q", "k", "v", "o"], "atoms": 2}, **attention(type="diff")},
    "vit with talking heads": {"norm": "rmsnorm", "hidden_act": "silu", **attention(type="talking")},
}


def crosshead(*arguments):
    ran = subprocess.run([CROSSHEAD, *arguments], capture_output=True, text=True)
    if ran.returncode:
        raise AssertionError(f"crosshead {' '.join(arguments)}: {ran.stderr.strip()}")
    return ran.stdout


def random_model(directory, sizes, keys, auto, *options):
    """The untrained model of a configuration, with weights of which none is at a special value."""
    configuration = {key: value for key, value in {**sizes, **keys}.items() if value is not None}
    if configuration["attention"]["type"] in ("mla", "gla", "mlra"):  # have sizes of their own
        configuration.pop("num_key_value_heads", None), configuration.pop("head_dim")
    with open(f"{directory}/c.json", "w") as file:
        json.dump(configuration, file)
    made = f"{directory}/made_{os.path.basename(directory)}"  # transformers keeps code by the name of its directory
    crosshead("export", f"{directory}/c.json", "--format", "transformers", "--untrained", *options, "--out", made)
    config = AutoConfig.from_pretrained(made, trust_remote_code=True)
    model = auto.from_config(config, trust_remote_code=True)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor += 0.1 * torch.randn_like(tensor)
    return model


def largest_difference(a, b):
    return ((a - b).abs().max() / b.abs().max().clamp(min=1e-6)).item()


class Transformers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.directory = self.folder.name
        self.addCleanup(self.folder.cleanup)
        torch.manual_seed(1)

    def opened(self, keys, model_type="crosshead", first=(), then=()):
        """A random model as transformers loads it, our logits and gradients, and the tokens. first, then: options of both exports."""
        model, saved = random_model(self.directory, SIZES, keys, AutoModelForCausalLM, *first), f"{self.directory}/saved"
        model.save_pretrained(saved)
        tokens = torch.randint(0, SIZES["vocab_size"], (2, 12))
        save_file({"tokens": tokens}, f"{self.directory}/tokens.safetensors")
        crosshead("forward", saved, "--tokens", f"{self.directory}/tokens.safetensors", "--grads", "--out",
                  f"{self.directory}/ours.safetensors")
        again = f"{self.directory}/again_{os.path.basename(self.directory)}"
        wrote = json.loads(crosshead("export", saved, "--format", "transformers", *then, "--out", again, "--json"))
        self.assertEqual(wrote["model_type"], model_type)
        model, about = AutoModelForCausalLM.from_pretrained(
            again, trust_remote_code=True, output_loading_info=True)
        self.assertFalse(about["missing_keys"] or about["unexpected_keys"], about)
        return model, load_file(f"{self.directory}/ours.safetensors"), tokens, saved

    def check_gradients(self, model, ours, tokens):
        logits = model.train()(input_ids=tokens, use_cache=False).logits
        torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
        self.assertLess(largest_difference(logits, ours["logits"]), 1e-5)
        self.compare_gradients(model, ours)
        for reentrant in (False, True):
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
            model.zero_grad()
            logits = model(input_ids=tokens, use_cache=False).logits
            torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
            self.compare_gradients(model, ours)
        model.gradient_checkpointing_disable()

    def compare_gradients(self, model, ours):
        for name, tensor in model.named_parameters():
            if tensor.requires_grad:
                self.assertLess(largest_difference(tensor.grad, ours["grad." + name]), 1e-4, name)

    def check_compiled(self, model, ours, tokens):
        """torch.compile makes one graph, with a cache too."""
        torch._dynamo.reset()
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        self.assertLess(largest_difference(compiled(input_ids=tokens, use_cache=False).logits, ours["logits"]), 1e-5)
        past = compiled(input_ids=tokens[:, :-1], use_cache=True).past_key_values
        last = compiled(input_ids=tokens[:, -1:], past_key_values=past, use_cache=True).logits
        self.assertLess(largest_difference(last, ours["logits"][:, -1:]), 1e-5)

    def check_cache(self, model, ours, tokens, saved):
        model.eval()
        for how in ("sdpa", "eager"):
            model.set_attn_implementation(how)
            self.assertEqual(model.config._attn_implementation, how)
            past, logits, first = None, [], 0
            for count in (3, 1, 2, 1, 1, 4):
                given = model(input_ids=tokens[:, first : first + count], past_key_values=past, use_cache=True)
                past, first = given.past_key_values, first + count
                logits.append(given.logits)
            self.assertLess(largest_difference(torch.cat(logits, 1), ours["logits"]), 1e-5, how)
        kept = json.loads(crosshead("info", saved, "--depth", str(tokens.shape[1]), "--json"))
        self.assertEqual(past.elements_per_token(), kept["cache_elements_per_token"])
        self.assertEqual(past.elements(), kept["cache_elements_at_depth"])
        if "state_elements_per_sequence" in kept:
            self.assertEqual(past.state_elements(), kept["state_elements_per_sequence"])

    def check_generation(self, model, saved):
        """Greedy continuations equal those without a cache, with padding on the left too, which sinks refuse."""
        tokens = torch.randint(1, SIZES["vocab_size"], (2, 6))
        mask = torch.ones_like(tokens)
        tokens[0, :2], mask[0, :2] = 0, 0
        if model.config.attention_sinks:
            with self.assertRaisesRegex(ValueError, "without padding"):
                model(input_ids=tokens, attention_mask=mask)
            tokens, mask = tokens[:1, 2:], mask[:1, 2:]
        with torch.no_grad():
            batch = model.generate(tokens, attention_mask=mask, max_new_tokens=8, do_sample=False, pad_token_id=0)
            alone = tokens[:1, -4:]
            for _ in range(8):
                alone = torch.cat((alone, model(input_ids=alone, use_cache=False).logits[:, -1:].argmax(-1)), 1)
        self.assertEqual(batch[0, -alone.shape[1] :].tolist(), alone[0].tolist())
        beams = dict(attention_mask=mask, max_new_tokens=5, do_sample=False, num_beams=3, pad_token_id=0)
        with_cache, without = (model.generate(tokens, use_cache=use, **beams).tolist() for use in (True, False))
        self.assertEqual(with_cache, without)

    def check_images(self, keys):
        model, saved = random_model(self.directory, IMAGES, keys, AutoModelForImageClassification), f"{self.directory}/saved"
        model.save_pretrained(saved)
        pixels = torch.randn(3, model.config.num_channels, IMAGES["image_size"], IMAGES["image_size"])
        labels = torch.tensor([1, 6, 0])
        save_file({"pixels": pixels, "labels": labels}, f"{self.directory}/pixels.safetensors")
        crosshead("forward", saved, "--pixels", f"{self.directory}/pixels.safetensors", "--grads", "--out",
                  f"{self.directory}/ours.safetensors")
        ours = load_file(f"{self.directory}/ours.safetensors")
        for how in ("eager", "sdpa"):
            model.set_attn_implementation(how)
            given = model(pixel_values=pixels, labels=labels)
            self.assertLess(largest_difference(given.logits, ours["logits"]), 1e-5, how)
        given.loss.backward()
        for name, tensor in model.named_parameters():
            self.assertLess(largest_difference(tensor.grad, ours["grad." + name]), 1e-4, name)


    def check_deepseek(self, model_type, keys):
        """A model that transformers' own class takes: the same logits, greedy texts, and back again."""
        model, ours, tokens, saved = self.opened(keys, model_type)
        if model_type == "crosshead":
            return
        self.assertEqual(model.config.model_type, model_type)
        self.assertTrue(type(model).__module__.startswith("transformers.models.deepseek_"))
        with torch.no_grad():
            for how in ("eager", "sdpa"):
                model.set_attn_implementation(how)
                self.assertLess(largest_difference(model(input_ids=tokens).logits, ours["logits"]), 1e-5, how)
            texts = model.generate(tokens[:1, :4], attention_mask=torch.ones(1, 4), max_new_tokens=20, do_sample=False, pad_token_id=0)
        save_file({"tokens": texts}, f"{self.directory}/texts.safetensors")
        crosshead("forward", saved, "--tokens", f"{self.directory}/texts.safetensors", "--out", f"{self.directory}/likely.safetensors")
        likely = load_file(f"{self.directory}/likely.safetensors")["logits"].argmax(-1)[0].tolist()
        self.assertEqual(texts[0, 4:].tolist(), likely[3:-1])
        back = f"{self.directory}/back"
        model.save_pretrained(back)
        crosshead("forward", back, "--tokens", f"{self.directory}/tokens.safetensors", "--out", f"{self.directory}/back.safetensors")
        self.assertLess(largest_difference(load_file(f"{self.directory}/back.safetensors")["logits"], ours["logits"]), 1e-5)

    def test_families(self):
        """Models that were read in our keys are their family's class again."""
        for name in "olmo2 phi3 gpt2 granite smollm3 stablelm stablelm_parallel starcoder2 glm4 mixtral gemma2 gemma3_text olmo3".split():
            with self.subTest(name):
                given, out = f"{REFERENCE}/{name}", f"{self.directory}/{name}"
                wrote = json.loads(crosshead("export", given, "--format", "transformers", "--out", out, "--json"))
                self.assertEqual(wrote["model_type"], name.removesuffix("_parallel"))
                model, about = AutoModelForCausalLM.from_pretrained(out, attn_implementation="eager", output_loading_info=True)
                self.assertFalse(about["missing_keys"] or about["unexpected_keys"], about)
                reference = load_file(f"{given}/ref.safetensors")
                crosshead("export", given, "--format", "transformers", "--own-code", "--out", out + "_own")
                own = AutoModelForCausalLM.from_pretrained(out + "_own", trust_remote_code=True)
                for same in (model, own):
                    with torch.no_grad():
                        logits = same.eval()(input_ids=reference["input_ids"].long(), use_cache=False).logits
                    self.assertLess(largest_difference(logits, reference["logits"]), 1e-5)

    def test_spectral_models_leave_as_a_class_and_begin_with_code(self):
        model, _, _, _ = self.opened({"parametrization": "spectral", **attention(type="gqa", qk_norm=True)}, "qwen3")
        self.assertEqual(model.config.model_type, "qwen3")
        with open(f"{self.directory}/saved/config.json") as file:  # what was trained in PyTorch
            self.assertEqual(json.load(file)["model_type"], "crosshead")

    def test_longrope_does_not_continue_a_cache_past_the_length_where_factors_change(self):
        model = random_model(self.directory, SIZES, CASES["longrope of short texts"], AutoModelForCausalLM).eval()
        tokens = torch.randint(0, SIZES["vocab_size"], (1, 65))
        with torch.no_grad():
            past = model(input_ids=tokens[:, :60], use_cache=True).past_key_values
            past = model(input_ids=tokens[:, 60:64], past_key_values=past, use_cache=True).past_key_values
            with self.assertRaisesRegex(ValueError, "more than 64 tokens.*from its first token"):
                model(input_ids=tokens[:, 64:], past_key_values=past, use_cache=True)
            past = model(input_ids=tokens, use_cache=True).past_key_values
            past.crop(50)
            with self.assertRaisesRegex(ValueError, "or back"):
                model(input_ids=tokens[:, 50:51], past_key_values=past, use_cache=True)

    def test_directories_of_one_name(self):
        """transformers keeps code by the name of its directory; other code under the same name is other code."""
        for name in ("mfa", "egmla", "window"):
            made = f"{self.directory}/{name}"
            os.mkdir(made)
            random_model(made, SIZES, CASES[name], AutoModelForCausalLM).save_pretrained(f"{made}/trained")
            model = AutoModelForCausalLM.from_pretrained(f"{made}/trained", trust_remote_code=True)
            self.assertEqual(model.config.attention["type"], CASES[name]["attention"]["type"])
            with open(sys.modules[type(model).__module__].__file__) as ran, open(f"{made}/trained/modeling_crosshead.py") as own:
                self.assertEqual(ran.read(), own.read())

    def test_flex_attention(self):
        """Its block masks and caps of scores, with its kernel computed step by step."""
        compiled = "transformers.integrations.flex_attention.compile_friendly_flex_attention"
        for name in ("window", "soft caps and norms on both sides", "soft caps of latents"):
            with self.subTest(name), mock.patch(compiled, lambda q, k, v, training=False, **more: flex_attention(q, k, v, **more)):
                torch._dynamo.reset()
                self.directory = tempfile.mkdtemp(dir=self.folder.name)
                model, ours, tokens, _ = self.opened(CASES[name])
                model.eval().set_attn_implementation("flex_attention")
                with torch.no_grad():
                    logits = model(input_ids=tokens, use_cache=False).logits
                self.assertLess(largest_difference(logits, ours["logits"]), 1e-5)

    def test_the_delta_rule_in_chunks(self):
        """Outputs, last state and gradients of 1 to 8 chunks, with documents apart, are those of its recurrence."""
        code = sys.modules[type(random_model(self.directory, SIZES, CASES["gdn"], AutoModelForCausalLM)).__module__]

        def random(*sizes):
            return torch.randn(2, 3, *sizes, dtype=torch.float64)

        def recurrence(q, k, v, decay, steps, state, starts):
            outputs, zeros = [], torch.zeros_like(state)
            for t in range(q.shape[2]):
                before = torch.where((starts[:, t] < t)[:, None, None, None], state * decay[:, :, t, None, None].exp(), zeros)
                error = steps[:, :, t, None] * (v[:, :, t] - torch.einsum("bhkv,bhk->bhv", before, k[:, :, t]))
                state = before + torch.einsum("bhk,bhv->bhkv", k[:, :, t], error)
                outputs.append(torch.einsum("bhkv,bhk->bhv", state, q[:, :, t]))
            return torch.stack(outputs, 2), state

        for length in (1, 4, 7, 12, 13, 20, 27, 32):
            q, k = (torch.nn.functional.normalize(random(length, 5), dim=-1) for _ in "qk")
            given = q, k, random(length, 6), -random(length).abs(), 2 * torch.rand(2, 3, length, dtype=torch.float64), random(5, 6)
            given = [x.requires_grad_() for x in given]
            starts = torch.zeros(2, length, dtype=torch.long)
            starts[0], starts[1, length // 2:] = -1, length // 2  # text 0 continues the state
            weights, gradients = (random(length, 6), random(5, 6)), []
            for rule in (lambda *x: code.gated_delta_rule(*x, chunk=4), recurrence):
                found = rule(*given, starts)
                gradients.append((*found, *torch.autograd.grad(sum((a * b).sum() for a, b in zip(found, weights)), given)))
            for ours, expected in zip(*gradients):
                self.assertLess(largest_difference(ours, expected), 1e-10, length)

    def check_own_code(self, keys, first):
        """Our code where a class of transformers would do: of a model that leaves with it, and of one that came as that class."""
        model, ours, tokens, saved = self.opened(keys, "crosshead", first, ["--own-code"])
        with open(f"{saved}/config.json") as file:
            self.assertEqual(json.load(file)["model_type"] == "crosshead", bool(first))
        with torch.no_grad():
            self.check_cache(model, ours, tokens, saved)
        model.generation_config.eos_token_id = None  # classes of transformers have one
        self.check_generation(model, saved)
        groups = model.parameter_groups(lr=1e-3, weight_decay=0.1)
        self.assertEqual(sum(len(group["params"]) for group in groups), len(list(model.parameters())))


def add_own_code_case(name, keys, first):
    setattr(Transformers, f"test_own_code_{name}{'' if first else '_of_its_class'}", lambda self: self.check_own_code(keys, first))


def add_deepseek_case(name, model_type, keys):
    setattr(Transformers, "test_deepseek_" + name.replace(",", "").replace(" ", "_"), lambda self: self.check_deepseek(model_type, keys))


def add_image_case(name, keys):
    setattr(Transformers, "test_" + name.replace(",", "").replace(" ", "_"), lambda self: self.check_images(keys))


def add_case(name, keys):
    def test(self):
        model, ours, tokens, saved = self.opened(keys)
        self.check_gradients(model, ours, tokens)
        with torch.no_grad():
            self.check_cache(model, ours, tokens, saved)
            if name in COMPILED:
                self.check_compiled(model, ours, tokens)
        self.check_generation(model, saved)

    test.__doc__ = name
    setattr(Transformers, "test_" + name.replace(",", "").replace(" ", "_"), test)


for case, changes in CASES.items():
    add_case(case, changes)
for case, (model_type, changes) in DEEPSEEK_CASES.items():
    add_deepseek_case(case, model_type, changes)
for case, changes in OWN_CODE_CASES.items():
    add_own_code_case(case, changes, ["--own-code"])
    add_own_code_case(case, changes, [])
for case, changes in VIT_CASES.items():
    add_image_case(case, changes)

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
