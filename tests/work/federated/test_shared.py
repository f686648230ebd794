"""Links that clients share before the server, and sites that meet through relays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.work.federated.test_rounds import cohort, population
from tests.work.federated.test_study import ROUNDS, SITES, refused, run

from railyard.cluster.edge.clients import AccessNetwork, SharedUplink
from railyard.engine.rounds import ClientTree, RoundEnd, close
from railyard.work.study.distributed import Began, added_s, shared_of


class Rows:
    """Participants, as the tree looks at them."""

    def __init__(self, clients, count):
        self.who = np.arange(count)
        self.link, self.region = clients.links_of(self.who), clients.regions_of(self.who)

    def __len__(self):
        return len(self.who)


def networked(**network):
    clients = population(count=100_000)
    return replace(clients, network=AccessNetwork(**network))


def test_as_many_are_behind_a_concentrator_as_was_said():
    clients = networked(concentrators=((50, SharedUplink(1e9, 1e9)), None))
    rows = Rows(clients, 100_000)
    behind = clients.network.concentrators_of(clients, rows.who, rows.link, rows.region)
    assert (behind[rows.link == 1] == -1).all()
    _, counts = np.unique(behind[rows.link == 0], return_counts=True)
    assert counts.mean() == pytest.approx(50.0, rel=0.02)
    assert counts.std() == pytest.approx(50**0.5, rel=0.1)


def test_a_tree_has_its_tiers():
    link = SharedUplink(3e9, 4e9)
    clients = networked(
        concentrators=((50, link), None), sites=(4, SharedUplink(1e9, 2e9)), backbones=(SharedUplink(7e9, 8e9), None)
    )
    rows = Rows(clients, 5_000)
    shared = shared_of(clients, rows, 25e9)
    assert (shared.tier == 0).sum() == 1
    assert (shared.tier == 1).sum() == 1
    assert (shared.tier == 2).sum() == 8
    assert shared.up_bps[0] == shared.down_bps[0] == 25e9
    assert (shared.parent[1:] < np.arange(1, len(shared.parent))).all()
    # A concentrator hangs at one site, and a site of the first region at its backbone.
    assert (shared.tier[shared.parent[shared.tier == 3]] == 2).all()
    assert set(shared.tier[shared.parent[shared.tier == 2]]) == {0, 1}
    assert (shared.tier[shared.first[rows.link == 0]] == 3).all()
    assert (shared.tier[shared.first[rows.link == 1]] == 2).all()
    assert (shared.up_bps[shared.tier == 3] == 3e9).all()
    assert (shared.down_bps[shared.tier == 1] == 8e9).all()


def test_what_a_tier_adds():
    # Four of 10 b/s send 80 b each: 8 s alone, 16 s for two behind a concentrator of 10 b/s, 32 s all on a line of 10.
    clients = networked(concentrators=((50_000, SharedUplink(10.0, 10.0)), None))
    rows = Rows(clients, 4)
    rows.link, rows.region = np.array([0, 0, 1, 1]), np.zeros(4, int)
    part = cohort(np.zeros(4), up_bits=80.0)
    for line, seconds, tiers in (
        (np.inf, 16.0, {"concentrators": 4.0, "the server's line": 0.0}),
        (10.0, 32.0, {"concentrators": 4.0, "the server's line": 20.0}),
    ):
        shared = shared_of(clients, rows, line)
        closed = close(replace(part, up=shared.up, down=shared.down), RoundEnd(4, 1))
        assert closed.took_s == pytest.approx(seconds)
        parts = closed.parts_s
        sent = Began(parts[0], parts[:4].sum(axis=0), part.leave_s, np.ones(4, bool))
        found = added_s(replace(part, up=shared.up, down=shared.down), shared, sent)
        assert found == pytest.approx(tiers)
        assert sum(found.values()) == pytest.approx(closed.queue_s)


NETWORK = """
      network:
        concentrators: {lte: {clients: 500, up: 20 Mb/s, busy: 50 %}}
        sites: {each_region: 2, up: 200 Mb/s, down: 1 Gb/s}
"""


def test_a_scenario_names_what_sharing_adds():
    free = run(ROUNDS).variants[0].federated
    assert free.server.shared == ()
    tight = run(ROUNDS.replace("    round:", NETWORK + "    round:")).variants[0].federated
    rows = {row.name: row.added_s for row in tight.server.shared}
    assert list(rows) == ["concentrators", "edge sites", "the server's line"]
    assert rows["edge sites"] > 0
    assert sum(rows.values()) == pytest.approx(tight.server.queue_s)
    assert tight.round_s.mean > free.round_s.mean


def test_concentrators_of_a_link_that_nobody_has():
    problem = refused(ROUNDS.replace("    round:", NETWORK.replace("lte", "lt") + "    round:"))
    assert "concentrators of `lt`" in problem.message
    assert problem.hint == "did you mean `lte`?"


def test_who_leaves_takes_nothing_any_more():
    # Two of 10 b/s on a line of 10: 5 each until 8, when one leaves; the other has 40 of 80 left, and sends them at 10.
    part = replace(cohort(np.zeros(2), leave=[8.0, 99.0], up_bits=80.0), up=ClientTree.line(10.0, 2))
    closed = close(part, RoundEnd(1, 1))
    assert closed.took_s == pytest.approx(12.0)
    assert closed.gone.tolist() == [True, False]


WAITLESS = ROUNDS.replace("    round: {", "    algorithm: {kind: fedbuff, size: 10}\n    round: {concurrency: 100, ")


def test_sharing_where_nobody_waits():
    free = run(WAITLESS).variants[0].federated
    assert free.server.shared == ()
    text = WAITLESS.replace("    algorithm:", NETWORK + "    algorithm:")
    tight = run(text).variants[0].federated
    rows = {row.name: row.added_s for row in tight.server.shared}
    assert list(rows) == ["concentrators", "edge sites", "the server's line"]
    assert rows["edge sites"] > 0
    assert sum(rows.values()) == pytest.approx(tight.server.queue_s)
    assert tight.server.updates_per_h < 0.9 * free.server.updates_per_h


def test_a_deadline_gives_a_place_to_another():
    free = run(WAITLESS).variants[0].federated
    bound = run(WAITLESS.replace("concurrency: 100", "concurrency: 100, deadline: 6 s")).variants[0].federated
    assert free.participation.left == 0
    assert bound.participation.left > 0
    assert bound.total_s != free.total_s


def test_an_edge_server_crosses_its_backbone():
    # A million numbers of 32 bits each way at 10 Mb/s, of which BBR's packets and probing leave 0.946.
    regions = "      regions: [{name: here, share: 1, backbone: {up: 20 Mb/s, busy: 50 %}}]\n"
    text = ROUNDS.replace("    round: {", regions + "    algorithm: {kind: hierarchical, rounds: 1}\n    round: {")
    causes = {row.name: row.seconds for row in run(text).variants[0].federated.causes}
    assert causes["edge to cloud and back"] == pytest.approx(2 * 3.2 / (0.98 * 1448 / 1500), rel=0.005)


def test_a_split_model_cannot_share():
    text = ROUNDS.replace("    round: {", NETWORK + "    algorithm: {kind: split, activation: 4 kB}\n    round: {")
    problem = refused(text)
    assert "`split`" in problem.message
    assert problem.key.endswith("clients.network")


ANSWERS = """
name: answers
workload:
  edge:
    model: llama-3.2-1b
    requests: {rate: 100, input: 400, output: 60, upload: 20 kB, count: 1000}
    clients:
      count: 10 k
      devices: {phone-mid: 1}
      links: {fibre: 1}
      regions: [{name: here, share: 1, distance: 2000 km, backbone: {up: 20 Mb/s, busy: 5 %}}]
    places:
      - {name: cloud, server: hgx-h100, replicas: 4}
      - {name: site, server: hgx-h100, replicas: 4, distance: 100 km}
    on_device: false
    bound: {ttft: 200 ms, share: 95 %}
"""


def test_answers_share_the_backbone():
    alone = run(ANSWERS.replace(", backbone: {up: 20 Mb/s, busy: 5 %}", "")).variants[0].edge
    tight = run(ANSWERS).variants[0].edge
    for free, found in zip(alone.places, tight.places, strict=True):
        free_s, found_s = ({row.name: row.seconds for row in one.causes} for one in (free, found))
        added = found_s.pop("shared links to the place") + found_s.pop("shared links back")
        assert found_s == pytest.approx(free_s)
        assert found.e2e_s.mean == pytest.approx(free.e2e_s.mean + added)
        # 100 requests of 23 kB a second are 18.4 of 19 Mb/s: the line to the cloud is nearly full, and by processor
        # sharing a request of 9.7 ms alone takes about 9.7 / (1 - 0.968) there. A site lies before the backbone.
        if found.name == "cloud":
            assert added > 5 * 0.0097
        else:
            assert added == pytest.approx(0.0, abs=1e-12)


def gossip(punched, links="starlink"):
    text = SITES.replace("up: 1 Gb/s", f"link: {links}").replace("up: 2 Gb/s", f"link: {links}")
    text = text.replace("connections: 4", f"connections: 4, relay: 5 Mb/s, punched: {punched}")
    return run(text.replace("kind: diloco", "kind: gossip").replace(", outer_bits: 8", "")).variants[0].local


def test_relays_carry_those_who_cannot_meet():
    # Nine of ten Starlink terminals are behind NAT: 0.81 of the pairs, of which seven of ten open a hole.
    found = gossip("70 %")
    assert [row.relayed for row in found.ring] == pytest.approx([0.243, 0.243])
    assert found.ring[0].relayed_bps < 5e6 < found.ring[0].goodput_bps
    straight, through = gossip("100 %"), gossip("0 %")
    mean = straight.exchange_s + 0.3 * (through.exchange_s - straight.exchange_s)
    assert found.exchange_s == pytest.approx(mean)
    assert straight.relay_bps == 0.0
    # Both sites send 10 B parameters of 32 bits both ways every 100 steps, a quarter of them through relays.
    assert found.relay_bps == pytest.approx(2 * 0.243 * 2 * 320e9 / (100 * found.step_s))


def test_a_ring_waits_for_its_relays():
    text = SITES.replace("up: 1 Gb/s", "link: starlink").replace("up: 2 Gb/s", "link: starlink")
    found = [
        run(text.replace("connections: 4", f"connections: 4, relay: 5 Mb/s, punched: {share}")).variants[0].local
        for share in ("100 %", "70 %", "0 %")
    ]
    alone, mixed, relayed = (one.exchange_s for one in found)
    # Two sites make a ring of two exchanges; it waits if one of them is relayed: 1 - (1 - 0.243)^2 against 1 - 0.19^2.
    assert alone < mixed < relayed
    assert (mixed - alone) / (relayed - alone) == pytest.approx((1 - 0.757**2) / (1 - 0.19**2))
