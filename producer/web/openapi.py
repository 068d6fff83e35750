"""The OpenAPI document, made from the same types that the handlers decode and encode."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from producer.web.replies import JSON, NDJSON
from schemas.answer import TicketView
from schemas.replies import Accepted, Found, LineVerdict, Refusal
from schemas.review import Done, Order, Page, Sheet, Wanted
from schemas.ticket import NewTicket


@cache
def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    types = (NewTicket, Accepted, LineVerdict, TicketView, Found, Refusal, Page, Sheet, Order, Done)
    references, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    new, accepted, verdict, view, found, refusal, page, sheet, order, done = references
    refused = {"description": "What is at fault, and why", "content": {JSON: {"schema": refusal}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ticketmill", "version": "1"},
        "paths": {
            "/v1/tickets": {
                "post": {
                    "summary": "Send one ticket, or one a line as NDJSON, each line with a verdict of its own",
                    "parameters": [_parameter("wait", "query", False)],
                    "requestBody": {"required": True, "content": {JSON: {"schema": new}, NDJSON: {"schema": new}}},
                    "responses": {
                        "202": _answer("A new ticket: durable, and on its way", accepted),
                        "200": {
                            "description": "A ticket that was here before, or ended within `wait`; or a verdict a line",
                            "content": {JSON: {"schema": view}, NDJSON: {"schema": verdict}},
                        },
                        "default": refused,
                    },
                },
                "get": {
                    "summary": "Find tickets by external id",
                    "parameters": [_parameter("external_id", "query", True), _parameter("source", "query", False)],
                    "responses": {"200": _answer("Every revision, the newest first", found), "default": refused},
                },
            },
            "/v1/tickets/{ticket_id}": {
                "get": {
                    "summary": "A ticket and, once it is answered, its answer",
                    "parameters": [_parameter("ticket_id", "path", True)],
                    "responses": {"200": _answer("The ticket", view), "default": refused},
                }
            },
            "/v1/reviews": {
                "get": {
                    "summary": "Tickets that wait for a person, the oldest first; needs a reviewer's key",
                    "parameters": [_parameter(name, "query", False) for name in Wanted.__struct_fields__],
                    "responses": {"200": _answer("A page of a list", page), "default": refused},
                },
                "post": {
                    "summary": "Claim, accept, reject, skip, note or take back",
                    "requestBody": {"required": True, "content": {JSON: {"schema": order}}},
                    "responses": {"200": _answer("What was done, and what could not be", done), "default": refused},
                },
            },
            "/v1/reviews/{ticket_id}": {
                "get": {
                    "summary": "One ticket whole, with its history and what people said of it",
                    "parameters": [_parameter("ticket_id", "path", True), _parameter("lane", "query", False)],
                    "responses": {"200": _answer("The ticket", sheet), "default": refused},
                }
            },
            "/v1/reviews.csv": {
                "get": {
                    "summary": "Every decision",
                    "responses": {
                        "200": {"description": "One line a decision", "content": {"text/csv": {}}},
                        "default": refused,
                    },
                }
            },
        },
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "tm_..."}},
        },
        "security": [{"key": []}],
    }


def _answer(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {JSON: {"schema": schema}}}


def _parameter(name: str, place: str, required: bool) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "schema": {"type": "string"}}
