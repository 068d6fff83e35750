"""Senders before several processes' gates, which count together in a real Redis."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from producer.adapters.clock import monotonic_s
from producer.adapters.gate_model import load_model
from producer.adapters.shared_rates import SharedRates
from producer.admission import Admission
from producer.policy.gate import TextGate
from producer.policy.senders import SenderLimits, Senders
from producer.policy.trust import Trusted
from producer.ports import Caller, Rates
from schemas.errors import SettingRefused
from schemas.ticket import Ticket
from schemas.verdict import Action, Code
from tests.ground.redis_server import RedisServer

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIMITS = SenderLimits(per_window=40, window_s=10, block_s=60)
CRAWLER = Caller(address="203.0.113.7", agent="crawler", key="k", path="GET /v1/tickets")


def gate(rates: Rates | None = None, trusted: tuple[str, ...] = (), limits: SenderLimits = LIMITS) -> Admission:
    return Admission(TextGate(load_model()), Senders(limits), Senders(limits), rates, Trusted(trusted), 0.0)


def tickets(many: int, customer: str = "hasty", source: str = "api") -> list[Ticket]:
    return [
        Ticket(id=f"t{n}", tenant="acme", source=source, customer=customer, body="Where is it?", received_at=NOON)
        for n in range(many)
    ]


def accepted(gates: list[Admission], many: int, customer: str = "hasty") -> int:
    """How many of one customer's tickets get in that are spread over these gates."""
    verdicts = [
        gates[number % len(gates)].judge([ticket], NOON + timedelta(milliseconds=number))[0]
        for number, ticket in enumerate(tickets(many, customer))
    ]
    return sum(verdict.action is Action.ACCEPT for verdict in verdicts)


def test_two_processes_share_one_limit(redis: RedisServer) -> None:
    alone = accepted([gate(), gate()], 200)
    together = accepted([gate(SharedRates(redis.url, monotonic_s)) for _ in range(2)], 200)
    assert alone == 2 * LIMITS.per_window
    assert LIMITS.per_window <= together <= 1.6 * LIMITS.per_window


def test_a_customer_far_below_the_limit_is_never_written_to_redis(redis: RedisServer) -> None:
    from redis import Redis

    accepted([gate(SharedRates(redis.url, monotonic_s))], 9, "calm")
    with Redis.from_url(redis.url) as client:
        assert client.dbsize() == 0


def test_every_counter_in_redis_is_forgotten_by_itself(redis: RedisServer) -> None:
    from redis import Redis

    accepted([gate(SharedRates(redis.url, monotonic_s))], 30)
    with Redis.from_url(redis.url) as client:
        names = client.keys("*")
        assert names
        assert all(name.startswith(b"ticketmill:rates") and 0 < client.ttl(name) <= 20 for name in names)


def test_a_redis_that_is_away_keeps_nobody_out(redis: RedisServer) -> None:
    rates = SharedRates(redis.url, monotonic_s)
    redis.close()
    assert accepted([gate(rates)], 40) == 40


def test_a_program_is_told_to_wait_and_another_is_not() -> None:
    admission = gate()
    verdicts = [admission.knock(CRAWLER, NOON) for _ in range(60)]
    assert [verdict.action for verdict in verdicts[:40]] == [Action.ACCEPT] * 40
    assert (verdicts[-1].action, verdicts[-1].code) == (Action.THROTTLE, Code.RATE)
    other = Caller(address="203.0.113.8", agent="crawler", key="k", path="GET /v1/tickets")
    assert admission.knock(other, NOON).action is Action.ACCEPT


def test_one_network_of_ipv6_is_one_sender() -> None:
    admission = gate()
    verdicts = [
        admission.knock(Caller(address=f"2001:db8::{n:x}", agent="a", key="k", path="GET /"), NOON)
        for n in range(1, 60)
    ]
    assert verdicts[-1].action is Action.THROTTLE


@pytest.mark.parametrize("trusted", ["customer:hasty", "source:api", "tenant:acme"])
def test_whom_the_settings_trust_is_not_counted(trusted: str) -> None:
    assert accepted([gate(trusted=(trusted,))], 200) == 200


def test_a_trusted_network_is_not_counted() -> None:
    admission = gate(trusted=("203.0.113.0/24",))
    assert {admission.knock(CRAWLER, NOON).action for _ in range(200)} == {Action.ACCEPT}


def test_trust_in_what_is_nothing_is_refused_by_name() -> None:
    with pytest.raises(SettingRefused, match=r"anti_spam\.behavior\.trusted"):
        Trusted(["nonsense"])


def test_a_customer_that_goes_on_is_blocked_then_looked_at_and_at_last_let_in_as_before() -> None:
    admission, codes = gate(), list[Code]()
    for number in range(2000):
        (verdict,) = admission.judge(tickets(1), NOON + timedelta(seconds=number * 0.05))
        codes.append(verdict.code)
    assert {Code.NONE, Code.RATE, Code.CHALLENGED, Code.BLOCKED} == set(codes)
    assert (
        codes.index(Code.RATE) < codes.index(Code.BLOCKED) < codes.index(Code.CHALLENGED)
    )  # looked at once let back in
    (later,) = admission.judge(tickets(1), NOON + timedelta(hours=1))
    assert later.action is Action.ACCEPT
