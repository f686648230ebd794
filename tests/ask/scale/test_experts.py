"""Models with experts: router, grouped products and exchanges of tokens, by name and shape."""

import json
import zipfile

import pytest
from tests.ask.scale.traces import CLUSTER, call, kernel, shape, simulated, write

from railyard.ask.observe.kernels import is_communication, kind_of
from railyard.ask.scale.forecast import scaled_step as scale
from railyard.ask.scale.shapes import shapes_of
from railyard.catalog import Catalog
from railyard.graph.exporters.kineto import write_archive as export

BATCHES, TOKENS = 2, 4096


def recorded(name, ep, *, again=True, grouped="aten::_grouped_mm", fused=True, padded=1.0):
    """What PyTorch records of a step of that model: each forward pass twice where it is recomputed."""
    model, passes = Catalog().model(name), BATCHES * (2 if again else 1)
    rows, width, share = int(TOKENS * model.experts_per_token * padded), model.moe_ffn, model.experts // ep
    if grouped == "_GroupedLinear":
        weights = [[width * (2 if fused else 1), model.hidden]] * share
    else:
        weights = [[share, model.hidden, width * (2 if fused else 1)], [share]]
    return [
        *shape("aten::mm", [TOKENS, model.hidden], [model.hidden, model.vocab], times=BATCHES),
        *shape("aten::mm", [TOKENS, model.hidden], [model.hidden, model.experts], times=model.moe_layers * passes),
        *shape(grouped, [rows, model.hidden], *weights, times=model.moe_layers * passes * (1 if fused else 2)),
        *shape("aten::_scaled_dot_product_flash_attention", [1, model.heads, TOKENS, model.head_dim],
               times=model.layers * passes),
    ]  # fmt: skip


def exchanging(ep, ranks=8):
    """Dispatch, experts, combination, and an all-reduce over all ranks."""
    group = range(ep)
    return [
        kernel("router_gemm", 0, 20), call("all_to_allv", 20, 30, group, 1 << 20, group="1", purpose="ep"),
        kernel("cutlass_grouped_gemm", 50, 100), call("all_to_allv", 150, 30, group, 1 << 20, group="1", purpose="ep"),
        kernel("combine_gemm", 180, 50), call("allreduce", 230, 50, range(ranks), 1 << 22, purpose="default_pg"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["deepseek-v2-lite", "qwen3-30b-a3b", "gpt-oss-20b", "mixtral-8x7b"])
@pytest.mark.parametrize("grouped", ["aten::_grouped_mm", "_GroupedLinear", "GroupedGemm"])
def test_a_model_with_experts_is_recognized(tmp_path, mine, name, grouped):
    for more in ({}, {"again": False}, {"fused": False}, {"padded": 1.4}):
        events = [*recorded(name, 4, grouped=grouped, **more), *exchanging(4)]
        traced = scale(write(tmp_path / "rank-0.json", 0, 8, events, period=300), mine).traced
        assert Catalog().model(traced.model).moe_ffn == Catalog().model(name).moe_ffn
        assert traced.model == name or traced.model.startswith(name.split("-")[0])
        assert (traced.sequence, traced.micro_batch, traced.micro_batches) == (TOKENS, 1, BATCHES)
        assert any(f"of {Catalog().model(name).experts // 4} experts" in words for words in traced.gemms)


@pytest.mark.parametrize(
    ("ep", "more"),
    [(2, {}), (4, {"padded": 3.0}), (4, {"padded": 0.3})],
)
def test_what_does_not_fit_a_model_is_reported(tmp_path, mine, ep, more):
    """Experts of a rank that do not make all of a model's, and rows that are not its tokens."""
    events = [*recorded("deepseek-v2-lite", ep, **more), *exchanging(4)]
    found = scale(write(tmp_path / "rank-0.json", 0, 8, events, period=300), mine)
    assert found.traced.model is None
    (row,) = [row for row in found.unrecognized if row.what.startswith("the model")]
    assert row.what == "the model, with experts"


def test_grouped_products_of_three_libraries_are_the_same(tmp_path):
    found = []
    for grouped in ("aten::_grouped_mm", "_GroupedLinear", "GroupedGemm"):
        write(tmp_path / "rank-0.json", 0, 8, recorded("deepseek-v2-lite", 4, grouped=grouped), period=300)
        (shapes,) = shapes_of(tmp_path / "rank-0.json").values()
        found.append(shapes.grouped)
    assert found == [{(24576, 2048, 2816, 16): 26 * 4}] * 3


def test_dispatch_and_combination_of_other_libraries_are_exchanges_whose_size_is_not_known(tmp_path, mine):
    words = ("void deep_ep::intranode::dispatch<8, 768>(int4*)", "void deep_ep::internode::combine<true>(int4*)",
             "void hybrid_ep::dispatch_kernel<1>()", "void hybrid_ep::combine_kernel<1>()")  # fmt: skip
    assert [(is_communication(one), kind_of(one)) for one in words] == [(True, "all_to_all")] * 4
    events = exchanging(4)
    events[1] = kernel(words[0], 20, 30, 20)
    found = scale(write(tmp_path / "rank-0.json", 0, 8, events, period=300), mine, accelerators=8)
    (row,) = [row for row in found.unrecognized if row.seconds and "all_to_all" in row.what]
    assert row.what == "1 all_to_all: they keep their measured time"
    assert row.seconds == pytest.approx(30e-6)
    assert found.step.kernels_s == pytest.approx(170e-6)


@pytest.mark.parametrize(("keys", "share"), [({"ep": 8}, 0.5), ({"ep": 4}, 1.0)])
def test_closed_loop_to_another_layout_of_experts(tmp_path, keys, share):
    """A step of EP 4 on 8 accelerators, forecast on 64, against a direct run; the model is recognized, not given."""
    (tmp_path / "mine.yaml").write_text(CLUSTER.replace("16", "64"))
    job = ("deepseek-v2-lite", {"ep": 4, "bucket": "0 B"}, BATCHES)
    export(simulated(8, *job), tmp_path / "all.zip")
    with zipfile.ZipFile(tmp_path / "all.zip") as archive, zipfile.ZipFile(tmp_path / "step.zip", "w") as kept:
        for name in archive.namelist():
            document = json.loads(archive.read(name))
            document["traceEvents"] += recorded("deepseek-v2-lite", 4)
            kept.writestr(name, json.dumps(document))
    found = scale(tmp_path / "step.zip", tmp_path / "mine.yaml", parallelism=keys)
    assert found.traced.model == "deepseek-v2-lite"
    truth = simulated(64, job[0], job[1] | keys, BATCHES).makespan_ps * 1e-12
    assert found.step.seconds == pytest.approx(truth, rel=0.02)
    assert found.measured_share >= share
    assert found.band.low < truth < found.band.high
