"""The brokers that a benchmark runs on: private ones, started for it, or others that it was given and found empty."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager

import msgspec

from ops.bench.servers import rabbitmq_program, rabbitmq_server, redis_program, redis_server
from ops.broker_facts import broker_facts
from schemas.errors import Refused


class Brokers(msgspec.Struct, frozen=True):
    """URLs by kind, ``redis`` and ``rabbitmq``, and what is missing of them and why."""

    urls: dict[str, str]
    left_out: tuple[str, ...] = ()


@contextmanager
def brokers(redis_url: str = "", rabbitmq_url: str = "") -> Generator[Brokers]:
    """One of each kind for as long as the benchmark runs.

    Raises:
        Refused: one that was given holds messages: a benchmark fills and empties queues.
    """
    urls: dict[str, str] = {}
    left_out: list[str] = []
    with ExitStack() as running:
        for kind, given, program, start in (
            ("redis", redis_url, redis_program(), redis_server),
            ("rabbitmq", rabbitmq_url, rabbitmq_program(), rabbitmq_server),
        ):
            if given:
                _require_empty(kind, given)
                urls[kind] = given
            elif program is None:
                left_out.append(f"{kind}: no server is installed here; give --{kind}-url to measure it")
            else:
                urls[kind] = running.enter_context(start(program))
        yield Brokers(urls, tuple(left_out))


def _require_empty(kind: str, url: str) -> None:
    waiting = {queue: count for queue, count in broker_facts(url).queues.items() if count}
    if waiting:
        held = ", ".join(f"{count} in {queue}" for queue, count in waiting.items())
        raise Refused(f"--{kind}-url", f"holds messages ({held}); give a broker, database or virtual host of its own")
