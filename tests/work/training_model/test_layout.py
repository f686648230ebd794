"""Layouts: what is refused, what is found."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from railyard import catalog
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.spec import Placement
from railyard.cluster.topology import LeafSpine, RailOptimized
from railyard.work.training import LayoutError, SoftwareProfile, auto, check, estimate, layouts, memory, profiles
from railyard.work.training.columns import Columns
from railyard.work.training.designs import DesignSite, evaluate, evaluate_fastest, steady_step_s
from railyard.work.training.layout import Search, candidates, domain_use
from railyard.work.training.passes import layer_passes
from railyard.work.training.spec import Layout, Training
from railyard.work.training.stages import layer_counts, rank_stages, virtual_stages

SOFTWARE = SoftwareProfile(name="test")


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        ({"tp": 3}, "parallelism.tp", "3 does not divide the 64 attention heads"),
        ({"cp": 3}, "parallelism.cp", "3 does not divide the 8192 tokens of a sequence"),
        ({"ep": 2}, "parallelism.ep", "has no experts"),
        ({"dp": 3, "global_batch": 64}, "global_batch", "does not divide over 3 replicas"),
        ({"global_batch": 8, "micro_batch": 3}, "parallelism.micro_batch", "micro-batch 3 does not divide"),
        ({"pp": 90}, "parallelism.pp", "leave stages empty"),
        ({"schedule": "interleaved"}, "parallelism.vp", "two virtual stages or more"),
        ({"vp": 2}, "parallelism.vp", "there is one stage"),
    ],
)
def test_numbers_that_do_not_divide_are_refused(job, changes, key, message):
    training = job("llama-3-70b", seq_len=8192, **changes)
    with pytest.raises(LayoutError, match=message) as caught:
        check(training.model, training.layout, training.seq_len, training.layout.ranks)
    assert key in {problem.key for problem in caught.value.problems}


def test_all_that_is_wrong_is_said_at_once(job):
    training = job("llama-3-70b", seq_len=8192, tp=5, cp=3)
    with pytest.raises(LayoutError) as caught:
        check(training.model, training.layout, 8192, 64)
    assert len(caught.value.problems) >= 4


def test_experts_must_divide_ranks_and_experts(job):
    training = job("mixtral-8x7b", dp=8, ep=8)
    check(training.model, training.layout, 4096, 8)
    for ep in (3, 16):
        with pytest.raises(LayoutError, match=r"parallelism\.ep"):
            check(training.model, training.layout.replace(ep=ep), 4096, 8)


def test_two_expert_ranks_do_not_share_seven_experts(job):
    training = job("mixtral-8x7b", dp=2, ep=2, model_changes={"experts": 7})
    with pytest.raises(LayoutError, match="2 does not divide the 7 experts"):
        check(training.model, training.layout, 4096, 2)


@pytest.mark.parametrize("pp", [7, 16])
def test_uneven_stages_are_legal(job, pp):
    training = job("llama-3-405b", tp=8, pp=pp)
    check(training.model, training.layout, 4096, 8 * pp)


@settings(max_examples=20, deadline=None)
@given(
    name=st.sampled_from(["llama-3-8b", "llama-3-70b", "mixtral-8x7b", "gpt-3-175b"]),
    accelerators=st.sampled_from([8, 24, 64, 96, 256]),
    batch=st.sampled_from([48, 256, 1024]),
)
def test_every_enumerated_layout_is_valid_and_uses_all(catalog, name, accelerators, batch):
    model = catalog.model(name)
    search = Search(accelerators=accelerators, domain=8, global_batch=batch, seq_len=4096, fixed={})
    for layout in list(layouts(model, search))[::7]:
        assert layout.ranks == accelerators
        check(model, layout, 4096, accelerators)


def test_auto_is_the_fastest_that_fits(catalog, machine):
    model = catalog.model("llama-3-70b")
    best = auto(model, machine, 64, global_batch=256, seq_len=8192, software=SOFTWARE)
    search = Search(accelerators=64, domain=8, global_batch=256, seq_len=8192, fixed={})
    every = (Training(model=model, layout=x, seq_len=8192, software=SOFTWARE) for x in layouts(model, search))
    found = [one for one in every if one.layout.schedule in SOFTWARE.schedules]
    good = [t for t in found if memory(t, machine.accelerator).fits]
    seconds = estimate(good, [machine] * len(good)).step_s
    chosen = Training(model=model, layout=best, seq_len=8192, software=SOFTWARE)
    assert memory(chosen, machine.accelerator).fits
    assert estimate([chosen], [machine]).step_s[0] == pytest.approx(min(seconds))


def test_auto_keeps_what_is_given(catalog, machine):
    fixed = {"tp": 8, "pp": 2, "zero": 1}
    best = auto(
        catalog.model("llama-3-70b"), machine, 64, global_batch=256, seq_len=8192, software=SOFTWARE, fixed=fixed
    )
    assert (best.tp, best.pp, best.zero) == (8, 2, 1)


def test_auto_refuses_what_no_layout_serves(catalog, machine):
    with pytest.raises(LayoutError, match="no layout of llama-3-8b divides 37 accelerators") as caught:
        auto(catalog.model("llama-3-8b"), machine, 37, global_batch=5, seq_len=4096, software=SOFTWARE)
    assert caught.value.exit_code == 2
    with pytest.raises(LayoutError, match="does not fit on 8 h100-sxm: the smallest layout") as caught:
        auto(catalog.model("llama-3-405b"), machine, 8, global_batch=8, seq_len=4096, software=SOFTWARE)
    assert caught.value.table is not None


@pytest.mark.parametrize(
    ("sizes", "used"),
    [
        ({}, 72),
        ({"tp": 8}, 72),
        ({"tp": 16}, 64),
        ({"ep": 32}, 64),
        ({"ep": 64}, 64),
        ({"ep": 128}, 64),
        ({"ep": 36, "tp": 4}, 72),
        ({"ep": 8, "expert_tp": 6}, 48),
        ({"ep": 7}, 56),
        ({"ep": 73}, 72),
    ],
)
def test_a_rack_is_used_as_far_as_groups_divide_it(sizes, used):
    assert domain_use(Layout(global_batch=1, **sizes), 72, 4) == used


@pytest.mark.parametrize(
    ("ranks", "used"),
    [
        (144, 72),
        (512, 64),  # 8 racks either way: not 7 of 72 and one of 8
        (96, 48),  # two racks either way
        (1024, 64),  # 16 racks, one more than 15 of up to 72
        (8192, 64),  # 128 racks in place of 114: one in eight
        (1048, 72),  # no more than 16 racks: 4 and 8 divide 1,048, and 131
        (76, 72),  # two racks of 38 would split a server of 4
    ],
)
def test_racks_are_filled_alike_where_that_takes_few_more(ranks, used):
    assert domain_use(Layout(global_batch=ranks, dp=ranks), 72, 4) == used


# Which layers a virtual stage holds.


@given(layers=st.integers(1, 200), stages=st.integers(1, 200), prediction=st.integers(0, 2))
def test_every_layer_stands_once_and_stages_are_even(layers, stages, prediction):
    assume(stages <= layers + 2)
    counts = layer_counts(layers, stages, prediction)
    assert len(counts) == stages
    assert sum(counts) == layers
    assert min(counts) >= 0
    middle = counts[1:-1]
    assert not middle or max(counts) - min(middle) <= 1


@pytest.mark.parametrize(
    ("layers", "stages", "prediction", "expected"),
    [
        (96, 96, 0, [1] * 96),  # GPT-3 175B, MLPerf: PP 8, VP 12
        (126, 64, 0, [1, *[2] * 62, 1]),  # Llama 3.1 405B, MLPerf: PP 8, VP 8
        (126, 128, 0, [0, *[1] * 126, 0]),  # Llama 3.1 405B, Megatron-Bridge: PP 16, VP 8
        (126, 16, 0, [7, *[8] * 14, 7]),  # Llama 3 405B, as Meta trained it: PP 16
        (61, 16, 1, [*[4] * 15, 1]),  # DeepSeek-V3, Megatron-Bridge "Et*4|(t*4|)*14tmL"
        (61, 32, 1, [1, *[2] * 30, 0]),  # DeepSeek-V3, Megatron-Bridge "Et|(tt|)*30mL"
        (5, 3, 0, [2, 2, 1]),
    ],
)
def test_published_cuts(layers, stages, prediction, expected):
    assert layer_counts(layers, stages, prediction) == expected


def test_interleaved_ranks_hold_every_pp_th_chunk(job):
    training = job("gpt-3-175b", pp=8, vp=12)
    stages = virtual_stages(training.model, training.layout)
    assert [(v.stage, v.chunk, v.first_layer) for v in stages[8:10]] == [(0, 1, 8), (1, 1, 9)]
    assert stages[0].embedding
    assert stages[-1].head
    assert [rank.layers for rank in rank_stages(training.model, training.layout)] == [12] * 8


def test_dense_layers_in_front_are_on_the_first_stage(job):
    training = job("deepseek-v3", pp=16, ep=8, dp=8)
    stages = virtual_stages(training.model, training.layout)
    assert stages[0].layers - stages[0].moe_layers == training.model.moe_layer_start
    assert all(stage.layers == stage.moe_layers for stage in stages[1:])


# Passes of a layer, put together by hand.


@pytest.mark.parametrize(("model", "ffn"), [("deepseek-v3", "experts"), ("llama-3-8b", "mlp")])
def test_a_layer_that_predicts_ahead_is_one_more_layer_with_its_own_head(h100, job, model, ffn):
    """It has the FFN that the last layer has, and joins two vectors of h by a matrix of 2 h x h: 4 T h^2 FLOPs."""
    training = job(model, seq_len=3000, micro_batch=3, model_changes={"mtp_layers": 2})
    passes = layer_passes(Columns.of([training], [h100]))
    parts = passes.attention + getattr(passes, ffn) + passes.head
    joint = (passes.prediction.times(0.5) + parts.times(-1.0)).flops
    assert joint == pytest.approx(4 * 9000 * training.model.hidden**2, rel=1e-9)


def test_a_stage_is_the_sum_of_what_it_holds(h100, job):
    """7 layers of which 4 with experts, the embedding and half a head with what goes with it."""
    passes = layer_passes(Columns.of([job("deepseek-v3", seq_len=3000)], [h100]))
    found = passes.stage(7.0, 4.0, 1.0, 0.5)
    ends = passes.embedding.forward + 0.5 * (passes.head.forward + passes.prediction.forward)
    layers = 7 * passes.attention.forward + 3 * passes.mlp.forward + 4 * passes.experts.forward
    assert np.allclose(found.forward, layers + ends, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "overlap"), [("llama-3-70b", {}), ("mixtral-8x7b", {}), ("mixtral-8x7b", {"zero": 3, "pp": 1})]
)
def test_fastest_families_are_those_of_the_whole_search(name, overlap):
    """Every layout on four networks, one short of bandwidth: what is left out is slower than what is kept."""
    known = catalog.load()
    places = [
        (LeafSpine(oversubscription=ratio, ports_per_leaf=32), fabric, place)
        for ratio, fabric, place in ((1.0, "roce", "packed"), (4.0, "roce", "scattered"), (4.0, "uec", "scattered"))
    ] + [(RailOptimized(), "spectrum-x", "packed")]
    model, software = known.model(name), profiles.default(known.accelerator("h100-sxm"))
    search = Search(accelerators=128, domain=8, global_batch=128, seq_len=4096, fixed=overlap)
    each = [Training(model=model, layout=one, seq_len=4096, software=software) for one in layouts(model, search)]
    sites = [
        DesignSite.of(
            build(ClusterSpec(128, "hgx-h100", NetworkSpec(kind, FabricSpec(fabric))), known, Placement(how, 0))
        )
        for kind, fabric, how in places
    ]
    jobs, at = each * len(sites), np.repeat(np.arange(len(sites)), len(each))
    degrees = [(job.layout.tp, job.layout.pp, job.layout.cp, job.layout.ep) for job in jobs]
    numbers = {one: number for number, one in enumerate(sorted(set(degrees)))}
    family = np.array([numbers[one] for one in degrees]) + at * len(numbers)
    owners = [sites[place] for place in at]
    whole = evaluate(jobs, owners).step
    for most, fewest_left_out in ((1, 0.5), (3, 0.3), (24, 0.0)):
        step, _ = evaluate_fastest(jobs, owners, family, at, most)
        left_out = ~np.isfinite(step.step_s)
        assert np.array_equal(step.step_s[~left_out], whole.step_s[~left_out])
        assert left_out.mean() > fewest_left_out
    for place in range(len(sites)):
        assert _first_of_families(step, family, at == place, most) == _first_of_families(
            whole, family, at == place, most
        )


def _first_of_families(step, family, here, most):
    """The fastest design of each family of a place, the fastest family first."""
    order = [at for at in np.argsort(steady_step_s(step), kind="stable").tolist() if here[at]]
    first = {}
    for at in order:
        first.setdefault(family[at], at)
    return list(first.values())[:most]


@pytest.mark.parametrize(
    ("profile", "named", "schedules"),
    [
        ("megatron-2026", {}, {"1f1b", "interleaved"}),
        ("torchtitan-2025", {}, {"1f1b", "interleaved", "zero-bubble"}),
        ("hai-llm-2024", {}, {"1f1b", "interleaved", "zero-bubble", "dualpipe"}),
        ("deepspeed-2024", {}, {"1f1b"}),
        ("megatron-2026", {"schedule": "zero-bubble"}, {"zero-bubble"}),
        ("deepspeed-2024", {"vp": 2, "pp": 2}, {"interleaved"}),
    ],
)
def test_a_search_takes_only_schedules_that_the_software_has(catalog, machine, profile, named, schedules):
    job = Training(
        model=catalog.model("mixtral-8x7b"),
        layout=Layout(global_batch=64),
        seq_len=4096,
        software=profiles.profile(profile, machine.accelerator),
    )
    assert {one.layout.schedule for one in candidates(job, machine, 32, fixed=named)} == schedules
