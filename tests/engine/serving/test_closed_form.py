"""The closed form of a deployment against numbers of a hand and against the engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.serving import Autoscale, Cost, Deployment, Pool, Router, Speculative, running, simulate, stream
from railyard.engine.serving.closed_form import expected
from railyard.graph.request_table import RequestTable
from railyard.kit.errors import InputError, StaleCoreError

from .columns import LINEAR, pool, rows

COST = Cost(
    np.array([0, 100, 1000]),
    np.array([0.010, 0.011, 0.029]),
    np.array([0.001, 0.001, 0.001]),
    host_s=0.002,
    host_per_seq_s=1e-5,
    attention_per_kv_token_s=1e-7,
    attention_per_pair_s=1e-9,
    attention_floor_s=2e-4,
)
"""An iteration of t tokens takes 11 + t / 100 ms up to 100 tokens, 12 + (t - 100) / 50 ms beyond, and 2 of the host."""


def requests(arrivals_s, prompts, answers) -> RequestTable:
    arrival = np.round(np.array(arrivals_s) * 1e12).astype(np.int64)
    return RequestTable(arrival, np.array(prompts, np.int32), np.array(answers, np.int32))


def closed_form_pool(**asked) -> Pool:
    return Pool(**{"name": "pool", "cost": COST, "max_batched_tokens": 1000, **asked})


def test_one_request_is_its_prompt_and_its_steps():
    """Prompt of 300: 2 + 12 + 4 ms, 10 us of the sequence, 45,150 pairs of 1 ns. Six steps of 13.01 ms, 10 us, and of
    attention 0.2 ms, for 304 keys are less."""
    found = expected(requests([0.0], [300], [7]), Deployment((closed_form_pool(),)))
    assert found.ttft_s[0] == pytest.approx(0.002 + 0.011 + 0.001 + 0.004 + 1e-5 + 45_150e-9, rel=1e-6)
    assert found.tpot_s[0] == pytest.approx(0.002 + 0.011 + 0.0001 * 0.1 + 1e-5 + 2e-4, rel=1e-6)
    assert found.pools[0].tokens == 306
    assert found.pools[0].pairs == 45_150


def test_two_that_come_together_share_iterations_and_one_waits():
    found = expected(requests([0.0, 0.0], [300, 300], [51, 51]), Deployment((closed_form_pool(),)))
    one = expected(requests([0.0], [300], [51]), Deployment((closed_form_pool(),)))
    assert found.ttft_s[1] > 1.2 * found.ttft_s[0]
    two = 0.002 + 0.011 + 2e-5 + 2e-5 + 2e-4  # of two tokens and two sequences
    assert found.tpot_s[1] == pytest.approx(two, rel=2e-3)
    assert one.tpot_s[0] < found.tpot_s[1]
    assert found.pools[0].busy_s < 1.1 * one.pools[0].busy_s


def test_a_second_replica_takes_the_second_request():
    found = expected(
        requests([0.0, 0.0], [300, 300], [51, 51]), Deployment((closed_form_pool(replicas=2),), Router("least-loaded"))
    )
    one = expected(requests([0.0], [300], [51]), Deployment((closed_form_pool(),)))
    assert found.ttft_s == pytest.approx([one.ttft_s[0]] * 2)
    assert found.tpot_s == pytest.approx([one.tpot_s[0]] * 2)


def test_who_finds_no_place_waits_until_another_ends():
    found = expected(requests([0.0, 0.1], [300, 300], [51, 51]), Deployment((closed_form_pool(max_sequences=1),)))
    assert found.ttft_s[1] == pytest.approx(found.done_s[0] - 0.1 + found.ttft_s[0], rel=0.03)


def test_guesses_that_are_accepted_shorten_answers():
    """Of one guess in two iterations one comes true: 3 tokens in 2 iterations, each of 2 tokens."""
    guess = closed_form_pool(speculative=Speculative(1, 0.5, 0.001))
    found = expected(requests([0.0], [300], [51]), Deployment((guess,)))
    each = 0.002 + 0.011 + 2e-5 + 1e-5 + 2e-4 + 0.001
    assert found.tpot_s[0] == pytest.approx(each / 1.5, rel=1e-6)


SPLIT = replace(
    COST,
    attention_per_kv_token_s=0.0,
    attention_floor_s=0.0,
    overlapped_per_kv_token_s=np.array([2e-6, 8e-6]),
    overlapped_s=np.array([[1e-3, 1e-3, 2e-3], [4e-3, 6e-3, 8e-3]]),
)
"""Attention elsewhere hides behind other work: 1 ms of 2 us a key, or 4 ms (6 of 100 tokens) of 8 us a key."""


def test_attention_that_other_work_hides_is_the_longest_line():
    """600 keys: 1.2 - 1 = 0.2 ms and 4.8 - 4.02 = 0.78 ms, with 4.02 ms of one token; of 300 keys nothing is left."""
    for keys, longest in ((600, 0.78e-3), (300, 0.0)):
        asked = requests([0.0], [keys - 1], [2])
        found = expected(asked, Deployment((closed_form_pool(cost=SPLIT),)))
        seconds = 0.002 + 0.011 + 0.0001 * 0.1 + 1e-5 + longest + 0.5 * 8e-6 * (longest > 0)
        assert found.tpot_s[0] == pytest.approx(seconds, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_it_agrees_with_the_engine_on_attention_elsewhere(seed):
    asked, deployment = drawn(seed)
    lines = {name: 0.1 * getattr(SPLIT, name) for name in ("overlapped_per_kv_token_s", "overlapped_s")}
    pools = tuple(replace(one, cost=replace(SPLIT, **lines)) for one in deployment.pools)
    deployment = replace(deployment, pools=pools)
    found, run = expected(asked, deployment), simulate(asked, deployment)
    tpot = (run.end_ps - run.column("first_token_ps")) * 1e-12 / (asked.output_tokens - 1)
    assert found.tpot_s.mean() == pytest.approx(tpot.mean(), rel=0.05)
    assert np.percentile(found.tpot_s, 90) == pytest.approx(np.percentile(tpot, 90), rel=0.1)


def drawn(seed: int, count: int = 1500) -> tuple[RequestTable, Deployment]:
    """A load that replicas can carry, and pools that answer it together or apart."""
    random = np.random.Generator(np.random.PCG64(seed))
    prompt, answer = int(random.integers(100, 900)), int(random.integers(20, 200))
    replicas = int(random.integers(1, 9))
    busy = float(random.uniform(0.05, 0.6))
    rate = replicas * busy / (0.02 * prompt / 1000 + 0.0035 * answer / 4)
    gaps = random.exponential(1 / rate, count)
    lengths = [np.maximum(random.gamma(2.0, mean / 2.0, count), 2) for mean in (prompt, answer)]
    asked = requests(np.cumsum(gaps), *lengths)
    if random.random() < 0.5:
        return asked, Deployment((closed_form_pool(replicas=replicas),), Router("least-loaded"))
    halves = (
        closed_form_pool(name="a", replicas=replicas, role="prefill"),
        closed_form_pool(name="b", replicas=replicas + 1, role="decode"),
    )
    return asked, Deployment(halves, Router("least-loaded"))


@pytest.mark.parametrize("seed", range(12))
def test_it_agrees_with_the_engine_where_replicas_keep_up(seed):
    asked, deployment = drawn(seed)
    found, run = expected(asked, deployment), simulate(asked, deployment)
    first = (run.column("first_token_ps") - asked.arrival_ps) * 1e-12
    tpot = (run.end_ps - run.column("first_token_ps")) * 1e-12 / (asked.output_tokens - 1)
    for mine, true in ((found.ttft_s, first), (found.tpot_s, tpot)):
        assert mine.mean() == pytest.approx(true.mean(), rel=0.05)
        assert np.percentile(mine, 90) == pytest.approx(np.percentile(true, 90), rel=0.08)
    busy = run.table("replicas")["busy_ps"].sum() * 1e-12
    assert sum(one.busy_s for one in found.pools) == pytest.approx(busy, rel=0.12)


# A closed loop: what Little's law and the laws of interactive systems say of it, exactly.

MS = 10**9


def _asked(count=60, seed=3):
    draw = np.random.Generator(np.random.Philox(seed))
    return rows(np.zeros(count), draw.integers(1, 60, count), draw.integers(1, 50, count))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.sampled_from([0, 7 * MS]), st.sampled_from(["decode-first", "prefill-first"]))
def test_littles_law_holds_to_the_picosecond(users, think_ps, policy):
    """While there are requests to send, every user waits for an answer or thinks: the areas add up to users x time."""
    requests = _asked()
    run = simulate(requests, Deployment((pool(policy=policy),)), users=users, think_ps=think_ps)
    assert run.meta["outcome"] == "finished"
    window = int(run.start_ps.max())  # until the last one is sent nobody has left
    there = np.minimum(run.end_ps + think_ps, window) - np.minimum(run.start_ps, window)
    assert there.sum() == users * window
    there = [((run.start_ps <= t) & (run.end_ps + think_ps > t)).sum() for t in run.start_ps.tolist() if t < window]
    assert set(there) == {users}


def test_one_user_has_the_server_for_himself():
    """R = D: with one user nothing queues, and throughput is 1 / (service + think)."""
    requests = rows(np.zeros(20), np.full(20, 10), np.full(20, 5))
    run = simulate(requests, Deployment((Pool("one", Cost.constant(2e-3)),)), users=1, think_ps=3 * MS)
    assert (run.end_ps - run.start_ps == 5 * 2 * MS).all()
    assert (np.diff(run.start_ps) == 5 * 2 * MS + 3 * MS).all()


def test_the_interactive_response_time_law():
    """R = N D - Z at a saturated server that serves one at a time (Denning and Buzen, 1978)."""
    users, service, think = 8, 10 * MS, 15 * MS
    requests = rows(np.zeros(400), np.full(400, 10), np.full(400, 5))
    one = Deployment((Pool("one", Cost.constant(2e-3), max_sequences=1),))
    run = simulate(requests, one, users=users, think_ps=think)
    steady = slice(50, 350)
    assert (run.end_ps - run.start_ps)[steady].tolist() == [users * service - think] * 300


def test_nobody_sends_before_the_arrival_and_more_users_than_requests_change_nothing():
    requests = rows([0, 4 * MS, 90 * MS], [5, 60, 5], [3, 30, 3])
    deployment = Deployment((pool(),))
    free = simulate(requests, deployment)
    assert free.start_ps.tolist() == requests.arrival_ps.tolist()
    loose = simulate(requests, deployment, users=3)
    assert loose.end_ps.tolist() == free.end_ps.tolist()
    tight = simulate(requests, deployment, users=1)
    assert (tight.start_ps >= requests.arrival_ps).all()
    assert (tight.start_ps[1:] == np.maximum(tight.end_ps[:-1], requests.arrival_ps[1:])).all()


def test_what_can_never_be_served_keeps_no_user_busy():
    run = simulate(rows([0, 0], [10**6, 5], [1, 1]), Deployment((pool(),)), users=1)
    assert run.column("status").tolist() == [1, 0]


def test_a_crowd_that_comes_at_once_is_no_overload():
    count = 20_000
    deployment = Deployment((Pool("one", Cost.constant(1e-3), max_sequences=1),))
    requests = rows(np.zeros(count), np.ones(count), np.ones(count))
    assert simulate(requests, deployment, users=count).meta["outcome"] == "finished"
    assert simulate(requests, deployment).meta["outcome"] == "overload"


@pytest.mark.parametrize("wrong", [{"users": -1}, {"users": 1, "think_ps": -1}, {"users": 1, "think_ps": 2**62}])
def test_bad_input(wrong):
    with pytest.raises(InputError, match=next(iter(reversed(wrong)))):
        simulate(_asked(3), Deployment((pool(),)), **wrong)


def test_streams_have_a_sent_column_too():
    *parts, _ = list(stream([_asked(5)], Deployment((pool(),))))
    assert np.concatenate([part.columns["start_ps"] for part in parts]).tolist() == [0] * 5


# Nothing that a caller can write ends in anything but a result or an InputError.

GOOD = {"arrival_ps": [0, 5, 9], "input_tokens": [3, 4, 5], "output_tokens": [1, 2, 3]}


@pytest.mark.parametrize(
    ("name", "column", "word"),
    [
        ("arrival_ps", [0, 9, 5], "ascend"),
        ("arrival_ps", [-1, 5, 9], "ascend"),
        ("arrival_ps", [0, 5], "same length"),
        ("input_tokens", [3, 0, 5], "at least 1"),
        ("output_tokens", [1, -2, 3], "at least 1"),
        ("output_tokens", [1, 2, 3, 4], "same length"),
        ("session", [1], "session"),
        ("block_ptr", [0, 0, 0, 5], "block_ptr"),
        ("input_tokens", [1.5, 2, 3], "integers"),
    ],
)
def test_bad_columns_are_named(name, column, word):
    requests = rows(**GOOD)
    setattr(requests, name, np.asarray(column))
    with pytest.raises(InputError, match=word):
        simulate(requests, Deployment((pool(),)))


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"role": "prefil"}, "prefill"),
        ({"role": "prefill"}, "decode"),
        ({"kv_blocks": 0}, "kv_blocks"),
        ({"max_batched_tokens": 513}, "max_batched_tokens"),
        ({"watermark": 1.5}, "watermark"),
        ({"prefix_cache": True}, "prefix_cache"),
        ({"host_kv_bytes": 1e9}, "swap_bps"),
        ({"replicas": -1}, "replicas"),
        ({"replicas": "two"}, "replicas"),
        ({"speculative": Speculative(3, 1.5)}, "acceptance"),
        ({"autoscale": Autoscale(5, 0.5)}, "min_replicas"),
        ({"cost": replace(LINEAR, host_s=float("nan"))}, "times"),
        ({"cost": replace(LINEAR, stage_share=0.2, pipeline_stages=2)}, "stage_share"),
        ({"cost": replace(LINEAR, tokens=np.array([0, 600]))}, "same length"),
        ({"cost": Cost(np.zeros(0), np.zeros(0), np.zeros(0))}, "same length"),
    ],
)
def test_bad_pools_are_named(changed, word):
    with pytest.raises(InputError, match=word):
        simulate(rows(**GOOD), Deployment((pool(**changed),)))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_the_columns_are_it_ends(data):
    column = st.lists(st.integers(-3, 700), min_size=0, max_size=4)
    made = {name: np.asarray(data.draw(column), np.int64) for name in ("arrival_ps", "input_tokens", "output_tokens")}
    requests = rows(**made)
    requests.block_ptr = np.asarray(data.draw(column), np.int64)
    requests.block_hash = np.asarray(data.draw(st.lists(st.integers(0, 2), max_size=4)), np.uint64)
    requests.block_tokens = data.draw(st.sampled_from([0, -1, 16, 17]))
    numbers = st.sampled_from([-1, 0, 1, 2, 40, 512])
    names = ("replicas", "block_tokens", "kv_blocks", "max_sequences", "max_batched_tokens")
    changed = {name: data.draw(numbers) for name in data.draw(st.sets(st.sampled_from(names)))}
    deployment = Deployment((pool(prefix_cache=data.draw(st.booleans()), **changed),))
    try:
        run = simulate(requests, deployment)
    except InputError:
        return
    assert run.meta["outcome"] == "finished"
    assert (run.table("replicas")["kv_used_blocks"] == 0).all()


def test_a_core_that_was_not_built_again_is_said(monkeypatch):
    """Its objects lack what newer Python code sets."""
    monkeypatch.setattr(running._core, "ServingStore", type("ServingStore", (), {}))
    with pytest.raises(StaleCoreError, match=r"asks it for `ServingStore\..*pip install -e"):
        simulate(rows(**GOOD), Deployment((pool(),)))
