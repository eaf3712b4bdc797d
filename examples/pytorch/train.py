"""Trains an exported model with PyTorch, on one device or with torchrun on many, and saves a model that Crosshead opens.

    crosshead tokenizer train --data book.txt --vocab 32768 --out tok.json
    crosshead config mla --params 300M --tokenizer tok.json --seq 1024 > large.json
    crosshead export large.json --format transformers --untrained --own-code --tokenizer tok.json --out large
    crosshead tokenize large book.txt --whole > book.ids
    torchrun --nproc-per-node 8 train.py large book.ids --out trained --steps 10000
    crosshead eval trained --data other.txt

The same command again continues from the last checkpoint in OUT/checkpoints, on any number of devices.
"""

import argparse
import contextlib
import math
import os
import pathlib
import shutil
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoConfig, AutoModelForCausalLM


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path, help="directory that `crosshead export --format transformers` wrote")
    parser.add_argument("tokens", type=pathlib.Path, help="ids of `crosshead tokenize --whole`, or an .npy array of them")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="directory for the model and its checkpoints")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--batch", type=int, default=64, help="sequences of a step, over all devices")
    parser.add_argument("--micro-batch", type=int, default=8, help="sequences that one device computes at a time")
    parser.add_argument("--seq", type=int, help="tokens of a sequence (default: max_position_embeddings)")
    parser.add_argument("--lr", type=float, default=4e-3, help="peak rate, which parameter_groups scales for each tensor")
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--clip", type=float, default=1.0, help="largest norm of the gradient")
    parser.add_argument("--warmup", type=int, default=100, help="steps of warm-up")
    parser.add_argument("--validation", type=float, default=0.01, help="share of the tokens, at their end, that validates")
    parser.add_argument("--save-every", type=int, default=1000, help="steps between checkpoints")
    parser.add_argument("--log-every", type=int, default=10, help="steps between lines of output")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=["bf16", "f32"], default="bf16", help="of products; weights are F32")
    parser.add_argument("--fsdp", action="store_true", help="divide parameters and optimizer over the devices (FSDP2)")
    parser.add_argument("--no-compile", action="store_true", help="do not compile the layers on GPUs")
    return parser.parse_args()


class Text:
    """Training sequences of a text in an order that depends only on the seed, and validation sequences from its end."""

    def __init__(self, path, length, share, seed):
        self.tokens = np.load(path, mmap_mode="r") if path.suffix == ".npy" else np.fromfile(path, np.int32, sep=" ")
        self.length, self.seed, self.epoch = length, seed, None
        count = len(self.tokens) // length
        self.validation = max(1, int(count * share))
        self.count = count - self.validation
        if self.count < 1:
            raise SystemExit(f"{path} has {len(self.tokens)} tokens; two sequences of {length} are needed at least")

    def _take(self, places):
        rows = np.stack([self.tokens[place * self.length : (place + 1) * self.length] for place in places])
        return torch.from_numpy(rows.astype(np.int64))

    def train(self, first, count):
        """Returns the training sequences first, first + 1, ..., counted through all epochs."""
        places = []
        for index in range(first, first + count):
            epoch, place = divmod(index, self.count)
            if epoch != self.epoch:
                self.order = np.random.default_rng([self.seed, epoch]).permutation(self.count)
                self.epoch = epoch
            places.append(self.order[place])
        return self._take(places)

    def validate(self, first, count):
        return self._take(range(self.count + first, self.count + min(first + count, self.validation)))


def open_model(args, device):
    """Returns the model with its weights, or with initial ones if the export has none."""
    torch.manual_seed(args.seed)
    if any(args.model.glob("model*.safetensors")):
        model = AutoModelForCausalLM.from_pretrained(args.model, trust_remote_code=True, dtype=torch.float32)
    else:
        config = AutoConfig.from_pretrained(args.model, trust_remote_code=True)
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=True)
    if not hasattr(model, "parameter_groups"):
        raise SystemExit(f"{args.model} has a class of transformers; export it with --own-code, which brings parameter_groups")
    return model.to(device)


def distribute(model, args, device):
    """Wraps the model for training: alone, replicated (DDP), or sharded (FSDP2)."""
    if device.type == "cuda" and not args.no_compile:
        for layer in model.model.layers:
            layer.compile()
    if args.fsdp:
        for layer in model.model.layers:
            fully_shard(layer)
        return fully_shard(model)
    if not dist.is_initialized():
        return model
    some = getattr(model.config, "moe", None) is not None  # experts that no token of a device has chosen have no gradient
    return DistributedDataParallel(model, [device.index] if device.type == "cuda" else None, find_unused_parameters=some)


def schedule(step, args):
    """Returns the factor of the peak rate: linear warm-up, then a cosine down to a tenth."""
    if step < args.warmup:
        return (step + 1) / (args.warmup + 1)
    done = (step - args.warmup) / max(1, args.steps - args.warmup)
    return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done))


def sum_over_devices(value):
    if dist.is_initialized():
        dist.all_reduce(value)
    return value.tolist()


class Checkpoints:
    """FOLDER/STEP. A checkpoint is written under another name and renamed. Then the one before it is removed."""

    def __init__(self, folder, model, optimizer):
        self.folder, self.parts = folder, (model, optimizer)

    def last(self):
        names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        return max((int(name) for name in names if name.isdigit()), default=0)

    def save(self, step, main):
        before, partial = self.last(), self.folder / f"{step}.partial"
        dcp.save(dict(zip(("model", "optimizer"), get_state_dict(*self.parts))), checkpoint_id=partial, no_dist=not dist.is_initialized())
        if main:
            partial.rename(self.folder / str(step))
            if before:
                shutil.rmtree(self.folder / str(before))

    def load(self, step):
        state = dict(zip(("model", "optimizer"), get_state_dict(*self.parts)))
        dcp.load(state, checkpoint_id=self.folder / str(step), no_dist=not dist.is_initialized())
        set_state_dict(*self.parts, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


def save_model(model, state, args):
    """Writes a directory like the exported one with the trained weights, for Crosshead and transformers."""
    with torch.device("meta"):  # because fully_shard has changed the class of `model`
        whole = AutoModelForCausalLM.from_config(model.config, trust_remote_code=True)
    whole.save_pretrained(args.out, state_dict=state)
    for path in args.model.iterdir():  # the tokenizer
        if path.is_file() and ".safetensors" not in path.name and not (args.out / path.name).exists():
            shutil.copy(path, args.out)


def train(args, device, rank, world):
    main = rank == 0
    model = open_model(args, device)
    length = args.seq or model.config.max_position_embeddings
    text = Text(args.tokens, length, args.validation, args.seed)
    each = args.batch // world  # sequences of a step on this device
    micro = min(args.micro_batch, each)
    if args.batch % world or each % micro:
        raise SystemExit(f"--batch {args.batch} must be a multiple of {world} devices times --micro-batch {micro}")
    called = distribute(model, args, device)
    groups = model.parameter_groups(lr=args.lr, weight_decay=args.weight_decay)
    peaks = [group["lr"] for group in groups]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=device.type == "cuda")
    products = torch.autocast(device.type, torch.bfloat16, enabled=args.dtype == "bf16")

    def loss_of(batch):
        batch = batch.to(device)
        with products:
            return called(input_ids=batch, labels=batch, use_cache=False).loss

    @torch.no_grad()
    def validate():
        """Returns the mean loss over all validation sequences. All devices make the same number of calls: FSDP gathers weights in each."""
        total = torch.zeros(2, device=device)
        for first in range(0, text.validation, micro * world):
            batch = text.validate(min(first + rank * micro, text.validation - 1), micro)
            weight = len(batch) if first + rank * micro < text.validation else 0
            total += weight * torch.stack([loss_of(batch), torch.ones((), device=device)])
        loss, count = sum_over_devices(total)
        return loss / count

    def say(line):
        if main:
            print(line, flush=True)

    checkpoints = Checkpoints(args.out / "checkpoints", model, optimizer)
    start = checkpoints.last()
    if start:
        checkpoints.load(start)
        say(f"continues after step {start}")
    since, began = start, time.time()
    for step in range(start, args.steps):
        for group, peak in zip(optimizer.param_groups, peaks):
            group["lr"] = peak * schedule(step, args)
        batch = text.train(step * args.batch + rank * each, each)
        mean = torch.zeros((), device=device)
        for first in range(0, each, micro):
            last = first + micro == each  # gradients are summed over the devices after the last micro-batch
            if args.fsdp:
                called.set_requires_gradient_sync(last)
            alone = isinstance(called, DistributedDataParallel) and not last
            with called.no_sync() if alone else contextlib.nullcontext():
                loss = loss_of(batch[first : first + micro]) * micro / each
                loss.backward()
            mean += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if step % args.log_every == 0 or step == args.steps:
            loss = sum_over_devices(mean) / world
            rate = (step - since) * args.batch * length / (time.time() - began)
            say(f"step {step} of {args.steps}: loss {loss:.4f}, {rate:,.0f} tokens/s")
            since, began = step, time.time()
        if step % args.save_every == 0 or step == args.steps:
            checkpoints.save(step, main)
            say(f"step {step}: validation loss {validate():.4f}")
            since, began = step, time.time()
    weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if main:
        save_model(model, weights, args)


def main():
    args, distributed = read_arguments(), "RANK" in os.environ  # torchrun sets it
    device = torch.device(args.device, int(os.environ.get("LOCAL_RANK", 0)) if args.device == "cuda" else None)
    if args.device == "cuda":
        torch.cuda.set_device(device)
    if distributed:
        dist.init_process_group("nccl" if args.device == "cuda" else "gloo")
    elif args.fsdp:
        raise SystemExit("--fsdp divides the model over processes; start them with torchrun")
    train(args, device, dist.get_rank() if distributed else 0, dist.get_world_size() if distributed else 1)
    if distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
