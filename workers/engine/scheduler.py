"""Which rows go on in a step, and by how much. Plain Python: it knows tokens and blocks, never tensors.

A row sees a *prefix*, which is its job's and shared, and then its own tokens: what is left of its prompt, followed by
what it has answered so far. Blocks for its prompt and an answer of the length that is usual for its job are taken as it
is admitted; a row that finds none waits, and none overtakes it. One that answers at greater length takes more as it
goes on. Where there are none, the row that came last gives its own up and is computed again later, prompt and answer so
far: the row that came first always gets on.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import ceil

from schemas.answer import Finish

BLOCK = 32
"""Tokens a block of the KV cache holds."""

_KNOWN_AFTER = 20
_REMEMBERED = 100
"""Answers until something is known of a job's, and those that weigh in what is."""


def blocks_for(tokens: int) -> int:
    """Blocks that so many tokens take."""
    return -(-tokens // BLOCK)


def kept(tokens: int, share: float, least: int) -> int:
    """How many of a prompt's tokens are kept."""
    return min(tokens, max(least, ceil(tokens * share)))


class FreeBlocks:
    """The numbers of the blocks that nobody holds. The lowest go first: memory is touched only as it is needed."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = list(range(count))

    def __len__(self) -> int:
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """Takes as many, in rising order; there must be that many."""
        return [heapq.heappop(self._free) for _ in range(count)]

    def give(self, blocks: Sequence[int]) -> None:
        """Gives them back."""
        for block in blocks:
            heapq.heappush(self._free, block)


@dataclass(eq=False, slots=True)
class Prefix:
    """What a job's prompts begin with. ``computed`` tokens of it lie in ``blocks``; ``users`` rows need it."""

    tokens: Sequence[int]
    blocks: list[int] = field(default_factory=list[int])
    computed: int = 0
    users: int = 0
    prefix: None = None

    @property
    def pending(self) -> int:
        """Tokens not computed yet."""
        return len(self.tokens) - self.computed

    @property
    def stored(self) -> int:
        """Tokens that lie in its blocks."""
        return self.computed


@dataclass(eq=False, slots=True)
class Row:
    """One answer in the making.

    Attributes:
        tokens: the prompt after the prefix, then the answer so far.
        prompt: how many of them are the prompt's.
        most_new: the longest answer.
        reused: tokens of the prefix that were computed before it came.
        droppable: tokens of its prompt to be dropped as soon as that is computed; ``dropped``: those that were.
    """

    prefix: Prefix
    tokens: list[int]
    prompt: int
    most_new: int
    blocks: list[int] = field(default_factory=list[int])
    computed: int = 0
    reused: int = 0
    droppable: int = 0
    dropped: int = 0

    @property
    def pending(self) -> int:
        """Tokens not computed yet."""
        return len(self.tokens) - self.computed

    @property
    def stored(self) -> int:
        """Tokens that lie in its blocks."""
        return self.computed - self.dropped

    @property
    def answer(self) -> list[int]:
        """The tokens made so far."""
        return self.tokens[self.prompt :]


@dataclass(frozen=True, slots=True)
class Chunk:
    """The next ``count`` pending tokens of a row or prefix, to be computed in this step."""

    of: Row | Prefix
    count: int

    @property
    def picks(self) -> bool:
        """Whether a next token follows from it: it is a row's, and all that the row has."""
        return isinstance(self.of, Row) and self.count == self.of.pending

    @property
    def drops(self) -> int:
        """Tokens that its row drops after it, since the prompt ends in it."""
        row = self.of
        ends = isinstance(row, Row) and row.computed < row.prompt <= row.computed + self.count
        return row.droppable if isinstance(row, Row) and ends else 0


class _Learned:
    """How long answers to one kind of prompt are."""

    def __init__(self) -> None:
        self._count, self._mean = 0, 0.0

    def ended(self, tokens: int) -> None:
        """Takes an answer into account."""
        self._count += 1
        self._mean += (tokens - self._mean) / min(self._count, _REMEMBERED)

    def expected(self, most: int) -> int:
        """Tokens to reckon with: half as many again as usual, and the most where little is known."""
        return most if self._count < _KNOWN_AFTER else min(most, ceil(self._mean * 1.5))


class Scheduler:
    """The running batch, as numbers.

    Args:
        blocks: how many the KV cache has.
        step_tokens: how many tokens of prompts a step may compute: more is quicker over all, fewer lets the rows that
            are answering go on sooner.
        stop: tokens that end an answer.
        prefix_blocks: blocks that are there for prefixes alone; None: prefixes take theirs from ``blocks``.
        keep: share of a row's prompt that is kept once it is computed, but at least ``least_kept`` tokens.
        most_rows: that may be in the batch at a time.

    Attributes:
        given_up: blocks that rows gave up in the last plan; what lies there is to be forgotten before it is run.
        lost: tokens that were computed and are to be computed again, since rows and prefixes gave up their blocks.
        preempted: how often a row did, in all.
    """

    def __init__(
        self,
        blocks: int,
        step_tokens: int,
        stop: Collection[int],
        *,
        prefix_blocks: int | None = None,
        keep: float = 1.0,
        least_kept: int = 0,
        most_rows: int | None = None,
    ) -> None:
        self._free = FreeBlocks(blocks)
        self._free_for_prefixes = self._free if prefix_blocks is None else FreeBlocks(prefix_blocks)
        self._keep, self._least_kept, self._most_rows = keep, least_kept, most_rows
        self._step_tokens = step_tokens
        self._stop = frozenset(stop)
        self._prefixes: dict[tuple[int, ...], Prefix] = {}
        self._waiting: list[Row] = []
        self._rows: list[Row] = []
        self._learned: dict[tuple[int, ...], _Learned] = {}
        self.given_up: list[int] = []
        self.lost = 0
        self.preempted = 0

    @property
    def free_blocks(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    @property
    def row_blocks(self) -> int:
        """Blocks that are there for rows: all but those of the prefixes that rows need."""
        if self._free_for_prefixes is not self._free:
            return self._free.count
        return self._free.count - sum(len(prefix.blocks) for prefix in self._prefixes.values() if prefix.users)

    def add(self, prefix: tuple[int, ...], tokens: Sequence[int], most_new: int) -> Row:
        """A new row, which waits for blocks. ``tokens`` must not be empty."""
        shared = self._prefixes.setdefault(prefix, Prefix(prefix))
        row = Row(shared, list(tokens), len(tokens), most_new)
        row.reused = len(prefix) if shared.users or shared.computed else 0  # the first pays, the others reuse
        row.droppable = len(tokens) - kept(len(tokens), self._keep, self._least_kept)
        shared.users += 1
        self._waiting.append(row)
        return row

    def plan(self) -> list[Chunk]:
        """The step's work: every row that is answering, then prompts as far as the step's tokens go."""
        self.given_up = []
        self._grow()
        self._admit()
        answering = [row for row in self._rows if row.computed >= row.prompt]
        left = self._step_tokens - sum(row.pending for row in answering)
        chunks = [Chunk(row, row.pending) for row in answering]
        for prefix in self._prefixes.values():
            if prefix.users and prefix.blocks and prefix.pending and left > 0:
                chunks.append(Chunk(prefix, min(left, prefix.pending)))
                left -= chunks[-1].count
        return chunks + self._prompts(left)

    def ran(self, chunks: Sequence[Chunk]) -> None:
        """Notes that they were computed."""
        for chunk in chunks:
            drops = chunk.drops
            chunk.of.computed += chunk.count
            if drops and isinstance(chunk.of, Row):
                row = chunk.of
                row.dropped = drops
                needed = blocks_for(self._expected(row) - drops)
                self._free.give(row.blocks[needed:])
                row.blocks = row.blocks[:needed]

    def extend(self, row: Row, tokens: Sequence[int]) -> Finish | None:
        """Adds tokens to a row's answer; says whether and why it ends there. A stop token is left out."""
        for token in tokens:
            if token in self._stop:
                return Finish.STOP
            row.tokens.append(token)
            if len(row.tokens) - row.prompt >= row.most_new:
                return Finish.LENGTH
        return None

    def remove(self, row: Row) -> None:
        """Takes a row out and its blocks back, wherever it stands."""
        (self._rows if row in self._rows else self._waiting).remove(row)
        if row.answer:
            self._learned.setdefault(tuple(row.prefix.tokens), _Learned()).ended(len(row.answer))
        row.prefix.users -= 1
        self._free.give(row.blocks)
        row.blocks = []

    def clear(self) -> tuple[list[int], list[int]]:
        """Forgets every row and every prefix; returns the blocks that rows and that prefixes held."""
        of_rows = [block for row in self._rows for block in row.blocks]
        of_prefixes = [block for prefix in self._prefixes.values() for block in prefix.blocks]
        self._prefixes, self._waiting, self._rows = {}, [], []
        self._free.give(of_rows)
        self._free_for_prefixes.give(of_prefixes)
        return of_rows, of_prefixes

    def drop_idle_prefixes(self) -> list[int]:
        """Gives back the blocks of prefixes that no row needs; returns them."""
        idle = [tokens for tokens, prefix in self._prefixes.items() if not prefix.users]
        blocks = [block for tokens in idle for block in self._prefixes.pop(tokens).blocks]
        self._free_for_prefixes.give(blocks)
        return blocks

    def _admit(self) -> None:
        while self._waiting and (self._most_rows is None or len(self._rows) < self._most_rows):
            row = self._waiting[0]
            own = blocks_for(self._expected(row))
            shared = 0 if row.prefix.blocks else blocks_for(len(row.prefix.tokens))
            if not self._room(own, shared):
                self.drop_idle_prefixes()
            if not self._room(own, shared) and not self._rows:
                self._reclaim_prefixes(row.prefix)
            if not self._room(own, shared):
                return
            row.prefix.blocks += self._free_for_prefixes.take(shared)
            row.blocks = self._free.take(own)
            self._rows.append(self._waiting.pop(0))

    def _expected(self, row: Row) -> int:
        """Tokens of its own that a row will probably come to."""
        learned = self._learned.get(tuple(row.prefix.tokens))
        return max(len(row.tokens), row.prompt + (learned.expected(row.most_new) if learned else row.most_new))

    def _grow(self) -> None:
        """Gives rows that are answering the blocks that they need next, the first come first."""
        for row in list(self._rows):
            while row.computed >= row.prompt and blocks_for(row.stored + row.pending) > len(row.blocks):
                if not len(self._free) and self._free is self._free_for_prefixes:
                    self.drop_idle_prefixes()
                    self._reclaim_prefixes()
                if not len(self._free):
                    self._preempt(self._rows[-1])
                if row.computed >= row.prompt:
                    row.blocks += self._free.take(1)

    def _preempt(self, row: Row) -> None:
        """Takes a row's blocks; it waits before all others, to be computed again."""
        self._rows.remove(row)
        self._waiting.insert(0, row)
        self._free.give(row.blocks)
        self.given_up += row.blocks
        self.lost += row.computed
        self.preempted += 1
        row.blocks, row.computed, row.dropped = [], 0, 0

    def _reclaim_prefixes(self, but: Prefix | None = None) -> None:
        """Takes the blocks of prefixes that only waiting rows need."""
        needed = {id(row.prefix) for row in self._rows} | {id(but)}
        for prefix in self._prefixes.values():
            if id(prefix) not in needed:
                self._free_for_prefixes.give(prefix.blocks)
                self.lost += prefix.computed
                prefix.blocks, prefix.computed = [], 0

    def _room(self, own: int, shared: int) -> bool:
        if self._free_for_prefixes is self._free:
            return own + shared <= len(self._free)
        return own <= len(self._free) and shared <= len(self._free_for_prefixes)

    def _prompts(self, left: int) -> list[Chunk]:
        """Half of what is left goes to the prompt that came first, so that a long one gets on; the rest to the shortest
        ones, so that it holds up nobody."""
        ready = [row for row in self._rows if row.computed < row.prompt and not row.prefix.pending]
        if not ready or left <= 0:
            return []
        oldest, others = ready[0], sorted(ready[1:], key=lambda row: row.pending)
        share = {oldest: min(oldest.pending, left if not others else -(-left // 2))}
        left -= share[oldest]
        for row in others:
            share[row] = min(row.pending, left)
            left -= share[row]
        share[oldest] += min(left, oldest.pending - share[oldest])
        return [Chunk(row, count) for row, count in share.items() if count]
