"""Fits the constants of vLLM on the devices of recorded runs, and writes the profiles that ship.

`python validation/tools/fit_serving_runs.py FOLDER`: as `railyard calibrate serving --runs FOLDER`, with the source
named.
"""

import sys
from pathlib import Path

from railyard import catalog
from railyard.ask.calibrate.recorded import read_runs
from railyard.ask.calibrate.recorded_fit import profiles_of
from railyard.work.serving.software import written

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "src/railyard/work/serving/data/devices.toml"
SOURCE = "recorded runs of vLLM 0.19.0, casys-kaist/LLMServingSim bench/examples (MIT), April and August 2026"


def main() -> None:
    profiles, _ = profiles_of(read_runs(Path(sys.argv[1])), catalog.load(), SOURCE)
    SHIPPED.write_text(
        "# Constants of engines on devices, over those of the published tables"
        " (validation/tools/fit_serving_runs.py).\n\n" + written(profiles),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
