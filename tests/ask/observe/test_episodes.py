"""Steps, chance and slow steps by hand: who is healthy, which steps are slow, how far that is from chance."""

import json
from math import log
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from railyard.ask.observe.diagnosis import work
from railyard.ask.observe.diagnosis.episodes import FLOOR, ExcessSeries, quantile
from railyard.ask.observe.diagnosis.verdict import sure
from railyard.ask.observe.diagnosis.work import BlameLevel, _stood
from railyard.ask.observe.kernels import kind_of_kernel
from railyard.ask.observe.measured import Launched, steps_of
from railyard.ask.observe.operations import Dependencies, OperationGroup, operations_of, read_operations, replay
from railyard.ask.observe.slowdown import slowdown
from railyard.kit.errors import InputError

USUAL = 0.005


def excess(parts, steps=4, **slow):
    """Nobody slow but those that are named: `p5={2: 0.3}` part 5 by 0.3 in step 2."""
    ratio = np.zeros((steps, parts))
    for name, by in slow.items():
        for step, value in by.items():
            ratio[step, int(name[1:])] = value
    return ratio


def test_half_of_all_parts_may_be_slow():
    """Sixteen exact levels: chance is what is usual, sqrt(3 / 19) of it, and the floor of steps over two."""
    ratio = excess(16, **{f"p{part}": dict.fromkeys(range(4), log(1.1)) for part in range(8)})
    series = ExcessSeries.of(ratio, USUAL)
    found = series.episode(3)
    assert found.steps.all()
    assert found.level == pytest.approx(log(1.1))
    assert series.between == pytest.approx(USUAL * (3 / 19) ** 0.5)
    assert found.spreads == pytest.approx(log(1.1) / np.hypot(USUAL * (3 / 19) ** 0.5, FLOOR / 2))
    assert all(series.episode(part) is None for part in range(8, 16))


def test_a_few_parts_that_are_faster_make_nobody_slow():
    ratio = excess(16, **{f"p{part}": dict.fromkeys(range(4), -0.2) for part in range(4)})
    assert all(ExcessSeries.of(ratio, USUAL).episode(part) is None for part in range(16))


def test_three_of_ten_steps():
    """Against its own other steps: the floor over sqrt(1/3 + 1/7)."""
    series = ExcessSeries.of(excess(8, 10, p5={2: 0.3, 3: 0.32, 8: 0.28}), USUAL)
    found = series.episode(5)
    assert np.flatnonzero(found.steps).tolist() == [2, 3, 8]
    assert found.level == pytest.approx(0.3)
    assert found.spreads == pytest.approx(0.3 / (FLOOR * (1 / 3 + 1 / 7) ** 0.5))


def test_a_slow_part_that_gets_slower_is_slow_all_the_time():
    """From 0.2 to 0.3: the lower level is no normal one."""
    series = ExcessSeries.of(excess(8, 6, p1={step: 0.2 + 0.02 * step for step in range(6)}), USUAL)
    assert series.episode(1).steps.all()


def test_a_step_that_is_fast_by_accident_splits_nothing():
    """Noise of one spread with one step far below it: the others are no slow level."""
    rng = np.random.default_rng(3)
    ratio = rng.normal(0, 0.05, (72, 8))
    ratio[10, 2] = -0.4
    series = ExcessSeries.of(ratio - np.median(ratio, axis=1)[:, None], USUAL)
    assert [part for part in range(8) if series.episode(part) is not None] == []


@pytest.mark.parametrize("parts", [4, 8, 16])
def test_the_spread_of_steps_is_that_of_ratios_to_the_median(parts):
    """A part that is the median itself deviates by nothing; the spread is within 6 % of the true one all the same."""
    ratio = np.random.default_rng(5).normal(0, 0.05, (400, parts))
    ratio -= np.median(ratio, axis=1)[:, None]
    assert ExcessSeries.of(ratio, USUAL).within == pytest.approx(ratio.std(), rel=0.06)


def test_throttling_from_some_step_on():
    series = ExcessSeries.of(excess(8, 6, p1={3: 0.12, 4: 0.2, 5: 0.2}), USUAL)
    assert np.flatnonzero(series.episode(1).steps).tolist() == [3, 4, 5]


def test_what_is_not_known_of_a_step_speaks_neither_way():
    ratio = excess(8, 5, p2=dict.fromkeys(range(5), 0.2))
    ratio[0] = np.nan
    assert ExcessSeries.of(ratio, USUAL).episode(2).steps.all()
    assert ExcessSeries.of(np.full((3, 4), np.nan), USUAL).episode(0) is None


@pytest.mark.parametrize("parts", [4, 8, 16, 32])
def test_noise_names_nobody(parts):
    """Parts and steps 0.4 % apart: of 1,600 parts at most two are slow by 1 % of all time by chance."""
    rng = np.random.default_rng(4)
    named = 0
    for _ in range(1600 // parts):
        series = ExcessSeries.of(rng.normal(0, 0.004, parts) + rng.normal(0, 0.004, (12, parts)), USUAL)
        found = [one for part in range(parts) if (one := series.episode(part)) is not None]
        named += sum(one.level * one.steps.mean() >= 0.01 for one in found)
    assert named <= 2


def test_a_group_without_peers_is_held_against_its_other_steps():
    ratio = np.array([1.0, 1.0, 1.0, 1.7, 1.0, 1.7, 1.0, 1.0])
    found = ExcessSeries.alone(ratio).episode(0)
    assert np.flatnonzero(found.steps).tolist() == [3, 5]
    assert found.level == pytest.approx(0.7)
    assert ExcessSeries.alone(np.full(8, 3.0)).episode(0) is None


def test_hosts_are_the_mean_of_their_ranks():
    ratio = excess(8, 4, **{f"p{part}": dict.fromkeys(range(4), 0.03) for part in range(4)})
    host = ExcessSeries.of(ratio, USUAL).pooled([[0, 1, 2, 3], [4, 5, 6, 7]], USUAL)
    assert host.episode(0).level == pytest.approx(0.03)
    assert host.within == pytest.approx(FLOOR / 2)
    assert host.episode(1) is None


def test_quantiles_are_those_of_numpy_over_what_is_known():
    values = np.array([[3.0, np.nan, 1.0], [1.0, np.nan, np.nan], [2.0, np.nan, 5.0], [9.0, np.nan, 2.0]])
    for share in (0.0, 0.25, 0.5, 1.0):
        found = quantile(values, share)
        assert found[0] == pytest.approx(np.quantile(values[:, 0], share))
        assert np.isnan(found[1])
        assert found[2] == pytest.approx(np.quantile([1.0, 5.0, 2.0], share))


def test_confidence_is_one_half_where_a_part_is_just_named():
    assert sure(6.0, 6.0) == 0.5
    assert 0.5 < sure(8.0, 6.0) < sure(12.0, 6.0) < sure(600.0, 6.0) == 0.99


def levels(**found):
    return {kind: BlameLevel(log(factor), 0.003) for kind, factor in found.items()}


@pytest.mark.parametrize(
    ("found", "kind", "routed"),
    [
        ({"gemm": 1.2, "attention": 1.2, "norm": 1.2, "elementwise": 1.2}, "accelerator", False),
        ({"gemm": 1.3, "attention": 1.27, "norm": 1.05, "elementwise": 1.06}, "accelerator", False),
        ({"gemm": 1.0, "attention": 1.0, "norm": 1.2, "elementwise": 1.18, "optimizer": 1.21}, "accelerator", False),
        ({"gemm": 1.0, "attention": 1.35, "norm": 1.0, "elementwise": 1.0}, "sequences", False),
        ({"gemm": 1.0, "attention": 1.0, "expert": 1.5, "norm": 1.0}, "experts", True),
        ({"gemm": 1.15, "attention": 1.0, "norm": 1.0}, "software", False),
        ({"gemm": 1.15, "attention": 1.0, "norm": 1.0}, "experts", True),
        ({"gemm": 1.2, "norm": 1.0}, "accelerator", False),
    ],
)
def test_which_kinds_are_slow_says_what_is_to_blame(found, kind, routed):
    assert work.blamed(levels(**found), routed=routed).kind == kind


def test_a_cause_that_is_not_told_from_another_has_its_share():
    """GEMMs and nothing else but norms: another program on one rank is one in twenty of that."""
    assert work.blamed(levels(gemm=1.2, norm=1.0), routed=False).share == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<...> > >", "attention"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_128x128x128", "attention"),
        ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", "attention"),
        (
            "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<...",
            "expert",
        ),
        ("fused_moe_kernel", "expert"),
        ("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT", "gemm"),
        ("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", "gemm"),
        ("Cijk_Ailk_Bljk_BBS_BH_MT256x256x64_MI16x16x1", "gemm"),
        ("sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc", "gemm"),
        ("volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", "gemm"),
        ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0", "norm"),
        ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>", "norm"),
        (
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>",
            "optimizer",
        ),
        ("Memcpy HtoD (Pinned -> Device)", "copy"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>", "elementwise"),
    ],
)
def test_kinds_of_kernels(name, kind):
    assert kind_of_kernel(name) == kind


def launched(code, start=None, launch=None, marks=(), *, exact=False):
    code = np.array(code, np.int64)
    start = np.arange(len(code)) * 10 if start is None else np.array(start)
    launch = np.full(len(code), -1) if launch is None else np.array(launch)
    return Launched(code, launch, start.astype(np.int64), list(marks), exact)


def test_steps_are_the_most_repetitions_of_the_same_kernels():
    step, numbers = steps_of({0: launched([1, 2, 2, 3] * 5), 1: launched([1, 2, 2, 3] * 5)})
    assert numbers == [0, 1, 2, 3, 4]
    assert step[0].tolist() == [number for number in range(5) for _ in range(4)]
    assert steps_of({0: launched([1, 2, 3, 1, 3])})[1] == [0]


def test_launches_give_the_order_where_a_stream_runs_late():
    """A communication (3) of step 0 starts after the first kernel of step 1."""
    code, start, launch = [1, 2, 1, 3, 2, 3], [0, 10, 20, 25, 30, 40], [1, 2, 4, 3, 5, 6]
    step, numbers = steps_of({0: launched(code, start, launch)})
    assert numbers == [0, 1]
    assert step[0].tolist() == [0, 0, 1, 0, 1, 1]


def test_marks_give_numbers_and_cut_what_does_not_repeat():
    marks = [(7, 0, 25), (8, 25, 60)]
    assert steps_of({0: launched([1, 2] * 2, marks=marks)})[0][0].tolist() == [0, 0, 1, 1]
    odd = launched([1, 2, 2, 1, 5], marks=marks, exact=True)
    step, numbers = steps_of({0: odd, 1: launched([1, 2] * 2, marks=marks)})
    assert numbers == [7, 8]
    assert step[0].tolist() == [0, 0, 0, 1, 1]


def test_a_rank_whose_kernels_do_not_repeat_as_those_of_others_is_in_no_step():
    step, numbers = steps_of({0: launched([1, 2] * 3), 1: launched([1, 2] * 3), 2: launched([1, 2, 2, 1, 2])})
    assert numbers == [0, 1, 2]
    assert step[2].tolist() == [-1] * 5


@pytest.mark.parametrize(
    ("rows", "lost"),
    [
        ([(0, 10, 0), (13, 20, 0)], [0, 3]),
        ([(0, 10, 0), (10, 30, 1), (32, 40, 0)], [0, 0, 2]),
        ([(0, 10, 0), (14, 30, 1), (32, 40, 0)], [0, 4, 2]),
        ([(0, 10, 0), (5, 50, 1), (20, 30, 0)], [0, 0, 10]),
        ([(0, 10, 0), (5, 18, 1), (6, 50, 1), (20, 30, 0)], [0, 0, 0, 2]),
    ],
)
def test_a_rank_stands_still_where_nothing_that_it_waited_for_runs(rows, lost):
    """Start, end, and whether it communicates: a gap after a kernel, after and before a communication, beside one."""
    start, end, talks = (np.array(column) for column in zip(*rows, strict=True))
    assert _stood(start, end, talks.astype(bool)).tolist() == lost


# What-if replay: ByteDance's published answers, and steps small enough to be computed by hand.

HERE = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[4] / "shared" / "data" / "operations" / "stragglers" / "data"


def published(name):
    if name == "ST":
        return HERE / "operations-ST.parquet", json.loads((HERE / "operations-ST.json").read_text(encoding="utf-8"))
    if not SHARED.is_dir():
        pytest.skip("the larger traces lie in ../shared")
    answers = json.loads((SHARED / f"result-{name}.json").read_text(encoding="utf-8"))
    for key in ("Mw", "Ms"):
        answers[key] = json.loads((SHARED / f"{key.lower()}-{name}.json").read_text(encoding="utf-8"))[key]
    return SHARED / f"trace-{name}.parquet", answers


@pytest.mark.parametrize(("name", "rounded"), [("ST", 1.1787), ("AR", 1.9730), ("SE", 1.5374)])
def test_equals_what_bytedance_published(name, rounded):
    path, answers = published(name)
    found = slowdown(read_operations(path))
    close = {"abs": 1e-12, "rel": 1e-12}
    assert found.slowdown == pytest.approx(rounded, abs=5e-5)
    assert found.slowdown == pytest.approx(answers["blocking_slowdown"], **close)
    assert found.step_s == pytest.approx(np.mean(list(answers["step_t_base"].values())), **close)
    assert found.replayed_s == pytest.approx(np.mean(list(answers["step_t_nodelay"].values())), **close)
    assert found.by_kind == pytest.approx(answers["blocking_decompose_by_optype"], **close)
    for mine, theirs in (
        (found.by_stage, answers["blocking_decompose_by_stage"]),
        (found.by_data_parallel, answers["blocking_decompose_by_dp_rank"]),
    ):
        assert dict(enumerate(mine)) == pytest.approx({int(key.split(",")[0]): s for key, s in theirs.items()}, **close)
    assert found.workers == pytest.approx(answers["Mw"], **close)
    assert found.last_stage == pytest.approx(answers["Ms"], **close)


def test_a_group_moves_when_its_last_member_has_started():
    """0 and 1 compute 3 s and 5 s, then 2 and 3 exchange: both begin at 5 s and end 0.25 s and 0.5 s later."""
    waiting = Dependencies(
        waits=[[], [], [0], [1]],
        groups=[
            OperationGroup((0,), False, False),
            OperationGroup((1,), False, False),
            OperationGroup((2, 3), True, False),
        ],
    )
    found = replay(waiting.ordered(), waiting.waits, np.array([3.0, 5.0, 0.25, 0.5]).reshape(4, 1, 1))
    assert found.start.ravel().tolist() == [0, 0, 3, 5]
    assert found.end.ravel().tolist() == [3, 5, 5.25, 5.5]
    assert found.step_s.tolist() == [5.5]


def step(durations):
    """One stage, data-parallel ranks that compute so long (s), then clip (0.5 s) and update (0.25 s)."""
    rows, late = [], max(durations)
    for member, seconds in enumerate(durations):
        common = {"dp_rank": member, "stage": 0, "rank": member, "step": 7, "seq_id": 0, "mc": 0, "mb_id": 0, "gmc": 0}
        rows += [
            {**common, "optype": "forward-compute", "start_ts": 0.0, "duration": seconds},
            {**common, "optype": "optimizer-clip-main-grad", "start_ts": seconds, "duration": late + 0.5 - seconds},
            {**common, "optype": "optimizer", "start_ts": late + 0.5, "duration": 0.25},
        ]
    return pl.DataFrame(rows)


def test_one_straggler_of_four():
    """T = 5 + 0.5 + 0.25; T_ideal = mean(2, 2, 2, 5) + 0.5 + 0.25 = 3.5; without the last rank T would be 3.5 s."""
    found = slowdown(operations_of(step([2.0, 2.0, 2.0, 5.0])))
    assert found.replayed_s == pytest.approx(5.75)
    assert found.ideal_s == pytest.approx(3.5)
    assert found.by_data_parallel == pytest.approx((1.0, 1.0, 1.0, 5.75 / 3.5))
    assert max(found.by_worker, key=found.by_worker.get) == 3
    assert found.workers == pytest.approx(1.0)


def test_equal_ranks_have_no_stragglers():
    found = slowdown(operations_of(step([2.0] * 3)))
    assert found.slowdown == pytest.approx(1.0)
    assert np.isnan(found.workers)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda frame: frame.drop("stage"), "lacks the columns stage"),
        (lambda frame: frame.slice(1), "operations are missing"),
        (lambda frame: pl.concat([frame, frame.head(1)]), "appears twice"),
        (lambda frame: frame.head(0), "no operations"),
        (lambda frame: frame.with_columns(optype=pl.col("optype").str.replace("optimizer$", "optimiser")), "optimizer"),
        (lambda frame: frame.with_columns(dp_rank=pl.col("dp_rank") + 1), "numbered from 0"),
        (lambda frame: frame.with_columns(rank=pl.lit(0)), "grid"),
    ],
)
def test_what_is_wrong_is_named(spoil, words):
    with pytest.raises(InputError, match=words):
        slowdown(operations_of(spoil(step([2.0, 3.0]))))
