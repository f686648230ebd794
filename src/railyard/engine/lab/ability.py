"""Whether this machine can run a lab."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from railyard.kit.errors import InputError

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
