"""How busy this machine's processors are with what is not an engine of ours."""

from __future__ import annotations

import contextlib

import psutil

ENGINES = ("workers.app",)
"""What the command line of a worker has in it."""


class Processor:
    """Measures between one look and the next."""

    def __init__(self) -> None:
        self._last = self._times()

    def share(self) -> float:
        """Share of all processors' time since the last look that others than our engines used, 0 to 1."""
        busy, total, engines = self._times()
        before_busy, before_total, before_engines = self._last
        self._last = busy, total, engines
        spent = (busy - before_busy) - max(0.0, engines - before_engines)
        return min(1.0, max(0.0, spent / max(total - before_total, 1e-6)))

    def _times(self) -> tuple[float, float, float]:
        times = psutil.cpu_times()
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        idle = times.idle + getattr(times, "iowait", 0.0)
        engines = 0.0
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if any(each in part for part in process.cmdline() for each in ENGINES):
                    used = process.cpu_times()
                    engines += used.user + used.system
        return total - idle, total, engines
