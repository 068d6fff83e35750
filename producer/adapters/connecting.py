"""Connections to a broker."""

from __future__ import annotations

from typing import Any

from kombu.connection import Connection


def connected(url: str, **options: Any) -> Connection:
    """An open connection, after one try a server: whoever waits for a broker does so elsewhere, and kombu sleeps 2 s.

    Raises:
        kombu.exceptions.OperationalError: there is none.
    """
    connection = Connection(url, **options)
    connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, interval_max=0)
    return connection
