"""Sends a counted number of SYNs at a given rate, on the tests' own networks: ``python -m tests.ops.edge.syns``.

The packets are whole Ethernet frames with right checksums, so that the receiver takes them for a client's.
"""

from __future__ import annotations

import argparse
import ipaddress
import random
import socket
import struct
import time

MOST = 50_000
"""Packets in one run; a test needs no more."""

STEP_S = 0.002
LONGEST_DEBT_S = 0.1
DISTINCT = 2_048


def main() -> None:
    """Parses the command line, sends, and prints how many were sent and in how many seconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", required=True)
    parser.add_argument("--to", required=True, help="hardware address of the next hop")
    parser.add_argument("--source", required=True, help="address, or network of which each packet has a new one")
    parser.add_argument("--target", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True, help="packets a second")
    arguments = parser.parse_args()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((arguments.device, 0))
        own = raw.getsockname()[4]
        to = bytes.fromhex(arguments.to.replace(":", ""))
        frames = [
            to + own + packet(source, arguments.target, arguments.port, sequence=number)
            for number, source in enumerate(sources(arguments.source, min(arguments.count, DISTINCT)))
        ]
        elapsed = send(raw, frames, min(arguments.count, MOST), arguments.rate)
    print(f"sent {min(arguments.count, MOST)} in {elapsed:.3f} s", flush=True)


def send(raw: socket.socket, frames: list[bytes], count: int, rate: float) -> float:
    """Sends ``count`` frames, round and round, no faster than ``rate`` a second; the seconds it took.

    After a stall of the machine, what could not be sent is not sent in a heap: a busy client does not do that either.
    """
    begun = last = time.monotonic()
    due = 1.0
    sent = 0
    while sent < count:
        for _ in range(min(int(due), count - sent)):
            raw.send(frames[sent % len(frames)])
            sent += 1
            due -= 1
        time.sleep(STEP_S)
        now = time.monotonic()
        due = min(due + (now - last) * rate, LONGEST_DEBT_S * rate)
        last = now
    return time.monotonic() - begun


def sources(text: str, count: int) -> list[str]:
    """The same address again and again, or as many different ones of a network."""
    if "/" not in text:
        return [text] * count
    network = ipaddress.ip_network(text)
    chosen = random.Random(1).sample(range(256, 2**31), count)
    return [str(network.network_address + each) for each in chosen]


def packet(source: str, target: str, port: int, sequence: int) -> bytes:
    """Ethernet type, IP header and a TCP header with nothing but SYN set."""
    ours, theirs = ipaddress.ip_address(source), ipaddress.ip_address(target)
    from_port = 20_000 + sequence % 30_000
    header = struct.pack(">HHIIBBHHH", from_port, port, 1_000_000 + sequence, 0, 5 << 4, 0x02, 64_240, 0, 0)
    if ours.version == 4:
        pseudo = ours.packed + theirs.packed + struct.pack(">BBH", 0, socket.IPPROTO_TCP, len(header))
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(header), sequence & 0xFFFF, 0x4000, 64, socket.IPPROTO_TCP, 0)
        ip += ours.packed + theirs.packed
        ip = ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:]
        kind = b"\x08\x00"
    else:
        pseudo = ours.packed + theirs.packed + struct.pack(">IHBB", len(header), 0, 0, socket.IPPROTO_TCP)
        ip = struct.pack(">IHBB", 6 << 28, len(header), socket.IPPROTO_TCP, 64) + ours.packed + theirs.packed
        kind = b"\x86\xdd"
    header = header[:16] + struct.pack(">H", checksum(pseudo + header)) + header[18:]
    return kind + ip + header


def checksum(content: bytes) -> int:
    """The internet's: the complement of the sum of all 16-bit words, in ones' complement."""
    total = sum(struct.unpack(f">{len(content) // 2}H", content))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


if __name__ == "__main__":
    main()
