"""The engine that asks others: slots are requests in flight. A thread of its own waits for them all."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime

from schemas.errors import ModelRefused
from schemas.model import ModelSettings
from workers.engine.memory import host_memory
from workers.engine.remote.replies import Refusal
from workers.engine.remote.upstream import Upstream
from workers.policy.reclaim import Reclaim
from workers.ports import Completed, Failed, Load, Work

logger = logging.getLogger(__name__)

PATIENCE_S = 0.05
"""How long a step waits for a reply: new tickets enter between steps."""


class RemoteEngine:
    """See `workers.ports.Engine`.

    Args:
        models: those with a ``base_url``, by name.
        environment: where keys are.
        utc_now: reads the clock.

    Raises:
        ModelRefused: a key that is not there.
    """

    def __init__(
        self, models: Mapping[str, ModelSettings], environment: Mapping[str, str], utc_now: Callable[[], datetime]
    ) -> None:
        keys = {name: _key(name, each, environment) for name, each in models.items()}
        self._upstreams = {name: Upstream(each, keys[name], utc_now) for name, each in models.items()}
        self._first = models.get("default") or next(iter(models.values()))
        self._calls: dict[str, Future[None]] = {}
        self._replies: queue.SimpleQueue[Completed | Failed] = queue.SimpleQueue()
        self._prompt_tokens = self._reused_tokens = self._answered = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="upstreams", daemon=True)
        self._thread.start()
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it has a line for every request

    @property
    def model(self) -> str:
        """What the upstream calls the default model."""
        return self._first.name

    @property
    def running(self) -> int:
        """Requests in flight, and answers not yet taken."""
        return len(self._calls)

    def add(self, work: Work) -> None:
        """See `workers.ports.Engine`."""
        self._calls[work.ticket.id] = asyncio.run_coroutine_threadsafe(self._call(work), self._loop)

    def step(self) -> list[Completed | Failed]:
        """See `workers.ports.Engine`: a step ends with the first reply, or after a moment without one."""
        return self.collect(PATIENCE_S)

    def collect(self, wait_s: float) -> list[Completed | Failed]:
        """The replies that are there, waiting so long for the first of them."""
        found: list[Completed | Failed] = []
        try:
            while self._calls:
                reply = self._replies.get(timeout=wait_s) if wait_s and not found else self._replies.get_nowait()
                if self._calls.pop(reply.ticket_id, None) is not None:
                    found.append(reply)
        except queue.Empty:
            pass  # the others are still on their way
        for each in found:
            if isinstance(each, Completed):
                self._answered += 1
                self._prompt_tokens += each.answer.usage.prompt_tokens
                self._reused_tokens += each.answer.usage.reused_tokens
        return found

    def drop(self, ticket_ids: Sequence[str]) -> None:
        """See `workers.ports.Engine`. Whoever is still asked is not listened to any more."""
        for ticket_id in ticket_ids:
            if (call := self._calls.pop(ticket_id, None)) is not None:
                call.cancel()

    def load(self) -> Load:
        """See `workers.ports.Engine`: this machine's memory; every slot is a useful one."""
        memory = host_memory()
        return Load(
            memory_used_bytes=memory.used_bytes,
            memory_total_bytes=memory.total_bytes,
            prompt_tokens=self._prompt_tokens,
            reused_tokens=self._reused_tokens,
            slot_steps=self._answered,
            useful_slot_steps=self._answered,
        )

    def reclaim(self, step: Reclaim) -> int:  # noqa: ARG002 - named as in the port
        """Nothing: it holds no memory to speak of."""
        return 0

    def close(self) -> None:
        """See `workers.ports.Engine`."""
        self.drop(list(self._calls))
        asyncio.run_coroutine_threadsafe(self._let_go(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _call(self, work: Work) -> None:
        ticket_id = work.ticket.id
        try:
            answer = await self._upstreams[work.job.model].answer(work)
        except Refusal as refusal:
            why = f"upstream {work.job.model}: {refusal}"
            self._replies.put(Failed(ticket_id=ticket_id, error=refusal.error, why=why, told=refusal.told))
        except Exception as error:
            logger.exception("ticket %s could not be asked of upstream %s", ticket_id, work.job.model)
            self._replies.put(Failed(ticket_id=ticket_id, error="engine", why=f"{type(error).__name__}: {error}"))
        else:
            self._replies.put(Completed(ticket_id=ticket_id, answer=answer))

    async def _let_go(self) -> None:
        for upstream in self._upstreams.values():
            await upstream.close()


def _key(name: str, settings: ModelSettings, environment: Mapping[str, str]) -> str:
    if not settings.key_env:
        return ""
    key = environment.get(settings.key_env, "")
    if not key:
        why = f"its key should be in the environment variable {settings.key_env}, which is not set"
        raise ModelRefused(name, why, f"Set it, or mend models.{name}.key_env")
    return key
