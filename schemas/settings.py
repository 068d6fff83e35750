"""Settings: given as mappings (the YAML file's content, the environment), never read from anywhere.

One setting has one name: ``broker.url`` in the file is ``TICKETMILL_BROKER_URL`` in the environment, which wins.
Whatever is not known is refused by name. Settings that name no broker or no ledger mean the embedded ones under
``home``: every command and every worker with the same home then meets at the same place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from schemas.errors import SettingRefused
from schemas.job import Job
from schemas.refusal import explained, printable
from schemas.shipped_jobs import SHIPPED_JOBS
from schemas.ticket import Name
from schemas.units import Bytes, Seconds, Share

ENV_PREFIX = "TICKETMILL_"
ENV_RESERVED = frozenset({"TICKETMILL_CONFIG", "TICKETMILL_DATA", "TICKETMILL_KEY", "TICKETMILL_URL"})
"""Variables that are no settings: the file's place, the test data's place, and a client's key and server."""

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class BrokerSettings(_Section, frozen=True, kw_only=True):
    """``url``: ``redis://``, ``rediss://``, ``redis+socket://`` or ``amqp://``, ``amqps://``; empty: the broker that
    ``ticketmill up`` runs under ``home``."""

    url: str = ""
    result_backend: str = ""


class LedgerSettings(_Section, frozen=True, kw_only=True):
    """``url``: ``sqlite:///path`` or ``postgresql://user:password@host/database``; empty: a file under ``home``."""

    url: str = ""


class BatchSettings(_Section, frozen=True, kw_only=True):
    """How the number of slots follows what memory and latency allow. See docs/decisions on batch size."""

    policy: Literal["fixed", "printed", "mended"] = "mended"
    start: Count = 8
    cap: Count | None = None
    memory_share: Share = Share(0.9)
    memory_share_to_grow: Share = Share(0.7)
    p95: Seconds = Seconds(1.0)
    qps_to_grow: Annotated[float, msgspec.Meta(gt=0)] = 1000.0
    largest_step: Count = 4
    cool_down: Seconds = Seconds(30.0)


class WorkerSettings(_Section, frozen=True, kw_only=True):
    """``lease`` is how long a reserved ticket stays this worker's without renewal; it is renewed while it works."""

    engine: Literal["local", "noop"] = "local"
    batch: BatchSettings = BatchSettings()
    lease: Seconds = Seconds(30.0)
    grace: Seconds = Seconds(120.0)
    most_starts: Count = 4


class ModelSettings(_Section, frozen=True, kw_only=True):
    """``path`` is a directory, or ``smollm2-135m-instruct`` for the model from its package."""

    path: str = "smollm2-135m-instruct"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Annotated[int, msgspec.Meta(ge=0)] = 0
    context: Annotated[int, msgspec.Meta(ge=64)] | None = None


class HttpSettings(_Section, frozen=True, kw_only=True):
    """``host`` stays on this machine until told otherwise; every call needs a key wherever it listens."""

    host: str = "127.0.0.1"
    port: Port = 8040
    largest_body: Bytes = Bytes(8_000_000)
    most_lines: Count = 10_000


class InletSettings(_Section, frozen=True, kw_only=True):
    """``tenant``: whose tickets raw Celery messages become. Who can write to the broker is trusted with that one."""

    enabled: bool = True
    tenant: Name = "default"


class BackfillSettings(_Section, frozen=True, kw_only=True):
    """``window``: how many backfill tickets lie in the queue at once; the rest wait in the ledger."""

    window: Count = 1000


class RelaySettings(_Section, frozen=True, kw_only=True):
    """How the outbox is emptied and how a broker that lost messages is refilled."""

    chunk: Count = 500
    interval: Seconds = Seconds(0.5)
    reconcile_interval: Seconds = Seconds(5.0)
    lost_after: Seconds = Seconds(30.0)


class FlowerSettings(_Section, frozen=True, kw_only=True):
    """``basic_auth``: ``user:password``; ``broker_api``: the URL of RabbitMQ's management API, for its queues."""

    host: str = "127.0.0.1"
    port: Port = 5555
    basic_auth: str = ""
    broker_api: str = ""


class Settings(_Section, frozen=True, kw_only=True):
    """Everything that can be set.

    ``home`` holds what Ticketmill keeps on disk: models, the embedded broker and ledger. An absolute path or ``~/...``.
    """

    home: str = "~/.ticketmill"
    broker: BrokerSettings = BrokerSettings()
    ledger: LedgerSettings = LedgerSettings()
    worker: WorkerSettings = WorkerSettings()
    models: dict[str, ModelSettings] = msgspec.field(default_factory=lambda: {"default": ModelSettings()})
    jobs: dict[str, Job] = {}
    http: HttpSettings = HttpSettings()
    inlet: InletSettings = InletSettings()
    backfill: BackfillSettings = BackfillSettings()
    relay: RelaySettings = RelaySettings()
    flower: FlowerSettings = FlowerSettings()

    def job(self, name: str) -> Job | None:
        """The job of that name: the user's own first, then a shipped one."""
        return self.jobs.get(name) or SHIPPED_JOBS.get(name)

    def all_jobs(self) -> dict[str, Job]:
        """Every job that a ticket may name."""
        return {**SHIPPED_JOBS, **self.jobs}


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
    if kind in (Seconds, Share, Bytes) and isinstance(value, str | int | float) and not isinstance(value, bool):
        return kind.parse(value)
    raise ValueError(f"{value!r} is not a quantity")


def _waits(settings: Settings) -> Iterator[tuple[str, Seconds]]:
    yield "worker.lease", settings.worker.lease
    yield "relay.interval", settings.relay.interval
    yield "relay.reconcile_interval", settings.relay.reconcile_interval
    yield "relay.lost_after", settings.relay.lost_after


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
        elif path != ("jobs",):
            yield path


def _refusal(error: Exception, merged: Mapping[str, Any]) -> SettingRefused:
    setting, why = explained(error, Settings, "a setting of Ticketmill; see docs/settings.md for their names")
    for section, kind in (("models", ModelSettings), ("jobs", Job)):
        if setting.startswith(f"{section}[...]"):
            # Which of them it is the decoder does not say: ask it of one at a time.
            setting = setting.replace("[...]", f".{_first_refused(merged[section], kind)}", 1)
    return SettingRefused(setting or "settings", why)


def _first_refused(entries: Mapping[str, Any], kind: type[msgspec.Struct]) -> str:
    for name, entry in entries.items():
        try:
            msgspec.convert(entry, kind, dec_hook=_unit, strict=False)
        except msgspec.ValidationError:
            return printable(name)
    return "[...]"
