"""Pipeline schedules: one contract over all that are registered, then what each promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.kit.errors import InputError
from railyard.work.training.schedule import Op, emit, schedules

MIRRORED = "dualpipe"
NAMES = [name for name in schedules.names() if name != MIRRORED]
SEVERAL_STAGES = [name for name in NAMES if name != "1f1b"]
sizes = {"pp": st.integers(1, 9), "vp": st.integers(1, 5), "micro_batches": st.integers(1, 24)}


def chunks(name, vp):
    return vp if name in SEVERAL_STAGES else 1


def durations(schedule, stages, forward=10, grad_input=12, grad_weight=8):
    row = [forward, grad_input, grad_weight] if schedule.splits_backward else [forward, grad_input + grad_weight, 0]
    return np.tile(np.array(row, np.int64), (stages, 1))


@pytest.mark.parametrize("name", NAMES)
@given(**sizes)
def test_every_rank_does_all_its_work_once(name, pp, vp, micro_batches):
    schedule, vp = schedules.get(name), chunks(name, vp)
    kinds = [Op.FORWARD, Op.BACKWARD, Op.WEIGHT][: 3 if schedule.splits_backward else 2]
    wanted = {(op, chunk, micro) for op in kinds for chunk in range(vp) for micro in range(micro_batches)}
    for sequence in schedule.sequences(pp, vp, micro_batches):
        done = list(zip(sequence.op.tolist(), sequence.chunk.tolist(), sequence.micro_batch.tolist(), strict=True))
        assert len(done) == len(wanted)
        assert set(done) == wanted


@pytest.mark.parametrize("name", NAMES)
@given(**sizes)
def test_no_schedule_waits_for_itself(name, pp, vp, micro_batches):
    schedule, vp = schedules.get(name), chunks(name, vp)
    emission = emit(schedule.sequences(pp, vp, micro_batches), vp, durations(schedule, pp * vp))
    assert len(emission) == pp * vp * micro_batches * (3 if schedule.splits_backward else 2)
    assert (emission.awaited < np.arange(len(emission))).all()
    assert (np.diff(emission.start_ps) >= 0).all()
    work = micro_batches * vp * 30
    assert work <= emission.finish_ps <= pp * work


@pytest.mark.parametrize("name", NAMES)
@given(pp=st.integers(1, 9), vp=st.integers(1, 5), rounds=st.integers(1, 4), grad_weight=st.integers(0, 12))
def test_idle_time_is_the_closed_form(name, pp, vp, rounds, grad_weight):
    schedule, vp, micro_batches = schedules.get(name), chunks(name, vp), rounds * pp
    table = durations(schedule, pp * vp, 10, 12, grad_weight)
    emission = emit(schedule.sequences(pp, vp, micro_batches), vp, table)
    idle = emission.finish_ps - micro_batches * vp * (22 + grad_weight)
    if grad_weight <= 10:  # weight gradients longer than a forward pass fill more than the closed form knows of
        assert idle == schedule.bubble(pp, vp, micro_batches, 10, 12, grad_weight)


def test_idle_shares_of_the_papers():
    forward, backward, p, v, m = 1, 2, 8, 4, 16
    plain = schedules.get("1f1b").bubble(p, 1, m, forward, backward, 0) / (m * (forward + backward))
    assert plain == pytest.approx((p - 1) / m)
    part = (forward / v, backward / v, 0)
    interleaved = schedules.get("interleaved").bubble(p, v, m, *part) / (m * (forward + backward))
    assert interleaved == pytest.approx((p - 1) / (v * m))
    zero_bubble = schedules.get("zero-bubble").bubble(p, 1, m, 1, 1, 1) / (m * 3)
    assert zero_bubble == pytest.approx(plain / 3)


def mirrored(pp, micro_batches, forward, grad_input, grad_weight):
    schedule = schedules.get(MIRRORED)
    table = np.tile(np.array([[forward, grad_input, grad_weight]], np.int64), (2 * pp, 1))
    return emit(schedule.sequences(pp, 1, micro_batches), 2, table, mirrored=True)


@given(half=st.integers(1, 5), more=st.integers(0, 6), forward=st.integers(5, 20), part=st.integers(0, 10))
def test_dualpipe_idles_as_deepseek_says(half, more, forward, part):
    """(p/2 - 1)(F&B + B - 3W) of DeepSeek-V3's table 2 where F is as long as the gradient of the input."""
    pp = 2 * half
    micro_batches, grad_weight = 2 * pp + 2 * more, forward * part // 10
    found = mirrored(pp, micro_batches, forward, forward, grad_weight)
    idle = found.finish_ps - micro_batches * (2 * forward + grad_weight)
    assert idle == schedules.get(MIRRORED).bubble(pp, 1, micro_batches, forward, forward, grad_weight)


@given(half=st.integers(1, 5), more=st.integers(0, 6), longer=st.integers(0, 10))
def test_dualpipe_saves_a_forward_pass_at_most_where_gradients_take_longer(half, more, longer):
    """The middle ranks do not overlap their first two chunks, "to further reduce bubble size" (its source)."""
    pp = 2 * half
    micro_batches = 2 * pp + 2 * more
    found = mirrored(pp, micro_batches, 10, 10 + longer, 6)
    idle = found.finish_ps - micro_batches * (26 + longer)
    formula = schedules.get(MIRRORED).bubble(pp, 1, micro_batches, 10, 10 + longer, 6)
    assert formula - 10 <= idle <= formula


@given(half=st.integers(1, 5), more=st.integers(0, 6))
def test_dualpipe_does_all_its_work_once_and_holds_p_plus_1(half, more):
    pp = 2 * half
    micro_batches = 2 * pp + 2 * more
    for rank, sequence in enumerate(schedules.get(MIRRORED).sequences(pp, 1, micro_batches)):
        rows = list(zip(sequence.op.tolist(), sequence.chunk.tolist(), sequence.micro_batch.tolist(), strict=True))
        half_of = micro_batches // 2
        both = {(chunk, chunk * half_of + micro) for chunk in (0, 1) for micro in range(half_of)}
        assert {row[1:] for row in rows if row[0] == Op.FORWARD} == both
        assert {row[1:] for row in rows if row[0] == Op.BACKWARD} == both
        weights = {row[1:] for row in rows if row[0] == Op.WEIGHT}
        wholes = {row[1:] for row, whole in zip(rows, sequence.full, strict=True) if whole}
        assert weights | wholes == both
        assert not weights & wholes
        near = min(rank, pp - 1 - rank)
        assert int(sequence.joins.sum()) == micro_batches - (3 * half - 1 - near) - (near == half - 1)
        held = np.cumsum((sequence.op == Op.FORWARD).astype(int) - (sequence.op == Op.BACKWARD).astype(int))
        assert held.max() == pp + 1


def test_full_recomputation_of_deepseek_v3_leaves_dualpipe_a_third_of_a_second():
    """F 50.8 ms, R 45.1, I 59.5, W 29.8: 7 (F&B + B - 3W) is 1.611 s, 15 (F + B - 2W) 1.884 s.

    The middle ranks save one of DualPipe's forward passes. It has more passes outside chunks, 19.6 each way to 16.
    """
    pp, batches, forward, grad_input, grad_weight = 16, 120, 508, 451 + 595, 298
    zero = schedules.get("zero-bubble")
    table = np.tile(np.array([[forward, grad_input, grad_weight]], np.int64), (pp, 1))
    double = mirrored(pp, batches, forward, grad_input, grad_weight)
    paired = emit(zero.paired(pp, 1, batches), 1, table)
    work = batches * (forward + grad_input + grad_weight)
    assert double.finish_ps - work == 16_114 - forward
    assert paired.finish_ps - work == 18_840
    outside = [int(((each.op == Op.FORWARD) & (each.partners() < 0)).sum()) / pp for each in (double, paired)]
    assert outside == [19.625, 16.0]


def test_dualpipe_refuses_what_it_cannot_run():
    for pp, vp, micro_batches in ((3, 1, 12), (4, 2, 12), (4, 1, 6), (4, 1, 9)):
        with pytest.raises(InputError, match="both directions"):
            schedules.get(MIRRORED).sequences(pp, vp, micro_batches)


def in_flight(sequence):
    release = Op.WEIGHT if (sequence.op == Op.WEIGHT).any() else Op.BACKWARD
    held = np.cumsum((sequence.op == Op.FORWARD).astype(int) - (sequence.op == release).astype(int))
    return int(held.max())


@given(pp=st.integers(1, 9), micro_batches=st.integers(1, 24))
def test_zero_bubble_holds_no_more_micro_batches_than_1f1b(pp, micro_batches):
    plain = [in_flight(s) for s in schedules.get("1f1b").sequences(pp, 1, micro_batches)]
    split = [in_flight(s) for s in schedules.get("zero-bubble").sequences(pp, 1, micro_batches)]
    assert plain == [min(pp - rank, micro_batches) for rank in range(pp)]
    assert max(split) == max(plain)


@pytest.mark.parametrize(("pp", "vp", "micro_batches"), [(4, 2, 8), (8, 12, 64), (16, 8, 16)])
def test_interleaved_warms_up_as_megatron_does(pp, vp, micro_batches):
    for rank, sequence in enumerate(schedules.get("interleaved").sequences(pp, vp, micro_batches)):
        first_backward = int(np.argmax(sequence.op == Op.BACKWARD))
        warm_up = min((pp - rank - 1) * 2 + (vp - 1) * pp, vp * micro_batches)
        assert first_backward == min(warm_up + 1, vp * micro_batches)
        forward = sequence.op == Op.FORWARD
        chunks_then = sequence.chunk[forward][: pp * vp].tolist()
        assert chunks_then == [chunk for chunk in range(vp) for _ in range(pp)]
        assert sequence.micro_batch[forward][: pp * 2].tolist() == [*range(pp), *range(pp)]
