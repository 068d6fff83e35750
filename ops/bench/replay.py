"""A day of tickets through the worker's own sizing and seating, on a clock that only the simulation moves.

Only the engine and the queue are models: an engine whose steps take what `Cost` says, and one queue, first in, first
out. What decides is what decides in a worker: `workers.sizing.Sizing` and `workers.policy`.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ops.bench.cost import PREFIX, Cost
from schemas.settings import BatchSettings
from workers.policy.expected import ExpectedTokens
from workers.policy.seating import Seat, Seating
from workers.ports import Load
from workers.sizing import Sizing
from workers.slots import KV_FILLED, LOAD_EVERY_S

BURST = 12.7
DAY_S = 86_400.0
LONGEST_ANSWER = 160
STEP_TOKENS = 256
"""Tokens of prompts that a step computes, as the engine has it on a CPU."""
RECOVERY_S = 1.0
"""What an engine takes to be ready again after it ran out of memory."""


class Day(NamedTuple):
    """Tickets in the order they come: when, in seconds, and how long in tokens and bytes. All arrays [tickets]."""

    arrive_s: NDArray[np.float64]
    prompt: NDArray[np.int64]
    answer: NDArray[np.int64]
    text_bytes: NDArray[np.int64]


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A device's memory: ``other_bytes`` of it hold weights and what else runs there; the rest is for the KV cache."""

    name: str
    total_bytes: int
    other_bytes: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a day went.

    Attributes:
        waits_s: from arrival to the answer, of every ticket that was answered.
        out_of_memory: times the engine had too little, and everything in it began again.
        failed: tickets that alone were too much for the device.
        sizes: every change of the number of slots: when, and to how many.
    """

    waits_s: NDArray[np.float64]
    out_of_memory: int
    failed: int
    sizes: list[tuple[float, int]]

    def in_time(self, deadline_s: float) -> int:
        """Answers within their deadline."""
        return int((self.waits_s <= deadline_s).sum())

    def turns_per_hour(self, spent_s: float) -> float:
        """Times an hour that the size changed its direction."""
        ups = [after > before for (_, before), (_, after) in pairwise(self.sizes)]
        return sum(one != other for one, other in pairwise(ups)) / (spent_s / 3600)


def day_of(rate: float, burst_s: float, seed: int) -> Day:
    """A day whose tickets come at random at ``rate`` a second, and 12.7 times as fast from noon on for ``burst_s``."""
    draw = np.random.default_rng(seed)
    noon = DAY_S / 2
    spans = ((0.0, noon, rate), (noon, noon + burst_s, BURST * rate), (noon + burst_s, DAY_S, rate))
    arrive_s = np.concatenate(
        [np.sort(draw.uniform(begin, end, draw.poisson((end - begin) * each))) for begin, end, each in spans]
    )
    return tickets_at(arrive_s, draw)


def tickets_at(arrive_s: NDArray[np.float64], draw: np.random.Generator) -> Day:
    """Tickets of lengths that are as widely and unevenly spread as real ones."""
    count = len(arrive_s)
    prompt = np.clip(draw.lognormal(np.log(60), 0.8, count), 8, 1200).astype(np.int64)
    answer = np.clip(draw.lognormal(np.log(40), 0.8, count), 1, LONGEST_ANSWER).astype(np.int64)
    text_bytes = (prompt * draw.uniform(3.5, 5.0, count)).astype(np.int64)
    return Day(arrive_s, prompt, answer, text_bytes)


class Replay:
    """One run through a day.

    Args:
        foreseen: whether a ticket enters only if its expected tokens find room, as they do in a worker; otherwise
            whoever has a slot enters.
    """

    def __init__(self, day: Day, cost: Cost, device: Device, settings: BatchSettings, *, foreseen: bool) -> None:
        self._day, self._cost, self._device, self._foreseen = day, cost, device, foreseen
        self._arrive_s: list[float] = day.arrive_s.tolist()
        self._capacity = (device.total_bytes - device.other_bytes) // cost.kv_bytes_per_token - PREFIX
        self._sizing = Sizing(settings, 0.0)
        self._seating: Seating[_Row] = Seating()
        self._expected = ExpectedTokens()
        self._queue: deque[int] = deque()
        self._rows: list[Seat[_Row]] = []
        self._now_s = 0.0
        self._arrived = self._inside = self._out_of_memory = self._failed = 0
        self._measured_s = float("-inf")
        self._waits_s: list[float] = []
        self._sizes = [(0.0, self._sizing.size)]

    def run(self) -> Outcome:
        """The day, until its last ticket has ended."""
        while self._boundary():
            self._step()
        return Outcome(
            waits_s=np.array(self._waits_s),
            out_of_memory=self._out_of_memory,
            failed=self._failed,
            sizes=self._sizes,
        )

    def _boundary(self) -> bool:
        """Lets in who may enter, and waits for the next ticket where there is none. False after the last."""
        self._arrivals()
        if not self._inside and not self._queue:
            if self._arrived == len(self._arrive_s):
                return False
            self._now_s = self._arrive_s[self._arrived]
            self._arrivals()
        free = min(self._sizing.size - self._inside, len(self._queue))
        if free > 0:
            self._inside += free
            self._seating.arrive([self._seat(self._queue.popleft()) for _ in range(free)])
        if self._seating.waiting:
            kv_tokens = int(KV_FILLED * self._capacity) if self._foreseen else None
            self._rows += self._seating.enter(len(self._rows), self._rows, kv_tokens)
        return True

    def _arrivals(self) -> None:
        while self._arrived < len(self._arrive_s) and self._arrive_s[self._arrived] <= self._now_s:
            self._queue.append(self._arrived)
            self._arrived += 1

    def _seat(self, ticket: int) -> Seat[_Row]:
        day = self._day
        row = _Row(ticket, int(day.prompt[ticket]), int(day.answer[ticket]), self._now_s, int(day.prompt[ticket]))
        expected = self._expected.of("reply", int(day.text_bytes[ticket]), LONGEST_ANSWER)
        return Seat(work=row, rank=0, tokens=expected.mean, spread=expected.spread)

    def _step(self) -> None:
        """One step, or as many alike as nothing can happen between."""
        rows = [seat.work for seat in self._rows]
        answering = [row for row in rows if not row.pending]
        held = sum(row.prompt - row.pending + row.made for row in rows)
        context = sum(row.prompt + row.made for row in answering)
        left, prompt, began = STEP_TOKENS - len(answering), 0, [row for row in rows if row.pending]
        steps = 1
        if not began:
            steps = self._alike(len(rows), context, held)
        if held + len(answering) > self._capacity:
            self._too_little()
            return
        for row in began:
            count = min(left - prompt, row.pending)
            row.pending -= count
            row.made += not row.pending
            prompt += count
        for row in answering:
            row.made += steps
        added = len(answering) * steps * (steps - 1) // 2
        spent_s = steps * self._cost.step_s(len(answering), context, prompt) + self._cost.context_s * added
        self._now_s += spent_s
        if held + prompt > self._capacity:
            self._too_little()
        else:
            self._leave(spent_s / steps, held + prompt + len(answering) * steps)

    def _alike(self, rows: int, context: int, held: int) -> int:
        """Steps until a row ends, the load is measured, a ticket could enter or the cache is full."""
        steps = min(seat.work.answer - seat.work.made for seat in self._rows)
        until_s = self._measured_s + LOAD_EVERY_S
        if self._inside < self._sizing.size and self._arrived < len(self._arrive_s):
            until_s = min(until_s, self._arrive_s[self._arrived])
        lasting = int((until_s - self._now_s) / self._cost.step_s(rows, context, 0)) + 1
        return max(1, min(steps, lasting, (self._capacity - held) // rows))

    def _leave(self, step_s: float, held: int) -> None:
        used = len(self._rows)
        ended = [seat.work for seat in self._rows if seat.work.made >= seat.work.answer]
        if ended:
            self._rows = [seat for seat in self._rows if seat.work.made < seat.work.answer]
            self._inside -= len(ended)
            for row in ended:
                text_bytes = int(self._day.text_bytes[row.ticket])
                self._expected.learn("reply", text_bytes, row.prompt, row.answer)
                self._waits_s.append(self._now_s - self._arrive_s[row.ticket])
        due = self._now_s - self._measured_s >= LOAD_EVERY_S
        if ended or due:
            self._report(step_s, used, [self._now_s - row.entered_s for row in ended], held if due else None)

    def _report(self, step_s: float, used: int, slots_s: list[float], held: int | None) -> None:
        load = None
        if held is not None:
            self._measured_s = self._now_s
            kv_bytes = (min(held, self._capacity) + PREFIX) * self._cost.kv_bytes_per_token
            load = Load(
                memory_used_bytes=self._device.other_bytes + kv_bytes,
                memory_total_bytes=self._device.total_bytes,
                prompt_tokens=0,
                reused_tokens=0,
                slot_steps=0,
                useful_slot_steps=0,
            )
        self._sizing.stepped(step_s, used, slots_s, load, self._now_s)
        if self._sizing.size != self._sizes[-1][1]:
            self._sizes.append((self._now_s, self._sizing.size))

    def _too_little(self) -> None:
        """Out of memory: all rows begin again, in halves, as a worker has it; one that is too long by itself fails."""
        self._out_of_memory += 1
        self._now_s += RECOVERY_S
        self._sizing.too_many(len(self._rows), self._now_s)
        for seat in self._rows:
            seat.work.pending, seat.work.made = seat.work.prompt, 0
        if len(self._rows) == 1:
            self._failed += 1
            self._inside -= 1
        else:
            self._seating.split(self._rows)
        used, self._rows = len(self._rows), []
        self._report(RECOVERY_S, used, [], 0)


class _Row:
    """A ticket in a slot. ``pending`` tokens of its prompt are not computed yet; ``made`` of its answer are."""

    __slots__ = ("answer", "entered_s", "made", "pending", "prompt", "ticket")

    def __init__(self, ticket: int, prompt: int, answer: int, entered_s: float, pending: int) -> None:
        self.ticket, self.prompt, self.answer = ticket, prompt, answer
        self.entered_s, self.pending, self.made = entered_s, pending, 0
