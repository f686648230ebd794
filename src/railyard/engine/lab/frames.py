"""Values between the processes of a lab: a length and a pickle. All of them run the same program."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import select
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError, SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from railyard.engine.lab.blueprint import Blueprint, Ran


NET_ADMIN, SYS_ADMIN = 12, 21
"""Numbers of capabilities (linux/capability.h)."""

SEED = Path("/proc/sys/net/ipv4/fib_multipath_hash_seed")

FRR = (Path("/usr/lib/frr/zebra"), Path("/usr/lib/frr/bgpd"))


def missing() -> str:
    """What this machine lacks for a lab, in words; empty: nothing."""
    if not sys.platform.startswith("linux"):
        return f"Linux, for its network namespaces; this is {sys.platform}"
    held = _capabilities()
    if not (held >> NET_ADMIN & 1 and held >> SYS_ADMIN & 1):
        return "the right to make network namespaces (CAP_NET_ADMIN and CAP_SYS_ADMIN, which root has)"
    absent = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if absent:
        return f"`{'` and `'.join(absent)}` of iproute2"
    if not SEED.exists():
        return "Linux 6.11 or newer, whose switches can be given the seed of their hashes"
    if not os.access(SEED, os.W_OK):
        return "settings of the network that can be written; /proc/sys is mounted without that right, as in a container"
    return ""


def need(routing: str = "static") -> None:
    """Makes sure of it.

    Raises:
        InputError: Names what is missing.
    """
    lacking = missing()
    if not lacking and routing == "frr" and not all(path.exists() for path in FRR):
        lacking = "FRR (its daemons zebra and bgpd), for `lab: {routing: frr}`"
    if lacking:
        raise InputError(
            f"the engine `lab` runs the work for real on this machine, and needs {lacking}",
            key="engine",
            found="lab",
            allowed="analytic, flow, packet",
        )


def _capabilities() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


_LENGTH = struct.Struct("=Q")


def write_frame(end: int, value: object) -> None:
    """Writes a value to a file descriptor."""
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    data = _LENGTH.pack(len(data)) + data
    while data:
        data = data[os.write(end, data) :]


def read_frame(end: int) -> Any:
    """The next value of a file descriptor.

    Raises:
        EOFError: It ends before.
    """
    return pickle.loads(_exactly(end, _LENGTH.unpack(_exactly(end, _LENGTH.size))[0]))


def _exactly(end: int, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        more = os.read(end, size - len(got))
        if not more:
            raise EOFError("the other process ended")
        got += more
    return bytes(got)


LOCK = Path(tempfile.gettempdir()) / "railyard-lab.lock"
POLL_S = 0.05


def played(plan: Blueprint, poll: Callable[[], None]) -> Ran:
    """Builds a lab, runs what it is for, and lets it vanish.

    Args:
        plan: Everything.
        poll: Called about twenty times a second; may raise to end the lab.

    Raises:
        SimulationError: The kernel refuses something, a rank fails, or it takes too long.
    """
    with _alone(poll):
        answer, end = os.pipe()
        words = [sys.executable, "-m", "railyard.engine.lab.keeper", str(end)]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=[end])
        os.close(end)
        try:
            return _answer(process, answer, plan, poll)
        finally:
            process.kill()
            process.wait()
            os.close(answer)
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]


def _answer(process: subprocess.Popen[bytes], answer: int, plan: Blueprint, poll: Callable[[], None]) -> Ran:
    assert process.stdin is not None
    try:
        write_frame(process.stdin.fileno(), plan)
        while not select.select([answer], [], [], POLL_S)[0]:
            poll()
        said, value = read_frame(answer)
    except (EOFError, BrokenPipeError):
        raise SimulationError("the lab's keeper ended without an answer") from None
    if said == "hung":
        raise SimulationError(f"the lab ran longer than {plan.limit_s:.0f} s: {value}")
    if said == "error":
        raise SimulationError(f"the lab failed: {value}")
    ran: Ran = value
    return ran


@contextlib.contextmanager
def _alone(poll: Callable[[], None]) -> Iterator[None]:
    """One lab at a time on a machine: two would take the processors from one another."""
    with LOCK.open("a", encoding="ascii") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                poll()
                select.select([], [], [], POLL_S)
        yield
