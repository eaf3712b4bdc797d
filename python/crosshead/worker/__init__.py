# mypy: ignore-errors
"""Trains one run with PyTorch: `python -m crosshead.worker RUN`.

`crosshead train --engine pytorch` prepares RUN and starts this. Anyone can start it again by hand: it continues from the
checkpoint. docs/gpu.md explains both.

    messages.py what it says to the program that started it
    files.py    the directory of the run: settings, checkpoint, log, the finished model
    data.py     batches from libcrosshead, fetched ahead
    model.py    the model's PyTorch code with the run's weights
    loss.py     LM head and cross entropy, a chunk of tokens at a time
    balance.py  what keeps the choices of experts and heads even
    ranks.py    the processes that train a run together, one on each device
    shards.py   a model divided over those processes
    step.py     a training step: gradient, clipping, AdamW, schedule
    measure.py  the time of steps, for a forecast
    run.py      steps, evaluations and checkpoints in their order
"""
