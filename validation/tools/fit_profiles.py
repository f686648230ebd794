"""Fits the constants of training software on the published runs of validation/data/training, and writes them.

Only the smallest scale of each family is fitted (`railyard_validation.training.fit`). Run it when a mechanism of the
model or the data has changed: `python validation/tools/fit_profiles.py`, then look at what moved.
"""

import json
import sys
from pathlib import Path

from railyard import catalog
from railyard_validation.training.cases import read_cases
from railyard_validation.training.fit import fit, smallest_scale
from railyard_validation.training.leave_out import PUBLISHED

ROOT = Path(__file__).resolve().parents[2]
FITTED = ROOT / "src/railyard/work/training/data/fitted.json"


def main() -> None:
    cases, refused = read_cases(PUBLISHED, catalog.load())
    print(f"{len(cases)} runs, {len(refused)} rows cannot be read", file=sys.stderr)
    done = fit(smallest_scale(cases))
    for name, value in done.values.items():
        print(f"{name:20s} {value:12.4g} +- {100 * done.spread[name]:.1f} %", file=sys.stderr)
    print(f"{len(done.rows)} runs, mean {100 * done.mean_abs_error:.2f} % in sample", file=sys.stderr)
    content = {
        "values": {name: float(f"{value:.3g}") for name, value in done.values.items()},
        "spread": done.spread,
        "mean_abs_error": round(done.mean_abs_error, 4),
        "rows": list(done.rows),
    }
    FITTED.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
