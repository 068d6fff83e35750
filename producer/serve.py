"""The producer as one process: the HTTP API, the relay, the reconciler and the inlet. ``python -m producer.serve``.

Several may run side by side: each publishes what came in through its own door, and one at a time sweeps the outbox,
releases the backfill and reconciles.
"""

from __future__ import annotations

import ipaddress
import logging
import signal
import socket
import sys

import uvicorn

from producer.adapters.settings_file import read_settings
from producer.boot import Floor, Producer, open_floor, open_producer
from schemas.errors import Refused, SettingRefused, TicketmillError
from schemas.settings import HttpSettings, Settings

log = logging.getLogger("ticketmill")

GRACE_S = 30
"""How long requests in flight may take to end."""


def main() -> int:
    """Serves until SIGTERM or SIGINT. Exit status: 0; 2 for a setting that cannot be used; 1 for what is not there."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    log.setLevel(logging.INFO)
    try:
        serve(read_settings())
    except TicketmillError as error:
        print(f"ticketmill serve: {error}", file=sys.stderr)
        return 2 if isinstance(error, Refused) else 1
    return 0


def serve(settings: Settings) -> None:
    """Serves with these settings until SIGTERM or SIGINT, then ends what is in flight.

    Raises:
        SettingRefused: a setting that cannot be used, an address that is taken, or one that others can reach while
            there is no key to keep them out.
        LedgerUnavailable, LedgerNotMigrated: there is no ledger to work with.
    """
    producer = open_producer(settings)
    try:
        with _listening(settings.http) as listener:
            floor = open_floor(producer)
            _check_exposure(settings.http, listener, producer)
            floor.start()
            try:
                _answer(floor, listener, settings.http)
            finally:
                floor.stop()
    finally:
        producer.close()
    log.info("ended in good order")


def _listening(http: HttpSettings) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(http.host, http.port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise SettingRefused("http.host", f"{http.host!r} is no address of this machine ({error.strerror})") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        why = f"{http.host}:{http.port} cannot be listened on ({error.strerror}); choose another"
        raise SettingRefused("http.port", why) from None
    return listener


def _check_exposure(http: HttpSettings, listener: socket.socket, producer: Producer) -> None:
    if any(key.revoked_at is None for key in producer.keys.listed()):
        return
    if not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
        why = f"{http.host} can be reached from other machines, and there is no key yet; run `ticketmill key create`"
        raise SettingRefused("http.host", why)
    log.warning("there is no API key yet, and every request needs one; make it with `ticketmill key create`")


def _answer(floor: Floor, listener: socket.socket, http: HttpSettings) -> None:
    # uvicorn ends in good order on these and then raises them anew: that must not end the process before the rest has.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ignore)
    host, port = listener.getsockname()[:2]
    log.info("listening on http://%s:%d", f"[{host}]" if ":" in host else host, port)
    config = uvicorn.Config(
        floor.app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(http.proxies),
        forwarded_allow_ips=list(http.proxies),
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=GRACE_S,
    )
    uvicorn.Server(config).run([listener])


def _ignore(_number: int, _frame: object) -> None:
    """The signal was heard already."""


if __name__ == "__main__":
    sys.exit(main())
