"""Every Redis key of our own, with its life time. Queue lists and envelopes are kombu's, under kombu's names."""

from __future__ import annotations

LEASES = "ticketmill:leases"
"""Sorted set: lease token -> when it runs out (Unix seconds of the Redis clock). Lives as long as a message is out."""

LEASED = "ticketmill:leased"
"""Hash: lease token -> queue, a NUL, and the message as it lay in the queue. Removed with its lease."""

RATES = "ticketmill:rates"
"""Prefix of counters of senders that near their limit; each lives for two of its windows."""
