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


def sized(name: str, tokens: float, rank: int = 1, spread: float = 0.0) -> Seat[str]:
    return Seat(work=name, rank=rank, tokens=tokens, spread=spread)


def test_who_finds_no_room_waits_and_is_not_overtaken() -> None:
    seating: Seating[str] = Seating()
    seating.arrive([sized("a", 60), sized("long", 80), sized("short", 10)])
    inside = list(seating.enter(0, [], kv_tokens=100))
    assert [seat.work for seat in inside] == ["a"]
    assert seating.enter(1, inside, kv_tokens=100) == []
    seating.arrive([sized("urgent", 20, rank=0)])
    inside += seating.enter(1, inside, kv_tokens=100)
    assert [seat.work for seat in inside] == ["a", "urgent"]
    assert [seat.work for seat in seating.enter(1, inside[1:], kv_tokens=110)] == ["long", "short"]
    assert not seating.waiting


def test_lengths_that_are_not_sure_make_up_for_one_another() -> None:
    seating: Seating[str] = Seating()
    seating.arrive([sized(str(at), 100, spread=20) for at in range(16)])
    assert len(seating.enter(0, [], kv_tokens=1600)) == 13  # ten, if each were taken for 160


@given(
    st.lists(st.tuples(st.floats(0, 500), st.floats(0, 100)), min_size=1, max_size=30),
    st.integers(-100, 1000),
)
def test_all_enter_in_their_order_and_never_beyond_the_room(lengths: list[tuple[float, float]], room: int) -> None:
    seating: Seating[str] = Seating()
    seating.arrive([sized(str(at), tokens, spread=spread) for at, (tokens, spread) in enumerate(lengths)])
    entered: list[str] = []
    while seating.waiting:  # each batch ends before the next one enters
        group = seating.enter(0, [], room)
        assert len(group) == 1 or sum(seat.tokens for seat in group) <= room
        entered += [seat.work for seat in group]
    assert entered == [str(at) for at in range(len(lengths))]


def test_suspects_too_enter_only_as_far_as_there_is_room() -> None:
    seating: Seating[str] = Seating()
    seating.split([sized("a", 60), sized("b", 60), sized("c", 60), sized("d", 60)])
    batches: list[list[str]] = []
    while seating.waiting:
        batches.append([seat.work for seat in seating.enter(0, [], kv_tokens=100)])
    assert batches == [["a"], ["b"], ["c"], ["d"]]
