"""A job and a ticket become tokens.

A customer's text is data. The chat template is rendered around a stand-in, and the customer's text is encoded by itself
with a tokenizer that has no special tokens: ``<|im_end|>`` in a ticket is ten characters and never the end of a turn.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from tokenizers import Tokenizer

from schemas.errors import SettingRefused
from schemas.job import Job, OverContext
from schemas.ticket import Ticket
from workers.engine.messages import Message, fields_of, filled, pieces_of, shown

_STAND_IN = "\ue000the message goes here\ue001"
_GAP = "\n[…]\n"
_LEAST_ROOM = 32
"""Tokens a ticket's text must be left with, or the job makes no sense with this model."""


class Prompt(NamedTuple):
    """A ticket's prompt in two parts: ``prefix`` is the same for every ticket of its job."""

    prefix: tuple[int, ...]
    tokens: list[int]
    cut: bool


class OverTheContext(Exception):
    """A ticket's prompt is too long, and its job says to refuse it. ``str()`` is for the ticket's history."""


class Prompts:
    """Makes the prompts of one model. ``context`` is its longest prompt and answer together, in tokens."""

    def __init__(self, tokenizer: Any, context: int) -> None:
        self._template = tokenizer
        self._trusted: Tokenizer = tokenizer.backend_tokenizer
        self._plain, self._special = _without_special_tokens(self._trusted)
        self._gap = self._encode(_GAP)[0]
        self._context = context

    def of_job(self, name: str, job: Job) -> JobPrompts:
        """Makes the prompts of one job.

        Raises:
            SettingRefused: its template names an unknown field, or its system message leaves a ticket no room.
        """
        pieces = pieces_of(name, job.template)
        before, after = self._around(job.system, shown(job, pieces))
        prefix = tuple(self._trusted.encode(before, add_special_tokens=False).ids)
        tail = self._trusted.encode(after, add_special_tokens=False).ids
        room = self._context - len(prefix) - len(tail) - job.max_new_tokens
        if room < _LEAST_ROOM:
            why = f"leaves a ticket {room} of the model's {self._context} tokens; shorten it or lower max_new_tokens"
            raise SettingRefused(f"jobs.{name}.system", why)
        return JobPrompts(self, job, pieces, prefix, tail, room)

    def fitted(self, message: str, body: tuple[int, int], room: int) -> tuple[list[int], bool]:
        """The message as tokens, and whether it had to be cut. Cut from the middle of the body, or of it all where that
        is not enough; the characters at both ends stay whole."""
        ids, spans = self._encode(message)
        over = len(ids) - room
        if over <= 0:
            return ids, False
        over += len(self._gap)
        inside = [at for at, (first, last) in enumerate(spans) if body[0] <= first and last <= body[1]]
        first, last = (inside[0], inside[-1] + 1) if len(inside) > over else (0, len(ids))
        head_end = first + (last - first - over) * 2 // 3
        tail_start = head_end + over
        while head_end > 0 and spans[head_end - 1][1] > spans[head_end][0]:
            head_end -= 1  # a character of several tokens is not taken apart
        while tail_start < len(ids) and spans[tail_start][0] < spans[tail_start - 1][1]:
            tail_start += 1
        return ids[:head_end] + self._gap + ids[tail_start:], True

    def _around(self, system: str, shown: list[Message]) -> tuple[str, str]:
        """The template's text before and after the message."""
        talk = [*shown, {"role": "user", "content": _STAND_IN}]
        try:
            whole = self._render([{"role": "system", "content": system}, *talk])
        except Exception:  # noqa: BLE001 - some templates know no system role and raise whatever they like
            talk[0] = {"role": "user", "content": f"{system}\n\n{talk[0]['content']}"}
            whole = self._render(talk)
        before, _, after = whole.rpartition(_STAND_IN)
        return before, after

    def _render(self, messages: list[Message]) -> str:
        return self._template.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )

    def _encode(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Tokens of untrusted text, and which characters each stands for."""
        encoded = self._plain.encode(text, add_special_tokens=False)
        kept = [at for at, token in enumerate(encoded.ids) if token not in self._special]
        return [encoded.ids[at] for at in kept], [encoded.offsets[at] for at in kept]


class JobPrompts:
    """The prompts of one job."""

    def __init__(
        self, prompts: Prompts, job: Job, pieces: Sequence[str], prefix: tuple[int, ...], tail: list[int], room: int
    ) -> None:
        self._prompts, self._job, self._pieces = prompts, job, pieces
        self._prefix, self._tail, self._room = prefix, tail, room

    def of(self, ticket: Ticket) -> Prompt:
        """The prompt of one ticket.

        Raises:
            OverTheContext: it is too long and the job says ``refuse``.
        """
        message, body = filled(self._pieces, fields_of(ticket))
        tokens, cut = self._prompts.fitted(message, body, self._room)
        if cut and self._job.over_context is OverContext.REFUSE:
            raise OverTheContext(f"its text is over the {self._room} tokens that the model has room for")
        return Prompt(self._prefix, tokens + self._tail, cut)


def _without_special_tokens(tokenizer: Tokenizer) -> tuple[Tokenizer, frozenset[int]]:
    """A copy that knows none, and the ones it must never give."""
    written = json.loads(tokenizer.to_str())
    special = frozenset(token["id"] for token in written["added_tokens"] if token["special"])
    written["added_tokens"] = []
    plain = Tokenizer.from_str(json.dumps(written))
    plain.no_truncation()
    plain.no_padding()
    return plain, special
