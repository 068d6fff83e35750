"""A web server of reputation lists on 127.0.0.1, whose pages a test changes as it likes."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


class ListServer:
    """Serves ``pages`` (path: content, or a status code, or a redirect's target) with ETags.

    Attributes:
        asked: paths with the headers that came, in the order of the requests.
    """

    def __init__(self) -> None:
        self.pages: dict[str, bytes | int | str] = {}
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                server.asked.append((self.path, dict(self.headers)))
                page = server.pages.get(path, 404)
                if isinstance(page, int):
                    self.send_error(page)
                elif isinstance(page, str):
                    self._answer(302, {"Location": page}, b"")
                else:
                    tag = f'"{hashlib.sha256(page).hexdigest()[:16]}"'
                    known = self.headers.get("If-None-Match") == tag
                    self._answer(304 if known else 200, {"ETag": tag}, b"" if known else page)

            def _answer(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ListServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
