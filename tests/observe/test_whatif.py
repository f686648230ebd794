"""What-if replay: ByteDance's published answers, and steps small enough to be computed by hand."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from railyard.ask.observe.operations import Dependencies, OperationGroup, operations_of, read_operations, replay
from railyard.ask.observe.slowdown import slowdown
from railyard.kit.errors import InputError

HERE = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[3] / "shared" / "data" / "operations" / "stragglers" / "data"


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
        (lambda frame: pl.concat([frame, frame.head(1)]), "there twice"),
        (lambda frame: frame.head(0), "no operations"),
        (lambda frame: frame.with_columns(optype=pl.col("optype").str.replace("optimizer$", "optimiser")), "optimizer"),
        (lambda frame: frame.with_columns(dp_rank=pl.col("dp_rank") + 1), "from 0 on"),
        (lambda frame: frame.with_columns(rank=pl.lit(0)), "grid"),
    ],
)
def test_what_is_wrong_is_named(spoil, words):
    with pytest.raises(InputError, match=words):
        slowdown(operations_of(spoil(step([2.0, 3.0]))))
