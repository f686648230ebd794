"""Writes docs/validation/serving-runs.md: recorded serving runs against the simulated engine.

python validation/tools/serving_runs_page.py
"""

from dataclasses import replace
from pathlib import Path

from railyard import catalog
from railyard.ask.calibrate.recorded_fit import validate_runs
from railyard_validation import page as validation
from railyard_validation.serving.runs_page import of_serving_runs

ROOT = Path(__file__).resolve().parents[2]
RUNS, PAGE = ROOT / "validation/data/serving_runs", ROOT / "docs/validation/serving-runs.md"
LEAD = (
    "Four runs of vLLM 0.19.0 (casys-kaist/LLMServingSim, MIT), 300 requests each, served again by the simulated engine"
    " with the constants that ship. A row of the tables is a percentile over requests; distances are Kolmogorov and"
    " Smirnov's. The last column says which constants that very run gave: these are in sample, the rest of the run is"
    " not. What is behind it: [recorded runs](../explanation/serving-runs.md)."
)


def main() -> None:
    report = validate_runs(RUNS, catalog.load())
    validation.write(replace(of_serving_runs(report), lead=LEAD), PAGE)


if __name__ == "__main__":
    main()
