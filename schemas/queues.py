"""The names of queues, tasks and headers, as plain data. Broker clients translate them; nothing else does."""

from __future__ import annotations

from schemas.ticket import Priority

TASK = "ticketmill.ticket"
"""Name of the one task: a raw ticket on the inlet, an admitted one on a priority queue."""

INLET = "ticketmill.inlet"
"""Queue that any Celery program may send raw tickets to."""

PRIORITY_QUEUES: dict[Priority, str] = {priority: f"ticketmill.{priority}" for priority in Priority}
"""One queue a priority, the first served first, on Redis and on RabbitMQ alike: both brokers then need no
priority numbers of their own (0 is highest on one, the largest number on the other), and prefetched low work never
blocks urgent work."""

QUEUES = tuple(PRIORITY_QUEUES.values())
"""The priority queues in the order they are served."""

ARGUMENTS: dict[str, object] = {}
"""What every queue of ours is declared with on RabbitMQ, besides being durable: nothing, as Celery itself declares a
queue it does not know. Two programs that declare one queue differently are both refused."""
