"""Opens HTTP connections one after another and counts what became of them: ``python -m tests.ops.edge.connections``.

A connection was served if an HTTP answer came, else it was refused. Prints a line of JSON at the end.
"""

from __future__ import annotations

import argparse
import json
import socket
import time


def main() -> None:
    """Parses the command line and prints ``{"served": ..., "refused": ...}``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two of them")
    parser.add_argument("--patience", type=float, default=20.0, help="seconds to wait for an answer")
    arguments = parser.parse_args()
    served = 0
    for _ in range(arguments.count):
        served += answered(arguments.source, arguments.target, arguments.port, arguments.patience)
        time.sleep(arguments.pause)
    print(json.dumps({"served": served, "refused": arguments.count - served}), flush=True)


def answered(source: str, target: str, port: int, patience_s: float) -> bool:
    """One connection from ``source``; whether an answer came."""
    with socket.socket(socket.AF_INET6 if ":" in target else socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.settimeout(patience_s)
        try:
            connection.bind((source, 0))
            connection.connect((target, port))
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.recv(64).startswith(b"HTTP/1.")
        except OSError:
            return False


if __name__ == "__main__":
    main()
