"""How far the law lies from published rows, a sample of all kinds: with eight fitted constants."""

from pathlib import Path

import pytest

from railyard import catalog
from railyard_validation.serving.compare import validate_serving

TABLE = Path(__file__).parent / "data" / "silicon_sample.csv"


@pytest.mark.parametrize(("metric", "median"), [("tpot", 0.14), ("ttft", 0.29)])
def test_published_rows_are_met_in_the_median(metric: str, median: float) -> None:
    summary = validate_serving(TABLE, catalog.load(), metric=metric).summary()
    assert float(summary["coverage"] or 0.0) >= 0.97
    assert float(summary["median_abs_error"] or 9.0) <= median
