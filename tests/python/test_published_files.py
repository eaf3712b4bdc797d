"""Tests model directories as people publish them against transformers: separate heads, spellings of RoPE, leftover buffers.

Every family gets a small random checkpoint, which is changed as published files are, and opened by both programs.
Run by `make test-python`; CROSSHEAD names the program.
"""

import copy
import json
import os
import subprocess
import tempfile
import unittest
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.simplefilter("ignore")

try:
    import torch
    import transformers
except ImportError as error:
    raise unittest.SkipTest(f"published files are not tried in PyTorch: {error}; `pip install torch transformers`")

from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

CROSSHEAD = os.environ.get("CROSSHEAD", "build/crosshead")
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             head_dim=8, max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2)
EXPERTS = dict(num_local_experts=4, num_experts_per_tok=2)
LATENT = dict(q_lora_rank=None, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, num_key_value_heads=4,
              n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, n_group=1, topk_group=1, first_k_dense_replace=1)
# Keys that a family needs in addition to SIZES.
FAMILIES = {
    "llama": {}, "mistral": {}, "qwen2": {}, "qwen3": {}, "olmo2": {}, "granite": {}, "smollm3": {}, "seed_oss": {}, "stablelm": {},
    "starcoder2": {}, "glm4": {}, "phi3": {}, "gemma2": {}, "gemma3_text": {}, "olmo3": {},
    "gpt2": dict(n_embd=32, n_inner=48, n_layer=2, n_head=4, n_positions=128, head_dim=None, num_key_value_heads=None),
    "mixtral": EXPERTS, "gpt_oss": EXPERTS,
    "qwen3_moe": dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16),
    "deepseek_v2": LATENT, "deepseek_v3": LATENT,
}
YARN = dict(rope_type="yarn", factor=4.0)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
LONGROPE = dict(rope_type="longrope", short_factor=[1.0, 1.5, 2.0, 4.0], long_factor=[1.0, 3.0, 6.0, 9.0])
LINEAR = dict(rope_type="linear", factor=4.0)
TOKENS = [(7 * i * i + 3 * i) % 60 + 3 for i in range(100)]


def largest_difference(a, b):
    return ((a - b).abs().max() / b.abs().max().clamp(min=1e-6)).item()


class PublishedFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.directory = f"{folder.name}/model"
        torch.manual_seed(1)

    def make(self, family, **keys):
        """Saves a random model of a family and returns its configuration as a dictionary."""
        keys = {key: value for key, value in {**SIZES, **FAMILIES[family], **keys}.items() if value is not None or key == "q_lora_rank"}
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **keys))
        with torch.no_grad():
            for tensor in model.parameters():
                tensor += 0.2 * torch.randn_like(tensor)
        model.save_pretrained(self.directory)
        with open(f"{self.directory}/config.json") as file:
            return json.load(file)

    def put(self, config):
        with open(f"{self.directory}/config.json", "w") as file:
            json.dump(config, file)

    def change(self, change):
        """Applies a function to the dictionary of tensors."""
        path = f"{self.directory}/model.safetensors"
        tensors = load_file(path)
        change(tensors)
        save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, path, {"format": "pt"})

    def ours(self, directory=None, tokens=TOKENS):
        out = f"{self.directory}/../ours.safetensors"
        ran = subprocess.run([CROSSHEAD, "forward", directory or self.directory, "--tokens", ",".join(map(str, tokens)), "--out", out, "--force"],
                             capture_output=True, text=True)
        if ran.returncode:
            raise AssertionError(ran.stderr.strip())
        return load_file(out)["logits"]

    def theirs(self, directory=None, tokens=TOKENS):
        model = AutoModelForCausalLM.from_pretrained(directory or self.directory, attn_implementation="eager", dtype=torch.float32)
        with torch.no_grad():
            return model.eval()(input_ids=torch.tensor([tokens]), use_cache=False).logits

    def check(self):
        self.assertLess(largest_difference(self.ours(), self.theirs()), 2e-5)

    def test_a_head_of_its_own_counts_more_than_the_key_that_ties_it(self):
        for family in FAMILIES:
            with self.subTest(family):
                self.make(family, tie_word_embeddings=True)
                embedding = "transformer.wte.weight" if family == "gpt2" else "model.embed_tokens.weight"
                tied = self.ours()
                self.change(lambda t: t.update({"lm_head.weight": t[embedding].clone()}))
                self.assertEqual(largest_difference(self.ours(), tied), 0)  # equal values: tied
                self.change(lambda t: t.update({"lm_head.weight": t["lm_head.weight"] + 0.3 * torch.randn_like(t["lm_head.weight"])}))
                self.check()
                self.assertGreater(largest_difference(self.ours(), tied), 0.05)
                out = f"{self.directory}/../again"
                subprocess.run([CROSSHEAD, "export", self.directory, "--format", "transformers", "--out", out], check=True, capture_output=True)
                self.assertLess(largest_difference(self.ours(out), self.ours()), 1e-6)
                self.assertLess(largest_difference(self.theirs(out), self.ours()), 2e-5)
                subprocess.run(["rm", "-r", out, self.directory], check=True)

    def test_a_head_of_another_type_is_compared_by_value(self):
        config = self.make("llama", tie_word_embeddings=True)
        self.assertTrue(config["tie_word_embeddings"])
        self.change(lambda t: t.update({"model.embed_tokens.weight": t["model.embed_tokens.weight"].bfloat16().float()}))
        tied = self.ours()
        self.change(lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].bfloat16()}))
        self.assertEqual(largest_difference(self.ours(), tied), 0)
        self.change(lambda t: t["lm_head.weight"][5].mul_(2))
        self.check()

    def test_every_spelling_of_rope_scaling_means_the_same(self):
        """The original context inside or at the top of the file, "type" for "rope_type", rope_parameters for rope_scaling."""
        scalings = {"yarn": YARN, "llama3": LLAMA3, "longrope": LONGROPE, "linear": LINEAR}
        for family in "llama mistral qwen2 qwen3 olmo2 granite smollm3 seed_oss starcoder2 mixtral qwen3_moe gpt_oss".split():
            base, every = self.make(family), family == "llama"
            for name, scaling in scalings.items():
                for key in ("rope_scaling", "rope_parameters"):
                    for place in ("inside", "top", "both", "neither") if every or name == "longrope" else ("top",):
                        with self.subTest(family=family, rope=name, key=key, place=place):
                            config, rope = copy.deepcopy(base), dict(scaling)
                            theta = config.pop("rope_parameters")["rope_theta"]
                            if key == "rope_scaling":
                                config["rope_theta"] = theta
                                rope["type"] = rope.pop("rope_type")
                            else:
                                rope["rope_theta"] = theta
                            if name != "linear" and place in ("inside", "both"):
                                rope["original_max_position_embeddings"] = 32 if place == "inside" else 64
                            if name != "linear" and place in ("top", "both"):
                                config["original_max_position_embeddings"] = 32
                            config[key] = rope
                            self.put(config)
                            self.check()

    def test_yarn_without_a_factor_stretches_to_the_context(self):
        for family in ("llama", "gpt_oss", "deepseek_v3"):
            with self.subTest(family):
                config = self.make(family)
                self.put({**config, "rope_parameters": {**YARN, "factor": None, "original_max_position_embeddings": 32}})
                self.check()

    def test_of_two_spellings_that_differ_rope_scaling_counts(self):
        config = self.make("llama")
        self.put({**config, "rope_theta": 800.0, "rope_scaling": {**YARN, "original_max_position_embeddings": 32},
                  "rope_parameters": {"rope_type": "default", "rope_theta": 300.0}})
        self.check()

    def test_windows_in_layers_that_are_not_asked_for_are_refused(self):
        self.put({**self.make("smollm3"), "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 16})
        with self.assertRaisesRegex(AssertionError, '"use_sliding_window" is not true'):
            self.ours()

    def test_longrope_of_phi3(self):
        base = self.make("phi3")
        for top in (16, 32, None):
            for kind in ("longrope", "su", "yarn"):  # the latter are older names, which transformers 5 fails to read
                with self.subTest(kind=kind, top=top):
                    config = copy.deepcopy(base)
                    config.pop("rope_parameters"), config.pop("original_max_position_embeddings")
                    config["rope_scaling"] = {**LONGROPE, "rope_type": kind}
                    if top:
                        config["original_max_position_embeddings"] = top
                    self.put(config)
                    if kind == "longrope":
                        self.check()
                        expected = self.ours()
                    self.assertEqual(largest_difference(self.ours(), expected), 0)

    def test_rope_by_types_of_layers(self):
        types = ["sliding_attention", "full_attention"]
        for family in ("gemma3_text", "olmo3"):
            for full in (dict(rope_type="default"), LINEAR, {**YARN, "original_max_position_embeddings": 32}, YARN):
                for top in (None, 16):
                    with self.subTest(family=family, full=full, top=top):
                        config = self.make(family, layer_types=types, sliding_window=16)
                        config["rope_parameters"] = {"full_attention": {**full, "rope_theta": 3e4},
                                                     "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}
                        if top:
                            config["original_max_position_embeddings"] = top
                        self.put(config)
                        self.check()
            config = self.make(family, layer_types=types, sliding_window=16)
            config["rope_parameters"]["sliding_attention"] = None
            self.put(config)
            self.check()
            config.pop("rope_parameters")
            config["rope_scaling"] = {**YARN, "original_max_position_embeddings": 32}
            self.put(config)
            self.check()

    def test_rope_that_is_not_given_by_types_of_layers(self):
        """One type without the other, keys outside the types, and older keys at the top; what transformers refuses is refused."""
        default, yarn = {"rope_type": "default"}, {**YARN, "original_max_position_embeddings": 32}
        parameters = [None, {}, {"full_attention": {**default, "rope_theta": 3e4}}, {"sliding_attention": {**default, "rope_theta": 500.0}},
                      {"full_attention": {**yarn, "rope_theta": 3e4}}, {"full_attention": {**yarn, "factor": None}}, {"full_attention": {}},
                      {"full_attention": {**default, "rope_theta": None}}, {"sliding_attention": {**default, "rope_theta": None}},
                      {"full_attention": {"type": "linear", "factor": 4.0}, "sliding_attention": None},
                      {**default, "rope_theta": 3e4}, {"rope_theta": 3e4}, yarn, {**yarn, "rope_theta": 3e4, "sliding_attention": default}]
        top = [{}, {"rope_theta": 2e4}, {"rope_theta": None}, {"rope_theta": 2e4, "rope_local_base_freq": 700.0},
               {"rope_scaling": yarn}, {"rope_theta": 2e4, "rope_scaling": {"type": "linear", "factor": 8.0}}, {"rope_scaling": {}}]
        refused = 0
        for family in ("gemma3_text", "olmo3"):
            for types in (["sliding_attention", "full_attention"], ["full_attention"] * 2):
                base = self.make(family, layer_types=types, sliding_window=16)
                del base["rope_parameters"]
                for rope in parameters:
                    for keys in top:
                        with self.subTest(family=family, types=types, rope=rope, keys=keys):
                            self.put({**base, **keys, "rope_parameters": rope})
                            try:
                                expected = self.theirs()
                            except (KeyError, TypeError, AttributeError):
                                refused += 1
                                with self.assertRaisesRegex(AssertionError, "rope_"):
                                    self.ours()
                            else:
                                self.assertLess(largest_difference(self.ours(), expected), 2e-5)
        self.assertGreater(refused, 100)

    def test_one_base_for_all_layers_survives_exports(self):
        """Classes and llama.cpp have a base of their own for layers with a window, where a file says none."""
        rest = {"gemma3_text": dict(query_pre_attn_scalar=8), "olmo3": dict(tie_word_embeddings=False)}
        for family, keys in rest.items():
            with self.subTest(family):
                config = self.make(family, layer_types=["sliding_attention", "full_attention"], sliding_window=16, **keys)
                for rope in config["rope_parameters"].values():
                    rope["rope_theta"] = 700.0
                self.put(config)
                self.check()
                for form, again in (("transformers", f"{self.directory}-{family}"), ("gguf", f"{self.directory}-{family}.gguf")):
                    subprocess.run([CROSSHEAD, "export", self.directory, "--format", form, "--out", again], check=True, capture_output=True)
                    if form == "gguf":
                        subprocess.run([CROSSHEAD, "import", again, "--out", again + ".d"], check=True, capture_output=True)
                        again += ".d"
                    self.assertLess(largest_difference(self.ours(again), self.ours()), 1e-6)

    def test_rope_by_types_of_layers_elsewhere_must_be_the_same(self):
        config = self.make("qwen3", layer_types=["sliding_attention", "full_attention"], sliding_window=16, use_sliding_window=True)
        same = {"rope_type": "default", "rope_theta": 700.0}
        expected = (self.put({**config, "rope_parameters": same}), self.ours())[1]
        self.put({**config, "rope_parameters": {"full_attention": same, "sliding_attention": same}})
        self.assertEqual(largest_difference(self.ours(), expected), 0)
        self.put({**config, "rope_parameters": {"full_attention": same, "sliding_attention": {**same, "rope_theta": 800.0}}})
        with self.assertRaisesRegex(AssertionError, "differs between types of layers"):
            self.ours()

    def test_leftover_buffers_are_passed_over(self):
        mask = torch.tril(torch.ones(128, 128, dtype=torch.bool)).reshape(1, 1, 128, 128)
        for family, buffers in {
            "gpt2": {f"transformer.h.{i}.attn.{name}": value for i in range(2) for name, value in (("bias", mask), ("masked_bias", torch.tensor(-1e4)))},
            "llama": {f"model.layers.{i}.self_attn.rotary_emb.{name}": torch.rand(4) for i in range(2) for name in ("inv_freq", "cos_cached", "sin_cached")},
            "qwen2": {"model.rotary_emb.inv_freq": torch.rand(4).bfloat16(), "model.position_ids": torch.arange(128).reshape(1, 128)},
            "mistral": {"model.rotary_emb.inv_freq": torch.rand(4).half(), "position_ids": torch.arange(128, dtype=torch.int32)},
            "gemma2": {"model.causal_mask": mask, "model.layers.1.self_attn.rotary_emb.inv_freq": torch.rand(4, dtype=torch.float64)},
        }.items():
            with self.subTest(family):
                self.make(family)
                before = self.ours()
                self.change(lambda t: t.update(buffers))
                self.assertEqual(largest_difference(self.ours(), before), 0)
                self.change(lambda t: t.update({"model.layers.0.self_attn.surplus": mask}))
                with self.assertRaisesRegex(AssertionError, "surplus"):
                    self.ours()

    def test_an_infinite_scale_in_a_file_is_no_finite_logit(self):
        """Scales of blocks lie in mapped weights, which nothing looks at before they are multiplied."""
        self.make("llama", hidden_size=256, intermediate_size=256, head_dim=64)
        for kind, place in (("q8_0", 0), ("q4_0", 0), ("q4_k", 0), ("q4_k", 2), ("q6_k", 208)):
            for name in ("model.layers.0.mlp.up_proj.weight", "model.layers.1.self_attn.v_proj.weight", "lm_head.weight"):
                with self.subTest(kind=kind, place=place, name=name), tempfile.TemporaryDirectory() as out:
                    subprocess.run([CROSSHEAD, "quantize", self.directory, "--type", kind, "--out", out], check=True, capture_output=True)
                    with open(f"{out}/model.safetensors", "r+b") as file:
                        size = int.from_bytes(file.read(8), "little")
                        file.seek(8 + size + json.loads(file.read(size))[name]["data_offsets"][0] + place)
                        file.write(b"\x00\x7c")
                    for count in (3, 40):
                        with self.assertRaisesRegex(AssertionError, "not finite"):
                            self.ours(out, TOKENS[:count])


if __name__ == "__main__":
    unittest.main()
