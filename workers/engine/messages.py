"""A job and a ticket become the messages of a talk, whatever engine answers them.

A customer's text is data: what looks like a field's name in it is never filled in.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from string import Formatter

import msgspec

from schemas.errors import SettingRefused
from schemas.job import Job
from schemas.outcome import Asked
from schemas.ticket import Ticket

FIELDS = ("subject", "body", "language", "customer", "region")

Message = dict[str, str]
"""``role`` and ``content``, as chat templates and chat APIs take them."""


def messages_of(name: str, job: Job, ticket: Ticket) -> list[Message]:
    """The whole talk that the model is to go on with.

    Raises:
        SettingRefused: the job's template names an unknown field.
    """
    pieces = pieces_of(name, job.template)
    message, _ = filled(pieces, fields_of(ticket))
    return [{"role": "system", "content": job.system}, *shown(job, pieces), {"role": "user", "content": message}]


def asked(ticket: Ticket, job: Job, vector: Callable[[str], bytes] | None = None) -> Asked:
    """What is asked, and by whom: equal for tickets that the same answer is right for.

    Blanks and ways to write the same characters make no difference; the tenant does, so that no customer of one ever
    reads what was written to a customer of another.

    Args:
        vector: of a text, where an answer to a question much like this one would do too.
    """
    talk = messages_of(ticket.job, job, ticket)
    own = " ".join(unicodedata.normalize("NFC", talk[-1]["content"]).split())
    kin = (ticket.tenant, job.model, talk[:-1], job.template, job.answer_schema, job.max_new_tokens)
    if vector is None:
        return Asked(_digest((kin, own)))
    return Asked(_digest((kin, own)), _digest(kin), vector(own))


def _digest(parts: object) -> str:
    return sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


def fields_of(ticket: Ticket) -> dict[str, str]:
    """What a template may name."""
    return {field: str(getattr(ticket, field)) for field in FIELDS}


def pieces_of(name: str, template: str) -> list[str]:
    """The template as literal text and field names in turn, beginning and ending with text."""
    pieces = [""]
    try:
        for literal, field, form, conversion in Formatter().parse(template):
            pieces[-1] += literal
            if field is not None:
                if field not in FIELDS or form or conversion:
                    raise ValueError(f"names {{{field}}}; a ticket has {', '.join(FIELDS)}")
                pieces += [field, ""]
    except ValueError as error:
        raise SettingRefused(f"jobs.{name}.template", str(error)) from None
    return pieces


def shown(job: Job, pieces: Sequence[str]) -> list[Message]:
    """The job's examples as turns. A JSON answer is written as the grammar would have it: without blanks."""
    turns: list[Message] = []
    for example in job.examples:
        message, _ = filled(pieces, {"subject": example.subject, "body": example.body})
        answer = example.answer
        if not isinstance(answer, str):
            answer = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        turns += [{"role": "user", "content": message}, {"role": "assistant", "content": answer}]
    return turns


def filled(pieces: Sequence[str], fields: Mapping[str, str]) -> tuple[str, tuple[int, int]]:
    """The message, and where in it the body lies (first and last + 1 character)."""
    message, body = "", (0, 0)
    for at, piece in enumerate(pieces):
        text = fields.get(piece, "") if at % 2 else piece
        if at % 2 and piece == "body":
            body = len(message), len(message) + len(text)
        message += text
    start = len(message) - len(message.lstrip())
    return message.strip(), (body[0] - start, body[1] - start)
