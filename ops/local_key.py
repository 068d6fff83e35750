"""The API key that an embedded installation makes for whoever runs it, kept beside its data for that user alone."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from producer.adapters.key_ring import SqlKeyRing
from producer.api_keys import digest_of, make_key
from schemas.ledger import open_ledger
from schemas.review import Role

TENANT = "default"


def local_key(home: Path, ledger_url: str) -> tuple[str, bool]:
    """The key in ``home``, and whether it was made just now: for the first time, or because the ledger knows it not."""
    file = home / "key"
    ledger = open_ledger(ledger_url)
    try:
        ring = SqlKeyRing(ledger)
        kept = file.read_text(encoding="utf-8").strip() if file.exists() else ""
        if kept and ring.tenant_of(digest_of(kept)) is not None:
            return kept, False
        _, key = make_key(ring, TENANT, "made by ticketmill up", datetime.now(UTC), Role.OPERATOR)
    finally:
        ledger.dispose()
    unfinished = file.with_suffix(".new")
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
        out.write(f"{key}\n")
    unfinished.replace(file)
    return key, True
