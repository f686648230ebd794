"""Fits the free effects of serving engines on a table of measured rows, and writes them.

`python validation/tools/fit_serving.py TABLE.csv`: which effects are free stands in
src/railyard/work/serving/data/constants.toml, each with its cause.
"""

import json
import sys
from pathlib import Path

import numpy as np

from railyard import catalog
from railyard_validation.serving import fit as fitting
from railyard_validation.serving.left_out import EVERY, cases_of, evidence_of

ROOT = Path(__file__).resolve().parents[2]
FITTED = ROOT / "src/railyard/work/serving/data/fitted.json"


def main() -> None:
    seen = evidence_of(cases_of(Path(sys.argv[1]), catalog.load())[::EVERY])
    made = fitting.design(seen.rows.cases)
    effects = fitting.fit(made, seen)
    misses = seen.misses(fitting.software(effects, made)).reshape(2, -1)
    for name, miss, told in zip(("tpot", "ttft"), misses, seen.told, strict=True):
        errors = np.abs(np.expm1(miss[told > 0]))
        print(f"{name} n {errors.size}  median {np.median(errors):.3f}  p90 {np.quantile(errors, 0.9):.3f}")
    counts = (seen.told > 0).sum(axis=1).tolist()
    content = {
        "source": f"{len(made.effects)} effects, fitted on {counts[0]} published rows of TPOT, {counts[1]} of TTFT",
        "effects": fitting.as_known(made, effects),
        "rows": dict(zip(("/".join(effect) for effect in made.effects), made.member.sum(axis=0).tolist(), strict=True)),
    }
    FITTED.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
