"""Growth: parts and cables from one cluster to the next, dollars over time, regret."""

from __future__ import annotations

import json

import pytest

from railyard import catalog
from railyard.ask.plan.growth import YEAR_S, BookValues, growth, to_json
from railyard.ask.plan.growth_change import GrowthChange, Lot, cables, change, provisions
from railyard.ask.plan.pages import growth_page
from railyard.catalog.types import Range
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.topology import LeafSpine
from railyard.face.cli import guard
from railyard.kit.schema import yaml
from railyard.measure.cost.cost import usd_per_h
from railyard.work.scenario import load


def cluster(ranks: int, ratio: float = 1.0):
    network = NetworkSpec(LeafSpine(oversubscription=ratio, ports_per_leaf=32), FabricSpec("roce"))
    return build(ClusterSpec(ranks, "hgx-h100", network), catalog.load())


def test_a_cluster_that_grows_by_leafs_keeps_its_cables():
    small, large = cluster(64), cluster(96)
    made = change(small, large, rebuilt=False)
    assert made.kept + made.moved == cables(small).total()
    assert made.kept + made.laid == cables(large).total()
    assert made.kept >= 64  # every NIC stays where it is
    assert made.bought["h100-sxm"].count == 32
    assert made.bought["hgx-h100"].count == 4
    assert not made.stranded


def test_a_network_that_is_rebuilt_strands_all_but_servers_and_nics():
    made = change(cluster(64), cluster(96), rebuilt=True)
    assert made.kept == 0
    assert made.moved == cables(cluster(64)).total()
    assert made.bought["cx7-400g"].count == 32
    assert made.stranded["tomahawk-5"].count > 0
    assert "h100-sxm" not in made.stranded


def values(**more):
    training = {"model": "llama-3-8b", "global_batch": 96, "sequence": 4096, "parallelism": {"tp": 1}}
    stages = [{"name": "now", "set": {}}, {"name": "next", "at": "365 d", "set": {"accelerators": 96}}]
    return {
        "name": "g",
        "cluster": {"accelerators": 48, "server": "hgx-h100", "back_end": {"topology": "leaf-spine"}},
        "workload": {"training": training},
        "plan": {"growth": {"stages": stages, "horizon": "730 d", **more}},
    }


def test_paths_pay_annuities_energy_and_space_for_their_tokens():
    found = growth(load.from_values(values()))
    assert {path.name for path in found.paths} == {"incremental", "forklift", "ahead", "beside", "rent"}
    assert all(min(path.regret[end] for path in found.paths) == 0.0 for end in (0, 1))
    (path,) = (path for path in found.paths if path.name == "incremental")
    first, second = path.steps
    typical = found.stages[0].priced.typical
    bought = first.change.usd(first.change.bought.values()) * (1 + typical["installation"])
    assert first.capital_usd == pytest.approx(bought)
    life = typical["life_years"]
    yearly = typical["cost_of_capital"] / (1 - (1 + typical["cost_of_capital"]) ** -life)
    assert first.charged_usd == pytest.approx(bought * yearly * 2 / (1 + typical["cost_of_capital"]))
    assert first.tokens == pytest.approx(found.stages[0].priced.tokens_per_s * YEAR_S)
    assert second.stopped_s == pytest.approx(second.change.moved * 600 / 8)
    paid = first.charged_usd + second.charged_usd + first.running_usd + second.running_usd
    assert path.futures[1] == pytest.approx(paid / (first.tokens + second.tokens) * 1e6)


def test_the_command_prints_json(tmp_path, capsys):
    file = tmp_path / "g.yaml"
    file.write_text(yaml.to_text(values()), encoding="utf-8")
    assert guard.run(["plan", "growth", str(file), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [stage["accelerators"] for stage in printed["stages"]] == [48, 96]
    assert printed["paths"][0]["regret_by_future"]


def test_a_second_fabric_beside_the_first_touches_nothing():
    found = growth(load.from_values(values()))
    (path,) = (path for path in found.paths if path.name == "beside")
    first, second = path.steps
    assert second.change.moved == second.stopped_s == second.stranded_usd == 0
    assert second.change.bought["h100-sxm"].count == 48  # 96 less the 48 that are there
    assert second.change.laid == first.change.laid  # the same network once more
    assert found.left_out == ()


def test_what_adds_nothing_has_no_second_fabric():
    shrunk = values()
    shrunk["plan"]["growth"]["stages"][1]["set"] = {"topology": "three-tier"}
    found = growth(load.from_values(shrunk))
    assert [name for name, _ in found.left_out] == ["beside"]
    assert "adds no accelerators" in found.left_out[0][1]


def test_what_is_stranded_is_written_off_the_oldest_first():
    def lot(count, usd=100.0):
        return {"s": Lot("s", "switches", count, Range(usd, usd, usd))}

    books = BookValues()
    assert books.changed(GrowthChange(lot(3), {}, 0, 0, 0), 0.0, 4.0) == 0.0
    assert books.changed(GrowthChange(lot(2), {}, 0, 0, 0), YEAR_S, 4.0) == 0.0
    # After two years 3 are worth half, 2 three quarters: of four that go, 3 x 50 + 1 x 75.
    assert books.changed(GrowthChange({}, lot(4), 0, 0, 0), 2 * YEAR_S, 4.0) == pytest.approx(225.0)
    # The last one is worth nothing after its life.
    assert books.changed(GrowthChange({}, lot(1), 0, 0, 0), 5 * YEAR_S, 4.0) == 0.0


def test_a_forklift_writes_off_three_quarters_after_a_year_of_four():
    found = growth(load.from_values(values()))
    (path,) = (path for path in found.paths if path.name == "forklift")
    assert path.steps[1].written_off_usd == pytest.approx(0.75 * path.steps[1].stranded_usd)


def test_accelerators_that_are_replaced_are_stranded_whatever_network_was_bought_ahead():
    other = values()
    other["plan"]["growth"]["stages"][1]["set"] = {"accelerators": 96, "server": "hgx-h200"}
    found = growth(load.from_values(other))
    (path,) = (path for path in found.paths if path.name == "ahead")
    assert path.steps[1].change.stranded["h100-sxm"].count == 48


def test_the_page_names_every_path():
    found = growth(load.from_values(values()))
    drawn = growth_page("g", to_json(found))
    assert all(f">{path.name}" in drawn for path in found.paths)
    assert drawn.count("<svg") == 4


def test_too_much_stands_idle_and_too_little_is_rented():
    """48 and 96 accelerators by hand: idle ones cost all but their energy, missing ones the rent of the larger job."""
    small, large = growth(load.from_values(values())).stages
    rows = {one.built: one for one in provisions((small, large))}
    hourly = usd_per_h(large.priced.typical)
    share = small.priced.tokens_per_s / large.priced.tokens_per_s
    idle = (sum(hourly.values()) - hourly["energy"] * (1 - share)) * 8760
    assert rows["next"].usd_per_year == pytest.approx((idle, sum(hourly.values()) * 8760))
    own = sum(usd_per_h(small.priced.typical).values())
    rent = large.cluster.accelerator.rental_usd_per_h.typical * 96 * (1 - share)
    assert rows["now"].usd_per_year == pytest.approx((own * 8760, (own + rent) * 8760))
    least = [min(row.usd_per_year[demand] for row in rows.values()) for demand in (0, 1)]
    for row in rows.values():
        late = tuple(usd - best for usd, best in zip(row.usd_per_year, least, strict=True))
        assert row.regret_usd == pytest.approx(late)
        assert row.bound_usd == max(row.regret_usd)
