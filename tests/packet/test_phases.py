"""Settings that follow a run on mixes of phases: what `examples/packet/phases.py` plays."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "packet" / "phases.py"


def module():
    spec = importlib.util.spec_from_file_location("phases", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules["phases"] = found
    spec.loader.exec_module(found)
    return found


def test_a_mix_has_its_phases_in_order_and_the_neighbour_beside_them():
    phases = module()
    mix = phases.Mix(calm=2, calm_bytes=600, crowded=3, crowded_bytes=200, writers=5, written_bytes=900, times=2)
    flows, job = phases.traffic(mix, 3)
    assert len(job) == 2 * 5 * 32
    assert len(flows.source) == len(job) + 2 * 5
    assert flows.size_bytes[job].sum() == 2 * 32 * (2 * 600 + 3 * 200)
    others = np.setdiff1d(np.arange(len(flows.source)), job)
    assert flows.size_bytes[others].tolist() == [900] * 10
    assert (flows.source != flows.target).all()


def test_alone_the_job_ends_sooner_than_as_delivered():
    phases = module()
    ends = phases.ends_us(phases.MIXES["alone"], 22, ways=(phases.WRITTEN, phases.ONLINE))
    assert ends["online"].job_us < 0.95 * ends["as delivered"].job_us
    assert ends["online"].all_us == ends["online"].job_us


def test_twins_are_other_runs_of_the_same_draw():
    phases = module()
    small = phases.Mix(2, 3_000_000, crowded=1, crowded_bytes=3_000_000, writers=12, written_bytes=6_000_000)
    ways = (phases.WRITTEN, phases.AGAIN)
    one, other = (phases.ends_us(small, 3, twin, ways) for twin in (0, 1))
    assert one == phases.ends_us(small, 3, 0, ways)
    assert len({one[phases.WRITTEN], one[phases.AGAIN], other[phases.WRITTEN], other[phases.AGAIN]}) > 1
    assert all(ends.job_us <= ends.all_us for ends in (*one.values(), *other.values()))


def test_draws_are_compared_by_the_means_of_their_twins():
    phases = module()
    ends = phases.Ends
    found = [
        [{"as delivered": ends(10, 30), "online": ends(9, 33)}, {"as delivered": ends(20, 30), "online": ends(24, 33)}],
        [{"as delivered": ends(10, 20), "online": ends(9, 20)}, {"as delivered": ends(10, 20), "online": ends(9, 20)}],
    ]
    assert phases.draws(found, "online", 0) == pytest.approx([0.1, -0.1])
    assert phases.draws(found, "online", 1) == pytest.approx([0.1, 0.0])
    assert phases.worst_run(found, "online") == pytest.approx(0.2)
