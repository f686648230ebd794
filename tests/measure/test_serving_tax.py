"""The tax of a service by hand, and of services whose traffic is known to stay inside or to cross."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from railyard.face import api
from railyard.measure.result.serving import LEVELS
from railyard.measure.serving import objective as taxes
from railyard.measure.serving.objective import Objective

SERVING = {
    "model": "llama-3-8b",
    "precision": "fp8",
    "requests": {"synthetic": {"count": 200, "rate": 20, "input": 4096, "output": 16}},
    "pools": {"prefill": {"replicas": 4, "tp": 2}, "decode": {"replicas": 4, "tp": 2}},
    "slo": {"ttft": "1 s", "tpot": "50 ms"},
}


def served(first, further):
    return SimpleNamespace(ttft_s=np.array(first), tpot_s=np.array(further))


def test_shares_are_of_the_percentiles_as_they_are(monkeypatch):
    """Goodput 6 of 8 of 12; first tokens 1.0, 0.8, 0.5 s; further ones 20, 20, 15 ms."""
    runs = [served([1.0] * 5, [0.02] * 5), served([0.8] * 5, [0.02] * 5), served([0.5] * 5, [0.015] * 5)]
    rates = dict(zip(map(id, runs), (6.0, 8.0, 12.0), strict=True))
    monkeypatch.setattr(taxes, "goodput", lambda run, *_: SimpleNamespace(requests_per_s=rates[id(run)], window=None))
    found = taxes.serving_tax(*runs, Objective(None, None, None, 0.95))
    assert found.goodput_lost == pytest.approx(1 - 6 / 8)
    assert found.scale_up.goodput_lost == pytest.approx(6 / 8 - 6 / 12)
    assert found.ttft == pytest.approx(dict.fromkeys(LEVELS, 0.2))
    assert found.scale_up.ttft == pytest.approx(dict.fromkeys(LEVELS, 0.3))
    assert found.tpot == pytest.approx(dict.fromkeys(LEVELS, 0.0))
    assert found.scale_up.tpot == pytest.approx(dict.fromkeys(LEVELS, 0.25))


def test_another_order_is_no_tax_below_zero(monkeypatch):
    runs = [served([1.0], [0.02]), served([1.1], [0.03]), served([1.2], [0.03])]
    rates = dict(zip(map(id, runs), (8.0, 7.0, 6.0), strict=True))
    monkeypatch.setattr(taxes, "goodput", lambda run, *_: SimpleNamespace(requests_per_s=rates[id(run)], window=None))
    found = taxes.serving_tax(*runs, Objective(None, None, None, 0.95))
    both = (found, found.scale_up)
    assert [one.goodput_lost for one in both] == [0.0, 0.0]
    assert not any(share for one in both for share in (*one.ttft.values(), *one.tpot.values()))


def run(pools, rate="400 Gb/s", **more):
    network = {"topology": "rail-optimized", "fabric": "roce", "link_rate": rate}
    cluster = {"accelerators": 16, "server": "hgx-h100", "back_end": network}
    serving = {**SERVING, "pools": pools, **more}
    (variant,) = api.run({"name": "s", "cluster": cluster, "workload": {"serving": serving}}, out=None).result.variants
    return variant


def test_replicas_inside_servers_pay_nothing_to_the_scale_out_network():
    found = run({"both": {"replicas": 8, "tp": 2}}).tax
    assert found.goodput_lost == 0.0
    assert not any((*found.ttft.values(), *found.tpot.values()))
    assert found.scale_up.tpot["p50"] > 0.02


def test_one_accelerator_a_replica_pays_nothing_at_all():
    found = run({"both": {"replicas": 16, "tp": 1}}).tax
    for one in (found, found.scale_up):
        assert one.goodput_lost == 0.0
        assert not any((*one.ttft.values(), *one.tpot.values()))


def test_keys_and_values_that_cross_are_in_the_first_token():
    """4,096 tokens of 32 layers x 8 heads x 128 x 2 bytes in 8 bits, 268 MB over 2 x 25 Gb/s: 43 ms at the least."""
    slow, fast = (
        run(SERVING["pools"], rate, transfer={"overlap": 0.0, "nic": "own"}) for rate in ("25 Gb/s", "400 Gb/s")
    )
    lost_s = slow.tax.ttft["p50"] * slow.serving.ttft_s.p50
    carried = 4096 * 32 * 8 * 128 * 2 * 8
    assert lost_s > 0.95 * carried / 2 / 25e9
    assert lost_s == pytest.approx(
        slow.serving.ttft_s.p50 - run(SERVING["pools"], "400 Gb/s").serving.ttft_s.p50, rel=0.15
    )
    assert slow.tax.ttft["p50"] > fast.tax.ttft["p50"] > 0
    assert slow.tax.tpot["p50"] == pytest.approx(0.0, abs=0.02)
