"""Fits the constants of the software profiles on the published runs of validation/data/training, and writes them.

Only the smallest scale of each family is fitted (`railyard_validation.training.fit`). Run it when a mechanism of the
model or the data has changed: `python validation/tools/fit_profiles.py`, then look at what moved.
"""

import json
import sys
from pathlib import Path

from railyard import catalog
from railyard.workload.training import profiles
from railyard_validation.training.cases import read_cases
from railyard_validation.training.fit import fit, smallest_scale

ROOT = Path(__file__).resolve().parents[2]
TABLES = ("runs.csv", "runs_single_node.csv")
FITTED = ROOT / "src/railyard/workload/training/data/fitted.json"
# Row ids are listed up to this many; a sweep of hundreds is named by its count.
LISTED = 70

# Devices of which no training run was read get the lowest share that any measured device kept of its best kernels.
CAUTIOUS = "unmeasured-2026"
LIKE = "megatron-2025 and megatron-2026"
SHARES = ("gemm_fraction", "fp8_fraction", "fp4_fraction", "grouped_fraction", "attention_forward")


def cautious(values: dict[str, dict[str, float]]) -> dict[str, float]:
    known = profiles.assemble(values)
    measured = [known[record.key] for record in profiles.records() if record.about["name"] in LIKE.split(" and ")]
    return {name: min(getattr(profile, name) for profile in measured) for name in SHARES}


def main() -> None:
    known = catalog.load()
    cases = []
    for name in TABLES:
        found, refused = read_cases(ROOT / "validation/data/training" / name, known)
        cases += found
        print(f"{name}: {len(found)} runs, {len(refused)} rows cannot be read", file=sys.stderr)
    fits: dict[str, dict[str, object]] = {}
    for key, done in fit(smallest_scale(cases)).items():
        print(f"{key:34s} {len(done.rows):4d} rows {100 * done.mean_abs_error:5.1f} %  {done.values}", file=sys.stderr)
        rows = list(done.rows) if len(done.rows) <= LISTED else [done.rows[0], "...", done.rows[-1]]
        fits[key] = {
            "values": done.values,
            "mean_abs_error": round(done.mean_abs_error, 4),
            "runs": len(done.rows),
            "rows": rows,
        }
    fits[CAUTIOUS] = {"values": cautious({key: fit["values"] for key, fit in fits.items()}), "of": "lowest of " + LIKE}
    FITTED.write_text(json.dumps(fits, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
