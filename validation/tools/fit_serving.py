"""Fits the constants of serving engines on a table of measured rows, and writes their effects.

`python validation/tools/fit_serving.py TABLE.csv [--first-token] [--leave-out]`: seconds a token first, with all
constants but those of the first token; then these, by what the serving engine leaves of them, which alone is done
with --first-token. With --leave-out it also prints the errors with one model, device or engine left out of the fit.
"""

import json
import sys
from pathlib import Path

import numpy as np

from railyard import catalog
from railyard.workload.serving.profiles import fitted
from railyard.workload.serving.software import CONSTANTS
from railyard_validation.serving import fit as fitting
from railyard_validation.serving.cases import Case, case_of
from railyard_validation.serving.model import part, table
from railyard_validation.serving.queue_fit import first_tokens
from railyard_validation.serving.table import read, same_measurement

ROOT = Path(__file__).resolve().parents[2]
FITTED = ROOT / "src/railyard/workload/serving/data/fitted.json"
LAST = fitting.FIRST_TOKEN
# A first token also tells how fast prompts are, but its queue is known less well than an iteration.
TTFT_WEIGHT = 0.15
PARTS = {
    "model": lambda case: case.model.name,
    "device": lambda case: case.device.name,
    "engine": lambda case: case.engine,
}


def said(name: str, misses: np.ndarray) -> None:
    errors = np.abs(np.exp(misses) - 1.0)
    print(
        f"{name:24s} n {len(errors):5d}  median {np.median(errors):.3f}  p90 {np.quantile(errors, 0.9):.3f}",
        file=sys.stderr,
    )


def main() -> None:
    known = catalog.load()
    rows = read(Path(sys.argv[1]))
    stands = same_measurement(rows)
    found = [case_of(row, known) for row in rows if stands[row.line] == row.line]
    cases = [case for case in found if isinstance(case, Case) and fitting.told_s(case)]
    whole = table(cases)
    made = fitting.design(whole.cases)
    free = tuple(name for name in CONSTANTS if name not in LAST)
    first = np.flatnonzero([bool(case.row.real.get("ttft_ms")) and case.kind in ("closed", "split") for case in cases])
    some = made.rows(first)
    if "--first-token" in sys.argv:
        effects = fitting.from_known(made, fitted()["effects"])
    else:
        effects = np.zeros((len(CONSTANTS), len(made.names)))
        effects = fitting.fit(made, fitting.tpot_misses(whole), effects, free, weight=fitting.trust(whole.cases))
        said("tpot", fitting.tpot_misses(whole)(fitting.software(effects, made)))
        effects = fitting.fit(
            some, fitting.ttft_misses(part(whole, first)), effects, LAST, weight=fitting.trust(part(whole, first).cases)
        )
        both = made.rows(np.concatenate([np.arange(len(cases)), first]))
        weight = fitting.trust(whole.cases)
        weight = np.concatenate([weight, TTFT_WEIGHT * weight[first]])
        effects = fitting.fit(both, fitting.both_misses(whole, first), effects, weight=weight, iterations=12)
    effects = first_tokens(part(whole, first), some, effects)
    said("tpot", fitting.tpot_misses(whole)(fitting.software(effects, made)))
    said("ttft", fitting.ttft_misses(part(whole, first))(fitting.software(effects, some)))
    counts = {level: int(made.member[made.group, column].sum()) for column, level in enumerate(made.names)}
    content = {
        "source": f"fitted on {len(cases)} published rows of TPOT, {len(first)} of TTFT",
        "effects": fitting.as_known(made, effects),
        "rows": counts,
    }
    FITTED.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if "--leave-out" in sys.argv:
        for name, by in PARTS.items():
            said(f"without the {name}", fitting.left_out(whole, by, fitting.tpot_misses, free))


if __name__ == "__main__":
    main()
