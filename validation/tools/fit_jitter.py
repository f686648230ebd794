"""Fits the constants of the jitter law on a table of measured runs: `python validation/tools/fit_jitter.py FILE.csv`.

Only runs of at most 1,024 accelerators that publish every step are read. Each constant has a prior; all are fitted in
the logarithm. Prints the constants and, for every run of the table, p95/p50 and p99/p50 predicted and measured.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from railyard import catalog
from railyard.work.training.jitter import Interruption, JitterLaw
from railyard_validation.training.cases import read_cases
from railyard_validation.training.jitter import Steps, steps_of

MOST = 1024
# Prior and one standard deviation of the logarithm: a scheduler's slice of 10 ms about every quarter of an hour of a
# rank, half a second about every twelve days; a per cent between micro-batches.
PRIORS = {
    "sigma": (0.01, 0.5),
    "short rate": (1e-3, 0.5),
    "short hopper": (0.010, 0.5),
    "short blackwell": (0.010, 0.5),
    "long rate": (1e-6, 1.0),
    "long mean": (0.5, 0.5),
}
# Differences of half a thousandth do not matter; p99 of some hundred steps is known half as well as p95.
SOFT, WEIGHTS = 5e-4, ((0.95, 1.0), (0.99, 0.5))


def law(values: np.ndarray, architecture: str) -> JitterLaw:
    """The law with these constants, in the order of `PRIORS`."""
    sigma, rate, hopper, blackwell, long_rate, long_mean = values
    mean = blackwell if architecture.startswith("blackwell") else hopper
    return JitterLaw(architecture, sigma, (Interruption(rate, mean), Interruption(long_rate, long_mean)), "")


def residuals(logs: np.ndarray, runs: list[Steps]) -> np.ndarray:
    """Of every published quantile, and of every constant about its prior."""
    found = []
    for run in runs:
        one = law(np.exp(logs), run.architecture)
        for quantile, weight in WEIGHTS:
            measured = run.ratio(quantile)
            if measured is not None:
                predicted = one.ratio(quantile, run.ranks, run.step_s, run.micro_batches)
                found.append(weight * (np.log(predicted - 1 + SOFT) - np.log(measured - 1 + SOFT)))
    prior = [(log - np.log(value)) / spread * 0.3 for log, (value, spread) in zip(logs, PRIORS.values(), strict=True)]
    return np.array([*found, *prior])


def main(table: Path) -> None:
    """Fits and prints."""
    cases, _ = read_cases(table, catalog.load())
    runs = [steps for case in cases if (steps := steps_of(case)) is not None]
    fitted = [run for run in runs if run.ranks <= MOST and not run.averaged]
    start = np.log([value for value, _ in PRIORS.values()])
    found = least_squares(residuals, start, loss="soft_l1", args=(fitted,))
    for name, value in zip(PRIORS, np.exp(found.x), strict=True):
        print(f"{name:16} {value:.4g}")
    print(f"{len(fitted)} runs, cost {found.cost:.3f}")
    for run in sorted(runs, key=lambda run: run.ranks):
        one = law(np.exp(found.x), run.architecture)
        words = [f"{run.id} {run.ranks:6} {'fitted' if run in fitted else '':6}"]
        for quantile, _ in WEIGHTS:
            measured = run.ratio(quantile)
            predicted = one.ratio(quantile, run.ranks, run.step_s, run.micro_batches)
            words.append(f"p{100 * quantile:.0f} {predicted:.4f} ({f'{measured:.4f}' if measured else '-'})")
        print("  ".join(words))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
