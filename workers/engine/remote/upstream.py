"""One upstream: a ticket's talk goes out as one request, and its answer or its refusal comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import httpx
import msgspec
from jsonschema import Draft202012Validator

from schemas.answer import Answer, Usage
from schemas.job import Job
from schemas.model import ModelSettings
from workers.engine.messages import Message, messages_of
from workers.engine.remote.replies import Refusal, Reply, read_reply
from workers.ports import Work

LARGEST_REPLY = 4_000_000
"""Bytes of one reply; whoever sends more is not talking to us."""

REPAIR = "That does not fit: {why} Answer again, with nothing but JSON that fits."


class Upstream:
    """A remote model, by its name under ``models``.

    Args:
        key: sent as a bearer token; empty: none.
        utc_now: reads the clock, for a Retry-After that is a date.
    """

    def __init__(self, settings: ModelSettings, key: str, utc_now: Callable[[], datetime]) -> None:
        self.model = settings.name
        self._within_s = float(settings.timeout)
        self._free = asyncio.Semaphore(settings.in_flight)
        self._utc_now = utc_now
        self._client = httpx.AsyncClient(
            base_url=settings.base_url.rstrip("/") + "/",
            headers={"authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(self._within_s, connect=min(10.0, self._within_s)),
            limits=httpx.Limits(max_connections=settings.in_flight, max_keepalive_connections=settings.in_flight),
            follow_redirects=False,
            trust_env=False,
        )

    async def answer(self, work: Work) -> Answer:
        """The answer to one ticket. One that does not fit the job's schema is asked to be repaired, once.

        Raises:
            Refusal: there is none.
        """
        job = work.job
        talk = messages_of(work.ticket.job, job, work.ticket)
        reply = await self._ask(talk, work.ticket.job, job)
        data, why = _fitting(reply.text, job)
        if why:
            again = [*talk, {"role": "assistant", "content": reply.text}]
            again.append({"role": "user", "content": REPAIR.format(why=why)})
            repaired = await self._ask(again, work.ticket.job, job)
            reply = msgspec.structs.replace(repaired, usage=_sum(reply.usage, repaired.usage))
            data, why = _fitting(reply.text, job)
            if why:
                raise Refusal("invalid_answer", f"after a repair, its answer still does not fit: {why}")
        return Answer(text=reply.text, data=data, finish=reply.finish, model=self.model, usage=reply.usage)

    async def close(self) -> None:
        """Lets go of its connections."""
        await self._client.aclose()

    async def _ask(self, talk: list[Message], name: str, job: Job) -> Reply:
        asked: dict[str, Any] = {
            "model": self.model,
            "messages": talk,
            "max_tokens": job.max_new_tokens,
            "temperature": job.temperature,
            "stream": False,
        }
        if job.temperature:
            asked |= {"top_p": job.top_p, "seed": job.seed}
        if job.answer_schema is not None:
            schema = {"name": name, "schema": job.answer_schema, "strict": True}
            asked["response_format"] = {"type": "json_schema", "json_schema": schema}
        try:
            async with self._free, asyncio.timeout(self._within_s):
                status, headers, body = await self._post(asked)
        except (TimeoutError, httpx.TimeoutException):
            raise Refusal("timeout", f"no answer within {self._within_s:g} s") from None
        except httpx.HTTPError as error:
            raise Refusal("connection", " ".join(str(error).split()) or type(error).__name__) from None
        return read_reply(status, headers, body, self._utc_now())

    async def _post(self, asked: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        content = msgspec.json.encode(asked)
        kind = {"content-type": "application/json"}
        async with self._client.stream("POST", "chat/completions", content=content, headers=kind) as response:
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > LARGEST_REPLY:
                    raise Refusal("bad_response", f"its reply is over {LARGEST_REPLY} bytes")
            headers = {name.lower(): value for name, value in response.headers.items()}
            return response.status_code, headers, bytes(body)


def _fitting(text: str, job: Job) -> tuple[dict[str, Any] | None, str]:
    """The answer as data where the job wants that, and what is wrong with it, if anything."""
    if job.answer_schema is None:
        return None, ""
    try:
        data: Any = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        return None, f"it is no JSON ({error})."
    wrong = next(Draft202012Validator(job.answer_schema).iter_errors(data), None)
    if wrong is not None:
        return None, f"{wrong.json_path}: {wrong.message[:300]}."
    return data, ""


def _sum(first: Usage, second: Usage) -> Usage:
    return Usage(
        prompt_tokens=first.prompt_tokens + second.prompt_tokens,
        reused_tokens=first.reused_tokens + second.reused_tokens,
        completion_tokens=first.completion_tokens + second.completion_tokens,
    )
