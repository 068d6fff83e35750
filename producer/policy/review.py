"""What a reviewer may order, whose decisions are judged again, and how often a key may be tried. Pure."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from datetime import datetime, timedelta

from schemas.errors import Refused
from schemas.review import ACCEPTS, REJECTS, Lane, Order, Step, Why

UNDO_WITHIN = timedelta(hours=1)
"""How far back a reviewer's undo reaches."""

SKIPPED_FOR = timedelta(hours=1)
"""How long a ticket that somebody skipped is not shown to that person again."""

DECISIONS = (Step.ACCEPT, Step.REJECT)


def check(order: Order) -> None:
    """Raises Refused, naming the field, for an order that makes no sense."""
    if order.step is Step.UNDO:
        return
    if not order.tickets:
        raise Refused("tickets", "name at least one")
    if order.step is Step.REJECT and order.reason not in REJECTS:
        raise Refused("reason", f"say why it is rejected: {', '.join(REJECTS)}")
    if order.step is Step.ACCEPT and order.reason not in (Why.NONE, *ACCEPTS):
        raise Refused("reason", f"must be one of {', '.join(ACCEPTS)}, or left out")
    if order.step is Step.NOTE and not order.note.strip():
        raise Refused("note", "is empty")
    if order.edit is not None and (order.step is not Step.ACCEPT or len(order.tickets) != 1):
        raise Refused("edit", "goes with accepting one ticket")
    if order.edit is not None and order.lane is Lane.SECOND:
        raise Refused("edit", "is no part of a second opinion")


def sampled(ticket_id: str, share: float) -> bool:
    """Whether a decision on this ticket is judged again: of all tickets that share, the same ones whoever asks."""
    return int.from_bytes(hashlib.sha256(ticket_id.encode()).digest()[:6]) < share * 2**48


class Attempts:
    """Failed sign-ins by address: after so many within the window that address has to wait.

    Remembers a bounded number of addresses, the latest.
    """

    def __init__(self, most: int = 10, window: timedelta = timedelta(minutes=1), addresses: int = 10_000) -> None:
        self._most = most
        self._window = window
        self._addresses = addresses
        self._failed: OrderedDict[str, list[datetime]] = OrderedDict()

    def wait_s(self, address: str, now: datetime) -> float:
        """Seconds until this address may try again; 0 if it may now."""
        recent = [at for at in self._failed.get(address, []) if now - at < self._window]
        return (recent[0] + self._window - now).total_seconds() if len(recent) >= self._most else 0.0

    def failed(self, address: str, now: datetime) -> None:
        """Notes an attempt with a key that is none."""
        recent = [at for at in self._failed.pop(address, []) if now - at < self._window]
        self._failed[address] = [*recent, now][-self._most :]
        if len(self._failed) > self._addresses:
            self._failed.popitem(last=False)
