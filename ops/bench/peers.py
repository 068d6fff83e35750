"""What transformers answers in the same time: static batches, its own continuous batching, one prompt alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported

import torch
from transformers import AutoModelForCausalLM, ContinuousBatchingConfig, GenerationConfig

from ops.bench.report import BenchFailed

NO_TOKEN = -1
"""Ends no answer: every way makes as many tokens."""

PAGE = 64
REQUESTS = 48
STEP_TOKENS = 1024
"""The quickest of the sizes tried for continuous batching on one thread of a CPU."""


class Peer:
    """A model as transformers computes it. Prompts are token ids; answers are as long as ``lengths`` say."""

    def __init__(self, directory: Path, dtype: torch.dtype, device: torch.device) -> None:
        self._model: Any = AutoModelForCausalLM.from_pretrained(directory, dtype=dtype, local_files_only=True)
        self._model.eval().to(device)
        self._model.config.eos_token_id = self._model.generation_config.eos_token_id = None
        self._device = device

    def static(self, prompts: Sequence[list[int]], lengths: Sequence[int], rows: int) -> None:
        """``generate`` in batches of ``rows``, in the order they came, padded on the left; each lasts as long as its
        longest answer."""
        for at in range(0, len(prompts), rows):
            batch = prompts[at : at + rows]
            width = max(map(len, batch))
            ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in batch], device=self._device)
            mask = torch.tensor([[0] * (width - len(each)) + [1] * len(each) for each in batch], device=self._device)
            longest = max(lengths[at : at + rows])
            made = self._model.generate(input_ids=ids, attention_mask=mask, generation_config=_greedy(longest))
            if made.shape != (len(batch), width + longest):
                raise BenchFailed(f"generate made {tuple(made.shape)}, not {len(batch)} answers of {longest} tokens")

    def continuous(self, prompts: Sequence[list[int]], lengths: Sequence[int]) -> None:
        """Continuous batching, blocks shared."""
        own = sum(-(-(len(each) + length) // PAGE) for each, length in zip(prompts, lengths, strict=True))
        settings = ContinuousBatchingConfig(
            page_size=PAGE,
            num_blocks=own + 1,
            max_batch_tokens=STEP_TOKENS,
            max_requests_per_batch=REQUESTS,
            allow_block_sharing=True,
        )
        made = 0
        with self._model.continuous_batching_context_manager(
            generation_config=_greedy(max(lengths)), continuous_batching_config=settings
        ) as running:
            for prompt, length in zip(prompts, lengths, strict=True):
                running.add_request(prompt, max_new_tokens=length, eos_token_id=NO_TOKEN)
            for _ in prompts:
                done = running.get_result(timeout=300)
                if done is None or done.error:
                    raise BenchFailed(f"continuous batching gave {'nothing' if done is None else done.error}")
                made += len(done.generated_tokens)
        if made != sum(lengths):
            raise BenchFailed(f"continuous batching made {made} tokens, not {sum(lengths)}")


def _greedy(longest: int) -> GenerationConfig:
    return GenerationConfig(max_new_tokens=longest, do_sample=False, pad_token_id=0)
