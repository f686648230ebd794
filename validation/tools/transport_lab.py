"""Real TCP over a shaped path in network namespaces, against the closed forms of `railyard.cluster.edge.transport`.

Needs root, Linux with network namespaces and /dev/net/tun, and `tcp_bbr` for BBR. Two namespaces are joined by two TUN
devices; this process carries packets between them with a rate, a drop-tail buffer, a delay and random loss, since not
every kernel has netem. Predictions are written down before a transfer starts.

    validation/tools/transport_lab.py validation/data/edge/transport.csv
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import multiprocessing
import os
import random
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from railyard.cluster.edge.transport import transfer_s, transports

if TYPE_CHECKING:
    from collections.abc import Callable

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000
AT_ONCE = 6
REPEATS = 3


@dataclass(frozen=True)
class Case:
    """One path and one transfer."""

    transport: str
    rate_bps: float
    rtt_s: float
    loss: float
    buffer: float
    size_bytes: int

    def predicted_s(self) -> float:
        """From the first packet sent to the last one received."""
        return float(
            transfer_s(
                transports.get(self.transport),
                self.size_bytes,
                self.rate_bps,
                self.rtt_s,
                self.loss,
                buffer=self.buffer,
            )
        )


Measured = dict[tuple[Case, int], float]
"""Seconds of a case and a repeat."""


def cases() -> list[Case]:
    """Short and long transfers, near and far, clean and lossy; buffers of 1 and 0.3 bandwidth-delay products."""
    found = []
    for name in ("cubic", "bbr"):
        for rate, rtt in ((5e6, 0.05), (20e6, 0.03), (20e6, 0.1), (20e6, 0.2), (50e6, 0.05)):
            found += [Case(name, rate, rtt, 0.0, 1.0, size) for size in (100_000, 1_000_000)]
            found.append(Case(name, rate, rtt, 0.0, 1.0, int(rate / 8.0 * 20.0)))
        found.append(Case(name, 20e6, 0.1, 0.0, 0.3, 60_000_000))
        for loss, rtt in ((0.001, 0.03), (0.001, 0.1), (0.003, 0.05), (0.01, 0.03), (0.01, 0.1)):
            seconds = 30.0
            goodput = min(20e6, 1.3 * 1448 * 8 / rtt / loss**0.5) if name == "cubic" else 20e6
            found.append(Case(name, 20e6, rtt, loss, 1.0, int(goodput / 8.0 * seconds)))
    return found


class Way:
    """One direction of a path: rate, drop-tail buffer, delay, random loss."""

    def __init__(self, source: int, target: int, case: Case, loss: float, seed: int) -> None:
        self.source, self.target, self.loss = source, target, loss
        self.rate, self.delay = case.rate_bps, case.rtt_s / 2.0
        self.room_s = max(case.buffer * case.rtt_s, 3 * 1500 * 8 / case.rate_bps)
        self.free_at, self.waiting = 0.0, deque()
        self.random = random.Random(seed)

    def take(self, now: float) -> None:
        """Reads what has come."""
        while True:
            try:
                packet = os.read(self.source, 2048)
            except BlockingIOError:
                return
            if self.random.random() < self.loss or self.free_at - now > self.room_s:
                continue
            self.free_at = max(self.free_at, now) + len(packet) * 8.0 / self.rate
            self.waiting.append((self.free_at + self.delay, packet))

    def give(self, now: float) -> float:
        """Writes what is due; when the next one is."""
        while self.waiting and self.waiting[0][0] <= now:
            packet = self.waiting.popleft()[1]
            with contextlib.suppress(OSError):
                os.write(self.target, packet)
        return self.waiting[0][0] if self.waiting else now + 0.05


def carry(ends: tuple[int, int], case: Case, seed: int) -> None:
    """Moves packets both ways until it is ended; loss is of the data's way only."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))  # a late packet would look like a queue to the senders
    ways = (Way(ends[0], ends[1], case, case.loss, seed), Way(ends[1], ends[0], case, 0.0, seed + 1))
    poll = select.poll()
    for end in ends:
        os.set_blocking(end, False)
        poll.register(end, select.POLLIN)
    due = 0.0
    while True:
        now = time.monotonic()
        poll.poll(max(0.0, min(due - now, 0.05)) * 1000.0)
        now = time.monotonic()
        for way in ways:
            way.take(now)
        due = min(way.give(now) for way in ways)


def tun(name: str, space: str, address: str, peer: str) -> int:
    """A TUN device in a namespace; its end here."""
    end = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TUN | _IFF_NO_PI))
    run("ip", "link", "set", name, "netns", space)
    run("ip", "-n", space, "link", "set", name, "mtu", "1500", "txqueuelen", "20000")
    run("ip", "-n", space, "addr", "add", address, "peer", peer, "dev", name)
    run("ip", "-n", space, "link", "set", name, "up")
    run("ip", "-n", space, "link", "set", "lo", "up")
    return end


def run(*words: str) -> None:
    """A command that must work."""
    subprocess.run(words, check=True)


def within(space: str, work: str, *words: str) -> subprocess.Popen[str]:
    """This file in a namespace."""
    command = ["ip", "netns", "exec", space, sys.executable, __file__, work, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def receive(size: int) -> None:
    """Reads so many bytes of one connection; prints when the last one came."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    with socket.create_server(("0.0.0.0", 5001)) as server:
        print("ready", flush=True)
        connection, _ = server.accept()
        left = size
        while left > 0:
            left -= len(connection.recv(1 << 18))
        print(time.monotonic(), flush=True)


def send(address: str, size: int, control: str) -> None:
    """Writes so many bytes; prints when the first one was given to the kernel."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    connection = socket.socket()
    connection.setsockopt(socket.IPPROTO_TCP, 13, control.encode())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 << 20)
    connection.connect((address, 5001))
    print(time.monotonic(), flush=True)
    block = bytes(1 << 16)
    left = size
    while left > 0:
        left -= connection.send(block[: min(left, len(block))])
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)


def over_tcp(spaces: tuple[str, str], case: Case) -> float:
    """Seconds of one transfer by the kernel."""
    getter = within(spaces[1], "receive", str(case.size_bytes))
    assert getter.stdout is not None
    getter.stdout.readline()
    giver = within(spaces[0], "send", "10.9.0.2", str(case.size_bytes), case.transport)
    assert giver.stdout is not None
    begun = float(giver.stdout.readline())
    ended = float(getter.stdout.readline())
    for process in (getter, giver):
        process.wait(timeout=30)
    return ended - begun


def measured_s(case: Case, number: int, seed: int, talk: Callable[[tuple[str, str], Case], float] = over_tcp) -> float:
    """One transfer between two namespaces over a carried path; `talk` makes it, the first namespace sends."""
    spaces = (f"ry{number}a", f"ry{number}b")
    for space in spaces:
        run("ip", "netns", "add", space)
        for key in ("tcp_rmem", "tcp_wmem"):
            run("ip", "netns", "exec", space, "sh", "-c", f"echo 4096 131072 67108864 > /proc/sys/net/ipv4/{key}")
        run("ip", "netns", "exec", space, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/tcp_no_metrics_save")
    ends = (
        tun(f"ryt{number}a", spaces[0], "10.9.0.1", "10.9.0.2"),
        tun(f"ryt{number}b", spaces[1], "10.9.0.2", "10.9.0.1"),
    )
    carrier = multiprocessing.get_context("fork").Process(target=carry, args=(ends, case, seed), daemon=True)
    carrier.start()
    try:
        return talk(spaces, case)
    finally:
        carrier.terminate()
        carrier.join()
        for end in ends:
            os.close(end)
        for space in spaces:
            subprocess.run(("ip", "netns", "del", space), check=False)


def measure(todo: list[tuple[Case, int]], at_once: int, talk: Callable[[tuple[str, str], Case], float]) -> Measured:
    """Every case as often as it is listed, some at a time, the longest first."""
    todo = sorted(todo, key=lambda item: -item[0].predicted_s())
    found: Measured = {}
    lock, left = threading.Lock(), list(enumerate(todo))

    def work() -> None:
        while True:
            with lock:
                if not left:
                    return
                number, (case, repeat) = left.pop(0)
            seconds = measured_s(case, number, 1000 * repeat + 17, talk)
            with lock:
                found[case, repeat] = seconds
                words = f"{len(found)}/{len(todo)} {case} {case.predicted_s():.3f} {seconds:.3f}"
                print(words, file=sys.stderr, flush=True)

    threads = [threading.Thread(target=work) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def write(target: Path, found: Measured) -> None:
    """A CSV of what was measured."""
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["transport", "rate_bps", "rtt_s", "loss", "buffer", "size_bytes", "repeat", "measured_s"])
        for (case, repeat), seconds in found.items():
            row = [case.transport, case.rate_bps, case.rtt_s, case.loss, case.buffer, case.size_bytes, repeat]
            writer.writerow([*row, round(seconds, 4)])


def main(target: Path) -> None:
    """Every case, and a CSV of what was measured."""
    todo = [(case, repeat) for case in cases() for repeat in range(REPEATS if case.loss else 1)]
    write(target, measure(todo, AT_ONCE, over_tcp))


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(int(sys.argv[2]))
    elif sys.argv[1] == "send":
        send(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        main(Path(sys.argv[1]))
