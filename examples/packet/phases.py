"""Settings that follow a run against fixed ones, on mixes whose phases want different settings; RoCE, packet by packet.

python examples/packet/phases.py [--seeds 21 22 23 24] [--mix storage] [--json]

32 hosts at 400 Gb/s under 4 leaves and 4 spines. A job's collectives (every host sends to one other, each as soon as
its last one is done) go on all the time; in `crowded` phases a neighbour writes from some hosts to one port beside
them. What counts is the job's end; nothing of the law was chosen by these seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.packet import Retuning, Settings, Traffic, leaf_spine, run
from railyard.engine.packet.follow import PERIOD_PS, ROCE, Follow
from railyard.fabric import fabrics

if TYPE_CHECKING:
    from numpy.typing import NDArray

HOSTS = 32
MB = 1_000_000
OFF = {"marking_low_bytes": 10**9, "marking_high_bytes": 10**9}
FIXED = {"as delivered": {}, "4 Gb/s every 10 us": ROCE[1], "20 Gb/s every 5 us": ROCE[2], "no marks": OFF}
ONLINE = "online"


@dataclass(frozen=True)
class Mix:
    """Phases of a job.

    Attributes:
        calm: Collectives in a row with nobody beside them.
        calm_bytes: Of each host in each of these.
        crowded: Collectives in a row while a neighbour writes.
        crowded_bytes: Of each host in each of these.
        writers: Hosts that write to one port as such a phase begins.
        written_bytes: Of each of them.
        times: How often both come.
    """

    calm: int
    calm_bytes: int
    crowded: int = 0
    crowded_bytes: int = 0
    writers: int = 0
    written_bytes: int = 0
    times: int = 1


MIXES = {
    "bursts": Mix(8, 6 * MB, 3, 2 * MB, 24, 8 * MB, times=2),
    "even": Mix(6, 6 * MB, 6, 2 * MB, 16, 8 * MB, times=2),
    "storage": Mix(4, 6 * MB, 4, 3 * MB, 15, 20 * MB),
    "alone": Mix(4, 6 * MB),
}


def partners(dice: np.random.Generator) -> NDArray[np.int64]:
    """int64[hosts]: to whom each sends; to nobody itself."""
    while True:
        found = dice.permutation(HOSTS)
        if (found != np.arange(HOSTS)).all():
            return found


def traffic(mix: Mix, seed: int) -> tuple[Traffic, NDArray[np.int64]]:
    """Flows, and which of them are the job's."""
    dice = np.random.default_rng(seed)
    rows: list[tuple[int, int, int, int]] = []  # source, target, bytes, the flow before
    last, job = [-1] * HOSTS, []
    for _ in range(mix.times):
        for number in range(mix.calm + mix.crowded):
            before = list(last)
            for host, target in enumerate(partners(dice).tolist()):
                last[host] = len(rows)
                job.append(len(rows))
                size = mix.calm_bytes if number < mix.calm else mix.crowded_bytes
                rows.append((host, target, size, before[host]))
            if number == mix.calm and mix.writers:
                target = int(dice.integers(HOSTS))
                others = [host for host in range(HOSTS) if host != target]
                writers = dice.choice(others, mix.writers, replace=False).tolist()
                rows += [(host, target, mix.written_bytes, before[host]) for host in writers]
    source, target, size, before = np.array(rows).T
    waits = np.flatnonzero(before >= 0)
    return Traffic.of(HOSTS, source, target, size).after(waits, before[waits], at=1), np.array(job)


def ends_us(mix: Mix, seed: int) -> dict[str, float]:
    """When the job is done, by what it ran with."""
    network = leaf_spine(HOSTS, leaf_hosts=8, spines=4, rate_bps=400 * 10**9)
    flows, job = traffic(mix, seed)
    constants = fabrics.get("roce").packets.constants
    found = {}
    for name in (*FIXED, ONLINE):
        settings = Settings(**{**constants, **FIXED.get(name, {})}, seed=seed)
        retuning = Retuning(PERIOD_PS, Follow()) if name == ONLINE else None
        found[name] = float(run(network, flows, settings, retuning=retuning).end_ps[job].max()) / 1e6
    return found


def main() -> None:
    """Prints every run, and the means against the settings as delivered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[21, 22, 23, 24])
    parser.add_argument("--mix", choices=MIXES, action="append")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {name: [ends_us(MIXES[name], seed) for seed in options.seeds] for name in options.mix or MIXES}
    if options.json:
        sys.stdout.write(json.dumps({"format": "railyard-phases/1", "seeds": options.seeds, "ends_us": found}) + "\n")
        return
    names = (*FIXED, ONLINE)
    sys.stdout.write(
        f"{'mix':10}" + "".join(f"{name:>22}" for name in names) + "   against as delivered: mean, worst" + "\n"
    )
    for mix, runs in found.items():
        shares = {name: [run[name] / run["as delivered"] - 1.0 for run in runs] for name in names}
        cells = "".join(f"{fmean(share):>+12.1%} {max(share):>+8.1%}" for share in shares.values())
        sys.stdout.write(f"{mix:10}{cells}" + "\n")


if __name__ == "__main__":
    main()
