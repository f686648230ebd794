"""The search of `railyard tune` against climbing one key at a time, on equal numbers of steps.

python benchmarks/tune_search.py [--seeds 3] [--scenario NAME] [--json]

For each scenario and seed the climb goes first: every value of a key with all else as it is, the best one kept, keys
gone through until nothing changes (at most twice). The race then may run as many steps as that took. Both are judged on
the same draws, loads and other jobs, of which neither has seen one. A ratio below 1 is a shorter step than as written.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

from railyard.ask.trials import Ahead, Trials
from railyard.ask.tune.search import WORTH, SettingsRace, Tuner, TuneResult
from railyard.ask.tune.space import TuneCase, space_of
from railyard.ask.tune.trials import SettingsTrials
from railyard.work.scenario import load
from railyard.work.scenario.model import TuneSection
from railyard.work.study.folder import Journal
from railyard.work.study.workers import workers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.work.study.tasks import Workers

ROUNDS = 2
SCENARIOS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "scattered": (
        "flow",
        {
            "accelerators": 128,
            "server": "hgx-h100",
            "placement": "scattered",
            "back_end": {"topology": {"kind": "leaf-spine", "oversubscription": "2:1"}, "fabric": "roce"},
        },
        {"model": "llama-3-8b", "global_batch": 128, "sequence": 8192, "parallelism": {"tp": 1, "zero": 3}},
    ),
    "experts": (
        "flow",
        {
            "accelerators": 64,
            "server": "hgx-h100",
            "back_end": {"topology": {"kind": "leaf-spine", "oversubscription": "3:1"}, "fabric": "roce"},
        },
        {
            "model": "mixtral-8x7b",
            "global_batch": 64,
            "sequence": 4096,
            "parallelism": {"tp": 1, "pp": 2, "ep": 8, "zero": 1},
        },
    ),
    "gradients": (
        "flow",
        {
            "accelerators": 64,
            "server": "dgx-a100",
            "placement": "spread",
            "back_end": {"topology": {"kind": "leaf-spine", "oversubscription": "4:1"}, "fabric": "roce"},
        },
        {"model": "llama-2-13b", "global_batch": 64, "sequence": 2048, "parallelism": {"tp": 4, "zero": 1}},
    ),
    "rails": (
        "flow",
        {
            "accelerators": 128,
            "server": "hgx-h100",
            "placement": "scattered",
            "back_end": {"topology": {"kind": "rail-optimized", "oversubscription": "4:1"}, "fabric": "roce"},
        },
        {"model": "llama-2-13b", "global_batch": 128, "sequence": 4096, "parallelism": {"tp": 2, "pp": 2, "zero": 1}},
    ),
    "packets": (
        "packet",
        {
            "accelerators": 16,
            "server": "hgx-h100",
            "back_end": {
                "topology": {"kind": "leaf-spine", "ports_per_leaf": 8, "spines": 4, "oversubscription": "2:1"},
                "fabric": "roce",
                "link_rate": "200 Gb/s",
            },
        },
        {"model": "mpt-125m", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 1, "zero": 3}},
    ),
    "smallest": (
        "flow",
        {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "leaf-spine", "fabric": "roce"}},
        {"model": "mpt-125m", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 1, "zero": 3}},
    ),
}

SPACES: dict[str, dict[str, list[Any]]] = {
    "packets": {
        "qps": [2, 8],
        "collectives.connections": [2, 4],
        "packet.set.marking_low": ["400 kB"],
        "packet.set.dcqcn_additive": ["4 Gb/s", "20 Gb/s"],
        "packet.set.rdma_cnp_interval": ["50 us"],
        "packet.set.pfc_alpha": ["0.125", "8"],
    },
    "smallest": {"qps": [2, 8]},
}
"""What is tried where all that `railyard tune` tries would take too long."""


def climb(space: Mapping[str, Sequence[Any]], draws: Sequence[TuneCase], trials: SettingsTrials) -> dict[str, Any]:
    """Settings by coordinates."""

    def means(every: Sequence[Mapping[str, Any]]) -> list[float]:
        rows = trials.steps([(one, case) for one in every for case in draws])
        numbers = [float("inf") if isinstance(row, str) else row for row in rows]
        return [statistics.fmean(numbers[at * len(draws) : (at + 1) * len(draws)]) for at in range(len(every))]

    found: dict[str, Any] = {}
    (best,) = means([{}])
    for _ in range(ROUNDS):
        before = dict(found)
        for key, values in space.items():
            ways = [{**found, key: value} for value in values if found.get(key) != value]
            mean, at = min(((mean, at) for at, mean in enumerate(means(ways))), default=(best, 0))
            if mean < best * (1.0 - WORTH):
                best, found = mean, ways[at]
        if found == before:
            break
    return found


def compare(name: str, seed: int, pool: Workers) -> dict[str, Any]:
    """Both searches of a scenario."""
    engine, cluster, training = SCENARIOS[name]
    tried = {"tune": {"space": SPACES[name]}} if name in SPACES else {}
    document = {"name": name, "seed": seed, "cluster": cluster, "workload": {"training": training}, **tried}
    draft = load.from_values(document)
    tuner = Tuner(draft, engine, TuneSection(unseen_jobs=4), pool, lambda *_: None)
    cases = tuner.cases(tuner.describe(TuneResult(name, engine)))
    space = {key: [node.plain() for node in nodes] for key, nodes in space_of(tuner.draft, engine).items()}
    draws = [TuneCase(seed + number) for number in range(tuner.section.seeds)]
    found: dict[str, Any] = {"scenario": name, "seed": seed}
    before = _steps(_trials(tuner, pool), {}, cases)
    budget = 0
    for way in ("climb", "race"):
        trials, began = _trials(tuner, pool), time.perf_counter()
        if way == "climb":
            settings = climb(space, draws, trials)
            budget = trials.count
        else:
            settings = SettingsRace(space, draws, trials, budget, seed).run().settings
        took = time.perf_counter() - began
        after, written = _steps(trials, settings, draws), _steps(trials, {}, draws)
        judged = _steps(trials, settings, cases)
        found[way] = {
            "steps": trials.count - len(cases),
            "seconds": took,
            "settings": settings,
            "seen": statistics.fmean(a / b for a, b in zip(after, written, strict=True)),
            "unseen": statistics.fmean(a / b for a, b in zip(judged, before, strict=True)),
        }
    return found


def _trials(tuner: Tuner, pool: Workers) -> SettingsTrials:
    ahead = Ahead([("search", 1)])
    ahead.step()
    return SettingsTrials(tuner.draft, tuner.engine, Trials(pool, Journal(None), ahead, lambda *_: None))


def _steps(trials: SettingsTrials, settings: Mapping[str, Any], cases: Sequence[TuneCase]) -> list[float]:
    rows = trials.steps([(settings, case) for case in cases])
    wrong = next((row for row in rows if isinstance(row, str)), None)
    if wrong is not None:
        raise SystemExit(wrong)
    return [float(row) for row in rows]


def main() -> None:
    """Prints both, scenario by scenario."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--scenario", choices=SCENARIOS, action="append")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    pool = workers(None)
    if not options.json:
        sys.stdout.write("scenario   seed  steps climb/race   s climb/race   seen climb/race   unseen climb/race\n")
    try:
        for name in options.scenario or SCENARIOS:
            for seed in range(options.seeds):
                row = compare(name, seed, pool)
                _write(row, as_json=options.json)
    finally:
        pool.close()


def _write(row: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(row, default=str) + "\n")
        return
    one, two = row["climb"], row["race"]
    cells = (
        f"{row['scenario']:10} {row['seed']:4}",
        f"{one['steps']:6}/{two['steps']:<8}",
        f"{one['seconds']:6.1f}/{two['seconds']:<6.1f}",
        f"{one['seen']:.3f}/{two['seen']:.3f}",
        f"{one['unseen']:.3f}/{two['unseen']:.3f}",
        f"{one['settings']} / {two['settings']}",
    )
    sys.stdout.write("  ".join(cells) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
