"""Replicas on a cluster: the pool that does not say how many has what is left."""

from __future__ import annotations

import pytest

from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.study.study import prepare


def pools(accelerators=40, **written):
    requests = {"synthetic": {"rate": 1, "input": 100, "output": 10, "count": 5}}
    values = {
        "name": "placed",
        "cluster": {"accelerators": accelerators, "server": "hgx-h100"},
        "workload": {"serving": {"model": "llama-3-8b", "requests": requests, "pools": written}},
    }
    (job,) = prepare(load.from_values(values))
    return job.pools


def test_one_pool_takes_what_is_left():
    """40 accelerators less one replica of 8 are eight replicas of 4, whichever of the two is written first."""
    prefill, decode = pools(prefill={"replicas": 1, "tp": 8}, decode={"tp": 4})
    assert prefill.ranks.tolist() == [list(range(8))]
    assert decode.ranks.tolist() == [list(range(first, first + 4)) for first in range(8, 40, 4)]
    prefill, decode = pools(prefill={"tp": 4}, decode={"replicas": 3, "tp": 8})
    assert (len(prefill.ranks), len(decode.ranks)) == (4, 3)


def test_two_pools_do_not_share_what_is_left():
    with pytest.raises(InputError, match="only one pool may leave out `replicas`"):
        pools(prefill={"tp": 8}, decode={"tp": 4})


@pytest.mark.parametrize(
    ("pool", "words", "key"),
    [
        ({"tp": 5}, "tp 5 does not divide the 32 attention heads and 8 heads of keys", "pools.both.tp"),
        ({"pp": 33}, "pp 33 is more than the 32 layers", "pools.both.pp"),
        ({"tp": 2, "ep": 2}, "has no experts to spread", "pools.both.ep"),
    ],
)
def test_degrees_that_no_engine_takes_are_refused_where_they_stand(pool, words, key):
    with pytest.raises(InputError, match=words) as refused:
        pools(both={"replicas": 1, **pool})
    assert key in refused.value.problems[0].key


def test_attention_apart_is_refused_where_it_stands():
    sides = {"attention": {"tp": 5}, "ffn": {"ep": 8}}
    with pytest.raises(InputError, match="tp 5 does not divide") as refused:
        pools(prefill={"replicas": 1}, decode={"replicas": 1, **sides})
    assert refused.value.problems[0].key.endswith("pools.decode.attention.tp")
