# mypy: ignore-errors
"""The processes that train a run together, one on each device: starting and ending them, and sums and flags over all of them."""

import datetime
import os
import subprocess
import sys
import tempfile
import threading
import time

import torch
import torch.distributed as dist

from crosshead.worker.messages import Refused, output, say

BUCKET = 1 << 24  # elements that are added over the processes in one call
GRACE_SECONDS = 10  # for this process to fail by itself after another one has
FLAG_TIME = datetime.timedelta(hours=4)  # limit of a wait for a flag: the first process may be writing a large checkpoint


class Ranks:
    """This process's place among the processes of a run. With a single process, sums change nothing."""

    def __init__(self, run, devices):
        self.rank, self.count = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        # torchrun numbers the processes of each machine.
        self.local, here = int(os.environ.get("LOCAL_RANK", self.rank)), int(os.environ.get("LOCAL_WORLD_SIZE", self.count))
        self.siblings, self.ended = [], False
        processes = max(self.count, len(devices))
        if 1 < self.count and 1 < len(devices) != here:
            raise Refused("config", f"{here} processes on this machine train on {len(devices)} devices; start one for each device")
        if run.step_sequences % processes:
            raise Refused("config", f"{processes} devices cannot share {run.step_sequences} sequences a step evenly; give a --batch "
                                    f"that {processes} divides")
        self.name = devices[self.local % len(devices)] if devices else None
        if self.count < processes:
            self._start(run, processes)

    @property
    def leads(self):
        return self.rank == 0

    def _start(self, run, count):
        """Starts the other processes. They end with this one."""
        self.count = count
        store = os.path.join(tempfile.mkdtemp(prefix="crosshead-"), "ranks")
        environment = {**os.environ, "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "CROSSHEAD_RANKS": store}
        os.environ["CROSSHEAD_RANKS"] = store
        for rank in range(1, count):
            self.siblings.append(subprocess.Popen(
                [sys.executable, "-m", "crosshead.worker", run.path], stdin=subprocess.DEVNULL, stdout=output(),
                env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}))
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        """Ends this process if another one fails and the device does not report it. It would wait forever otherwise."""
        event = threading.Event()
        while not self.ended:
            if not self._failed():
                event.wait(0.2)
                continue
            event.wait(GRACE_SECONDS)
            if self.ended:
                return
            if any((process.poll() or 0) < 0 for process in self.siblings):  # a process that exits reports its own error
                say("error", kind="io", message=self._failed())
            self.abandon()
            os._exit(1)

    def _failed(self):
        """Returns a sentence about a process that has failed, or None."""
        for rank, process in enumerate(self.siblings, 1):
            status = process.poll()
            if status:
                how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
                return f"process {rank + 1} of {self.count} that train this run {how}; resume from the last checkpoint"
        return None

    def cause(self, error):
        """Returns the error to report for one that communication raised: the failure of another process, or else that error."""
        deadline = time.monotonic() + 1
        while self.siblings and not self._failed() and time.monotonic() < deadline:
            time.sleep(0.05)
        return Refused("io", self._failed()) if self._failed() else error

    def _reduce(self, tensor, operation=dist.ReduceOp.SUM, group=None):
        try:
            dist.all_reduce(tensor, operation, group=group)
        except RuntimeError as error:
            cause = self.cause(error)
            if cause is error and (group or dist.group.WORLD) is not self.control:
                raise  # an error of the devices' own library
            raise cause if cause is not error else Refused("io", "another process of this run has ended; resume from the last "
                                                                 "checkpoint") from error

    def abandon(self):
        """Ends the other processes at once."""
        self.ended = True
        for process in self.siblings:
            if process.poll() is None:
                process.kill()
        self._remove_store()

    def _remove_store(self):
        if not self.siblings:
            return
        store = os.environ.pop("CROSSHEAD_RANKS", None)
        if store and os.path.exists(store):
            os.remove(store)
        if store:
            os.rmdir(os.path.dirname(store))

    def connect(self, device):
        """Connects to the other processes."""
        if self.count == 1:
            return
        store = os.environ.get("CROSSHEAD_RANKS")
        method = f"file://{store}" if store else "env://"
        backend = {"cuda": "nccl", "xpu": "xccl"}.get(device.type, "gloo")
        try:
            limit, own = (FLAG_TIME, None) if backend == "gloo" else (None, device)  # with a device it connects at once
            dist.init_process_group(backend, init_method=method, rank=self.rank, world_size=self.count, timeout=limit, device_id=own)
            # A group for flags in host memory. Reading a flag does not wait for a device.
            self.control = dist.group.WORLD if backend == "gloo" else dist.new_group(backend="gloo", timeout=FLAG_TIME)
        except (RuntimeError, ValueError) as error:
            raise Refused("io", f"the {self.count} processes of this run cannot reach each other "
                                f"({str(error).splitlines()[0]})") from error

    def any(self, flag):
        """Returns true in all processes if the flag is true in one of them."""
        if self.count == 1:
            return flag
        flags = torch.tensor([bool(flag)], dtype=torch.int32)
        self._reduce(flags, dist.ReduceOp.MAX, self.control)
        return bool(flags.item())

    def add(self, tensors):
        """Replaces tensors of one type by their sums over the processes."""
        if self.count == 1 or not tensors:
            return
        bucket, size = [], 0
        for tensor in [*tensors, None]:
            if bucket and (tensor is None or size + tensor.numel() > BUCKET):
                flat = torch.cat([part.reshape(-1) for part in bucket])
                self._reduce(flat)
                torch._foreach_copy_(bucket, [sum.view_as(part) for sum, part in
                                              zip(flat.split([part.numel() for part in bucket]), bucket)])
                bucket, size = [], 0
            if tensor is not None:
                bucket.append(tensor)
                size += tensor.numel()

    def close(self):
        """Waits for the other processes after a run without errors. After an error, a device may never finish its sums; see abandon."""
        self.ended = True
        if self.count > 1 and dist.is_initialized():
            dist.destroy_process_group()
        for process in self.siblings:
            try:
                process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        self._remove_store()
