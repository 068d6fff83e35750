"""What became of a task, where its sender looks for it: in Celery's result backend."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from celery import Celery, states

from schemas.answer import Answer
from schemas.errors import NotAnswered

log = logging.getLogger("ticketmill")


class CeleryResults:
    """See Results. With no backend nothing is stored, for nobody looks."""

    def __init__(self, url: str) -> None:
        self._app = Celery("ticketmill", backend=url, set_as_current=False) if url else None

    def answered(self, task_id: str, answer: Answer) -> None:
        """See Results."""
        self._store(task_id, msgspec.to_builtins(answer), states.SUCCESS)

    def failed(self, task_id: str, reason: str) -> None:
        """See Results."""
        self._store(task_id, NotAnswered(reason), states.FAILURE)

    def _store(self, task_id: str, result: Any, state: str) -> None:
        if self._app is None:
            return
        backend: Any = self._app.backend
        try:
            backend.store_result(task_id, result, state)
        except Exception:
            log.exception("the result backend did not take the result of task %s", task_id)
