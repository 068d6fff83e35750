"""Answers for Celery programs that wait for them: ``AsyncResult(id).get()``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from celery import Celery, states

from schemas.errors import NotAnswered
from schemas.outcome import Answered, Dead

logger = logging.getLogger(__name__)


class CeleryResults:
    """Stores answers as dictionaries, and dead tickets as failures, in the app's result backend."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def store(self, outcomes: Mapping[str, Answered | Dead]) -> None:
        """Stores them by Celery task id; a backend that is away is logged and costs nobody an answer."""
        try:
            backend: Any = self._app.backend  # one a thread: its client may not be shared
            for task_id, outcome in outcomes.items():
                if isinstance(outcome, Answered):
                    backend.store_result(task_id, msgspec.to_builtins(outcome.answer), states.SUCCESS)
                else:
                    backend.store_result(task_id, NotAnswered(outcome.reason), states.FAILURE)
        except Exception:
            logger.exception("the result backend did not take %d results", len(outcomes))
