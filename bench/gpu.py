"""Compares the training speed of each mechanism on a GPU with transformers' Llama: gpu.py --out DIR [--device cpu] [--tiny]

Each model is compiled in a process of its own, several at a time; then each is timed while the others wait. bench/gpu.sh runs
this and a comparison.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
LLAMA = "Llama (transformers)"
GIB_A_MODEL = 12  # while it is compiled
COMPILE_SECONDS = 150  # limit for the models that are compiled together


# ---- One model, in a process of its own ----


class Shape:
    """The part of a run that step.Trainer reads."""

    unit, step = "tokens", 0

    def __init__(self, batch, length, config):
        self.options = {"batch": batch, "accumulate": 1, "sequence": length, "dtype": "BF16", "lr": 1e-3, "steps": 1000, "warmup": 10,
                        "schedule": "cosine", "weight_decay": 0.1, "clip": 1.0, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8}
        self.settings = {"micro_batch": batch}
        self.config, self.step_sequences = config, batch


def crosshead_step(folder, batch, length, device, compiled):
    """Returns a function that performs one training step of an exported model."""
    import torch
    from crosshead.worker.model import construct
    from crosshead.worker.ranks import Ranks
    from crosshead.worker.shards import Whole
    from crosshead.worker.step import Trainer

    if device.type == "cuda":
        torch.cuda.set_stream(torch.cuda.Stream())  # the worker does the same: the default stream cannot be captured
    model = construct(folder, device, torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if "norm" in name else 0.0) if parameter.dim() < 2 else parameter.normal_(0, 0.02)
    zeros = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    moments = {"m": zeros, "v": {name: torch.zeros_like(tensor) for name, tensor in zeros.items()}}
    config = json.loads(pathlib.Path(folder, "config.json").read_text())
    shape = Shape(batch, length, config)
    trainer = Trainer(model, shape, moments, device, compiled, Ranks(shape, []), Whole())
    tokens = torch.randint(0, config["vocab_size"], (batch, length + 1), dtype=torch.int32)
    inputs = {"tokens": tokens[:, :-1].contiguous(), "targets": tokens[:, 1:].contiguous()}
    if device.type == "cuda":
        inputs = {name: tensor.pin_memory() for name, tensor in inputs.items()}
    return lambda: trainer.update(trainer.differentiate(inputs, batch * length))[0]


CUDNN = "+cudnn"  # after a model's name: attention by cuDNN where it can


def attention_by_cudnn(step):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def with_cudnn():
        backends = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
        with sdpa_kernel(backends, set_priority=True):
            return step()

    return with_cudnn


def llama_step(config, batch, length, device, compiled):
    """Like crosshead_step, for transformers' own Llama as its users train it: compiled, its own loss, autocast, fused AdamW."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    keys = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
            "max_position_embeddings", "tie_word_embeddings")
    with torch.device(device):
        model = LlamaForCausalLM(LlamaConfig(**{key: config[key] for key in keys}, use_cache=False))
    forward = torch.compile(model) if compiled else model
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    tokens = torch.randint(0, config["vocab_size"], (batch, length))
    tokens = tokens.pin_memory() if device.type == "cuda" else tokens

    def step():
        ids = tokens.to(device, non_blocking=True)
        with torch.autocast(device.type, torch.bfloat16):
            loss = forward(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        return loss

    return step


def measure(arguments):
    """Compiles, prints the time of that, waits for a line on standard input, and times steps."""
    import torch

    from crosshead.worker.run import choose_device

    device = choose_device(arguments.device)
    compiled = device.type == "cuda"
    if compiled:
        torch.cuda.set_device(device)
    began = time.perf_counter()
    if arguments.model == LLAMA:
        config = json.loads(pathlib.Path(arguments.folder, "config.json").read_text())
        step = llama_step(config, arguments.batch, arguments.length, device, compiled)
    else:
        step = crosshead_step(arguments.folder, arguments.batch, arguments.length, device, compiled)

    if arguments.model.endswith(CUDNN):
        step = attention_by_cudnn(step)

    def settle():
        if compiled:
            torch.cuda.synchronize()

    first = step().item()
    step()
    settle()
    ready = {"compile_seconds": time.perf_counter() - began}
    if compiled:
        torch.cuda.empty_cache()
    print(json.dumps(ready), flush=True)
    sys.stdin.readline()
    for _ in range(arguments.warm):
        step()
    settle()
    if compiled:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    for _ in range(arguments.steps):
        loss = step()
    settle()
    seconds = (time.perf_counter() - began) / arguments.steps
    memory = torch.cuda.max_memory_reserved() if compiled else 0  # memory that other processes cannot use
    print(json.dumps({"seconds": seconds, "memory_bytes": memory, "first_loss": first, "loss": loss.item()}), flush=True)
    if arguments.profile and compiled:
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            step()
            settle()
        with open(arguments.profile, "w", encoding="utf-8") as file:
            file.write(profiled.key_averages().table(sort_by="cuda_time_total", row_limit=40, max_name_column_width=90))


# ---- The table ----


def matrix_peak():
    """Returns the FLOP/s of a large BF16 product."""
    import torch

    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(5):
        a @ b
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(20):
        a @ b
    torch.cuda.synchronize()
    return 20 * 2 * 8192**3 / (time.perf_counter() - began)


def program(*words):
    return subprocess.run([sys.executable, "-m", "crosshead", *map(str, words)], check=True, capture_output=True, text=True).stdout


class Child:
    """A process that measures one model."""

    def __init__(self, name, folder, out, arguments, threads):
        self.name, self.result = name, {"name": name}
        words = [sys.executable, __file__, "--model", name, "--folder", str(folder), "--out", str(out), "--device", arguments.device]
        for key in ("batch", "length", "steps", "warm"):
            words += [f"--{key}", str(getattr(arguments, key))]
        if name in arguments.profile.split(","):
            words += ["--profile", str(out / f"profile-{name}.txt")]
        environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
        self.errors = open(out / f"{name.split()[0]}.log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env=environment)

    def compiled(self, seconds):
        """Waits until the model is compiled. Returns False if that failed, or took too long and was stopped."""
        timer = threading.Timer(seconds, self.process.kill)
        timer.start()
        ready = self.take()
        if not ready and not timer.is_alive():
            self.result["error"] = f"not compiled after {seconds} s"
        timer.cancel()
        return ready

    def take(self):
        """Adds the next line of results. Returns False if the process has failed."""
        for line in self.process.stdout:
            if line.startswith("{"):
                said = json.loads(line)
                if said.get("event") == "warning":
                    self.result["warning"] = said["message"]
                    continue
                self.result.update(said)
                return True
        self.process.wait()
        self.errors.seek(0)
        said = [line for line in self.errors.read().splitlines() if line.strip()]
        self.result["error"] = said[-1] if said else f"ended with status {self.process.returncode}"
        return False

    def time_it(self):
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        self.take()
        self.process.stdin.close()
        self.process.wait()


def row(result, peak, flops, tokens):
    if "seconds" not in result:
        return f"{result['name']:22s} failed: {result.get('error', '')[:90]}"
    rate = tokens / result["seconds"]
    share = f"{3 * flops * rate / peak:6.1%}" if peak else "      "
    result.update(tokens_per_second=rate, flops_per_token_forward=flops, mfu=3 * flops * rate / peak if peak else None)
    return (f"{result['name']:22s} {rate / 1e3:8.1f} {share} {result['memory_bytes'] / 1e9:7.2f} "
            f"{result['compile_seconds']:8.1f} {1e3 * result['seconds']:9.2f}"
            + (f"  {result['warning'][:100]}" if "warning" in result else ""))


def table(arguments):
    out = pathlib.Path(arguments.out)
    (out / "models").mkdir(parents=True, exist_ok=True)
    names = arguments.models.split(",") if arguments.models else sorted((path.stem for path in (HERE / "configs/gpu").glob("*.json")),
                                                                               key=lambda name: (name != "mha", name))
    began, peak, memory = time.perf_counter(), 0, 0
    print("## Training", flush=True)
    if arguments.device.startswith("cuda"):
        import torch

        from crosshead.worker.run import choose_device

        device = choose_device(arguments.device)
        torch.cuda.set_device(device)
        peak, memory = matrix_peak(), torch.cuda.get_device_properties(device).total_memory
        torch.cuda.empty_cache()
        print(f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}; measured matrix peak {peak / 1e12:.0f} TFLOP/s in BF16")
    models = []
    for name in names:
        config = HERE / "configs/gpu" / f"{name.removesuffix(CUDNN)}.json"
        if arguments.tiny:
            config = shrunk(config, out)
        made = out / "models" / name
        if not made.exists():
            program("export", config, "--format", "transformers", "--untrained", "--out", made)
        info = json.loads(program("info", config, "--json", "--depth", arguments.length // 2))
        models.append((name, made, info))
    models.insert(0, (LLAMA, *next(model for model in models if model[0] == "mha")[1:]))
    together = min(len(models), arguments.together or max(1, int(memory / 2**30 / GIB_A_MODEL)) if memory else 2)
    cores = len(os.sched_getaffinity(0))
    print(f"{arguments.batch} x {arguments.length} tokens a step; {together} models compiled at a time on {cores} cores", flush=True)
    print(f"{'':22s} {'k tok/s':>8s} {'MFU':>6s} {'GB':>7s} {'compile':>8s} {'ms/step':>9s}", flush=True)
    results, lines = [], []
    for first in range(0, len(models), together):
        wave = models[first : first + together]
        children = [Child(name, made, out, arguments, max(1, cores // len(wave))) for name, made, _ in wave]
        limit = time.perf_counter() + COMPILE_SECONDS
        ready = [child.compiled(max(1, limit - time.perf_counter())) for child in children]
        for child, is_ready, (name, made, info) in zip(children, ready, wave):
            if is_ready:
                child.time_it()
            child.result["parameters"] = info["parameters_total"]
            lines.append(row(child.result, peak, info["flops_per_token_forward"], arguments.batch * arguments.length))
            print(lines[-1], flush=True)
            results.append(child.result)
            (out / "gpu.json").write_text(json.dumps({"matrix_peak": peak, "models": results}, indent=1))
            (out / "gpu.txt").write_text("\n".join(lines) + "\n")
    rates = {result["name"]: result.get("tokens_per_second") for result in results}
    if rates.get("mha"):
        shares = ", ".join(f"{name} {rate / rates['mha']:.2f}" for name, rate in rates.items() if rate)
        print(f"As a share of mha: {shares}")
    print(f"{time.perf_counter() - began:.0f} seconds", flush=True)
    return all("seconds" in result for result in results)


def shrunk(path, out):
    """Writes a configuration with four layers, a narrow FFN and a small vocabulary, for a test on a CPU."""
    config = json.loads(path.read_text())
    config.update(vocab_size=512, num_hidden_layers=4, intermediate_size=64)
    for key in ("layer_types",):
        if key in config:
            config[key] = config[key][:4]
    small = out / "configs" / path.name
    small.parent.mkdir(parents=True, exist_ok=True)
    small.write_text(json.dumps(config))
    return small


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models", help="names of bench/configs/gpu, with commas; all of them otherwise")
    parser.add_argument("--tiny", action="store_true", help="small models and batches, to try this on a CPU")
    parser.add_argument("--together", type=int, default=0, help="models compiled at a time; as many as fit into memory otherwise")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--length", type=int, default=0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--warm", type=int, default=3)
    parser.add_argument("--profile", default="", help="models whose kernels are listed in OUT/profile-NAME.txt")
    parser.add_argument("--model", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.batch = arguments.batch or (2 if arguments.tiny else 16)
    arguments.length = arguments.length or (64 if arguments.tiny else 1024)
    arguments.steps = arguments.steps or (2 if arguments.tiny else 20)
    if arguments.model:
        measure(arguments)
        return 0
    return 0 if table(arguments) else 1


if __name__ == "__main__":
    sys.exit(main())
