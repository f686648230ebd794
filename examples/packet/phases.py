"""Settings that follow a run against fixed ones, on mixes whose phases want different settings; RoCE, packet by packet.

python examples/packet/phases.py [--seeds 51 52 53 54] [--mix storage] [--json]

32 hosts at 400 Gb/s under 4 leaves and 4 spines. A job's collectives (every host sends to one other, each as soon as
its last one is done) go on all the time; in `crowded` phases a neighbour writes from some hosts to one port beside
them. What counts is the job's end, and that of all flows, the neighbour's too. Nothing of the law was chosen by these
seeds.

One run says little: with marks less likely by a part in 2,000, which changes nothing that anyone could mean, the same
draw ends up to a third sooner or later. So each draw is run four times (twins), each with another such part, and draws
are compared by their means. `as delivered, again` are four more twins without any other change: what is left of chance.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railyard.cluster.fabric import fabrics
from railyard.engine.packet import Retuning, Settings, Traffic, leaf_spine, run
from railyard.engine.packet.fabrics import PERIOD_PS, ROCE, Follow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

HOSTS = 32
MB = 1_000_000
OFF = {"marking_low_bytes": 10**9, "marking_high_bytes": 10**9}
FIXED = {"as delivered": {}, "4 Gb/s every 10 us": ROCE[1], "20 Gb/s every 5 us": ROCE[2], "no marks": OFF}
ONLINE, WRITTEN, AGAIN = "online", "as delivered", "as delivered, again"
WAYS = (*FIXED, AGAIN, ONLINE)
TWINS = 4


class Ends(NamedTuple):
    """When a run is done.

    Attributes:
        job_us: The job.
        all_us: All flows, the neighbour's too.
    """

    job_us: float
    all_us: float


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


def ends_us(mix: Mix, seed: int, twin: int = 0, ways: Sequence[str] = WAYS) -> dict[str, Ends]:
    """When the job and all flows are done, by what they ran with.

    Args:
        mix: Phases.
        seed: Of the draw: who sends to whom, and by which paths.
        twin: Of that draw: marks are less likely by so many parts in 2,000, which nobody could tell from the others.
        ways: Which of `WAYS`.
    """
    network = leaf_spine(HOSTS, leaf_hosts=8, spines=4, rate_bps=400 * 10**9)
    flows, job = traffic(mix, seed)
    constants = fabrics.get("roce").packets.constants
    found = {}
    for name in ways:
        shift = twin + (TWINS if name == AGAIN else 0)
        own = {"marking_most": constants["marking_most"] * (1.0 - shift / 2000), **FIXED.get(name, {})}
        retuning = Retuning(PERIOD_PS, Follow()) if name == ONLINE else None
        end = run(network, flows, Settings(**{**constants, **own}, seed=seed), retuning=retuning).end_ps
        found[name] = Ends(float(end[job].max()) / 1e6, float(end.max()) / 1e6)
    return found


def _ends(asked: tuple[str, int, int]) -> dict[str, Ends]:
    mix, seed, twin = asked
    return ends_us(MIXES[mix], seed, twin)


def draws(found: list[list[dict[str, Ends]]], name: str, at: int) -> list[float]:
    """By which share the job (0) or all flows (1) end later than as delivered, draw by draw: means over twins."""
    return [
        fmean(twin[name][at] for twin in twins) / fmean(twin[WRITTEN][at] for twin in twins) - 1.0 for twins in found
    ]


def worst_run(found: list[list[dict[str, Ends]]], name: str) -> float:
    """The job in one run beside one run as delivered of the same draw and twin."""
    return max(twin[name].job_us / twin[WRITTEN].job_us for twins in found for twin in twins) - 1.0


def main() -> None:
    """Prints every run, and the means against the settings as delivered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[51, 52, 53, 54])
    parser.add_argument("--mix", choices=MIXES, action="append")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names = options.mix or list(MIXES)
    asked = [(name, seed, twin) for name in names for seed in options.seeds for twin in range(TWINS)]
    with ProcessPoolExecutor() as pool:
        rows = iter(list(pool.map(_ends, asked)))
    found = {name: [[next(rows) for _ in range(TWINS)] for _ in options.seeds] for name in names}
    if options.json:
        plain = {"format": "railyard-phases/1", "seeds": options.seeds, "ends_us": found}
        sys.stdout.write(json.dumps(plain) + "\n")
        return
    sys.stdout.write("against as delivered        job: mean  worst draw   worst run   all flows: mean  worst draw\n")
    for mix, runs in found.items():
        for name in WAYS[1:]:
            job, every = draws(runs, name, 0), draws(runs, name, 1)
            cells = f"{fmean(job):>+11.1%} {max(job):>+11.1%} {worst_run(runs, name):>+11.1%}"
            sys.stdout.write(f"{mix:8} {name:22}{cells} {fmean(every):>+17.1%} {max(every):>+11.1%}" + "\n")


if __name__ == "__main__":
    main()
