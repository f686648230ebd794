"""Prints a digest of each of some runs, on the core that RAILYARD_CORE names or the installed one (see `digests`)."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools import chosen_core  # noqa: F401 - before anything of Railyard

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
MATRIX = ROOT / "tests" / "engine" / "packet" / "data" / "perm_16n_16c_2MB.cm"
THREADS = (1, 2, 16)
STEP = {
    "name": "step",
    "cluster": {"accelerators": 64, "server": "hgx-h100"},
    "workload": {
        "training": {
            "model": "llama-3-8b",
            "tokens": "1 T",
            "global_batch": 128,
            "sequence": 4096,
            "parallelism": {"tp": 4, "pp": 2},
        }
    },
}
SERVED = {
    "name": "served",
    "cluster": {"accelerators": 16, "server": "hgx-h100"},
    "workload": {
        "serving": {
            "model": "llama-3-8b",
            "requests": {"synthetic": {"rate": 4, "input": 1000, "output": 100, "count": 300}},
            "pools": {"both": {"replicas": 4, "tp": 4}},
        }
    },
}

ROUNDS = {
    "name": "rounds",
    "workload": {
        "federated": {
            "model": {"parameters": "1 M", "flop_per_sample": 1e8},
            "clients": {"count": "1 M", "devices": {"phone-mid": 1}, "links": {"lte": 1, "fibre": 1}},
            "round": {"participants": 2000, "over_selection": 0.3},
            "server": {"line": "1 Gb/s"},
            "rounds": 5,
        }
    },
}


def packets() -> Iterator[tuple[str, str]]:
    """Every preset of a fabric over one matrix, on 1, 2 and 16 threads.

    Raises:
        SystemExit: The number of threads changes a bit.
    """
    from railyard.work.scenario.packet import fabric, names  # noqa: PLC0415 - after the core was chosen
    from railyard.work.traffic.simulate import TrafficRun, run  # noqa: PLC0415

    for name in names():
        preset = fabric(name)
        runs = (TrafficRun(MATRIX, None, preset, preset.settings, seed=3, threads=threads) for threads in THREADS)
        found = {given.threads: run(given).record.digest() for given in runs}
        if len(set(found.values())) > 1:
            raise SystemExit(f"packet {name}: the number of threads changes the result: {found}")
        yield f"packet {name}", found[1]


def scenarios() -> Iterator[tuple[str, str]]:
    """Results of scenarios, to the last digit."""
    import railyard  # noqa: PLC0415

    for engine in ("flow", "packet", "analytic"):
        found = railyard.run({**STEP, "engine": engine}, out=None).result
        yield f"step {engine}", digest(found.plain())

    yield "rounds", digest(railyard.run(ROUNDS, out=None).result.plain())
    yield "served", digest(railyard.run(SERVED, out=None).result.plain())


def digest(result: dict[str, Any]) -> str:
    """Of the variants of a result; where it was computed is not among them."""
    text = json.dumps(result["variants"], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def main() -> None:
    """One line per run."""
    for part in (packets(), scenarios()):
        for name, found in part:
            sys.stdout.write(f"{found}  {name}\n")


if __name__ == "__main__":
    main()
