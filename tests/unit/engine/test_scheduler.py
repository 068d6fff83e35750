"""Rows, blocks and chunks, driven at random: nothing is computed twice or out of turn, and nobody waits for ever."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from schemas.answer import Finish
from workers.engine.scheduler import BLOCK, Chunk, FreeBlocks, Prefix, Row, Scheduler, blocks_for

STOP = 0
WORD = 7

PREFIXES = [tuple(range(1, 41)), tuple(range(1, 6)), tuple(range(2, 90))]
rows = st.tuples(st.sampled_from(PREFIXES), st.integers(1, 150), st.integers(1, 20))


def _computed(scheduler: Scheduler, chunks: Sequence[Chunk]) -> None:
    """Stands in for the runner: checks that the chunks may be computed now."""
    for chunk in chunks:
        assert 0 < chunk.count <= chunk.of.pending
        assert blocks_for(chunk.of.stored + chunk.count) <= len(chunk.of.blocks)
        if isinstance(chunk.of, Row):
            assert chunk.of.prefix.pending == 0
    scheduler.ran(chunks)


@given(st.lists(rows, max_size=25), st.integers(16, 200), st.sampled_from([1.0, 0.3]), st.data())
def test_every_row_ends_and_every_block_comes_back(
    wanted: list[tuple[tuple[int, ...], int, int]], step_tokens: int, keep: float, data: st.DataObject
) -> None:
    scheduler = Scheduler(24, step_tokens, {STOP}, keep=keep, least_kept=36)
    coming, present, ended = list(wanted), [], 0
    for _ in range(2_000):
        if coming and (not present or data.draw(st.booleans(), "one more comes")):
            prefix, prompt, most_new = coming.pop()
            present.append(scheduler.add(prefix, [WORD] * prompt, most_new))
        chunks = scheduler.plan()
        assert len({id(chunk.of) for chunk in chunks}) == len(chunks)
        held = [block for of in {id(c.of): c.of for c in chunks}.values() for block in of.blocks]
        assert len(held) == len(set(held)), "two rows share a block"
        prompts = sum(c.count for c in chunks if not isinstance(c.of, Row) or c.of.computed < c.of.prompt)
        assert prompts <= step_tokens
        assert chunks or not present, "rows are there and nothing is done"
        answering = [row for row in present if row.computed >= row.prompt]
        assert set(answering) <= {chunk.of for chunk in chunks}, "a row that answers was left out of a step"
        _computed(scheduler, chunks)
        for row in [chunk.of for chunk in chunks if isinstance(chunk.of, Row) and not chunk.of.pending]:
            leaves = data.draw(st.integers(0, 15), "cancelled") == 0
            if leaves or scheduler.extend(row, [data.draw(st.sampled_from([STOP, WORD, WORD, WORD]))]):
                scheduler.remove(row)
                present.remove(row)
                ended += 1
        if not coming and not present:
            break
    assert ended == len(wanted)
    scheduler.drop_idle_prefixes()
    assert scheduler.free_blocks == 24


def test_a_long_prompt_holds_up_neither_rows_that_answer_nor_short_prompts() -> None:
    scheduler = Scheduler(100, 64, {STOP})
    prefix = (1,) * 8
    early = scheduler.add(prefix, [WORD] * 4, 50)
    for _ in range(2):
        scheduler.ran(scheduler.plan())
    scheduler.extend(early, [WORD])
    long, short = scheduler.add(prefix, [WORD] * 1_000, 5), scheduler.add(prefix, [WORD] * 20, 5)
    counts = {id(chunk.of): chunk.count for chunk in scheduler.plan()}
    assert counts == {id(early): 1, id(short): 20, id(long): 43}


def test_a_prefix_is_computed_once_and_the_first_row_alone_pays_for_it() -> None:
    scheduler = Scheduler(100, 256, {STOP})
    prefix = tuple(range(1, 60))
    first, second = scheduler.add(prefix, [WORD] * 3, 5), scheduler.add(prefix, [WORD] * 3, 5)
    chunks = scheduler.plan()
    assert [(type(chunk.of), chunk.count) for chunk in chunks] == [(Prefix, 59)]
    scheduler.ran(chunks)
    assert {id(chunk.of) for chunk in scheduler.plan()} == {id(first), id(second)}
    assert (first.reused, second.reused) == (0, 59)


def test_an_answer_ends_at_a_stop_token_or_at_its_limit_and_not_before() -> None:
    scheduler = Scheduler(100, 256, {STOP})
    row = scheduler.add((1,), [WORD], 3)
    assert scheduler.extend(row, [WORD, WORD]) is None
    assert scheduler.extend(row, [STOP, WORD]) is Finish.STOP
    assert row.answer == [WORD, WORD]
    assert scheduler.extend(row, [WORD, WORD]) is Finish.LENGTH
    assert row.answer == [WORD] * 3


def test_a_row_without_room_waits_and_is_not_overtaken() -> None:
    scheduler = Scheduler(4, 256, {STOP})
    large = scheduler.add((1,), [WORD] * 60, 4)
    larger = scheduler.add((1,), [WORD] * 70, 4)
    small = scheduler.add((1,), [WORD] * 2, 2)
    scheduler.ran(scheduler.plan())
    assert {id(chunk.of) for chunk in scheduler.plan()} == {id(large)}
    scheduler.remove(large)
    assert {id(chunk.of) for chunk in scheduler.plan()} == {id(larger)}
    scheduler.remove(larger)
    assert {id(chunk.of) for chunk in scheduler.plan()} == {id(small)}


@given(st.lists(st.integers(1, 5), max_size=20))
def test_the_lowest_blocks_go_first(takes: list[int]) -> None:
    free = FreeBlocks(100)
    taken = [free.take(count) for count in takes]
    assert [block for blocks in taken for block in blocks] == list(range(sum(takes)))
    for blocks in taken:
        free.give(blocks)
    assert free.take(1) == [0]
    assert len(free) == 99
    assert blocks_for(BLOCK) == 1
    assert blocks_for(BLOCK + 1) == 2


def test_a_row_gives_back_the_blocks_of_what_it_drops() -> None:
    scheduler = Scheduler(100, 1000, {STOP}, keep=0.3, least_kept=36)
    row = scheduler.add(PREFIXES[0], [WORD] * 400, 20)
    short = scheduler.add(PREFIXES[0], [WORD] * 30, 20)
    while row.pending:
        _computed(scheduler, scheduler.plan())
    assert (row.stored, len(row.blocks)) == (120, blocks_for(140))
    assert (short.stored, len(short.blocks)) == (30, blocks_for(50))


def test_prefixes_have_blocks_of_their_own_where_rows_are_compressed() -> None:
    scheduler = Scheduler(10, 1000, {STOP}, prefix_blocks=3, most_rows=2)
    added = [scheduler.add(PREFIXES[2], [WORD] * 10, 20) for _ in range(3)]
    _computed(scheduler, scheduler.plan())
    _computed(scheduler, scheduler.plan())
    assert [bool(row.blocks) for row in added] == [True, True, False]
    assert scheduler.free_blocks == scheduler.row_blocks - 2 == 8
    other = scheduler.add(PREFIXES[0], [WORD], 1)
    for row in added:
        scheduler.remove(row)
    scheduler.plan()
    assert other.blocks, "the idle prefix gave way"


def test_rows_that_outgrow_what_was_expected_give_way_to_those_before_them() -> None:
    scheduler = Scheduler(20, 1000, ())
    for _ in range(25):
        short = scheduler.add((), [WORD] * 8, 200)
        _computed(scheduler, scheduler.plan())
        scheduler.extend(short, [WORD] * 8)
        scheduler.remove(short)
    rows = [scheduler.add((), [WORD] * 20, 200) for _ in range(20)]
    ended: list[Row] = []
    for _ in range(5_000):
        chunks = scheduler.plan()
        assert len(set(scheduler.given_up)) == len(scheduler.given_up)
        _computed(scheduler, chunks)
        for row in [chunk.of for chunk in chunks if isinstance(chunk.of, Row) and not chunk.of.pending]:
            if scheduler.extend(row, [WORD]) is Finish.LENGTH:
                scheduler.remove(row)
                ended.append(row)
        if len(ended) == len(rows):
            break
    assert ended[0] is rows[0]
    assert {len(row.answer) for row in ended} == {200}
    assert scheduler.preempted > 0
    assert scheduler.lost > 0
    assert scheduler.free_blocks == 20
