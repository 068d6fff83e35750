"""Fetching a reputation list from its file or URL, within bounds of size and time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import httpx
import msgspec

from schemas.errors import SettingRefused

SILENCE_S = 10.0
"""How long a server may say nothing."""

WHOLE_S = 120.0
"""How long a download may take."""


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """The list's content, with what the server wants to be asked with next time."""

    content: bytes
    etag: str = ""
    modified: str = ""


class Unchanged(msgspec.Struct, frozen=True):
    """The server says that the copy we have is the current one."""


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing usable came."""

    why: str


def check(setting: str, source: str) -> None:
    """Raises SettingRefused unless ``source`` is an absolute path or an http(s) URL."""
    if source.startswith("/"):
        return
    try:
        host = httpx.URL(source).host
    except httpx.InvalidURL:
        host = ""
    if not (_is_url(source) and host):
        raise SettingRefused(setting, "must be an absolute path, or a URL that begins with https:// or http://")


def shown(source: str) -> str:
    """The source as it may be printed: without password, and without the query, which often holds a key."""
    if not _is_url(source):
        return source
    url = httpx.URL(source)
    return f"{url.scheme}://{url.netloc.decode('ascii')}{url.path}"


def fetch(source: str, largest: int, etag: str = "", modified: str = "") -> Fetched | Unchanged | Failed:
    """The list as it is now.

    Args:
        largest: bytes; a longer list is a failure, not a shorter list.
        etag, modified: of the copy at hand, if there is one.
    """
    if not _is_url(source):
        return _read_file(Path(source), largest)
    known = {"If-None-Match": etag, "If-Modified-Since": modified}
    headers = {"User-Agent": "ticketmill-edge", **{name: value for name, value in known.items() if value}}
    try:
        with (
            httpx.Client(follow_redirects=True, max_redirects=3, timeout=SILENCE_S, headers=headers) as client,
            client.stream("GET", source) as response,
        ):
            return _received(response, source, largest)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Failed(why=" ".join(str(error).split()) or type(error).__name__)


def _received(response: httpx.Response, source: str, largest: int) -> Fetched | Unchanged | Failed:
    hops = [*response.history, response]
    if source.startswith("https://") and any(hop.url.scheme != "https" for hop in hops):
        return Failed(why="was redirected away from https")
    if response.status_code == HTTPStatus.NOT_MODIFIED:
        return Unchanged()
    if response.status_code != HTTPStatus.OK:
        return Failed(why=f"answered {response.status_code} {response.reason_phrase}".rstrip())
    content = _whole(response.iter_bytes(65_536), largest)
    if isinstance(content, Failed):
        return content
    return Fetched(
        content=content,
        etag=response.headers.get("ETag", ""),
        modified=response.headers.get("Last-Modified", ""),
    )


def _whole(chunks: Iterator[bytes], largest: int) -> bytes | Failed:
    deadline = time.monotonic() + WHOLE_S
    content = bytearray()
    for chunk in chunks:
        content += chunk
        if len(content) > largest:
            return _too_large(largest)
        if time.monotonic() > deadline:
            return Failed(why=f"took longer than {WHOLE_S:.0f} s")
    return bytes(content)


def _read_file(path: Path, largest: int) -> Fetched | Failed:
    try:
        with path.open("rb") as file:
            content = file.read(largest + 1)
    except OSError as error:
        return Failed(why=f"cannot be read: {error.strerror}")
    return Fetched(content=content) if len(content) <= largest else _too_large(largest)


def _too_large(largest: int) -> Failed:
    return Failed(why=f"is larger than {largest:,} bytes (largest)")


def _is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))
