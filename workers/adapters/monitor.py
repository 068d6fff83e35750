"""What Flower and ``celery inspect`` see: an event a ticket and a step, and our tickets among the worker's tasks.

A batch's events go out as one message: that is how a worker groups its events too, and it costs a fraction of one
message an event.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from celery import Celery, Task
from celery.events import EventDispatcher
from celery.utils.time import utcoffset
from celery.worker import state

from schemas.envelope import Stub
from schemas.outcome import Again, Answered, Cancelled, Dead, Parked, Retry
from schemas.queues import TASK
from workers.ports import Clock, Settlement

logger = logging.getLogger(__name__)

KEPT_WHILE_AWAY = 50_000
"""Events kept while the broker is away, the latest ones."""

SENT_AFTER_S = 0.05
SENT_AT = 300
"""Events are sent together: those of so long a time, or so many."""

_encode = msgspec.json.Encoder().encode


class CeleryMonitor:
    """See Monitor.

    Args:
        task: whose name our tickets go by.
        hostname: the worker's node name.
        withdraw: takes a ticket out of its slot for good.
    """

    def __init__(
        self, app: Celery, task: Task[..., Any], hostname: str, clock: Clock, withdraw: Callable[[str], object]
    ) -> None:
        self._withdraw = withdraw
        self._clocks: Any = app.clock
        self._task = task
        self._hostname = hostname
        self._clock = clock
        self._dispatcher: EventDispatcher | None = None
        self._requests: dict[str, TicketRequest] = {}
        self._events: list[dict[str, Any]] = []
        self._later: Callable[..., object] | None = None
        self._due = False

    def watch(self, dispatcher: EventDispatcher | None, later: Callable[..., object]) -> None:
        """Sends by this dispatcher from now on: a worker makes a new one for each connection.

        Args:
            later: ``later(seconds, callback)`` has it called then, on this thread.
        """
        self._dispatcher = dispatcher
        self._later = later
        self._due = False

    def reserved(self, stubs: Sequence[Stub]) -> None:
        """See Monitor."""
        for stub in stubs:
            request = TicketRequest(stub.id, self._task, self._hostname, self._withdraw)
            self._requests[stub.id] = state.requests[stub.id] = request
            state.reserved_requests.add(request)
        self._tell(
            "task-received",
            ({"uuid": stub.id, "name": TASK, "args": f"('{stub.id}',)", "kwargs": "{}"} for stub in stubs),
        )

    def entered(self, ticket_ids: Sequence[str]) -> None:
        """See Monitor."""
        now = self._clock.utc_now().timestamp()
        for ticket_id in ticket_ids:
            request = self._requests[ticket_id]
            request.time_start = now
            state.active_requests.add(request)
        state.total_count.update({TASK: len(ticket_ids)})
        state.all_total_count[0] += len(ticket_ids)
        self._tell("task-started", ({"uuid": ticket_id} for ticket_id in ticket_ids))

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """See Monitor."""
        self._drop([each.ticket_id for each in settlements])
        endings: dict[str, list[dict[str, Any]]] = {}
        for each in settlements:
            kind, fields = _ending(each)
            endings.setdefault(kind, []).append(fields)
        for kind, several in endings.items():
            self._tell(kind, iter(several))

    def cancelled(self, ticket_ids: Sequence[str]) -> None:
        """See Monitor."""
        self._drop(ticket_ids)
        said = {"terminated": False, "signum": None, "expired": False}
        self._tell("task-revoked", ({"uuid": ticket_id} | said for ticket_id in ticket_ids))

    def forgotten(self, ticket_ids: Sequence[str]) -> None:
        """See Monitor."""
        self._drop(ticket_ids)

    def flush(self) -> None:
        """See Monitor."""
        if len(self._events) >= SENT_AT:
            self.send()
        elif self._events and not self._due and self._later is not None:
            self._due = True
            self._later(SENT_AFTER_S, self.send)

    def send(self) -> None:
        """Sends now what was told."""
        self._due = False
        dispatcher: Any = self._dispatcher
        if not self._events or dispatcher is None or dispatcher.producer is None:
            return
        events, self._events = self._events, []
        try:
            dispatcher.producer.publish(
                _encode(events),
                exchange=dispatcher.exchange.name,
                routing_key="task.multi",
                declare=[dispatcher.exchange],
                content_type="application/json",
                content_encoding="utf-8",
                headers=dispatcher.headers,
                delivery_mode=dispatcher.delivery_mode,
            )
        except Exception:
            # As Celery itself does: the worker notices on its own connection that the broker is away.
            logger.debug("events are kept until the broker takes them", exc_info=True)
            self._events = events[-KEPT_WHILE_AWAY:]

    def _tell(self, kind: str, events: Iterator[dict[str, Any]]) -> None:
        dispatcher: Any = self._dispatcher
        if dispatcher is None or not dispatcher.enabled or (dispatcher.groups and "task" not in dispatcher.groups):
            return
        forward = self._clocks.forward
        common = {
            "type": kind,
            "hostname": self._hostname,
            "utcoffset": utcoffset(),
            "pid": os.getpid(),
            "timestamp": self._clock.utc_now().timestamp(),
        }
        self._events.extend(common | fields | {"clock": forward()} for fields in events)

    def _drop(self, ticket_ids: Sequence[str]) -> None:
        for ticket_id in ticket_ids:
            request = self._requests.pop(ticket_id, None)
            if request is not None:
                state.requests.pop(ticket_id, None)
                state.reserved_requests.discard(request)
                state.active_requests.discard(request)


class TicketRequest:
    """A ticket as the worker's own bookkeeping wants to see a task. It never runs in the pool."""

    acknowledged = False
    eventer: object = None
    time_start: float | None = None

    def __init__(self, ticket_id: str, task: Task[..., Any], hostname: str, withdraw: Callable[[str], object]) -> None:
        self.id = ticket_id
        self._withdraw = withdraw
        self.task = task
        self.name = TASK
        self.hostname = hostname

    def info(self, safe: bool = False) -> dict[str, Any]:
        """As ``celery inspect active`` prints it."""
        return {
            "id": self.id,
            "name": TASK,
            "args": f"('{self.id}',)" if safe else [self.id],
            "kwargs": "{}" if safe else {},
            "type": TASK,
            "hostname": self.hostname,
            "time_start": self.time_start,
            "acknowledged": False,
            "delivery_info": {},
            "worker_pid": os.getpid(),
        }

    def cancel(self, *_: object, **__: object) -> None:
        """The drain itself gives its tickets back when the worker is told to stop at once."""

    def terminate(self, *_: object, **__: object) -> None:
        """Takes it out of its slot at the next token boundary: it has no process of its own to end."""
        self._withdraw(self.id)


def _ending(settlement: Settlement) -> tuple[str, dict[str, Any]]:
    uuid = settlement.ticket_id
    match settlement.outcome:
        case Answered():
            return "task-succeeded", {
                "uuid": uuid,
                "result": f"{{'batch': '{settlement.batch}', 'batch_size': {settlement.batch_size}}}",
                "runtime": (settlement.ended_at - settlement.started_at).total_seconds(),
            }
        case Cancelled():
            return "task-revoked", {"uuid": uuid, "terminated": True, "signum": None, "expired": False}
        case Dead(reason):
            return "task-failed", {"uuid": uuid, "exception": f"Dead({reason!r})", "traceback": ""}
        case Retry(_, reason) | Again(_, reason) | Parked(reason):
            return "task-retried", {"uuid": uuid, "exception": f"{reason!r}", "traceback": ""}
        case _:
            return "task-rejected", {"uuid": uuid, "requeue": True}
