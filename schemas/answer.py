"""An answer: what the engine made of a ticket."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec


class Finish(StrEnum):
    """Why generation ended."""

    STOP = "stop"
    LENGTH = "length"


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens counted for one answer. ``reused_tokens`` are prompt tokens served from KV computed earlier."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    completion_tokens: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine made of one ticket.

    Attributes:
        text: the answer as the model wrote it.
        data: the same parsed, where the job has an answer schema.
        prompt_cut: the prompt was over the context and was cut.
        batch, batch_size: the batch it ran in and how many slots were in use when it finished.
        cached_from: the ticket of the same tenant that got this answer first, if it is given again.
        cached_age_s: how old it was then, in seconds.
        likeness: of that ticket's words to this one's, 0 to 1, where they are not the same.
    """

    text: str
    data: dict[str, Any] | None = None
    finish: Finish = Finish.STOP
    model: str
    usage: Usage = Usage()
    prompt_cut: bool = False
    batch: str = ""
    batch_size: int = 1
    cached_from: str = ""
    cached_age_s: float | None = None
    likeness: float | None = None


class TicketView(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket as ``GET /v1/tickets/{id}`` shows it. ``answer`` is there once the state is ``answered``."""

    id: str
    state: str
    priority: str
    job: str
    received_at: datetime
    external_id: str = ""
    conversation: str = ""
    reason: str = ""
    settled_at: datetime | None = None
    answer: Answer | None = None
    duplicate: bool = False
