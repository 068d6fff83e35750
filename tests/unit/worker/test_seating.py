"""Batches that failed are split until the poison stands alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workers.policy.seating import Seat, Seating


def seats(*names: str, rank: int = 2) -> list[Seat[str]]:
    return [Seat(work=name, rank=rank) for name in names]


def run(seating: Seating[str], poison: set[str]) -> tuple[list[str], list[str], int]:
    """Runs everybody; returns who ended well, who failed alone, and how many batches it took."""
    well: list[str] = []
    alone: list[str] = []
    batches = 0
    while seating.waiting:
        group = seating.enter(0)
        assert group, "nobody enters, and somebody waits"
        batches += 1
        names = [seat.work for seat in group]
        if poison.isdisjoint(names):
            well += names
        elif len(group) == 1:
            alone += names
        else:
            seating.split(group)
    return well, alone, batches


@given(st.sets(st.integers(0, 63)), st.integers(1, 64))
def test_only_the_poison_fails_and_quickly(poisoned: set[int], size: int) -> None:
    names = [str(number) for number in range(size)]
    poison = {name for name in names if int(name) in poisoned}
    seating: Seating[str] = Seating()
    seating.arrive(seats(*names))
    well, alone, batches = run(seating, poison)
    assert set(alone) == poison
    assert sorted(well + alone) == sorted(names)
    assert batches <= 1 + 2 * len(poison) * size.bit_length() + 1


def test_suspects_enter_an_empty_engine_and_are_joined_by_nobody() -> None:
    seating: Seating[str] = Seating()
    seating.split(seats("a", "b"))
    seating.arrive(seats("fresh"))
    assert seating.enter(running=1) == []
    assert [seat.work for seat in seating.enter(running=0)] == ["a"]
    assert seating.enter(running=1) == []
    assert [seat.work for seat in seating.enter(running=0)] == ["b"]
    assert [seat.work for seat in seating.enter(running=0)] == ["fresh"]


def test_someone_more_urgent_goes_before_suspects() -> None:
    seating: Seating[str] = Seating()
    seating.split(seats("a", "b"))
    seating.arrive(seats("urgent", rank=0))
    assert [seat.work for seat in seating.enter(running=0)] == ["urgent"]
    assert [seat.work for seat in seating.enter(running=0)] == ["a"]


def test_the_forgotten_do_not_enter() -> None:
    seating: Seating[str] = Seating()
    pair = seats("a", "b")
    seating.split(pair)
    seating.arrive(seats("c"))
    seating.forget([seat for seat in seating.seats() if seat.work in ("a", "c")])
    assert [seat.work for seat in seating.enter(running=0)] == ["b"]
    assert not seating.waiting
