# mypy: ignore-errors
"""Batches from libcrosshead, fetched ahead of the steps that need them."""

import queue
import threading

import numpy as np
import torch

from crosshead._native import ffi, making
from crosshead.errors import check, new_error


class Batches:
    """The run's training and validation sequences."""

    def __init__(self, run, pinned):
        out, error = ffi.new("ch_batches **"), new_error()
        directory = run.settings["text"].encode()
        check(making.ch_batches_open(directory, run.file("checkpoint.safetensors").encode(), out, error), error)
        self.pointer = ffi.gc(out[0], making.ch_batches_close)
        self.info = ffi.new("ch_batches_info *")
        making.ch_batches_describe(self.pointer, self.info)
        self.validation_sequences = self.info.validation_sequences
        self.pinned, self.lock = pinned, threading.Lock()

    def train(self, first, count):
        return self._fill(making.ch_batches_train, first, count)

    def validate(self, first, count):
        return self._fill(making.ch_batches_validate, first, count)

    def _fill(self, function, first, count):
        """Returns {"tokens" or "pixels", "targets", and "starts" and "text" if documents are separate}, on the host."""
        info, shape = self.info, (count, self.info.length)
        arrays = {"targets": np.empty(shape, np.int32)}
        if info.images:
            arrays["pixels"] = np.empty((count, info.pixels), np.float32)
        else:
            arrays["tokens"] = np.empty(shape, np.int32)
        if info.documents:
            arrays["starts"] = np.empty(shape, np.int32)

        def place(name, kind):
            return ffi.from_buffer(kind + "[]", arrays[name]) if name in arrays else ffi.NULL

        error = new_error()
        with self.lock:
            status = function(self.pointer, first, count, place("tokens", "int32_t"), place("targets", "int32_t"),
                              place("starts", "int32_t"), place("pixels", "float"), error)
        check(status, error)
        if info.documents:
            arrays["text"] = count_text(arrays["targets"], arrays["starts"])
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return {name: tensor.pin_memory() for name, tensor in tensors.items()} if self.pinned else tensors


def count_text(targets, starts):
    """Returns the number of tokens of each sequence without the padding at its end: tokens alone in a document, without a target."""
    places = np.arange(targets.shape[1], dtype=np.int32)
    text = (targets >= 0) | (starts != places)
    return (text * (places + 1)).max(1)


class Ahead:
    """The batches of whole steps, each with its number of targets and of tokens. A thread fetches the next two."""

    def __init__(self, batches, step, steps, sequences):
        self.ready = queue.Queue(2)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._fetch, args=(batches, step, steps, sequences), daemon=True)
        self.thread.start()

    def _fetch(self, batches, step, steps, sequences):
        for s in range(step, steps):
            try:
                batch = batches.train(s * sequences, sequences)
                targets = batch["targets"]
                tokens = int(batch["text"].sum()) if "text" in batch else targets.numel()
                item = batch, int((targets >= 0).sum()), tokens
            except Exception as error:  # the step that needs the batch raises it
                item = error
            while not self.ended.is_set():
                try:
                    self.ready.put(item, timeout=0.2)
                    break
                except queue.Full:
                    continue
            if self.ended.is_set() or isinstance(item, Exception):
                return

    def next(self):
        item = self.ready.get()
        if isinstance(item, Exception):
            raise item
        return item

    def close(self):
        self.ended.set()
        self.thread.join()
