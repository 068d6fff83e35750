"""A job: what is wanted of a ticket, written in YAML and shipped with three examples."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from schemas.ticket import Name


class OverContext(StrEnum):
    """What becomes of a ticket whose prompt is longer than the model's context."""

    CUT = "cut"
    REFUSE = "refuse"


class Late(StrEnum):
    """What becomes of a ticket whose deadline has passed when its turn comes: no device works for an answer that
    nobody waits for any more. A ticket that a person queues again is answered all the same."""

    DEAD = "dead"
    ANSWER = "answer"


class KVCache(StrEnum):
    """How the keys and values of a ticket's own tokens are kept. A job's shared prefix is always kept in full."""

    FULL = "full"
    FP16 = "fp16"
    INT8 = "int8"
    INT4 = "int4"
    INT3 = "int3"
    SPARSE = "sparse"


class Example(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A ticket and the answer it should get, shown to the model before the real one; small models need some."""

    body: str
    subject: str = ""
    answer: str | dict[str, Any]


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a ticket becomes a prompt, and what shape its answer has.

    Attributes:
        system: the system message: the same for every ticket of the job, so that it is computed once.
        examples: shown as earlier turns of the talk, through the same template; computed once with the system message.
        template: the user message; ``{subject}``, ``{body}``, ``{language}``, ``{customer}`` and ``{region}`` are
            filled in as data: braces and chat-template tokens inside a ticket stay text.
        answer_schema: JSON Schema the answer must satisfy; None for free text.
        max_new_tokens: the longest answer, in tokens.
        temperature: 0 for the likeliest token each time; higher for more variety.
        top_p: where tokens are drawn, only among the likeliest that together have this share.
        seed: what the draws begin with, together with the ticket's id: the same ticket is answered the same way again.
        late: what becomes of a ticket whose deadline has passed: ``dead``, with that reason, or ``answer``: answered
            all the same, once nothing more urgent than low waits.
        over_context: whether a prompt over the context is cut (and the answer marked) or the ticket refused.
        model: name under ``models`` in the settings.
        kv_cache: how keys and values of a ticket's own tokens are kept: docs/kv-cache.md.
    """

    system: str
    examples: tuple[Example, ...] = ()
    template: str = "{subject}\n\n{body}"
    answer_schema: dict[str, Any] | None = None
    max_new_tokens: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 160
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] = 0.0
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    seed: int = 0
    late: Late = Late.DEAD
    over_context: OverContext = OverContext.CUT
    model: Name = "default"
    kv_cache: KVCache = KVCache.FULL
