"""Honest senders beside a crawler that sends twenty times as much: what they wait for their answers.

Run as a program it is one of the two: ``python -m ops.bench.crawl URL KEY ADDRESS PER_S SECONDS`` sends tickets from
one address of this machine at a steady rate and prints what each answer took, in milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from ops.bench.report import BenchFailed
from ops.bench.servers import HOST, redis_program, redis_server, running
from ops.migrate import migrate
from ops.sockets import accepts, free_port
from producer.adapters.key_ring import SqlKeyRing
from producer.api_keys import make_key
from schemas.ledger import open_ledger

HONEST_PER_S = 40
TIMES = 20
CONNECTIONS = 16
CRAWLER = "127.0.0.66"
HONEST = ("127.0.0.21", "127.0.0.22")


def bench_crawl(quick: bool, note: Callable[[str], None]) -> dict[str, float]:
    """The honest p99 with the crawler over that without it, both medians over the rounds; nothing without a Redis.

    Each round measures both, one right after the other. Generators and server share the machine's cores.
    """
    program = redis_program()
    if program is None:
        return {}
    rounds, seconds = (1, 8.0) if quick else (7, 10.0)
    alone: list[float] = []
    beside: list[float] = []
    throttled = 0
    with redis_server(program) as broker_url, _serving(broker_url) as (url, key):
        _honest_p99(url, key, 3.0)
        for number in range(rounds):
            note(f"honest senders beside a crawler, round {number + 1} of {rounds}")
            alone.append(_honest_p99(url, key, seconds))
            crawler = _start(url, key, CRAWLER, HONEST_PER_S * TIMES, seconds + 2)
            time.sleep(1.5)
            beside.append(_honest_p99(url, key, seconds))
            throttled += _ended(crawler)[1]
    before, under = median(alone), median(beside)
    return {
        "honest_p99_ms": round(before, 2),
        "honest_p99_ms_under_crawl": round(under, 2),
        "honest_p99_under_crawl": round(under / before, 3),
        "crawler_throttled": round(throttled / (rounds * (seconds + 2) * HONEST_PER_S * TIMES), 4),
    }


@contextmanager
def _serving(broker_url: str) -> Generator[tuple[str, str]]:
    """A producer of its own over SQLite, which trusts no address; gives its URL and a key."""
    with TemporaryDirectory(prefix="ticketmill-bench-") as folder:
        ledger, port = f"sqlite:///{folder}/ledger.db", free_port()
        migrate(ledger)
        engine = open_ledger(ledger)
        key = make_key(SqlKeyRing(engine), "bench", "bench", datetime.now(UTC))[1]
        engine.dispose()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TICKETMILL_")} | {
            "TICKETMILL_LEDGER_URL": ledger,
            "TICKETMILL_BROKER_URL": broker_url,
            "TICKETMILL_HTTP_PORT": str(port),
            "TICKETMILL_ANTI_SPAM_BEHAVIOR_TRUSTED": "",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        command = [sys.executable, "-m", "producer.serve"]
        with running("serve", command, environment, lambda: accepts(HOST, port)):
            yield f"http://{HOST}:{port}", key


def _honest_p99(url: str, key: str, seconds: float) -> float:
    senders = [_start(url, key, address, HONEST_PER_S / len(HONEST), seconds) for address in HONEST]
    answers = [_ended(sender) for sender in senders]
    if any(refused for _, refused in answers):
        raise BenchFailed("honest senders were told to wait")
    took_ms = sorted(took for each, _ in answers for took in each)
    return took_ms[int(0.99 * len(took_ms))]


def _start(url: str, key: str, address: str, per_s: float, seconds: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ops.bench.crawl", url, key, address, str(per_s), str(seconds)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)


def _ended(sender: subprocess.Popen[bytes]) -> tuple[list[float], int]:
    said, _ = sender.communicate()
    if sender.returncode:
        raise BenchFailed("a sender of the crawl ended with a fault")
    answer = json.loads(said)
    return answer["took_ms"], answer["throttled"]


async def send_steadily(url: str, key: str, address: str, per_s: float, seconds: float) -> dict[str, object]:
    """Sends tickets at a rate over a few connections; what each answer took, in milliseconds, and how many were 429."""
    took_ms: list[float] = []
    statuses: list[int] = []
    began = time.perf_counter()
    due = iter(range(int(per_s * seconds)))
    where = urlsplit(url)

    async def work() -> None:
        reader, writer = await asyncio.open_connection(where.hostname, where.port, local_addr=(address, 0))
        raw: socket.socket = writer.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in due:
            await asyncio.sleep(max(0.0, began + number / per_s - time.perf_counter()))
            sent = time.perf_counter()
            writer.write(_request(key, address, number))
            status = await _answer(reader)
            took_ms.append((time.perf_counter() - sent) * 1000)
            statuses.append(status)
        writer.close()

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    if set(statuses) - {202, 429}:
        raise BenchFailed(f"the server answered {sorted(set(statuses))}")
    return {"took_ms": took_ms, "throttled": statuses.count(429)}


def _request(key: str, address: str, number: int) -> bytes:
    ticket = {
        "body": f"Could you tell me when order {number} from last week is going to arrive, please?",
        "customer": f"{address}-{number % 997}",
    }
    content = json.dumps(ticket).encode()
    head = (
        "POST /v1/tickets HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nUser-Agent: bench-{address}\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def _answer(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head[9:12])


if __name__ == "__main__":
    server, bearer, source, rate, span = sys.argv[1:]
    print(json.dumps(asyncio.run(send_steadily(server, bearer, source, float(rate), float(span)))))
