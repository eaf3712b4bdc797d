# mypy: ignore-errors
"""Trains one run with PyTorch: `python -m crosshead.worker RUN`.

`crosshead train --engine pytorch` prepares RUN and starts this module. It can also be started by hand; it continues from the
checkpoint. docs/gpu.md explains both.

    messages.py lines of JSON for the program that started the worker
    files.py    the directory of the run: settings, checkpoint, log, the finished model
    data.py     batches from libcrosshead, fetched in advance
    model.py    the model's PyTorch code with the run's weights
    loss.py     LM head and cross entropy, a chunk of tokens at a time
    balance.py  losses and biases that balance the choices of experts and heads
    ranks.py    the processes that train a run together, one on each device
    shards.py   a model divided over those processes
    step.py     a training step: gradient, clipping, AdamW, schedule
    measure.py  the time of steps, for a forecast
    run.py      the sequence of steps, evaluations and checkpoints
"""
