# mypy: ignore-errors
"""The directory of a run: settings, checkpoint, log and the finished model."""

import fcntl
import json
import os
import sys

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from crosshead import __version__
from crosshead.worker.messages import Refused, now

CHECKPOINT, LOG, SETTINGS, CODE = "checkpoint.safetensors", "log.jsonl", "worker.json", "pytorch"


class Run:
    """A prepared run, read from its files."""

    def __init__(self, path):
        self.path = path
        self.settings = self._read_settings()
        try:
            with safe_open(self.file(CHECKPOINT), "pt") as file:
                self.metadata = file.metadata() or {}
                curves = {key: file.get_tensor(key).tolist() for key in ("losses", "validation") if key in file.keys()}
        except (OSError, SafetensorError) as error:
            raise Refused("io", f"{self.file(CHECKPOINT)} cannot be read ({error}); `crosshead train --engine pytorch "
                                f"--out {path}` prepares a run") from error
        if self.metadata.get("crosshead_checkpoint") != "1":
            raise Refused("io", f"{self.file(CHECKPOINT)} is not a checkpoint of this version of Crosshead")
        self.options = json.loads(self.metadata["options"])
        self.config = json.loads(self.metadata["config"])
        self.step, self.seconds = int(self.metadata["step"]), float(self.metadata["seconds"])
        self.unit = "images" if self.config["model_type"] == "crosshead_vit" else "tokens"
        self.tokens = int(self.metadata["tokens"])  # or images; without padding
        self.losses, self.validation = curves.get("losses", []), curves.get("validation", [])

    def _read_settings(self):
        try:
            with open(self.file(SETTINGS), encoding="utf-8") as file:
                settings = json.load(file)
        except (OSError, ValueError) as error:
            raise Refused("io", f"{self.path} is not a run that was prepared for PyTorch ({error}); "
                                "`crosshead train --engine pytorch` prepares one") from error
        if settings.get("version") != __version__:
            raise Refused("config", f"{self.path} was prepared by crosshead {settings.get('version')}, but this Python's "
                                    f"package is {__version__}; install the package of that version")
        return settings

    def file(self, *names):
        return os.path.join(self.path, *names)

    @property
    def step_sequences(self):
        return self.options["batch"] * self.options["accumulate"]

    # ---- The checkpoint ----

    def load(self, group, place):
        """Returns {name: place(name, tensor)} of the group "weight", or of the optimizer's moments "m" or "v"."""
        with safe_open(self.file(CHECKPOINT), "pt") as file:
            names = [key.partition(".")[2] for key in file.keys() if key.startswith(group + ".")]
            return {name: place(name, file.get_tensor(f"{group}.{name}")) for name in names}

    def save(self, groups):
        """Replaces the checkpoint by one with these tensors and the run's step and curves."""
        tensors = {f"{group}.{name}": tensor for group, named in groups.items() for name, tensor in named.items()}
        if self.losses:
            tensors["losses"] = torch.tensor(self.losses, dtype=torch.float64)
        if self.validation:
            tensors["validation"] = torch.tensor(self.validation, dtype=torch.float64)
        self.metadata.update(step=str(self.step), tokens=str(self.tokens), seconds=repr(self.seconds))
        self._write(tensors, self.metadata, CHECKPOINT)

    def save_model(self, weights):
        """Writes the finished model, which every command of Crosshead opens."""
        self._write(weights, {"format": "pt"}, "model.safetensors")
        temporary = self.file(f"config.json.tmp.{os.getpid()}")
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(self.metadata["config"])
        os.replace(temporary, self.file("config.json"))

    def _write(self, tensors, metadata, name):
        temporary = self.file(f"{name}.tmp.{os.getpid()}")
        try:
            save_file({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, temporary, metadata)
            os.replace(temporary, self.file(name))
        except (OSError, SafetensorError) as error:
            if os.path.exists(temporary):
                os.remove(temporary)
            raise Refused("io", f"{self.file(name)} cannot be written ({error})") from error

    def evaluated(self):
        """Returns true if there is an evaluation after the last step."""
        return bool(self.validation) and self.validation[-1][0] == self.step


class NoLog:
    """Replaces the log in all processes of a run except the first."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def write(self, event, **members):
        pass

    def start(self, *_):
        pass


class Log:
    """log.jsonl. Its lock marks the directory as in use."""

    def __init__(self, run):
        self.run = run
        self.file = open(run.file(LOG), "a+", encoding="utf-8")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Refused("io", f"{run.file(LOG)} is in use: another run is training in its directory") from error
        except OSError:
            pass  # a file system without locks
        self._cut()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def _cut(self):
        """Removes the entries that were written after the checkpoint."""
        self.file.seek(0)
        kept = []
        for line in self.file:
            try:
                entry = json.loads(line) if line.endswith("\n") else {"step": float("inf")}
            except ValueError:
                entry = {"step": float("inf")}
            step = entry.get("step", 0)
            late = entry.get("event") == "evaluation" and step == self.run.step and not self.run.evaluated()
            if step <= self.run.step and not late:
                kept.append(line)
        self.file.seek(0)
        self.file.truncate()
        self.file.writelines(kept)
        self.file.flush()

    def write(self, event, **members):
        json.dump({"event": event, **members, "time": now()}, self.file, separators=(",", ":"))
        self.file.write("\n")
        self.file.flush()

    def start(self, parameters, memory, device, name):
        run = self.run
        system = os.uname()
        machine = {"system": system.sysname, "architecture": system.machine, "device": str(device), "name": name,
                   "torch": torch.__version__, "python": sys.version.split()[0]}
        self.write("resume" if run.step else "start", step=run.step, version=__version__, engine="pytorch",
                   machine=machine, config=run.config, options=run.options, source=run.metadata["source"],
                   parameters=parameters, memory_bytes=memory)
