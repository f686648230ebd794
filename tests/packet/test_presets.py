"""What must hold of every fabric by name, whoever registers it."""

import pytest

from railyard.work.scenario.packet import fabric, names
from railyard.work.traffic.simulate import TrafficRun, run

NAMED = ("roce", "infiniband", "infiniband-static", "spectrum-x", "uec", "scheduled", "ideal")
SIZE = 200_000


@pytest.fixture(scope="module")
def matrix(tmp_path_factory):
    path = tmp_path_factory.mktemp("traffic") / "shift.cm"
    rows = "".join(f"{host}->{(host + 7) % 16} id {host + 1} start 0 size {SIZE}\n" for host in range(16))
    path.write_text(f"Nodes 16\nConnections 16\n{rows}")
    return path


def test_the_fabrics_of_the_design_have_names() -> None:
    assert set(NAMED) <= set(names())


@pytest.mark.parametrize("name", names())
def test_every_fabric_delivers_and_keeps_the_bound(matrix, name) -> None:
    preset = fabric(name)
    assert preset.summary
    assert preset.sources
    found = run(TrafficRun(matrix, None, preset, preset.settings, seed=3))
    assert found.ended.all()
    payload_ps = 8e12 * SIZE / preset.settings.link_rate_bps
    assert (found.fct_ps > payload_ps).all()
    again = run(TrafficRun(matrix, None, preset, preset.settings, seed=3, threads=2))
    assert again.record.digest() == found.record.digest()


def test_nothing_is_faster_than_the_ideal(matrix) -> None:
    """At the last finish: a single flow may be lucky elsewhere."""
    ended = {name: run(TrafficRun(matrix, None, fabric(name), fabric(name).settings)) for name in NAMED}
    latency = {name: fabric(name).settings.link_latency_ps for name in NAMED}
    best = ended["ideal"].last_finish_us
    alike = [name for name in NAMED if latency[name] == latency["ideal"]]
    assert len(alike) > 3
    assert all(ended[name].last_finish_us >= best for name in alike)
