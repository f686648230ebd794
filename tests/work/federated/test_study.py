"""Scenarios of clients, sites and the edge, from YAML to the result; and what is refused, with its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from railyard.face import api
from railyard.kit.errors import InputError
from railyard.measure.result.reading import Result
from railyard.work.federated import known
from railyard.work.local.prepare import great_circle_m
from railyard.work.scenario import load

ROOT = Path(__file__).parents[3]
CLIENTS = """
      count: 20 k
      devices: {phone-high: 0.5, phone-low: 0.5}
      links: {wifi-cable: 0.8, lte: 0.2}
      available: {most: 50 %, least: 20 %}
"""
ROUNDS = f"""
name: rounds
workload:
  federated:
    model: {{parameters: 1 M, flop_per_sample: 1.0e8}}
    clients: {CLIENTS}
    round: {{participants: 100, over_selection: 30 %}}
    rounds: 5
"""
SITES = """
name: sites
workload:
  local:
    model: {parameters: 10 B}
    sequence: 8192
    batch: 128
    method: {kind: diloco, inner_steps: 100, outer_bits: 8}
    sites:
      - {name: a, accelerators: 8, server: hgx-h100, step: 22.8 s, up: 1 Gb/s}
      - {name: b, accelerators: 8, server: hgx-h100, step: 20 s, up: 2 Gb/s}
    between: {distance: 1000 km, loss: 0.0, connections: 4}
"""


def run(text, **overrides):
    draft = load.from_text(text, Path("x.yaml"))
    if overrides:
        draft = draft.with_values({key.replace("__", "."): value for key, value in overrides.items()}, "test")
    return api.execute(draft, [], out=None).result


def refused(text):
    with pytest.raises(InputError) as raised:
        api.execute(load.from_text(text, Path("x.yaml")), [], out=None)
    return raised.value.problems[0]


def test_rounds_give_a_typed_result_that_reads_back():
    result = run(ROUNDS)
    found = result.variants[0].federated
    assert found.participation.selected == 130
    assert found.participation.used == 100
    assert found.traffic.client_up_bytes == 4e6
    assert found.traffic.down_bytes == pytest.approx(130 * 4e6)
    assert sum(row.seconds for row in found.causes) == pytest.approx(found.round_s.mean)
    assert found.round_s.p50 <= found.round_s.p90 <= found.round_s.p99
    assert sum(row.heard for row in found.participation.groups if row.of == "device") == pytest.approx(1.0)
    assert Result.model_validate_json(result.text()) == result
    assert run(ROUNDS).variants[0].digest == result.variants[0].digest
    assert run(ROUNDS, seed=1).variants[0].digest != result.variants[0].digest


def test_slow_clients_are_heard_less_when_more_are_selected():
    bias = {
        row.name: row.bias
        for row in run(ROUNDS, workload__federated__rounds=40).variants[0].federated.participation.groups
    }
    assert bias["lte"] < 0.9 < bias["wifi-cable"]
    all_heard = run(ROUNDS, workload__federated__round__over_selection=0.0).variants[0].federated
    assert all_heard.participation.late == 0
    assert all_heard.round_s.mean > run(ROUNDS).variants[0].federated.round_s.mean


def test_secrecy_costs_bytes_and_stages():
    plain, masked = (
        run(ROUNDS, **more).variants[0].federated for more in ({}, {"workload__federated__secrecy": "secagg-plus"})
    )
    assert masked.traffic.client_up_bytes == pytest.approx(4e6 * 39 / 32 + 64 + 40 * 64 + 41 * 32)
    assert masked.round_s.mean > plain.round_s.mean
    assert next(row for row in masked.causes if row.name == "selection and secure aggregation").seconds > 0


def test_servers_that_wait_for_nobody():
    more = {
        "workload__federated__algorithm": {"kind": "fedbuff", "size": 10},
        "workload__federated__round__concurrency": 130,
        "workload__federated__rounds": 200,
    }
    buffered, waited = run(ROUNDS, **more).variants[0].federated, run(ROUNDS).variants[0].federated
    assert buffered.unit == "server step"
    assert buffered.server.updates_per_h > 1.5 * waited.server.updates_per_h
    assert buffered.participation.staleness.mean == pytest.approx(13, rel=0.3)


@pytest.mark.parametrize("algorithm", ["fedprox", "scaffold", "hierarchical", "split"])
def test_every_algorithm_runs(algorithm):
    found = run(ROUNDS, workload__federated__algorithm=algorithm).variants[0].federated
    assert found.round_s.mean > 0
    assert found.participation.failed_rounds == 0


def test_sessions_end_and_rounds_fail():
    more = {"workload__federated__clients__available__session": "20 s", "workload__federated__round__least": 1.0}
    found = run(ROUNDS, workload__federated__round__over_selection=0.0, **more).variants[0]
    assert found.federated.participation.left > 5
    assert found.federated.participation.failed_rounds == 5
    assert found.warnings[0].startswith("5 of 5 rounds were discarded")


def test_a_published_row_gives_a_time_to_accuracy():
    found = run(ROUNDS, workload__federated__reach="mnist-cnn-iid").variants[0]
    assert found.federated.accuracy.seconds == pytest.approx(20 * found.federated.round_s.mean)
    assert "10 participants, 5 epochs" in found.warnings[0]
    assert "no published result" in run(ROUNDS).variants[0].warnings[0]


def test_ten_million_clients_take_no_longer_than_a_thousand():
    small = run(ROUNDS).variants[0].federated.round_s.mean
    large = run(ROUNDS, workload__federated__clients__count="10 M").variants[0].federated.round_s.mean
    assert large == pytest.approx(small, rel=0.1)


@pytest.mark.parametrize("selection", ["random", "fastest"])
def test_clients_that_come_again_are_those_drawn_anew(monkeypatch, selection):
    text = ROUNDS.replace("participants: 100", f"participants: 5000, selection: {selection}, delay: 4 s, pause: 4 min")
    text = text.replace("rounds: 5", "rounds: 8").replace("least: 20 %", "least: 20 %, session: 2 min")
    again = run(text, workload__federated__secrecy="secagg-plus").variants
    monkeypatch.setattr(known, "_MOST_CLIENTS", 0)
    assert run(text, workload__federated__secrecy="secagg-plus").variants == again


def test_two_sites_by_hand():
    result = run(SITES)
    found = result.variants[0].local
    # 2 (n - 1) / n = 1 time 10 GB at 1 Gb/s less headers, and two half round trips of 1 ms + 2 x 1,000 km x 4.9 ns/m.
    exchange = 80e9 / (1e9 * 1448 / 1500) + 0.001 + 0.0098
    assert found.exchange_s == pytest.approx(exchange, rel=1e-6)
    assert found.step_s == pytest.approx(22.8 + exchange / 100, rel=1e-6)
    assert found.compute_utilization == pytest.approx(21.4 / found.step_s)
    assert {row.name: row.seconds for row in found.causes}["waiting for the slowest site"] == pytest.approx(1.4)
    assert found.tokens_per_s == pytest.approx(2 * 128 * 8192 / found.step_s)
    assert found.sent_bytes == 10e9
    rate = 10e9 * 16 / (exchange / 100 + 22.8 * 2 / 3 - 0.0108) / (1448 / 1500)
    assert found.break_even_bps == pytest.approx(rate, rel=1e-6)
    assert Result.model_validate_json(result.text()) == result


@pytest.mark.parametrize("transport", ["cubic", "quic-cubic"])
def test_synchronous_training_at_the_break_even_rate_is_as_fast(transport):
    fast = SITES.replace("up: 1 Gb/s", "up: 100 Gb/s").replace("up: 2 Gb/s", "up: 100 Gb/s")
    between = {"workload__local__between__rate": "3 Gb/s", "workload__local__between__transport": transport}
    apart = run(fast, **between).variants[0].local
    between["workload__local__between__rate"] = f"{apart.break_even_bps!r} b/s"
    same = run(fast, **between, workload__local__method="synchronous").variants[0].local
    assert same.step_s == pytest.approx(apart.step_s, rel=1e-9)


@pytest.mark.parametrize(
    "method", ["synchronous", "streaming-diloco", "local-sgd", "asynchronous", "gossip", "volunteers"]
)
def test_every_method_runs(method):
    found = run(SITES, workload__local__method=method).variants[0].local
    assert found.step_s >= 20.0
    assert sum(row.seconds for row in found.causes) == pytest.approx(found.step_s)


def test_volunteers_take_their_work_with_them():
    there = run(SITES, workload__local__method="volunteers").variants[0].local.tokens_per_s
    section = [
        {
            "name": name,
            "accelerators": 8,
            "server": "hgx-h100",
            "step": "20 s",
            "up": "1 Gb/s",
            "present": "2 h",
            "away": "2 h",
        }
        for name in ("a", "b", "c", "d")
    ]
    found = run(SITES, workload__local__method="volunteers", workload__local__sites=section).variants[0].local
    # Half are there; a round of 2,000 s and the exchange is outlived with probability exp(-T / 7200 s).
    took = found.step_s * 100
    assert found.tokens_per_s == pytest.approx(4 * 0.5 * np.exp(-took / 7200) * 128 * 8192 / found.step_s)
    assert found.tokens_per_s < there * 2


def test_places_on_the_globe():
    assert great_circle_m((52.5, 13.4), (40.7, -74.0)) == pytest.approx(6.385e6, rel=0.005)  # Berlin to New York
    assert great_circle_m((0.0, 0.0), (0.0, 180.0)) == pytest.approx(np.pi * 6.371e6)


def test_cloud_edge_and_device():
    result = api.run(
        ROOT / "examples" / "edge" / "cloud-edge-device.yaml", out=None, overrides={"workload.edge.requests.count": 600}
    ).result
    found = result.variants[0].edge
    rows = {row.name: row for row in found.places}
    assert found.choice == "edge"
    assert rows["cloud"].ttft_s.p50 > rows["edge"].ttft_s.p50
    assert rows["device"].up_bytes == 0
    assert rows["edge, one site down"].accelerators == 19
    for row in found.places:
        assert sum(cause.seconds for cause in row.causes) == pytest.approx(row.e2e_s.mean)
    assert Result.model_validate_json(result.text()) == result


def test_each_kind_of_client_asks_where_it_had_best():
    path = ROOT / "examples" / "edge" / "cloud-edge-device.yaml"
    text = path.read_text("utf-8").replace("rate: 200", "rate: 40, count: 2000").replace("sites: 20", "sites: 4")
    text = text.replace("share: 95 %", "share: 90 %").replace("replicas: 4", "replicas: 1")
    found = run(text).variants[0].edge
    offload = found.offload
    assert sum(row.requests for row in offload.rows) == pytest.approx(1.0)
    assert len(offload.rows) == 9
    places = {row.name: row for row in found.places}
    # No mixture of places is worse than every one of them by itself, as far as draws of a kind can tell.
    assert offload.in_time >= max(row.in_time for row in places.values()) - 0.05
    mean = sum(row.requests * places[row.place].usd.typical for row in offload.rows)
    assert offload.usd.typical == pytest.approx(mean)
    # LTE takes too long to the cloud, Wi-Fi does not, and the cloud is cheaper.
    asked = {(row.device, row.link): row.place for row in offload.rows}
    assert {asked[device, "lte"] for device in ("phone-high", "phone-mid", "phone-low")} == {"edge"}
    assert {asked[device, "wifi-cable"] for device in ("phone-high", "phone-mid", "phone-low")} == {"cloud"}
    assert offload.usd.typical < places["edge"].usd.typical


@pytest.mark.parametrize(
    ("change", "key", "words", "line"),
    [
        (("participants: 100", "participants: 20000"), "workload.federated.round.participants", "selects 26,000", 13),
        (
            ("participants: 100", "participants: 15000, least: 90 %"),
            "workload.federated.round.participants",
            "are there at",
            13,
        ),
        (("links: {wifi-cable: 0.8, lte: 0.2}", "links: {}"), "workload.federated.clients.links", "1 or more", 10),
        (("lte: 0.2", "lt: 0.2"), "workload.federated.clients.links.lt", "has no access-link `lt`", 10),
        (("phone-low: 0.5", "phone-lo: 0.5"), "workload.federated.clients.devices.phone-lo", "has no device", 9),
        (("most: 50 %", "most: 0 %"), "workload.federated.clients.available", "`least` is more than", 11),
        (("parameters: 1 M", "parameters: 10 B"), "workload.federated.clients.devices", "no device has the 111.8", 9),
        (("rounds: 5", "algorithm: fedasync"), "workload.federated", "waits for nobody", 6),
        (("rounds: 5", "algorithm: fedavgg"), "workload.federated.algorithm.kind", "no algorithm `fedavgg`", 14),
        (("rounds: 5", "secrecy: secagg\n    compression: top-k"), "workload.federated", "cannot be summed", 6),
        (
            ("rounds: 5", "algorithm: {kind: split, at_client: 1.0}"),
            "workload.federated.algorithm.at_client",
            "less than 1",
            14,
        ),
        (
            ("participants: 100", "participants: 100, deadline: 500 ms"),
            "workload.federated.round.deadline",
            "before any client finishes",
            13,
        ),
        (
            ("least: 20 %", "least: 20 %, session: 100 ms"),
            "workload.federated.clients.available.session",
            "no client of 1,000 stays",
            11,
        ),
        (("rounds: 5", "reach: mnist"), "workload.federated.reach", "no published row", 14),
        (
            ("name: rounds", "name: rounds\ncluster: {accelerators: 8, server: hgx-h100}"),
            None,
            "leave `cluster` out",
            None,
        ),
    ],
)
def test_impossible_clients(change, key, words, line):
    text = ROUNDS.replace(*change)
    assert text != ROUNDS
    problem = refused(text)
    assert words in problem.message or words in str(problem.allowed)
    if key is not None:
        assert (problem.key, problem.file) == (key, "x.yaml")
        assert abs(problem.line - line) <= 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("{name: b,", "{name: a,"), "two sites are called `a`"),
        (("step: 20 s, ", ""), "needs `step` or `mfu`"),
        (("      - {name: b, accelerators: 8, server: hgx-h100, step: 20 s, up: 2 Gb/s}\n", ""), "two or more sites"),
        (("up: 2 Gb/s}", "up: 2 Gb/s, place: [52, 13]}"), "has no `place`"),
        (("server: hgx-h100, step: 20 s", "server: hgx-h10, step: 20 s"), "has no server `hgx-h10`"),
        (("inner_steps: 100", "inner_steps: 0"), "must be at least 1"),
        (("up: 2 Gb/s}", "link: starlnk}"), "has no access-link"),
    ],
)
def test_impossible_sites(change, words):
    text = SITES.replace(*change)
    assert text != SITES
    problem = refused(text)
    assert words in problem.message
    assert problem.file == "x.yaml"
    assert problem.line


def test_tables():
    for text, name, rows in ((ROUNDS, "clients", 5), (SITES, "sites", 2)):
        run_of = api.execute(load.from_text(text, Path("x.yaml")), [], out=None)
        assert len(run_of.table("variants")) == 1
        assert len(run_of.table(name)) == rows
        assert len(run_of.table("time")) == len(
            run_of.result.variants[0].plain()[{"clients": "federated"}.get(name, "local")]["causes"]
        )


def test_other_commands_ask_for_a_cluster():
    from railyard import catalog
    from railyard.work.study import compose

    draft = load.from_text(SITES, Path("x.yaml"))
    with pytest.raises(InputError, match="needs a cluster"):
        compose.cluster_of(draft, catalog.load())
