"""The review API: lists of tickets, one ticket whole, what reviewers order, and all decisions as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from producer.ports import ReviewLists, Reviews
from producer.web.bodies import read_body
from producer.web.replies import Problem, reply
from producer.web.sign_in import SignIn
from schemas.cells import inert_cell
from schemas.errors import Refused
from schemas.refusal import explained
from schemas.review import MOST_AT_ONCE, Lane, Order, Role, Ruling, Wanted

MOST_ORDER_BYTES = 1_000_000


class ReviewRoutes:
    """The handlers of ``/v1/reviews``.

    Args:
        clock: the time of day.
    """

    def __init__(self, sign_in: SignIn, reviews: Reviews, lists: ReviewLists, clock: Callable[[], datetime]) -> None:
        self._sign_in = sign_in
        self._reviews = reviews
        self._lists = lists
        self._clock = clock

    async def page(self, request: Request) -> Response:
        """``GET /v1/reviews``: a page of a lane, narrowed by the query's parameters."""
        who = await self._sign_in.reviewer(request)
        try:
            wanted = msgspec.convert(dict(request.query_params), Wanted, strict=False)
        except msgspec.ValidationError as error:
            raise Refused(*explained(error, Wanted, "a parameter here")) from None
        if unknown := set(request.query_params) - set(Wanted.__struct_fields__):
            raise Refused(min(unknown), f"is no parameter here; use {', '.join(Wanted.__struct_fields__)}")
        if not (1 <= wanted.most <= MOST_AT_ONCE and 0 <= wanted.older_s <= 10**9):
            raise Refused("most", f"must be 1 to {MOST_AT_ONCE}, and older_s a number of seconds")
        return reply(await run_in_threadpool(self._lists.page, who, wanted, self._clock()), headers=_PRIVATE)

    async def sheet(self, request: Request) -> Response:
        """``GET /v1/reviews/{ticket_id}``: one ticket whole; with ``?lane=second`` without what others said of it."""
        who = await self._sign_in.reviewer(request)
        unseen = request.query_params.get("lane") == Lane.SECOND
        ticket_id = request.path_params["ticket_id"]
        sheet = await run_in_threadpool(self._lists.sheet, who, ticket_id, unseen, self._clock())
        if sheet is None:
            raise Problem(404, "id", "there is no such ticket")
        return reply(sheet, headers=_PRIVATE)

    async def order(self, request: Request) -> Response:
        """``POST /v1/reviews``: one step, for one ticket or many."""
        who = await self._sign_in.reviewer(request)
        body = await read_body(request.scope, request.receive, MOST_ORDER_BYTES)
        try:
            order = msgspec.json.decode(body, type=Order)
        except (msgspec.DecodeError, UnicodeError) as error:
            field, why = explained(error, Order, "a field of an order")
            raise Refused(field or "ticket", why) from None
        return reply(await run_in_threadpool(self._reviews.carry_out, who, order, self._clock()))

    async def export(self, request: Request) -> Response:
        """``GET /v1/reviews.csv``: every decision that this person may see."""
        who = await self._sign_in.reviewer(request)
        rulings = self._lists.rulings("" if who.role is Role.OPERATOR else who.tenant)
        headers = {**_PRIVATE, "Content-Disposition": 'attachment; filename="ticketmill-reviews.csv"'}
        return StreamingResponse(csv_lines(rulings), headers=headers, media_type="text/csv; charset=utf-8")


_PRIVATE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def csv_lines(rulings: Iterator[Ruling]) -> Iterator[str]:
    """A CSV file line by line; no cell of it is a formula to a spreadsheet."""
    yield _line(list(Ruling.__struct_fields__))
    for ruling in rulings:
        yield _line([_cell(getattr(ruling, name)) for name in Ruling.__struct_fields__])


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return inert_cell(value.isoformat() if isinstance(value, datetime) else str(value))


def _line(cells: list[str]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue()
