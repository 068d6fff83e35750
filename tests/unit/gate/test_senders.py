from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from producer.policy.senders import Level, Pace, SenderLimits, Senders

LIMITS = SenderLimits(per_window=20, window_s=10, block_s=60, most=1000)


def sent(senders: Senders, name: str, per_s: float, begin_s: float, for_s: float) -> list[Pace]:
    """One ticket after the other at a rate, unevenly; what was said to each."""
    gap_s = 1 / per_s
    many = int(for_s * per_s)
    return [senders.pace(name, begin_s + number * gap_s + (number % 3) * gap_s / 4) for number in range(many)]


def test_a_sender_within_its_limit_is_never_told_to_wait() -> None:
    assert not any(pace.wait_s for pace in sent(Senders(LIMITS), "anna", 1.7, 1000, 600))


@given(st.lists(st.floats(0, 30), min_size=1, max_size=120))
def test_never_more_than_the_limit_passes_within_a_window(gaps_s: list[float]) -> None:
    senders, now_s, passed = Senders(LIMITS), 5000.0, []
    for gap_s in gaps_s:
        now_s += gap_s
        if not senders.pace("anna", now_s).wait_s:
            passed.append(now_s)
    for end in passed:
        # The window slides over counts of two: a tenth more may slip through where they are uneven.
        assert sum(end - LIMITS.window_s < each <= end for each in passed) <= 2 * LIMITS.per_window


def test_one_who_goes_on_is_slowed_then_challenged_then_blocked_and_comes_back_by_itself() -> None:
    senders = Senders(LIMITS)
    levels = [pace.level for pace in sent(senders, "crawler", 40, 1000, 15)]
    seen = [level for number, level in enumerate(levels) if level not in levels[:number]]
    assert seen == [Level.NORMAL, Level.SLOWED, Level.CHALLENGED, Level.BLOCKED]
    blocked = senders.pace("crawler", 1016)
    assert (blocked.level, blocked.wait_s > 30) == (Level.BLOCKED, True)
    assert senders.pace("crawler", 1080).level is Level.CHALLENGED
    assert senders.pace("crawler", 1150).level is Level.SLOWED
    assert senders.pace("crawler", 1400).level is Level.NORMAL


def test_a_burst_that_was_sent_before_the_answer_came_is_no_offence() -> None:
    senders = Senders(LIMITS)
    paces = [senders.pace("import", 1000.0) for _ in range(10_000)]
    assert sum(not pace.wait_s for pace in paces) == LIMITS.per_window
    assert {pace.level for pace in paces} == {Level.NORMAL}
    assert senders.pace("import", 1020).wait_s == 0


def test_one_who_waits_as_told_stays_normal() -> None:
    senders, now_s = Senders(LIMITS), 1000.0
    levels = set[Level]()
    for number in range(500):
        pace = senders.pace("import", now_s)
        levels.add(pace.level)
        now_s += pace.wait_s or 0.01 * (1 + number % 2)
    assert max(levels) <= Level.SLOWED


def test_an_even_beat_halves_the_limit() -> None:
    senders = Senders(LIMITS)
    paces = [senders.pace("cron", 1000 + number / 1.8) for number in range(400)]
    assert not any(pace.wait_s for pace in paces[:30])
    assert any(pace.wait_s for pace in paces[60:])


def test_senders_do_not_slow_one_another() -> None:
    senders = Senders(LIMITS)
    sent(senders, "crawler", 100, 1000, 20)
    assert senders.pace("anna", 1020).wait_s == 0


def test_a_million_senders_take_no_more_memory_than_the_first_thousand() -> None:
    senders = Senders(LIMITS)
    for number in range(1_000_000):
        senders.pace(str(number), 1000.0)
    assert len(senders) == LIMITS.most
