"""Where Celery's worker calls us: bootsteps, the strategy for our task, and a consumer that leaves us our queues."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
from collections.abc import Callable
from typing import Any, cast

from celery import Celery, Task, bootsteps, signals
from celery.app.amqp import AMQP
from celery.app.events import Events
from celery.events import EventDispatcher
from celery.worker import state
from celery.worker.consumer import Consumer as WorkerConsumer
from kombu.connection import Connection
from kombu.entity import Queue
from kombu.messaging import Consumer
from vine import promise

from schemas.errors import BrokerUnavailable, TicketmillError
from schemas.queues import ARGUMENTS, QUEUES, TASK
from schemas.settings import Settings
from workers.adapters.monitor import CeleryMonitor
from workers.drain import Drain
from workers.transport import open_transport
from workers.transport.handed import BothTransports, HandedMessages
from workers.transport.rabbitmq import declare

logger = logging.getLogger(__name__)

TICK_S = 1.0
LONGEST_RETRY_S = 5.0
"""Between two tries to reach the broker: a broker that is back is found soon."""

LAST_COMMIT_S = 10.0
"""How long a worker in a hurry waits for the ledger to take what it gives back."""


class Mill(Celery):
    """The Celery app of a worker, with what its steps share.

    Attributes:
        now_s: seconds that only grow.
        assemble: makes the drain of the worker with that node name; opens the ledger.
    """

    settings: Settings
    now_s: Callable[[], float]
    assemble: Callable[[str], tuple[Drain, CeleryMonitor]]
    drain: Drain
    monitor: CeleryMonitor
    handed: HandedMessages | None = None


class TicketTask(Task[..., Any]):
    """``ticketmill.ticket``: known to every worker, run by none, for the drain answers tickets in batches."""

    name = TASK
    Strategy = "workers.steps:hand_over"

    def run(self, *_args: Any, **_kwargs: Any) -> Any:
        """Refuses: called in a program of your own, a task sends nothing."""
        raise NotImplementedError("send it with apply_async(queue='ticketmill.inlet') or send_task")


def hand_over(_task: object, app: Mill, consumer: Any) -> Callable[..., None]:
    """The strategy for messages of our task that Celery's own consumer took: they go to the drain too."""

    def hand(message: Any, _body: object, ack: Callable[..., object], _reject: object, _callbacks: object) -> None:
        if app.handed is not None:
            app.handed.hand(message, lambda: ack(logger, consumer.connection_errors))

    return hand


class DrainedConsumer(Consumer):
    """Celery's task consumer: knows our queues, lists them, and leaves them and their messages to the drain."""

    def _basic_consume(self, queue: Any, *args: Any, **kwargs: Any) -> Any:
        if queue.name in QUEUES:
            return None
        return super()._basic_consume(queue, *args, **kwargs)  # pyright: ignore[reportAttributeAccessIssue]

    def declare(self) -> None:
        """Leaves our queues to the drain, which takes one that is there as it is."""
        queues: Any = self._queues  # pyright: ignore[reportAttributeAccessIssue]
        for queue in queues.values():
            if queue.name not in QUEUES:
                queue.declare()


class Amqp(AMQP):
    """Makes the worker use it."""

    def TaskConsumer(self, channel: Any, queues: Any = None, accept: Any = None, **options: Any) -> DrainedConsumer:
        """What Celery's Tasks step asks for."""
        accept = self.app.conf.accept_content if accept is None else accept
        wanted = list(self.queues.consume_from.values()) if queues is None else queues
        return DrainedConsumer(channel, accept=accept, queues=wanted, **options)


class Dispatcher(EventDispatcher):
    """Celery's event dispatcher, which leaves connecting to the worker.

    Told to retry, as every heartbeat tells it, kombu declares the exchange on the channel that died, fails, connects,
    and tries that again without end, on the consumer's own thread. The loop itself sees that a connection is dead.
    """

    def _publish(self, *arguments: Any, **options: Any) -> None:
        super()._publish(*arguments, **options | {"retry": False})  # pyright: ignore[reportAttributeAccessIssue]


class MillEvents(Events):
    """Makes the worker use it."""

    dispatcher_cls = "workers.steps:Dispatcher"


class PatientConsumer(WorkerConsumer):
    """Celery's consumer, which never gives its broker up, and has the drain go on meanwhile."""

    def ensure_connected(self, conn: Connection) -> Connection:
        """Connects, however long it takes. What ends in the slots is committed all the while, and the ledger told that
        we live; else the reconciler would hand our tickets to others.
        """
        drain: Drain | None = getattr(self.app, "drain", None)

        def meanwhile() -> None:
            state.maybe_shutdown()
            if drain is not None:
                drain.beat()
                drain.turn()

        def complain(error: Exception, interval: float) -> None:
            logger.error("cannot connect to %s: %s; trying again in %g s", conn.as_uri(), error, interval)

        return conn.ensure_connection(
            complain, interval_start=1, interval_step=1, interval_max=LONGEST_RETRY_S, callback=meanwhile
        )


class EngineStep(bootsteps.StartStopStep):
    """Holds the engine and the settler for as long as the worker lives, over all its connections."""

    label = "Engine"
    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        pool = parent.pool_cls.__module__.rpartition(".")[2]
        if pool == "prefork" and parent.app.settings.worker.engine == "local":
            raise SystemExit(
                "ticketmill: the prefork pool forks, and a model on a device does not survive that; "
                "leave out -P, or start the worker with -P threads"
            )
        if not parent.use_eventloop:
            raise SystemExit(f"ticketmill: the {pool} pool has no event loop for the drain; start with -P threads")

    def start(self, parent: Any) -> None:
        """Loads the engine; a worker that cannot answer does not take tickets."""
        app: Mill = parent.app
        try:
            app.drain, app.monitor = app.assemble(parent.hostname)
            app.drain.start()
            while not app.drain.slots.wait_loaded(0.2):
                state.maybe_shutdown()
        except TicketmillError as refused:
            logger.critical("%s", refused)
            raise SystemExit(1) from None

    def stop(self, parent: Any) -> None:
        """Settles what is left, where no connection was there to do it, and ends the threads."""
        app: Mill = parent.app
        drain: Drain | None = getattr(app, "drain", None)
        if drain is None:
            return
        finish(drain, app, lambda: None)
        drain.close()

    def terminate(self, parent: Any) -> None:
        """The same; whoever is told to end at once does not wait."""
        self.stop(parent)


class DrainStep(bootsteps.StartStopStep):
    """Drains over one connection of the worker; Celery starts it anew on the next one."""

    label = "Drain"
    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self._transport: BothTransports | None = None
        self._timers: list[Any] = []

    def start(self, parent: Any) -> None:
        """Begins to drain."""
        c, app = parent, cast(Mill, parent.app)
        lease_s = app.settings.worker.lease
        ours = [name for name in QUEUES if name in {queue.name for queue in c.task_consumer.queues}]
        with _connection_errors():
            queues = open_transport(c.connection, ours, lease_s, c.hub)
            app.handed = HandedMessages(c.hub, lambda message, queue: publish(app, message, queue))
            self._transport = BothTransports(queues, app.handed)
            app.monitor.watch(c.event_dispatcher, c.timer.call_after)
            turn = promise(_guarded(app.drain.turn))
            app.drain.attach(
                self._transport,
                lambda: c.hub.call_soon(turn),
                lambda delay_s: c.timer.call_after(delay_s, _guarded(app.drain.turn)),
            )
        app.drain.beat()
        self._timers = [
            c.timer.call_repeatedly(min(TICK_S, lease_s / 3), _guarded(app.drain.tick)),
            c.timer.call_repeatedly(lease_s / 3, app.drain.beat),
        ]

    def stop(self, parent: Any) -> None:
        """The connection is gone, or the worker is told to stop: then first what runs is finished."""
        app: Mill = parent.app
        if self._transport is None:
            return
        if parent.blueprint.state != bootsteps.RUN:
            finish(app.drain, app, lambda: self._loop_once(parent))
            app.monitor.send()
        app.drain.detach()
        for timer in self._timers:
            timer.cancel()
        with contextlib.suppress(BrokerUnavailable):
            self._transport.close()
        self._transport = app.handed = None

    def info(self, obj: Any) -> Any:
        """For ``celery inspect stats``."""
        return {"drain": obj.app.drain.info()}

    def _loop_once(self, c: Any) -> None:
        try:
            c.hub.run_once()
        except SystemExit:  # told to stop once more, by remote control
            c.app.drain.hurry()
        except c.connection_errors as error:
            raise ConnectionError(str(error)) from error


def finish(drain: Drain, app: Mill, let_work: Callable[[], object]) -> None:
    """Lets what runs end and what waits go back, within the grace; told a second time, gives back all at once."""
    began_s = app.now_s()
    drain.stop()
    hurried_s: float | None = None
    while drain.busy:
        spent_s = app.now_s() - began_s
        if hurried_s is None and (spent_s > app.settings.worker.grace or _told_twice()):
            hurried_s = spent_s
            drain.hurry()
        if hurried_s is not None and spent_s - hurried_s > LAST_COMMIT_S:
            logger.error(
                "leaving with %d tickets unsettled; their leases run out and they are taken over", len(drain.holds)
            )
            return
        try:
            let_work() if drain.attached else drain.wait(0.2)
            drain.turn()
        except (ConnectionError, BrokerUnavailable):
            drain.detach()  # what is settled now is not acknowledged any more; its messages come back as stale


def publish(app: Celery, message: Any, queue: str) -> None:
    """Puts a kombu message, as it is, on another queue of ours; the broker has confirmed it."""
    options = dict(app.conf.broker_transport_options)
    rabbitmq = app.connection_for_write().transport.driver_type == "amqp"
    if rabbitmq:
        options["confirm_publish"] = True
    with Connection(app.conf.broker_url, transport_options=options) as connection:
        if rabbitmq:
            declare(connection, queue)
        connection.Producer().publish(
            message.body,
            exchange="",
            routing_key=queue,
            headers=message.headers,
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            correlation_id=message.properties.get("correlation_id"),
            reply_to=message.properties.get("reply_to"),
        )


def queue_of(name: str) -> Queue:
    """One of our queues as kombu declares it."""
    return Queue(name, routing_key=name, durable=True, auto_delete=False, queue_arguments=dict(ARGUMENTS))


def restart() -> None:
    """Has Celery end this worker in good order and start it again in its place."""
    atexit.register(lambda: os.execv(sys.executable, sys.orig_argv))
    state.should_stop = 0


_stops = 0


@signals.worker_shutting_down.connect
def _count_stop(**_: Any) -> None:
    global _stops
    _stops += 1


def _told_twice() -> bool:
    return _stops > 1 or bool(state.should_terminate)


def _guarded(work: Callable[[], None]) -> Callable[[], None]:
    def guarded() -> None:
        with _connection_errors():
            work()

    return guarded


@contextlib.contextmanager
def _connection_errors() -> Any:
    """Celery connects anew on what it knows as a connection's error."""
    try:
        yield
    except BrokerUnavailable as error:
        raise ConnectionError(str(error)) from error
