"""How many threads torch computes with: measured, since on a busy machine two are slower than one."""

from __future__ import annotations

import os

import torch
from torch.utils.benchmark import Timer

from workers.engine.models.loading import Model
from workers.engine.networks.trial import last_logits, sample_tokens

_WORTH = 0.85
"""More threads are taken where they need this share of the time or less: they are others' cores too."""


def choose_threads(setting: int, model: Model) -> int:
    """Sets torch's number of threads and returns it: the setting, or what is quickest for a step of this model."""
    if model.device.type != "cpu":
        return torch.get_num_threads()
    threads = setting or _quickest(model)
    torch.set_num_threads(threads)
    return threads


def _quickest(model: Model) -> int:
    cores = len(os.sched_getaffinity(0))
    best, best_s = 1, _step_s(model, 1)
    for threads in sorted({2, cores // 2, cores}):
        if 1 < threads <= cores and (step_s := _step_s(model, threads)) < best_s * _WORTH:
            best, best_s = threads, step_s
    return best


def _step_s(model: Model, threads: int) -> float:
    tokens = sample_tokens(model.network.vocabulary, model.device, count=16)
    names = {"run": last_logits, "network": model.network, "tokens": tokens}
    return (
        Timer("run(network, tokens)", globals=names, num_threads=threads).timeit(2).mean
    )  # and two runs before, to warm up
