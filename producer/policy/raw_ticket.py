"""Understands a raw Celery message, of protocol 1 or 2, as a ticket."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from schemas.errors import Refused
from schemas.queues import TASK
from schemas.ticket import NewTicket, new_ticket_from


class RawTicket(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket as another Celery program sent it. ``not_before`` is the task's ETA, if it has one."""

    ticket: NewTicket
    task_id: str
    not_before: datetime | None = None


def task_id_of(headers: dict[str, Any], content: Any) -> str:
    """The id that its sender asks for its result by; empty if there is none that can be used."""
    task_id: Any = headers.get("id")
    if task_id is None and isinstance(content, dict):
        task_id = _mapping(content).get("id")
    if isinstance(task_id, str) and 0 < len(task_id) <= 200 and task_id.isprintable():
        return task_id
    return ""


def raw_ticket(headers: dict[str, Any], content: Any) -> RawTicket:
    """The ticket in a message.

    Args:
        content: the message's body, decoded.

    Raises:
        Refused: naming what is at fault: a field of the ticket, or ``task``, ``id``, ``args``, ``eta``, ``expires``,
            ``timelimit``.
    """
    # Protocol 2 keeps the task's name in the headers, protocol 1 all there is in the body.
    if "task" in headers:
        about, call = headers, content
    else:
        about, call = _mapping(content), [_mapping(content).get("args"), _mapping(content).get("kwargs")]
    if about.get("task") != TASK:
        raise Refused("task", f"must be {TASK!r}; nothing else is done here")
    task_id = task_id_of(headers, content)
    if not task_id:
        raise Refused("id", "must be a text of 1 to 200 printable characters")
    fields = dict(_fields(call))
    expires = _time(about, "expires")
    if expires is not None:
        fields.setdefault("deadline", expires)
    limits = [each for each in _limits(about) if each is not None]
    if limits:
        fields.setdefault("time_limit", min(limits))
    return RawTicket(ticket=new_ticket_from(fields), task_id=task_id, not_before=_time(about, "eta"))


_CALL = "must be one object with a ticket's fields, as the only argument, or these fields as keyword arguments"


def _fields(call: Any) -> dict[str, Any]:
    args: Any = None
    kwargs: Any = None
    if isinstance(call, list):
        args, kwargs = [*call, None, None][:2]
    args, kwargs = args or [], kwargs or {}
    if not isinstance(args, list) or not isinstance(kwargs, dict) or bool(args) == bool(kwargs):
        raise Refused("args", _CALL)
    if kwargs:
        return kwargs
    if len(args) != 1 or not isinstance(args[0], dict):
        raise Refused("args", _CALL)
    return args[0]


def _time(about: dict[str, Any], name: str) -> datetime | None:
    value = about.get(name)
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise Refused(name, "must be a time like 2026-01-31T09:00:00+00:00") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _limits(about: dict[str, Any]) -> list[float | None]:
    """Celery's hard and soft limit: here both take the ticket out at the next token."""
    value = about.get("timelimit") or [None, None]
    try:
        return msgspec.convert(value, list[float | None])
    except msgspec.ValidationError:
        raise Refused("timelimit", "must be two numbers of seconds, or null for none") from None


def _mapping(content: Any) -> dict[str, Any]:
    return content if isinstance(content, dict) else {}
