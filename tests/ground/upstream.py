"""An upstream that fails as it is told to: a real HTTP server with a script for each model that is asked."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Says(NamedTuple):
    """One reply: a status, headers, and a body. ``cut`` bytes of the body are never sent; ``slow_s`` passes in its
    middle; ``reset`` sends nothing at all but a TCP reset."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    cut: int = 0
    slow_s: float = 0.0
    reset: bool = False


def answers(text: str) -> Says:
    """A whole chat completion."""
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 20, "completion_tokens": 5}
    return Says(body=json.dumps({"choices": [choice], "usage": usage}).encode())


def refuses(status: int, **headers: str) -> Says:
    """A refusal; header names are written with ``_`` for ``-``."""
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Says(status, b'{"error": {"message": "not now"}}', named)


class Call(NamedTuple):
    """One request as it came in."""

    at_s: float
    key: str
    asked: dict[str, Any]


class Upstream:
    """See the module. A script's last reply is repeated for as long as it is asked.

    Attributes:
        scripts: what the model of that name says, first to last; may be changed at any time.
        calls: requests so far, by model.
    """

    def __init__(self) -> None:
        self.scripts: dict[str, deque[Says]] = {}
        self.calls: dict[str, list[Call]] = {}
        self._turn = threading.Lock()
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                upstream.reply(self, asked)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256  # a burst that does not fit would look like a slow upstream

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def script(self, model: str, replies: Sequence[Says]) -> None:
        """What it says from now on."""
        with self._turn:
            self.scripts[model] = deque(replies)

    def close(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def reply(self, handler: BaseHTTPRequestHandler, asked: dict[str, Any]) -> None:
        model = asked["model"]
        with self._turn:
            call = Call(time.monotonic(), handler.headers.get("authorization", ""), asked)
            self.calls.setdefault(model, []).append(call)
            script = self.scripts[model]
            says = script.popleft() if len(script) > 1 else script[0]
        if says.reset:
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.close_connection = True
            handler.connection.close()
            return
        handler.send_response(says.status)
        for name, value in says.headers:
            handler.send_header(name, value)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(says.body)))
        handler.end_headers()
        sent = says.body[: len(says.body) - says.cut]
        middle = len(sent) // 2
        try:
            handler.wfile.write(sent[:middle])
            if says.slow_s:
                time.sleep(says.slow_s)
            handler.wfile.write(sent[middle:])
        except OSError:
            handler.close_connection = True  # whoever asked has gone
        if says.cut:
            handler.close_connection = True
