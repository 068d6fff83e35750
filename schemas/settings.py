"""Settings: given as mappings (the YAML file's content, the environment), never read from anywhere.

One setting has one name: ``broker.url`` in the file is ``TICKETMILL_BROKER_URL`` in the environment, which wins.
Whatever is not known is refused by name. Settings that name no broker or no ledger mean the embedded ones under
``home``: every command and every worker with the same home then meets at the same place.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from schemas.anti_spam import AntiSpamSettings
from schemas.circuit_breaker import CircuitBreakerSettings
from schemas.edge import EdgeSettings, ReputationList
from schemas.errors import SettingRefused
from schemas.job import Job
from schemas.model import AllocatorSettings, ModelSettings, wrong_with
from schemas.overload import FairnessSettings, LimitsSettings, ReclaimSettings, SheddingSettings
from schemas.refusal import explained, printable
from schemas.retry_matrix import RETRY_MATRIX, RetryRow
from schemas.shipped_jobs import SHIPPED_JOBS
from schemas.ticket import Name
from schemas.units import Bytes, Listed, Percent, Ports, Seconds, Share

ENV_PREFIX = "TICKETMILL_"
ENV_RESERVED = frozenset(
    {"TICKETMILL_CONFIG", "TICKETMILL_DATA", "TICKETMILL_DEBUG", "TICKETMILL_KEY", "TICKETMILL_URL"}
)
"""Variables that are no settings: the file's place, the test data's, whether to show tracebacks, a client's key and
server."""

MAPPINGS = frozenset({"jobs", "edge.lists", "retry", "fairness.weights", "limits.tenants", "limits.jobs"})
"""Settings by name, which no variable can hold."""

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class BrokerSettings(_Section, frozen=True, kw_only=True):
    """The message broker: Redis, Valkey or RabbitMQ."""

    url: str = ""
    """``redis://``, ``rediss://``, ``redis+socket://``, ``amqp://``, ``amqps://``; empty: ``up``'s own, in ``home``."""
    result_backend: str = ""
    """A Celery result backend, for callers who wait with ``AsyncResult``; empty: none."""


class LedgerSettings(_Section, frozen=True, kw_only=True):
    """The database that remembers every ticket: SQLite or PostgreSQL."""

    url: str = ""
    """``sqlite:///path`` or ``postgresql://user:password@host/database``; empty: a SQLite file in ``home``."""


class BatchSettings(_Section, frozen=True, kw_only=True):
    """How the number of slots follows what memory and latency allow. See docs/decisions on batch size."""

    policy: Literal["fixed", "printed", "mended", "aimd", "gradient"] = "aimd"
    """The rule. ``fixed`` holds ``start``; ``printed`` (to the letter) and ``mended`` grow with ``qps_to_grow``;
    ``aimd`` and ``gradient`` grow while every slot is in use."""
    start: Count = 8
    """Slots to begin with."""
    cap: Count | None = None
    """The most slots; empty: 32 on a device of 80 GB or more, else 16."""
    memory_share: Share = Share(0.9)
    """Over this share of the device's memory the slots are halved."""
    memory_share_to_grow: Share = Share(0.7)
    """Under this share they may grow."""
    p95: Seconds = Seconds(1.0)
    """Where a step of the engine takes longer than this at its 95th percentile, two slots fewer."""
    qps_to_grow: Annotated[float, msgspec.Meta(gt=0)] = 1000.0
    """Tickets a second over which they grow."""
    largest_step: Count = 4
    """The most slots added or taken at once; halving is not bound by it."""
    cool_down: Seconds = Seconds(30.0)
    """Time between two changes."""


class WorkerSettings(_Section, frozen=True, kw_only=True):
    """What a worker does with the tickets that it takes."""

    engine: Literal["local", "noop"] = "local"
    """``noop`` answers with nothing at once: for benchmarks and tests."""
    batch: BatchSettings = BatchSettings()
    lease: Seconds = Seconds(30.0)
    """How long a reserved ticket stays this worker's without renewal; it is renewed while it works."""
    grace: Seconds = Seconds(120.0)
    """What a worker that is told to stop may take to finish what runs."""
    time_limit: Seconds = Seconds(600.0)
    """A ticket leaves its slot, unanswered, after so long, and is tried again later; 0: never."""
    patience: Seconds = Seconds(30.0)
    """A less urgent queue that was passed over for so long gets one slot; urgent tickets still come first."""
    most_starts: Count = 4
    """Workers that may be lost with a ticket before it is given up: one that kills them must not kill them all."""


class HttpSettings(_Section, frozen=True, kw_only=True):
    """The HTTP API."""

    host: str = "127.0.0.1"
    """Stays on this machine until told otherwise; every call needs a key wherever it listens."""
    port: Port = 8040
    """Of the API."""
    largest_body: Bytes = Bytes(8_000_000)
    """Of one request."""
    most_lines: Count = 10_000
    """Tickets in one request."""
    proxies: Listed = Listed()
    """Networks of reverse proxies whose X-Forwarded-For is believed; from others it is ignored."""


class InletSettings(_Section, frozen=True, kw_only=True):
    """Raw Celery messages, sent by any Celery program to the queue ``ticketmill.inlet``."""

    enabled: bool = True
    """Whether raw Celery messages are taken in."""
    tenant: Name = "default"
    """Whose tickets they become. Who can write to the broker is trusted with that tenant."""


class BackfillSettings(_Section, frozen=True, kw_only=True):
    """Tickets of the past, answered when nothing else is to be done."""

    window: Count = 1000
    """How many backfill tickets lie in the queue at once; the rest wait in the ledger."""


class RelaySettings(_Section, frozen=True, kw_only=True):
    """How the outbox is emptied and how a broker that lost messages is refilled."""

    chunk: Count = 1000
    """Messages in one call to the broker, and tickets in one transaction."""
    interval: Seconds = Seconds(0.5)
    """Between two looks at the outbox."""
    reconcile_interval: Seconds = Seconds(5.0)
    """Between two comparisons of ledger and broker."""
    lost_after: Seconds = Seconds(30.0)
    """A message published so long ago that is neither on the broker nor begun is published again."""
    hold: Seconds = Seconds(1800.0)
    """How long a ticket that is in review or parked holds the later tickets of its conversation."""


class ReviewSettings(_Section, frozen=True, kw_only=True):
    """The human-review queue and its page. See docs/review.md."""

    claim: Seconds = Seconds(300.0)
    """How long a ticket that a reviewer has opened is nobody else's."""
    sla: Seconds = Seconds(14_400.0)
    """How long a ticket may wait for a person; the page colours its age by it."""
    undo: Seconds = Seconds(5.0)
    """How long an accepted ticket is held before it is published, so that it can still be taken back."""
    second_opinion: Share = Share(0.05)
    """Share of the tickets whose decision somebody else judges again."""
    session: Seconds = Seconds(43_200.0)
    """How long a sign-in to the page lasts."""


class FlowerSettings(_Section, frozen=True, kw_only=True):
    """The monitor for Celery that ``ticketmill flower`` runs."""

    host: str = "127.0.0.1"
    """Where Flower listens; beyond this machine only with ``basic_auth``."""
    port: Port = 5555
    """Of Flower."""
    basic_auth: str = ""
    """``user:password``."""
    broker_api: str = ""
    """URL of RabbitMQ's management API, so that Flower can show its queues."""


class Settings(_Section, frozen=True, kw_only=True):
    """Everything that can be set."""

    home: str = "~/.ticketmill"
    """What Ticketmill keeps on disk: models, the embedded broker and ledger. An absolute path, or ``~/...``."""
    broker: BrokerSettings = BrokerSettings()
    ledger: LedgerSettings = LedgerSettings()
    worker: WorkerSettings = WorkerSettings()
    reclaim: ReclaimSettings = ReclaimSettings()
    models: dict[str, ModelSettings] = msgspec.field(default_factory=lambda: {"default": ModelSettings()})
    """By name; a job names the one it wants."""
    jobs: dict[str, Job] = {}
    """Your own, by name; one called like a shipped job takes its place."""
    allocator: AllocatorSettings = AllocatorSettings()
    http: HttpSettings = HttpSettings()
    inlet: InletSettings = InletSettings()
    backfill: BackfillSettings = BackfillSettings()
    relay: RelaySettings = RelaySettings()
    fairness: FairnessSettings = FairnessSettings()
    limits: LimitsSettings = LimitsSettings()
    shedding: SheddingSettings = SheddingSettings()
    review: ReviewSettings = ReviewSettings()
    flower: FlowerSettings = FlowerSettings()
    edge: EdgeSettings = EdgeSettings()
    anti_spam: AntiSpamSettings = AntiSpamSettings()
    circuit_breaker: CircuitBreakerSettings = CircuitBreakerSettings()
    retry: dict[str, RetryRow] = {}
    """Rows of the retry matrix that are not as shipped, by the kind of failure. See docs/failures.md."""
    retry_share: Share = Share(0.2)
    """Retries that an upstream gets, as a share of the tickets that it is asked about for the first time."""
    cached_answers: Seconds = Seconds(604_800.0)
    """How old an answer may be that is given again where the matrix says ``cache``; 0: none is."""
    nearest_answers: Share = Share(0.0)
    """From this likeness on, an answer to a question much like it is given too; 0: only to the same one. Try 95%."""

    def job(self, name: str) -> Job | None:
        """The job of that name: the user's own first, then a shipped one."""
        return self.jobs.get(name) or SHIPPED_JOBS.get(name)

    def all_jobs(self) -> dict[str, Job]:
        """Every job that a ticket may name."""
        return {**SHIPPED_JOBS, **self.jobs}

    def used_models(self) -> dict[str, ModelSettings]:
        """The default one, those that jobs name, and what those fall back to."""
        names = {"default", *(job.model for job in self.all_jobs().values())}
        while more := {self.models[name].fallback for name in names} - names - {""}:
            names |= more
        return {name: self.models[name] for name in sorted(names)}

    def retry_matrix(self) -> dict[str, RetryRow]:
        """The whole of it: the shipped rows, with those of these settings in their places."""
        return {**RETRY_MATRIX, **self.retry}


def load_settings(file: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """Settings from the file's content with the environment's on top.

    Raises:
        SettingRefused: an unknown key, a wrong type or unit, a job that names an unknown model; names the setting.
    """
    merged = _copied(file)
    known = {ENV_PREFIX + "_".join(path).upper(): path for path in _paths(Settings, ())}
    for variable, value in sorted(environment.items()):
        if not variable.startswith(ENV_PREFIX) or variable in ENV_RESERVED:
            continue
        if variable not in known:
            raise SettingRefused(variable, "is no setting of Ticketmill; see docs/settings.md for their names")
        _put(merged, known[variable], value)
    try:
        settings = msgspec.convert(merged, Settings, dec_hook=_unit, strict=False)
    except msgspec.ValidationError as error:
        raise _refusal(error, merged) from None
    if "default" not in settings.models:
        settings = msgspec.structs.replace(settings, models={"default": ModelSettings(), **settings.models})
    for setting, wait in _waits(settings):
        if wait <= 0:
            raise SettingRefused(setting, "must be more than 0")
    for name, job in settings.all_jobs().items():
        if job.model not in settings.models:
            raise SettingRefused(f"jobs.{name}.model", f"names {job.model!r}, which is not under models")
    for name in settings.models:
        if wrong := wrong_with(name, settings.models):
            raise SettingRefused(f"models.{name}.{wrong[0]}", wrong[1])
    if wrong := settings.allocator.wrong():
        raise SettingRefused(f"allocator.{wrong[0]}", wrong[1])
    for kind in settings.retry.keys() - RETRY_MATRIX.keys():
        raise SettingRefused(f"retry.{kind}", f"is no kind of failure; there are {', '.join(RETRY_MATRIX)}")
    return _embedded(settings, environment.get("HOME", "~"))


def embedded_broker_url(home: str) -> str:
    """Where ``ticketmill up`` with this home has its broker."""
    return f"redis+socket://{home}/broker.sock"


def _embedded(settings: Settings, user_home: str) -> Settings:
    home = user_home + settings.home[1:] if settings.home.startswith("~/") else settings.home
    if not home.startswith(("/", "~/")):
        raise SettingRefused("home", "must be an absolute path or begin with ~/, so that every process finds it")
    broker = msgspec.structs.replace(settings.broker, url=settings.broker.url or embedded_broker_url(home))
    ledger = msgspec.structs.replace(settings.ledger, url=settings.ledger.url or f"sqlite:///{home}/ledger.db")
    return msgspec.structs.replace(settings, home=home, broker=broker, ledger=ledger)


def _unit(kind: type, value: Any) -> Any:
    if (
        kind in (Seconds, Share, Percent, Bytes)
        and isinstance(value, str | int | float)
        and not isinstance(value, bool)
    ):
        return kind.parse(value)
    if kind in (Listed, Ports) and isinstance(value, str | int | list | tuple):
        return kind.parse(value)
    raise ValueError(f"{value!r} is not a quantity")


def _waits(settings: Settings) -> Iterator[tuple[str, Seconds]]:
    yield "worker.lease", settings.worker.lease
    yield "worker.patience", settings.worker.patience
    yield "circuit_breaker.cpu.duration", settings.circuit_breaker.cpu.duration
    yield "circuit_breaker.gpu.duration", settings.circuit_breaker.gpu.duration
    yield "circuit_breaker.upstream.open_for", settings.circuit_breaker.upstream.open_for
    yield "relay.interval", settings.relay.interval
    yield "relay.reconcile_interval", settings.relay.reconcile_interval
    yield "relay.lost_after", settings.relay.lost_after
    yield "review.claim", settings.review.claim
    yield "review.session", settings.review.session
    yield "edge.ban_time", settings.edge.ban_time
    yield "anti_spam.copies.window", settings.anti_spam.copies.window
    yield "anti_spam.behavior.burst_window", settings.anti_spam.behavior.burst_window
    yield "anti_spam.behavior.block_for", settings.anti_spam.behavior.block_for
    for name, each in settings.edge.lists.items():
        yield f"edge.lists.{name}.expires", each.expires


def _copied(mapping: Mapping[str, Any]) -> dict[str, Any]:
    # A name with nothing behind it, as a section whose lines are all commented out leaves it, means the default.
    return {
        key: _copied(value) if isinstance(value, Mapping) else value
        for key, value in mapping.items()
        if value is not None
    }


def _put(target: dict[str, Any], path: tuple[str, ...], value: str) -> None:
    for key in path[:-1]:
        inner = target.setdefault(key, {})
        if not isinstance(inner, dict):
            raise SettingRefused(key, "must be a section of settings, not one value")
        target = inner
    target[path[-1]] = value


def _paths(section: type[msgspec.Struct], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for each in msgspec.structs.fields(section):
        path = (*above, each.encode_name)
        if isinstance(each.type, type) and issubclass(each.type, msgspec.Struct):
            yield from _paths(each.type, path)
        elif path == ("models",):
            yield from _paths(ModelSettings, ("models", "default"))
        elif path not in (
            ("jobs",),
            ("edge", "lists"),
            ("retry",),
            ("fairness", "weights"),
            ("limits", "tenants"),
            ("limits", "jobs"),
        ):
            yield path


def _refusal(error: Exception, merged: Mapping[str, Any]) -> SettingRefused:
    setting, why = explained(error, Settings, "a setting of Ticketmill; see docs/settings.md for their names")
    for section, kind in (
        ("models", ModelSettings),
        ("jobs", Job),
        ("edge.lists", ReputationList),
        ("retry", RetryRow),
    ):
        if setting.startswith(f"{section}[...]"):
            # Which of them it is the decoder does not say: ask it of one at a time.
            entries = functools.reduce(operator.getitem, section.split("."), merged)
            setting = setting.replace("[...]", f".{_first_refused(entries, kind)}", 1)
    return SettingRefused(setting or "settings", why)


def _first_refused(entries: Mapping[str, Any], kind: type[msgspec.Struct]) -> str:
    for name, entry in entries.items():
        try:
            msgspec.convert(entry, kind, dec_hook=_unit, strict=False)
        except msgspec.ValidationError:
            return printable(name)
    return "[...]"
