"""A client of the HTTP API, for programs in Python.

with Client("http://127.0.0.1:8040", key="tm_...") as client:
    ticket_id = client.submit(body="My parcel is lost").id
    print(client.wait(ticket_id, timeout_s=60).text)
"""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx
import msgspec

from producer.adapters.clock import monotonic_s, pause
from schemas.answer import Answer, TicketView
from schemas.errors import NotAnswered, NotFound, Refused, SettingRefused, Unavailable
from schemas.replies import Accepted, Fault, Found, LineVerdict, Refusal
from schemas.states import State
from schemas.ticket import NewTicket, checked, new_ticket_from

LINES = 1000
"""Tickets in one request of many."""


class Client:
    """Sends tickets and reads what became of them. What a server says to try again later is tried again.

    A ticket without an external id is given one here, so that sending it again never makes a second one.

    Args:
        url: the server; ``TICKETMILL_URL`` if left out, or else this machine.
        key: an API key; ``TICKETMILL_KEY`` if left out.
        timeout_s: how long one request may take.
        patience_s: how long a server that is away or full is asked again.
    """

    def __init__(self, url: str = "", key: str = "", *, timeout_s: float = 30.0, patience_s: float = 60.0) -> None:
        key = key or os.environ.get("TICKETMILL_KEY", "")
        if not key:
            raise SettingRefused("TICKETMILL_KEY", "is missing; make a key with `ticketmill key create`")
        self._url = url or os.environ.get("TICKETMILL_URL", "") or "http://127.0.0.1:8040"
        self._patience_s = patience_s
        headers = {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(base_url=self._url, headers=headers, timeout=timeout_s)

    def submit(self, ticket: NewTicket | Mapping[str, Any] | None = None, /, **fields: Any) -> Accepted:
        """Sends one ticket, given as a whole or as its fields. It is durable once this returns.

        Raises:
            Refused: naming the field.
            Unavailable: the server is away; whether it has the ticket is not known, and sending it again is safe.
        """
        new = _named(ticket, fields)
        response = self._ask("POST", "/v1/tickets", content=msgspec.json.encode(new), kind="application/json")
        return msgspec.json.decode(response.content, type=Accepted)

    def submit_many(self, tickets: Iterable[NewTicket | Mapping[str, Any]]) -> Iterator[LineVerdict]:
        """Sends many, a thousand a request; a verdict for each, in order, numbered from 1 over all of them.

        One that cannot be a ticket has a verdict like the others. Raises Unavailable like ``submit``.
        """
        source = iter(tickets)
        sent = 0
        while chunk := list(islice(source, LINES)):
            for verdict in self._many(chunk):
                yield msgspec.structs.replace(verdict, line=sent + verdict.line)
            sent += len(chunk)

    def get(self, ticket_id: str) -> TicketView:
        """One ticket; NotFound if there is none or it is another tenant's."""
        try:
            response = self._ask("GET", f"/v1/tickets/{quote(ticket_id, safe='')}")
        except Refused as error:
            if error.field in ("id", "path"):
                raise NotFound("ticket", ticket_id) from None
            raise
        return msgspec.json.decode(response.content, type=TicketView)

    def find(self, external_id: str, source: str = "") -> list[TicketView]:
        """Tickets by external id, the newest first."""
        asked = {"external_id": external_id} | ({"source": source} if source else {})
        return msgspec.json.decode(self._ask("GET", "/v1/tickets", params=asked).content, type=Found).tickets

    def wait(self, ticket_id: str, timeout_s: float) -> Answer:
        """The answer, once it is there.

        Raises:
            NotAnswered: the ticket was rejected, cancelled or given up; says why.
            TimeoutError: it is still open after ``timeout_s``; it goes on all the same.
        """
        ends_at = monotonic_s() + timeout_s
        every_s = 0.05
        while True:
            view = self.get(ticket_id)
            if view.answer is not None:
                return view.answer
            if State(view.state).final:
                raise NotAnswered(f"ticket {ticket_id} is {view.state}: {view.reason or 'no reason given'}")
            left_s = ends_at - monotonic_s()
            if left_s <= 0:
                raise TimeoutError(f"ticket {ticket_id} is still {view.state} after {timeout_s:g} s")
            pause(min(every_s, left_s))
            every_s = min(1.5 * every_s, 1.0)

    def close(self) -> None:
        """Lets go of the connection."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()

    def _many(self, chunk: list[NewTicket | Mapping[str, Any]]) -> list[LineVerdict]:
        verdicts: dict[int, LineVerdict] = {}
        left: dict[int, NewTicket] = {}
        for number, ticket in enumerate(chunk, start=1):
            try:
                left[number] = _named(ticket, {})
            except Refused as error:
                verdicts[number] = LineVerdict(line=number, error=Fault(error.field, error.why))
        ends_at = monotonic_s() + self._patience_s
        while left:
            lines = b"\n".join(msgspec.json.encode(ticket) for ticket in left.values())
            response = self._ask("POST", "/v1/tickets", content=lines, kind="application/x-ndjson")
            numbers = list(left)
            for verdict in msgspec.json.Decoder(LineVerdict).decode_lines(response.content):
                number = numbers[verdict.line - 1]
                verdicts[number] = msgspec.structs.replace(verdict, line=number)
                if verdict.retry_after_s is None or monotonic_s() + verdict.retry_after_s > ends_at:
                    del left[number]
            pause(max((verdicts[number].retry_after_s or 0.0 for number in left), default=0.0))
        return [verdicts[number] for number in sorted(verdicts)]

    def _ask(self, method: str, path: str, *, kind: str = "", **request: Any) -> httpx.Response:
        if kind:
            request["headers"] = {"Content-Type": kind}
        ends_at = monotonic_s() + self._patience_s
        wait_s = 0.1
        while True:
            try:
                response = self._http.request(method, path, **request)
            except httpx.TransportError as error:
                why, asked_s = str(error) or type(error).__name__, wait_s
            else:
                if response.status_code < 400:
                    return response
                if response.status_code not in _LATER:
                    raise _refusal(response)
                why, asked_s = _words(response), _retry_after_s(response, wait_s)
            if monotonic_s() + asked_s > ends_at:
                raise Unavailable(f"server {self._url}", why, "Is `ticketmill serve` running there?")
            # A share of chance, so that many clients do not all come back in the same moment.
            pause(asked_s * (1 + random.random() / 4))
            wait_s = min(2 * wait_s, 5.0)


_LATER = frozenset({408, 429, 502, 503, 504})


def _named(ticket: NewTicket | Mapping[str, Any] | None, fields: Mapping[str, Any]) -> NewTicket:
    if isinstance(ticket, NewTicket):
        new = checked(msgspec.structs.replace(ticket, **fields))
    else:
        new = new_ticket_from({**(ticket or {}), **fields})
    return new if new.external_id else msgspec.structs.replace(new, external_id=str(uuid.uuid4()))


def _refusal(response: httpx.Response) -> Refused:
    try:
        fault = msgspec.json.decode(response.content, type=Refusal).error
    except (msgspec.DecodeError, UnicodeError):
        return Refused("request", _words(response))
    return Refused(fault.field, fault.message)


def _words(response: httpx.Response) -> str:
    try:
        return msgspec.json.decode(response.content, type=Refusal).error.message
    except (msgspec.DecodeError, UnicodeError):
        return f"answered {response.status_code} {response.reason_phrase}"


def _retry_after_s(response: httpx.Response, otherwise_s: float) -> float:
    try:
        return max(float(response.headers["retry-after"]), 0.0)
    except (KeyError, ValueError):
        return otherwise_s
