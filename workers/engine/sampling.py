"""How a next token is chosen where it is not simply the likeliest. Each answer has chances of its own.

They are drawn from a seed and the ticket's id, so that the same ticket gets the same answer again, whoever sits beside
it.
"""

from __future__ import annotations

from hashlib import sha256

import torch

from schemas.job import Job


class Sampler:
    """Draws the tokens of one answer: temperature, then the likeliest that together hold ``top_p`` (nucleus sampling,
    Holtzman et al. 2020)."""

    def __init__(self, job: Job, ticket_id: str) -> None:
        self._temperature = job.temperature
        self._top_p = job.top_p
        self._chance = torch.Generator()
        digest = sha256(f"{job.seed}/{ticket_id}".encode()).digest()
        self._chance.manual_seed(int.from_bytes(digest[:8], "little", signed=True))

    def pick(self, logits: torch.Tensor) -> int:
        """One token, given the logits of all, [vocabulary]; barred ones are minus infinity."""
        shares = torch.softmax(logits.float() / self._temperature, dim=-1).cpu()
        ordered, tokens = shares.sort(descending=True)
        # Kept as long as what comes before does not hold the whole nucleus: the likeliest always is.
        ordered[ordered.cumsum(0) - ordered >= self._top_p] = 0.0
        drawn = torch.multinomial(ordered, 1, generator=self._chance)
        return int(tokens[drawn])
