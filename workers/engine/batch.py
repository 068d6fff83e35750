"""The running batch of one model: tickets in, answers out, a step at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from schemas.answer import Answer, Finish, Usage
from schemas.errors import SettingRefused
from schemas.job import Job
from workers.engine.grammar import Constraint, Grammar, Vocabulary
from workers.engine.models.loading import Model
from workers.engine.prompts import JobPrompts, OverTheContext, Prompt, Prompts
from workers.engine.runner import Allowed, Runner
from workers.engine.sampling import Sampler
from workers.engine.scheduler import BLOCK, Row, Scheduler
from workers.ports import Completed, Failed, Work

_HALF_A_CHARACTER = "\ufffd"
"""What is decoded from the first bytes of a character whose others were past the answer's last token."""


class Counters(msgspec.Struct):
    """Totals since the batch was made. See `workers.ports.Load`."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    slot_steps: int = 0
    useful_slot_steps: int = 0


class RunningBatch:
    """Rows of one model. A row that ends gives its slot back in the same step.

    Args:
        sharing: whether a job's prefix is computed once for all its rows; where not, each has it as its own.
    """

    def __init__(self, model: Model, runner: Runner, scheduler: Scheduler, *, sharing: bool = True) -> None:
        self._sharing = sharing
        self._model, self._runner, self._scheduler = model, runner, scheduler
        self._prompts = Prompts(model.tokenizer, model.context)
        self._vocabulary = Vocabulary(model.tokenizer, model.network.vocabulary, sorted(model.stop_ids))
        self._jobs: dict[bytes, _Prepared] = {}
        self._rows: dict[Row, _Slot] = {}
        self._ended: list[Completed | Failed] = []
        self.counters = Counters()

    @property
    def running(self) -> int:
        """Slots in use."""
        return len(self._rows) + len(self._ended)

    @property
    def preempted(self) -> int:
        """How often a row gave up its blocks for one that came before it."""
        return self._scheduler.preempted

    @property
    def kv_tokens(self) -> int:
        """Tokens that its KV cache has room for, beside the prefixes that it holds."""
        return self._scheduler.row_blocks * BLOCK

    def prepare(self, name: str, job: Job) -> _Prepared:
        """What a job needs, made at its first ticket or before.

        Raises:
            SettingRefused: its template, its system message or its answer schema cannot be used with this model.
        """
        key = msgspec.json.encode(job)
        if key not in self._jobs:
            self._jobs[key] = _Prepared(self._prompts.of_job(name, job), _grammar(name, job, self._vocabulary))
        return self._jobs[key]

    def add(self, work: Work) -> None:
        """Takes a ticket. One that cannot be answered ends, failed, in the next step."""
        ticket = work.ticket
        try:
            job = self.prepare(ticket.job, work.job)
            prompt = job.prompts.of(ticket)
        except OverTheContext as error:
            self._ended.append(Failed(ticket_id=ticket.id, error="context_overflow", why=str(error)))
            return
        except SettingRefused as error:
            self._ended.append(Failed(ticket_id=ticket.id, error="engine", why=str(error)))
            return
        if not self._sharing:
            prompt = Prompt((), [*prompt.prefix, *prompt.tokens], prompt.cut)
        row = self._scheduler.add(prompt.prefix, prompt.tokens, work.job.max_new_tokens)
        constraint = job.grammar.begin() if job.grammar else None
        sampler = Sampler(work.job, ticket.id) if work.job.temperature else None
        self._rows[row] = _Slot(ticket.id, constraint, prompt.cut, sampler)
        self.counters.prompt_tokens += len(prompt.prefix) + len(prompt.tokens)
        self.counters.reused_tokens += row.reused
        if constraint:
            self._go_on(row, constraint.forced())

    def step(self) -> list[Completed | Failed]:
        """One step; see `workers.ports.Engine`."""
        lost = self._scheduler.lost
        chunks = self._scheduler.plan()
        self._runner.release(self._scheduler.given_up)
        self.counters.prompt_tokens += self._scheduler.lost - lost  # computed again, and not reused
        if chunks:
            picking = [chunk.of for chunk in chunks if chunk.picks]
            picked = self._runner.run(chunks, self._allowed(picking), self._samplers(picking))
            self._scheduler.ran(chunks)
            self.counters.slot_steps += len(self._rows)
            self.counters.useful_slot_steps += sum(isinstance(chunk.of, Row) for chunk in chunks)
            for row, token in picked:
                constraint = self._rows[row].constraint
                if token is None:
                    self._fail(row, "engine", "the model's numbers were no longer finite", wipe=True)
                elif constraint:
                    self._go_on(row, constraint.take(token))
                else:
                    self._go_on(row, [token])
        ended, self._ended = self._ended, []
        return ended

    def drop(self, ticket_ids: frozenset[str]) -> None:
        """Forgets rows."""
        for row in [row for row, slot in self._rows.items() if slot.ticket_id in ticket_ids]:
            self._remove(row, wipe=True)
        self._ended = [each for each in self._ended if each.ticket_id not in ticket_ids]

    def drop_idle(self) -> None:
        """Forgets prefixes that no row needs, and gives their memory back."""
        self._runner.release_prefixes(self._scheduler.drop_idle_prefixes())

    def clear(self) -> None:
        """Forgets every row, and every prefix, whose keys and values may be half written."""
        self._rows, self._ended = {}, []
        of_rows, of_prefixes = self._scheduler.clear()
        self._runner.release(of_rows, wipe=True)
        self._runner.release_prefixes(of_prefixes)

    def _allowed(self, picking: list[Any]) -> dict[Row, Allowed]:
        slots = ((row, self._rows[row].constraint) for row in picking)
        return {row: constraint.allowed() for row, constraint in slots if constraint}

    def _samplers(self, picking: list[Any]) -> dict[Row, Sampler]:
        slots = ((row, self._rows[row].sampler) for row in picking)
        return {row: sampler for row, sampler in slots if sampler}

    def _go_on(self, row: Row, tokens: list[int]) -> None:
        """Adds tokens to an answer and ends it where they end it."""
        constraint = self._rows[row].constraint
        finish = self._scheduler.extend(row, tokens)
        if constraint:
            if constraint.complete and len(row.answer) <= row.most_new:
                finish = Finish.STOP
            elif finish is Finish.LENGTH:
                self._fail(row, "invalid_answer", f"its JSON was not whole after {row.most_new} tokens")
                return
        if finish:
            self._complete(row, finish)

    def _complete(self, row: Row, finish: Finish) -> None:
        slot = self._rows[row]
        text = self._model.tokenizer.decode(row.answer, skip_special_tokens=True).strip()
        if finish is Finish.LENGTH:
            text = text.removesuffix(_HALF_A_CHARACTER)
        data: dict[str, Any] | None = None
        if slot.constraint:
            try:
                data = msgspec.json.decode(text, type=dict[str, Any])
            except msgspec.DecodeError as error:
                self._fail(row, "invalid_answer", f"its JSON does not parse: {error}")
                return
        usage = Usage(
            prompt_tokens=len(row.prefix.tokens) + row.prompt,
            reused_tokens=row.reused,
            completion_tokens=len(row.answer),
        )
        answer = Answer(
            text=text, data=data, finish=finish, model=self._model.name, usage=usage, prompt_cut=slot.prompt_cut
        )
        self._remove(row)
        self._ended.append(Completed(ticket_id=slot.ticket_id, answer=answer))

    def _fail(self, row: Row, error: str, why: str, *, wipe: bool = False) -> None:
        self._ended.append(Failed(ticket_id=self._rows[row].ticket_id, error=error, why=why))
        self._remove(row, wipe=wipe)

    def _remove(self, row: Row, *, wipe: bool = False) -> None:
        del self._rows[row]
        self._runner.release(row.blocks, wipe=wipe)
        self._scheduler.remove(row)


class _Prepared(NamedTuple):
    prompts: JobPrompts
    grammar: Grammar | None


class _Slot(NamedTuple):
    ticket_id: str
    constraint: Constraint | None
    prompt_cut: bool
    sampler: Sampler | None


def _grammar(name: str, job: Job, vocabulary: Vocabulary) -> Grammar | None:
    if job.answer_schema is None:
        return None
    if job.answer_schema.get("type") != "object":
        raise SettingRefused(f"jobs.{name}.answer_schema", "must have type: object at its top")
    try:
        return Grammar(vocabulary, job.answer_schema)
    except ValueError as error:
        raise SettingRefused(f"jobs.{name}.answer_schema", f"cannot be held to: {error}") from None
