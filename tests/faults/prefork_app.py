"""A worker that is told to use the prefork pool."""

from __future__ import annotations

from tests.faults.gated_app import app

app.conf.worker_pool = "prefork"
