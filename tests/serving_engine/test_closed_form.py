"""The closed form of a deployment against numbers of a hand and against the engine."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.engine.serving import Cost, Deployment, Pool, Router, Speculative, simulate
from railyard.engine.serving.closed_form import expected
from railyard.graph.request_table import RequestTable

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


def pool(**asked) -> Pool:
    return Pool(**{"name": "pool", "cost": COST, "max_batched_tokens": 1000, **asked})


def test_one_request_is_its_prompt_and_its_steps():
    """Prompt of 300: 2 + 12 + 4 ms, 10 us of the sequence, 45,150 pairs of 1 ns. Six steps of 13.01 ms, 10 us, and of
    attention 0.2 ms, for 304 keys are less."""
    found = expected(requests([0.0], [300], [7]), Deployment((pool(),)))
    assert found.ttft_s[0] == pytest.approx(0.002 + 0.011 + 0.001 + 0.004 + 1e-5 + 45_150e-9, rel=1e-6)
    assert found.tpot_s[0] == pytest.approx(0.002 + 0.011 + 0.0001 * 0.1 + 1e-5 + 2e-4, rel=1e-6)
    assert found.pools[0].tokens == 306
    assert found.pools[0].pairs == 45_150


def test_two_that_come_together_share_iterations_and_one_waits():
    found = expected(requests([0.0, 0.0], [300, 300], [51, 51]), Deployment((pool(),)))
    one = expected(requests([0.0], [300], [51]), Deployment((pool(),)))
    assert found.ttft_s[1] > 1.2 * found.ttft_s[0]
    two = 0.002 + 0.011 + 2e-5 + 2e-5 + 2e-4  # of two tokens and two sequences
    assert found.tpot_s[1] == pytest.approx(two, rel=2e-3)
    assert one.tpot_s[0] < found.tpot_s[1]
    assert found.pools[0].busy_s < 1.1 * one.pools[0].busy_s


def test_a_second_replica_takes_the_second_request():
    found = expected(
        requests([0.0, 0.0], [300, 300], [51, 51]), Deployment((pool(replicas=2),), Router("least-loaded"))
    )
    one = expected(requests([0.0], [300], [51]), Deployment((pool(),)))
    assert found.ttft_s == pytest.approx([one.ttft_s[0]] * 2)
    assert found.tpot_s == pytest.approx([one.tpot_s[0]] * 2)


def test_who_finds_no_place_waits_until_another_ends():
    found = expected(requests([0.0, 0.1], [300, 300], [51, 51]), Deployment((pool(max_sequences=1),)))
    assert found.ttft_s[1] == pytest.approx(found.done_s[0] - 0.1 + found.ttft_s[0], rel=0.03)


def test_guesses_that_are_accepted_shorten_answers():
    """Of one guess in two iterations one comes true: 3 tokens in 2 iterations, each of 2 tokens."""
    guess = pool(speculative=Speculative(1, 0.5, 0.001))
    found = expected(requests([0.0], [300], [51]), Deployment((guess,)))
    each = 0.002 + 0.011 + 2e-5 + 1e-5 + 2e-4 + 0.001
    assert found.tpot_s[0] == pytest.approx(each / 1.5, rel=1e-6)


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
        return asked, Deployment((pool(replicas=replicas),), Router("least-loaded"))
    halves = pool(name="a", replicas=replicas, role="prefill"), pool(name="b", replicas=replicas + 1, role="decode")
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
