"""Layouts: what is refused, what is found."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.work.training import LayoutError, SoftwareProfile, auto, check, estimate, layouts, memory
from railyard.work.training.layout import Search, domain_use
from railyard.work.training.spec import Layout, Training

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
    found = [Training(model=model, layout=x, seq_len=8192, software=SOFTWARE) for x in layouts(model, search)]
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
