"""What a run says of its own error: software that is assumed, and what makes variants equal."""

from __future__ import annotations

import pytest

from railyard.face import api
from railyard.measure.model_error import step_error

SCENARIO = {
    "name": "s",
    "cluster": {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "leaf-spine"}},
    "workload": {
        "training": {
            **{"model": "llama-3.2-1b", "global_batch": 16, "sequence": 2048, "tokens": "1 T"},
            "parallelism": {"tp": 4, "pp": 1},
        }
    },
}
PROFILE = "workload.training.software.profile"


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        (None, "the software is not known (megatron-2026 is assumed), so the band of the step is {} %"),
        ("megatron-2026", ""),
        ("torchtitan-2025", "no published step of torchtitan-2025 on hopper"),
    ],
)
def test_a_run_says_when_its_software_is_not_known(profile, says):
    changes = {} if profile is None else {PROFILE: profile}
    result = api.run(SCENARIO, overrides=changes, engine="analytic").result
    notes = [line for one in result.variants for line in one.warnings]
    wide = step_error(experts=False, precision="bf16", known=False).percents
    found = [line for line in notes if "band of the step" in line]
    assert len(found) == bool(says)
    assert all(line.startswith(says.format(wide)) for line in found)
