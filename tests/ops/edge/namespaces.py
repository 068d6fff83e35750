"""Networks of a test's own: namespaces joined by veth pairs, gone with the test run. No packet leaves them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.ground.process import ROOT, Process
from tests.ground.server import binary, lacking
from tests.ground.waiting import wait_until

SBIN = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def require() -> None:
    """Skips the test, or fails it in CI, where this machine cannot give it networks of its own."""
    if sys.platform != "linux" or os.geteuid() != 0:
        lacking("needs root on Linux, to make network namespaces of its own")
    packages = {"nft": "nftables", "ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux"}
    for program, package in packages.items():
        binary(lambda program=program: shutil.which(program, path=SBIN), program, package)
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        lacking(f"no network namespaces here: {tried.stderr.strip()}")


class Namespace:
    """One network namespace, held open by a process of ours: it ends with the process, and the process with us."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder
        self._started: list[Process] = []
        self._holder = Process(["unshare", "--net", "sleep", "infinity"], log=folder / f"{name}.log")
        wait_until(lambda: self._place() != Path("/proc/self/ns/net").readlink())
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *command: str | Path, stdin: str | None = None) -> str:
        """Runs it in here; its standard output. Fails the test if it fails."""
        done = self.tried(*command, stdin=stdin)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def tried(self, *command: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """The same, whatever comes of it."""
        return subprocess.run(
            self._inside(command),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=self._environment(),
            cwd=self._folder,
        )

    def start(self, *command: str | Path) -> Process:
        """Starts it in here; it is ended with the namespace."""
        log = self._folder / f"{self.name}-{len(self._started)}.log"
        process = Process(self._inside(command), log=log, env=self._environment(), cwd=self._folder)
        self._started.append(process)
        return process

    def python(self, module: str, *arguments: str | Path) -> Process:
        """Starts ``python -m module`` in here."""
        return self.start(sys.executable, "-m", module, *arguments)

    def ticketmill(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Runs the ``ticketmill`` command in here."""
        return self.tried(sys.executable, "-m", "ops.cli", *arguments)

    def json(self, *command: str | Path) -> Any:
        """What it prints, as JSON."""
        return json.loads(self.run(*command))

    def join(self, other: Namespace, ours: Sequence[str], theirs: Sequence[str]) -> None:
        """A cable between two namespaces, and the addresses at its ends (with their prefix length).

        Our end is named after the other namespace, theirs after ours.
        """
        self.run("ip", "link", "add", other.name, "type", "veth", "peer", "name", self.name, "netns", str(other.pid))
        for here, there, addresses in ((self, other, ours), (other, self, theirs)):
            for address in addresses:
                without_probing = ["nodad"] if ":" in address else []
                here.run("ip", "address", "add", address, "dev", there.name, *without_probing)
            here.run("ip", "link", "set", there.name, "up")

    def mac(self, device: str) -> str:
        """The hardware address of a device in here."""
        (link,) = self.json("ip", "-json", "link", "show", "dev", device)
        return link["address"]

    @property
    def pid(self) -> int:
        """Of the process that holds it."""
        return self._holder.pid

    def end(self, *processes: Process) -> None:
        """Ends these, or everything started in here."""
        for process in processes or self._started:
            process.kill()

    def close(self) -> None:
        """Ends what runs in here; the kernel takes the namespace away, its cables with it."""
        self.end()
        self._holder.kill()

    def _place(self) -> Path:
        return Path(f"/proc/{self.pid}/ns/net").readlink()

    def _inside(self, command: Sequence[str | Path]) -> list[str | Path]:
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--", *command]

    def _environment(self) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("TICKETMILL_")}
        without_proxies = {name: value for name, value in ours.items() if not name.lower().endswith("_proxy")}
        return {**without_proxies, "PATH": SBIN, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "COLUMNS": "120"}
