"""The Celery app: ``celery -A workers.app worker``."""

from __future__ import annotations

import sys

from schemas.errors import TicketmillError
from workers.adapters import clock
from workers.adapters.settings_file import read_settings
from workers.boot import make_app
from workers.engine import open_engine

try:
    app = make_app(read_settings(), lambda settings: open_engine(settings, clock.utc_now))
except TicketmillError as refused:  # raised on, it would become a page of Celery's own
    sys.exit(f"ticketmill: {refused}")
