"""The inlet: raw messages of any Celery program become tickets like all others.

A message leaves its queue only after the ledger has its ticket, or its bytes if it is none. So whatever is killed when,
nothing is lost: what is seen a second time is recognised by its task id.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from producer.intake import Incoming, Intake, TurnedAway
from producer.policy.raw_ticket import RawTicket, raw_ticket, task_id_of
from producer.ports import Inlet, Ledger, RawMessage, Receipt, Results, Stray
from producer.relay import Tray
from schemas.errors import Refused
from schemas.queues import INLET
from schemas.states import State

log = logging.getLogger("ticketmill")

WAIT_S = 1.0
"""How long one turn waits for messages: as long as it may take until we end when told to."""


class InletTurns:
    """Takes what lies in the inlet, a chunk a turn.

    Args:
        tenant: whose tickets raw messages become.
        mine: whether to take part now. Several may, but where they all see the same list it is the same work twice.
    """

    def __init__(
        self,
        inlet: Inlet,
        intake: Intake,
        ledger: Ledger,
        results: Results,
        tray: Tray,
        *,
        tenant: str,
        chunk: int,
        clock: Callable[[], datetime],
        mine: Callable[[datetime], bool],
    ) -> None:
        self._inlet = inlet
        self._intake = intake
        self._ledger = ledger
        self._results = results
        self._tray = tray
        self._tenant = tenant
        self._chunk = chunk
        self._clock = clock
        self._mine = mine

    def turn(self) -> float:
        """One chunk; waits for messages itself."""
        if not self._mine(self._clock()):
            return WAIT_S
        messages = self._inlet.receive(self._chunk, WAIT_S)
        if messages:
            self._take(messages)
            self._inlet.done(messages)
        return 0.0

    def last(self) -> None:
        """Lets go of the broker; what was not done stays in the inlet."""
        self._inlet.close()

    def _take(self, messages: Sequence[RawMessage]) -> None:
        now = self._clock()
        understood: list[tuple[RawMessage, RawTicket]] = []
        strays: list[Stray] = []
        failed: dict[str, str] = {}

        def turn_away(message: RawMessage, task_id: str, reason: str) -> None:
            strays.append(_stray(message, reason))
            if task_id:
                failed[task_id] = reason

        for message in messages:
            task_id = ""
            try:
                headers, content = _opened(message)
                task_id = task_id_of(headers, content)
                understood.append((message, raw_ticket(headers, content)))
            except Refused as error:
                turn_away(message, task_id, str(error))
        outcomes = self._intake.take_in([self._incoming(raw) for _, raw in understood], now) if understood else []
        known: dict[str, str] = {}
        for (message, raw), outcome in zip(understood, outcomes, strict=True):
            if isinstance(outcome, TurnedAway):
                turn_away(message, raw.task_id, f"{outcome.field}: {outcome.why}")
            elif outcome.state is State.REJECTED:
                failed[raw.task_id] = outcome.reason
            elif outcome.duplicate:
                known[raw.task_id] = outcome.ticket_id
        if strays:
            self._ledger.keep(strays, now)
            log.warning("kept %d messages that are no tickets; see `ticketmill dead`", len(strays))
        self._tray.put([each.stub for each in outcomes if isinstance(each, Receipt) and each.stub is not None], now)
        self._tell(failed, known)

    def _incoming(self, raw: RawTicket) -> Incoming:
        return Incoming(
            ticket=raw.ticket, tenant=self._tenant, task_id=raw.task_id, not_before=raw.not_before, can_wait=True
        )

    def _tell(self, failed: dict[str, str], known: dict[str, str]) -> None:
        for task_id, reason in failed.items():
            self._results.failed(task_id, reason)
        if not known:
            return
        # Asked only now that the new names are committed: a ticket that is settled after this looks for them itself.
        views = self._ledger.views(self._tenant, list(known.values()))
        for task_id, ticket_id in known.items():
            view = views.get(ticket_id)
            if view is not None and view.answer is not None:
                self._results.answered(task_id, view.answer)
            elif view is not None and State(view.state).final:
                self._results.failed(task_id, view.reason or view.state)


def _opened(message: RawMessage) -> tuple[dict[str, Any], Any]:
    if message.headers is None:
        raise Refused("message", "is no Celery message")
    if message.compression:
        raise Refused("compression", f"is {message.compression!r}; send tickets uncompressed")
    if message.content_type != "application/json" or message.content_encoding.lower() not in ("utf-8", "utf8", ""):
        raise Refused("content_type", f"is {message.content_type!r}; send tickets as JSON in UTF-8")
    try:
        return message.headers, msgspec.json.decode(message.body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Refused("body", f"is no JSON: {error}") from None


def _stray(message: RawMessage, reason: str) -> Stray:
    about = {name: getattr(message, name) for name in ("headers", "content_type", "content_encoding", "compression")}
    headers = b"" if message.headers is None else msgspec.json.encode(about, enc_hook=repr)
    digest = hashlib.sha256(INLET.encode() + b"\0" + headers + b"\0" + message.body).digest()
    return Stray(id=str(uuid.UUID(bytes=digest[:16])), queue=INLET, reason=reason, headers=headers, body=message.body)
