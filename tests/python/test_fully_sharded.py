"""Tests that an exported model whose parameters are divided between two processes (`fully_shard`) learns the same as in one."""

import importlib.util
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import unittest

NEEDED = ("torch", "transformers")
MISSING = [name for name in NEEDED if not importlib.util.find_spec(name)]
CROSSHEAD = os.environ.get("CROSSHEAD", "build/crosshead")
# Whatever could tie tensors of different layers: shared matrices, and the head that is the embedding.
CONFIG = {
    "model_type": "crosshead",
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 44,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
    "attention": {"type": "gqa"},
    "sharing": {"type": "masa", "projections": ["q", "k", "v", "o"], "atoms": 2},
}
STEPS = 4


def train(rank: int, folder: str, port: int) -> None:
    """One of the two processes; the whole model beside it is the reference."""
    os.environ.update(
        HF_HUB_OFFLINE="1", HF_MODULES_CACHE=f"{folder}/code{rank}", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    import torch
    from torch.distributed.fsdp import fully_shard
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    config = AutoConfig.from_pretrained(f"{folder}/model", trust_remote_code=True)
    models = []
    for _ in range(2):
        torch.manual_seed(1)
        models.append(AutoModelForCausalLM.from_config(config, trust_remote_code=True))
    whole, shared = models
    for layer in shared.model.layers:
        fully_shard(layer)
    fully_shard(shared)
    local = sum(parameter.to_local().numel() for parameter in shared.parameters())
    assert local < 0.6 * sum(parameter.numel() for parameter in whole.parameters()), local
    optimizers = [torch.optim.AdamW(model.parameter_groups(lr=1e-3, weight_decay=0.1)) for model in models]
    tokens = torch.randint(0, 61, (STEPS, 2, 2, 16), generator=torch.Generator().manual_seed(3))
    for step in tokens:
        losses = []
        for model, batch, optimizer in zip(models, (step.flatten(0, 1), step[rank]), optimizers):
            loss = model(input_ids=batch, labels=batch, use_cache=False).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach().clone())
        torch.distributed.all_reduce(losses[1])
        assert abs(losses[0] - losses[1] / 2) < 1e-5, losses
    torch.distributed.destroy_process_group()


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class FullyShardedModels(unittest.TestCase):
    def test_learns_what_one_process_learns(self) -> None:
        import torch.multiprocessing

        with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
            pathlib.Path(f"{folder}/model.json").write_text(json.dumps(CONFIG))
            command = [CROSSHEAD, "export", f"{folder}/model.json", "--format", "transformers", "--untrained"]
            subprocess.run([*command, "--out", f"{folder}/model"], check=True, stdout=subprocess.DEVNULL)
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
            free.close()
            torch.multiprocessing.spawn(train, args=(folder, port), nprocs=2)


if __name__ == "__main__":
    unittest.main()
