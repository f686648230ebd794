"""Each kind of work has its formula and its constants."""

from __future__ import annotations

import pytest

from railyard import catalog, cluster
from railyard.work.training import Layout, Training
from railyard.work.training.explain_leaf import Laws
from railyard.work.training.explain_work import CAST, CORE, GAP, GEMM, GROUPED, PASS, Work
from railyard.work.training.spec import SoftwareProfile

KNOWN = catalog.load()


def law(kind, phase="forward", operator="up", precision="bf16"):
    job = Training(
        model=KNOWN.model("mixtral-8x7b"), layout=Layout(dp=8, ep=8, global_batch=24), seq_len=3000,
        precision=precision, software=SoftwareProfile(name="test"),
    )  # fmt: skip
    machine = cluster.build(cluster.ClusterSpec(accelerators=8, server="hgx-h100"), KNOWN)
    found = Laws(job, machine, "flow").work(Work("MLP", kind, phase, operator, 0.37, 5.0))
    return found.formula, [constant.name for constant in found.constants]


@pytest.mark.parametrize(
    ("kind", "formula", "constants"),
    [
        (GAP, "device gap", ["launch_ps"]),
        (CAST, "cast_bytes x elements", ["cast_bytes", "memory_fraction", "memory_efficiency"]),
        (PASS, "bytes read and written", ["memory_fraction", "memory_efficiency"]),
        (CORE, "causal FLOPs", ["attention_forward", "attention_efficiency", "flops bf16"]),
        (GEMM, "", ["gemm_fraction", "gemm_efficiency", "flops bf16"]),
        (GROUPED, "", ["gemm_fraction", "grouped_fraction", "gemm_efficiency", "flops bf16"]),
    ],
)
def test_the_law_of_each_kind_of_work(kind, formula, constants):
    found = law(kind)
    assert found[0].startswith(formula)
    assert found[1] == constants


@pytest.mark.parametrize(
    ("phase", "rate"),
    [("forward", "attention_forward"), ("recompute", "attention_forward"), ("backward", "attention_backward")],
)
def test_attention_has_a_rate_for_each_way(phase, rate):
    assert law(CORE, phase)[1][0] == rate


@pytest.mark.parametrize(
    ("operator", "constants"),
    [
        ("up", ["fp8_fraction", "gemm_efficiency_8bit", "flops fp8"]),
        ("logits", ["gemm_fraction", "gemm_efficiency", "flops bf16"]),
        ("router", ["gemm_fraction", "gemm_efficiency", "flops bf16"]),
    ],
)
def test_of_a_job_in_8_bits_logits_and_router_stay_in_16(operator, constants):
    assert law(GEMM, operator=operator, precision="fp8")[1] == constants
