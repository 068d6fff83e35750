"""Redis behind TLS: the same messages, leases and bell, over what kombu makes of the URL."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from producer.adapters.brokers import open_broker
from tests.contract.post import Taker, ids, stub
from tests.ground.redis_server import RedisServer, redis_program


class TlsServer(RedisServer):
    """Speaks TLS alone, with a certificate of its own making."""

    def __init__(self, program: Path, directory: Path) -> None:
        super().__init__(program, directory, keeps=True)
        self.certificate, self.key = directory / "server.crt", directory / "server.key"
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
        place = ["-keyout", str(self.key), "-out", str(self.certificate)]
        subprocess.run([*make, *names, *place], check=True, capture_output=True)
        self.url = f"rediss://127.0.0.1:{self.port}/0?ssl_cert_reqs=required&ssl_ca_certs={self.certificate}"

    def command(self) -> list[str | Path]:
        plain = super().command()
        port = plain.index("--port")
        tls = ["--tls-port", str(self.port), "--tls-cert-file", self.certificate, "--tls-key-file", self.key]
        return [*plain[:port], "--port", "0", *plain[port + 2 :], *tls, "--tls-auth-clients", "no"]

    def ready(self) -> bool:
        from redis import Redis
        from redis.exceptions import RedisError

        try:
            with Redis(port=self.port, ssl=True, ssl_ca_certs=str(self.certificate), socket_timeout=1) as client:
                return bool(client.ping())
        except RedisError:
            return False


@pytest.fixture
def server(tmp_path: Path) -> Generator[TlsServer]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate; install the package openssl")
    server = TlsServer(redis_program(), tmp_path)
    try:
        server.start()
        yield server
    finally:
        server.close()


def test_tickets_go_through_tls(server: TlsServer) -> None:
    worker = Taker(server.url)
    worker.listen()
    with closing(open_broker(server.url)) as broker:
        broker.publish([stub(ticket_id=each) for each in "abc"])
        worker.until(lambda: worker.rings == 1)
        held = worker.take(3)
        assert ids(held) == ["a", "b", "c"]
        worker.transport.release(held[2:])
        worker.transport.ack(held[:2])
        assert sum(broker.held().values()) == 1
    assert ids(worker.take(1)) == ["c"]
    worker.end()
