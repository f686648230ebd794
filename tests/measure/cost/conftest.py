"""A job of eight H100 with round numbers, from which each test changes what it is about."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railyard.catalog import Range
from railyard.measure.cost.assumptions import exactly
from railyard.measure.cost.cost import CostModel, JobFacts
from railyard.measure.decompose import CAUSES, Cause, Decomposition, TimeRow
from railyard.measure.job import Checkpointing

_KNOWN = {
    "accelerators_usd": 8 * 40_000.0,
    "servers_usd": 8 * 5_000.0,
    "network_usd": 8 * 4_000.0,
    "storage_usd": 0.0,
    "installation": 0.0,
    "cost_of_capital": 0.10,
    "life_years": 4.0,
    "operations": 0.0,
    "it_w": 8 * 1300.0,
    "pue": 1.25,
    "electricity_usd_per_kwh": 0.08,
    "provisioned_w": 8 * 1730.0,
    "space_usd_per_kw_month": 180.0,
    "mtbf_h": 1e12,
    "restart_s": 0.0,
}


@pytest.fixture
def model():
    """A cost model whose inputs are all known; `model(pue=Range(..))` replaces some."""

    def make(job: dict | None = None, **inputs: Range | float) -> CostModel:
        facts = JobFacts(1e12, 1e6, 1.0, 8, Checkpointing(interval_s=3600.0))
        ranges = {name: exactly(value) for name, value in _KNOWN.items()}
        ranges |= {name: value if isinstance(value, Range) else exactly(value) for name, value in inputs.items()}
        return CostModel(ranges, replace(facts, **(job or {})))

    return make


@pytest.fixture
def spent():
    """A decomposition of a one-second step from shares: `spent({("compute", "", "forward"): 0.7, ...}, ranks=8)`."""

    def make(shares: dict[tuple[str, str, str], float], *, ranks: int = 8) -> Decomposition:
        rows = tuple(TimeRow(*key, share, share) for key, share in shares.items())
        by_rank = np.zeros((ranks, CAUSES), np.int64)
        for (cause, _, _), share in shares.items():
            by_rank[:, Cause[cause.upper()]] += round(share * 1e12)
        return Decomposition(10**12, rows, by_rank, np.zeros(ranks, np.int64), 0)

    return make
