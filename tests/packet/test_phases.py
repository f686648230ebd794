"""Settings that follow a run on mixes of phases: what `examples/packet/phases.py` plays."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np

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
    ends = phases.ends_us(phases.MIXES["alone"], 22)
    assert set(ends) == {*phases.FIXED, "online"}
    assert ends["online"] < 0.95 * ends["as delivered"]
