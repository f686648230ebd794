"""From which rate on a cached prefix is worth its way: Mooncake's figures, and the model's own."""

import pytest

from railyard import catalog
from railyard.model.machine import Machine
from railyard.work.serving.cost import iteration_cost
from railyard.work.serving.layout import ServingLayout
from railyard.work.serving.reuse import Reuse, reuse
from railyard.work.serving.software import profile

KNOWN = catalog.load()


def of(device: str, tokens: int = 8192, **layout: object) -> Reuse:
    found, model = KNOWN.accelerator(device), KNOWN.model("llama-3-70b")
    spread = ServingLayout(**{"tp": 8, **layout})
    cost = iteration_cost(model, spread, Machine.of_device(found, 200e9), profile("vllm", found))
    return reuse(model, found, spread, cost, tokens)


@pytest.mark.parametrize(("device", "published", "peak"), [("a800-sxm", 6e9, 312e12), ("h800-sxm", 19e9, 989.5e12)])
def test_mooncake_pays_from_6_and_19_gigabytes_a_second(device: str, published: float, peak: float) -> None:
    """Published: Qin et al., FAST'25, section 2.2, eight accelerators at their peak, 8,192 tokens of Llama 3 70B."""
    found = of(device)
    assert found.cache_bytes == 8192 * 327_680
    assert found.peak_bps / 8 == pytest.approx(published, rel=0.1)
    # Their equation 2 with their table 1: 2 d s / (g (a p d + b d^2)) of G = 8 accelerators.
    hidden, groups, a, b = 8192, 8, 4, 22
    theirs = 2 * hidden * 2 / (groups * (a * 8192 * hidden + b * hidden**2)) * 8 * peak
    assert found.peak_bps / 8 == pytest.approx(theirs, rel=0.08)


def test_a_real_engine_computes_slower_so_that_slower_stores_pay() -> None:
    for device in ("a800-sxm", "h800-sxm"):
        found = of(device)
        assert 0.1 * found.peak_bps < found.predicted_bps < found.peak_bps


def test_longer_prefixes_pay_sooner_and_narrow_caches_too() -> None:
    short, long = of("h800-sxm", 1024), of("h800-sxm", 65536)
    assert long.peak_bps < short.peak_bps
    assert of("h800-sxm", kv_bits=8).peak_bps == pytest.approx(of("h800-sxm").peak_bps / 2)
