"""`railyard check`: assertions read, judged and reported; circles of waits and headroom by hand."""

from __future__ import annotations

import csv
import json
from xml.etree import ElementTree

import numpy as np
import pytest

from railyard import _core
from railyard.ask.audit.price import StepPricing
from railyard.ask.check import check as grammar
from railyard.ask.check import check as spellings
from railyard.ask.check.assertion import FIGURES, AssertionOutcome, assertions
from railyard.ask.check.check import CheckedAssertion
from railyard.ask.check.check import check as check_until
from railyard.ask.check.kinds.no import circle, waits
from railyard.ask.check.kinds.survives import _judged as judge_losses
from railyard.ask.check.kinds.survives import _losses as losses_of
from railyard.ask.check.kinds.survives import _parted as parted
from railyard.ask.check.kinds.survives import _servers as servers_of
from railyard.ask.deploy.files import junit
from railyard.cluster.fault import SwitchDown
from railyard.cluster.routes import RouteBuilder
from railyard.cluster.steering import lost
from railyard.cluster.topology.wiring import ACCESS_RACK, LEAF_SPINE, SwitchGroup, Wiring
from railyard.face import api
from railyard.face.cli import guard
from railyard.graph import Job
from railyard.kit.errors import InputError
from railyard.measure import numbers
from railyard.measure.result.serving import Percentiles, ServingFigures
from railyard.work.scenario import load
from railyard.work.study import compose, study
from railyard.work.study.study import prepare
from railyard.work.training.fastest import Fastest
from railyard.work.training.step_runs import StepRuns

from .scenarios import draft as drafted
from .scenarios import planned

SMALL = """\
name: small
cluster:
  accelerators: 16
  server: hgx-h100
  back_end: {{topology: leaf-spine, fabric: {fabric}}}
workload:
  training: {{model: llama-3.2-1b, tokens: 1 T, global_batch: 16, sequence: 2048, parallelism: {{tp: 2}}}}
engine: {engine}
check:
"""


def check(*given):
    """Every assertion, of a check that nobody stops."""
    found, stopped = check_until(*given)
    assert not stopped
    return found


def judged(*asserted, **cluster):
    draft = drafted(fabric=cluster.pop("fabric", "roce"), **cluster)
    draft = draft.with_values({"check": list(asserted)}, "a test")
    return [one.outcome for one in check(draft, lambda _: pytest.fail("no figure is asked for"), lambda *_: None)]


def compose_cluster(draft):
    return compose.cluster_of(draft, compose.catalog_of(draft))


def ring(switches, *, shortest):
    """Switches in a ring with a port each; routes clockwise, or either way around, whichever is shorter."""
    ports, builder = switches, RouteBuilder(switches)
    ends = [(at, ports + at) for at in range(switches)]
    ends += [(ports + at, ports + (at + 1) % switches) for at in range(switches)]
    source = np.array([end for pair in ends for end in pair], np.int32)
    target = np.array([end for pair in ends for end in pair[::-1]], np.int32)
    for at in range(switches):
        builder.records(at, 0, ports, builder.flat(np.array([2 * at])), width=1, stride=ports)
        for port in range(ports):
            ahead = (port - at) % switches
            clockwise = 2 * (switches + at)
            link = 2 * at + 1 if port == at else clockwise
            if shortest and ahead > switches / 2:
                link = 2 * (switches + (at - 1) % switches) + 1
            builder.records(ports + at, port, port + 1, builder.flat(np.array([link])), width=1, stride=1)
    return Wiring(
        ports=ports,
        port_of=np.arange(ports, dtype=np.int32)[:, None],
        extra=np.empty(0, np.int32),
        nodes=2 * switches,
        groups=(SwitchGroup("leaf", 1, ports, switches, 3, "any"),),
        source=source,
        target=target,
        line_bps=np.full(len(source), 4e11),
        tier=np.repeat([0, 1], 2 * switches).astype(np.int16),
        tiers=(ACCESS_RACK, LEAF_SPINE),
        routing=builder.build(2 * switches),
        classes=None,
        bisection_bps=8e11,
        pod_ports=ports,
    )


@pytest.mark.parametrize(("switches", "shortest", "links"), [(3, False, 3), (5, False, 5), (3, True, 0), (5, True, 10)])
def test_a_ring_waits_for_itself_unless_no_way_has_three_switches(switches, shortest, links):
    """Five switches by shortest ways: two hops each way around, so that both directions are circles of five."""
    edges = waits(ring(switches, shortest=shortest))
    assert edges.shape == (2, links)
    found = circle(edges)
    assert len(found) == min(links, switches)
    following = set(map(tuple, edges.T.tolist()))
    assert all(pair in following for pair in zip(found, found[1:] + found[:1], strict=True))


def test_a_tail_that_leads_into_a_circle_is_no_part_of_it():
    assert sorted(circle(np.array([[7, 1, 2, 3, 3], [1, 2, 3, 1, 9]]))) == [1, 2, 3]
    assert circle(np.array([[7, 1, 2], [1, 2, 3]])) == []


def test_a_leaf_spine_has_waits_up_and_down_and_no_circle():
    """Four leaves of 64 uplinks over two spines: 256 links up, each with 32 down to each of three other leaves."""
    (found,) = judged("no PFC deadlock", accelerators=256)
    assert found == AssertionOutcome("24,576 link dependencies, no cycle", holds=True)


def test_deadlock_is_refused_where_it_cannot_be_told():
    assert judged("no PFC deadlock", fabric="uec")[0].holds
    with pytest.raises(InputError, match="uses link credits"):
        judged("no PFC deadlock", fabric="infiniband")
    with pytest.raises(InputError, match="outside its routing tables"):
        judged("no PFC deadlock", topology="torus")


TH5 = "figures of Tomahawk 5 are not public: those of Spectrum-4 are used"


def test_headroom_is_what_the_configuration_holds_of_every_port():
    """128 ports of 400 Gb/s. On the way at 300 m 9,216 + 2 x 300 m / 198,000 km/s at 400 Gb/s + 819.2 + 905 x 64 +
    120 ns at 400 Gb/s = 225,470 bytes; three times that and 4,178: 665 KiB. Half of 173 MB is 659 KiB each: 296 m."""
    just, far, more = judged("headroom holds at 296 m", "headroom holds at 297 m", "headroom holds at 300 m")
    words = "back-end leaf 0 needs 86.38 MB and has 86.5 MB, by SONiC's law for Spectrum-4"
    assert just == AssertionOutcome(words, holds=True, remark=TH5)
    assert (far.holds, more.holds) == (False, False)
    assert more.found.startswith(f"back-end leaf 0 needs {128 * 665 * 1024 / 1e6:.4g} MB")


def given_headroom(size, *lengths, **back_end):
    draft = drafted(fabric="roce")
    values = {"cluster.back_end.fabric": {"name": "roce", "headroom": size}}
    values |= {f"cluster.back_end.{key}": value for key, value in back_end.items()}
    draft = draft.with_values(values | {"check": [f"headroom holds at {length}" for length in lengths]}, "a test")
    return [one.outcome for one in check(draft, lambda _: None, lambda *_: None)]


def test_headroom_that_the_fabric_gives_is_compared_link_by_link():
    """675 kB: 659 KiB are needed at 296 m, 661 KiB at 297 m."""
    just, far = given_headroom("675 kB", "296 m", "297 m")
    assert (just.holds, far.holds) == (True, False)
    assert far.found == "back-end leaf 0 needs 676.9 kB a link and has 675 kB, by SONiC's law for Spectrum-4"
    with pytest.raises(InputError, match="does not pause"):
        judged("headroom holds at 300 m", fabric="uec")


def test_headroom_is_that_of_the_switch_where_its_figures_are_public():
    """Spectrum-3 has nothing under way inside: 9,216 + 505.05 x 137 + 819.2 + 57,920 bytes = 137,147; 406 KiB."""
    just, far = given_headroom("416 kB", "137 m", "138 m", switch="spectrum-3-sn4700")
    assert just == AssertionOutcome(
        "back-end leaf 0 needs 415.7 kB a link and has 416 kB, by SONiC's law for Spectrum-3", holds=True
    )
    assert not far.holds


def test_one_spine_of_one_parts_servers_and_one_of_two_does_not():
    (one,) = judged("survives any one spine")
    way = "back-end spine 0 is the only way between back-end server 0 NIC 0 and back-end server 8 NIC 0"
    words = f"1 of 1 spine would cut servers off if lost: {way}"
    assert one == AssertionOutcome(words, holds=False)
    two, uplink = judged("survives any one spine", "survives any one uplink", accelerators=256)
    assert two == AssertionOutcome("each of 2 spines can be lost", holds=True)
    assert uplink == AssertionOutcome("each of 256 uplinks can be lost", holds=True)


@pytest.mark.parametrize(
    ("topology", "accelerators", "parts"),
    [
        ("leaf-spine", 256, {}),
        ("leaf-spine", 128, {"oversubscription": "64:1"}),
        ("three-tier", 1024, {}),
        ("rail-optimized", 256, {}),
        ("dual-plane", 128, {}),
        ("fat-tree", 128, {"k": 8}),
        ("dragonfly", 128, {}),
        ("rail-only", 512, {}),
    ],
)
def test_parts_on_every_way_are_those_without_which_routes_lead_no_more(topology, accelerators, parts):
    """Against routing converged anew without each part in turn: for switches, and for some of the cables."""
    cluster = compose_cluster(drafted(accelerators, topology, "roce", parts))
    wiring, server = cluster.back_end.wiring, servers_of(cluster)
    losses = list(losses_of(cluster, "switch"))
    if any(losses_of(cluster, "uplink")):
        losses += list(losses_of(cluster, "uplink"))[:: max(wiring.links // 80, 1)]
    judged_ = {one.name: words for one, words in judge_losses(cluster, losses)}
    for one in losses:
        if not judged_[one.name].startswith("takes"):
            anew = parted(lost(wiring, one.links), wiring.used, server)
            assert bool(judged_[one.name]) == (anew is not None), one.name


def test_a_nic_with_one_cable_does_not_survive_its_loss_and_one_with_two_planes_does():
    rails = judged("survives any one link", "survives any one leaf", topology="rail-optimized")
    assert rails[0].found.startswith(
        "128 of 256 links would cut servers off if lost: back-end server 0 NIC 0 - back-end leaf 0 is the only way to"
    )
    assert rails[1].found.startswith("8 of 8 leafs would cut servers off if lost")
    planes = judged("survives any one link", "survives any one switch", topology="dual-plane")
    assert [one.found for one in planes] == ["each of 512 links can be lost", "each of 18 switches can be lost"]


def test_a_trunk_of_one_cable_parts_what_it_joins():
    """Two leaves of eight ports each up to one spine by one cable: its loss parts them; with 64 cables none does."""
    found = judged("survives any one uplink", parts={"oversubscription": "64:1"})[0]
    assert (found.holds, found.found.split(":")[0]) == (False, "2 of 2 uplinks would cut servers off if lost")


def test_the_step_without_a_spine_is_that_of_the_same_fault():
    """Scattered servers send all their rings through two spines: without one, twice as many meet on a link.

    Four queue pairs spread a connection, so that fewer collide: 1.10 times the step; 1.16 with one.
    """
    bounds = ["survives any one spine with step < 1.2 x", "survives any one spine with step < 1.05 x"]
    found = judged(*bounds, accelerators=256, placement="scattered")
    assert [one.holds for one in found] == [True, False]
    planned = StepPricing(prepare(drafted(accelerators=256, fabric="roce", placement="scattered"))[0])
    job = planned.job
    without = [
        job.engine.simulate(
            [Job(planned.graph)], job.cluster, seed=planned.seed, faults=[SwitchDown(switch=name)], policy=job.policy
        ).makespan_ps
        for name in ("spine 0", "spine 1")
    ]
    assert float(found[0].found.split()[5]) == pytest.approx(max(without) * 1e-12 / planned.step_s, rel=1e-3)


def test_every_form_of_every_kind_is_read_by_its_kind():
    for name, kind in assertions.items():
        for form in kind.forms if name != "figure" else ("step < 10 s", "gpu_utilization >= 90 %", "capex <= $3M"):
            assert type(grammar.read(form)) is kind


def test_every_figure_is_there(tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(SMALL.format(fabric="roce", engine="packet") + "  - p99_fct < 1 s\n", encoding="utf-8")
    (variant,) = api.run(file, out=None).result.variants
    for name, figure in FIGURES.items():
        if "training" in figure.kinds:
            assert figure.read(variant) is not None, name
        else:
            _, block, level = figure.path.split(".")
            assert block in ServingFigures.model_fields, name
            assert level in Percentiles.model_fields, name
    assert FIGURES["p99_fct"].read(variant) == pytest.approx(variant.packet.fct_us.p99 * 1e-6)
    short = variant.model_copy(
        update={"packet": variant.packet.model_copy(update={"flows_finished": variant.packet.flows_total - 3})}
    )
    assert FIGURES["p99_fct"].missing(short).startswith("3 of ")
    assert FIGURES["p99_fct"].missing(variant) == ""


@pytest.fixture
def call(capsys, tmp_path):
    def command(asserted, *options, fabric="roce"):
        file = tmp_path / "small.yaml"
        lines = "".join(f"  - {one}\n" for one in asserted)
        file.write_text(SMALL.format(fabric=fabric, engine="flow") + lines, encoding="utf-8")
        code = guard.run(["check", str(file), "--quiet", *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def test_the_command_prints_what_it_found_and_its_code_says_whether_all_holds(call, tmp_path):
    report = tmp_path / "checks.xml"
    code, out, err = call(["gpu_utilization > 1 %", "no PFC deadlock"], "--junit", str(report))
    assert (code, err) == (0, "")
    assert [line.split("  ")[0] for line in out.splitlines()] == [
        "assertion",
        "gpu_utilization > 1 %",
        "no PFC deadlock",
    ]
    suite = ElementTree.parse(report).getroot().find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("2", "0")
    vary = "compare.vary.fabric=[roce, spectrum-x]"
    code, out, _ = call(["step < 1 ns", "no PFC deadlock"], "--json", "--junit", str(report), "--set", vary)
    found = json.loads(out)
    assert (code, found["holds"]) == (1, False)
    assert [(one["variant"], one["holds"]) for one in found["checks"]] == [
        ("roce", False),
        ("spectrum-x", False),
        ("roce", True),
        ("spectrum-x", True),
    ]
    cases = ElementTree.parse(report).getroot().findall(".//testcase")
    assert [case.get("name") for case in cases][:2] == ["step < 1 ns [roce]", "step < 1 ns [spectrum-x]"]
    assert [case.find("failure") is not None for case in cases] == [True, True, False, False]


def test_wrong_assertions_come_all_at_once_before_anything_runs(call, tmp_path):
    report = tmp_path / "checks.xml"
    code, out, err = call(["step < 10", "no PFC dedlock", "step < 1 s"], "--junit", str(report))
    assert (code, out, report.exists()) == (2, "", False)
    assert ":10:5" in err
    assert ":11:5" in err
    code, _, err = call(["p99_fct < 200 us"])
    assert (code, "engine: packet" in err) == (2, True)
    code, _, err = call(["step < 1 s"], "--junit", str(tmp_path / "nowhere" / "checks.xml"))
    assert (code, "no such folder" in err) == (2, True)


def test_layouts_are_searched_once_and_what_would_help_is_not_tried(monkeypatch, capsys, tmp_path):
    """Figures of the run and steps without a part ask for the same layout; no assertion asks for trials."""
    searched, search = [], Fastest._searched
    monkeypatch.setattr(Fastest, "_searched", lambda self, found: searched.append(1) or search(self, found))
    monkeypatch.setattr(StepRuns, "better", lambda *_: pytest.fail("what would help is tried"))
    lines = "  - step < 9 s\n  - mfu > 0\n  - survives any one uplink with step < 9 x\n"
    text = SMALL.format(fabric="roce", engine="flow").replace(", parallelism: {tp: 2}", "")
    file = tmp_path / "small.yaml"
    file.write_text(text + lines, encoding="utf-8")
    larger = ["--set", "cluster.accelerators=128", "--set", "workload.training.global_batch=128"]
    assert guard.run(["check", str(file), "--quiet", *larger]) == 0
    assert capsys.readouterr().err == ""
    assert len(searched) == 1


@pytest.fixture
def simulations(monkeypatch):
    """Grows by each simulation that the core is asked for, of any engine."""
    count = []
    for name in dir(_core):
        if name in ("simulate", "max_min", "run_packets"):
            real = getattr(_core, name)
            monkeypatch.setattr(_core, name, lambda *a, real=real, **k: count.append(1) or real(*a, **k))
    monkeypatch.setattr(study, "run", lambda *a, real=study.run, **k: count.append("run") or real(*a, **k))
    return count


@pytest.mark.parametrize("parallelism", [", parallelism: {{tp: 2}}", ""])
def test_what_needs_only_the_plan_runs_no_simulation(simulations, capsys, tmp_path, parallelism):
    """Whether the layout is given or would be searched, and of every variant; the step shows that it counts."""
    asked = [
        "survives any one spine",
        "no PFC deadlock",
        "headroom holds at 30 m",
        "capex < 900 k$",
        "capex > 1 $",
        "configurations in plan/switches hold",
    ]
    text = SMALL.replace(", parallelism: {{tp: 2}}", parallelism).format(fabric="roce", engine="flow")
    file = tmp_path / "small.yaml"
    file.write_text(text + "".join(f"  - {one}\n" for one in asked), encoding="utf-8")
    larger = ["--set", "cluster.back_end.topology.ports_per_leaf=4", "--set", "compare.vary.seed=[1, 2]"]
    assert guard.run(["deploy", str(file), "--out", str(tmp_path / "plan"), "--quiet", *larger[:2]]) == 0
    capsys.readouterr()
    code = guard.run(["check", str(file), "--quiet", "--json", *larger])
    found = json.loads(capsys.readouterr().out)["checks"]
    assert (len(found), simulations) == (2 * len(asked), []), found
    assert code == int(not all(one["holds"] for one in found))
    file.write_text(text + "  - step < 9 s\n", encoding="utf-8")
    assert guard.run(["check", str(file), "--quiet"]) == 0
    assert simulations.count("run") == 1
    assert 1 in simulations


def test_what_is_bought_is_what_a_run_says(capsys, tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(SMALL.format(fabric="roce", engine="flow") + "  - capex > 1 $\n", encoding="utf-8")
    (variant,) = api.run(file, out=None).result.variants
    one = load.load(file)
    figure = FIGURES["capex"]
    assert figure.planned(one, compose_cluster(one)) == pytest.approx(figure.read(variant), rel=1e-12)
    assert guard.run(["deploy", str(file), "--out", str(tmp_path / "plan")]) == 0
    assert numbers.dollars(figure.read(variant)) in capsys.readouterr().out.splitlines()[0]
    bill = csv.DictReader((tmp_path / "plan" / "bill.csv").read_text().splitlines())
    assert sum(float(row["total_usd"]) for row in bill) == pytest.approx(figure.read(variant), rel=1e-12)


def test_a_scenario_without_assertions_is_refused(capsys, tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(SMALL.format(fabric="roce", engine="flow").removesuffix("check:\n"), encoding="utf-8")
    assert guard.run(["check", str(file)]) == 2
    assert "the scenario has no assertions under `check`" in capsys.readouterr().err


def test_a_report_can_be_read_whatever_names_hold():
    checked = CheckedAssertion("step < 1 s\x00", "one", AssertionOutcome('"x" \ufffe', holds=False))
    text = junit("a\x07<b>&", [checked.case(several=False)])
    case = ElementTree.fromstring(text).find(".//testcase")
    assert (case.get("classname"), case.get("name")) == ("a\\x07<b>&", "step < 1 s\\x00")
    assert case.find("failure").get("message") == '"x" \\ufffe'


def test_routing_of_sonic_s_tenants_is_held_against_the_plan_too(tmp_path):
    """What the tables leave to FRR's own file is read there: an AS number, a file that is gone."""
    file = tmp_path / "small.yaml"
    tenancy = "  tenancy: {by: vrf, tenants: [{name: blue, servers: '0'}, {name: green, servers: '1'}]}\nworkload:"
    text = SMALL.format(fabric="roce", engine="flow").replace("workload:", tenancy)
    file.write_text(text + "  - configurations in plan/switches hold\n  - tenants isolated in plan/switches\n")
    assert guard.run(["deploy", str(file), "--out", str(tmp_path / "plan"), "--os", "sonic", "-q"]) == 0
    draft = load.load(file)
    assert all(one.outcome.holds for one in check(draft, lambda _: None, lambda *_: None))
    routing = tmp_path / "plan" / "switches" / "be-leaf0.frr.conf"
    meant = routing.read_text()
    routing.write_text(meant.replace("4201000000", "4201000999"))
    found = check(draft, lambda _: None, lambda *_: None)[0].outcome
    assert "autonomous system: 4201000999, planned 4201000000" in found.found
    routing.unlink()
    with pytest.raises(InputError, match="no file of its routing"):
        check(draft, lambda _: None, lambda *_: None)


def test_configurations_are_held_against_the_plan(tmp_path):
    """As written they hold; a number of a system, a file that is gone and one that is cut off are named."""
    file = tmp_path / "small.yaml"
    file.write_text(SMALL.format(fabric="roce", engine="flow") + "  - configurations in plan/switches hold\n")
    draft = load.load(file)
    with pytest.raises(InputError, match="no such folder"):
        check(draft, lambda _: None, lambda *_: None)
    for system in ("frr", "sonic", "eos", "junos"):
        assert guard.run(["deploy", str(file), "--out", str(tmp_path / "plan"), "--os", system, "-q"]) == 0
        (found,) = check(draft, lambda _: None, lambda *_: None)
        assert found.outcome.holds, system
        first = sorted((tmp_path / "plan" / "switches").iterdir())[0]
        text = first.read_text()
        first.write_text(text.replace("4201000000", "4201000999"))
        (found,) = check(draft, lambda _: None, lambda *_: None)
        assert not found.outcome.holds
        assert "autonomous system: 4201000999, planned 4201000000" in found.outcome.found
        first.write_text(text[: len(text) // 3])
        assert not check(draft, lambda _: None, lambda *_: None)[0].outcome.holds
        first.write_text(text)  # a plan is not written over files that somebody changed
    first.rename(first.with_name("other.junos.set"))
    assert "there is no file" in check(draft, lambda _: None, lambda *_: None)[0].outcome.found
    (tmp_path / "plan" / "switches" / "x.eos.cfg").write_text("")
    with pytest.raises(InputError, match="one operating system"):
        check(draft, lambda _: None, lambda *_: None)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("survives any 1 spine", "survives any one spine"),
        ("tolerates the loss of any single cable", "survives any one link"),
        ("survives any leaf with step < 1.2", "survives any one leaf with step < 1.2 x"),
        ("no single point of failure", "survives any one part"),
        ("p99 step < 200us", "p99_step < 200us"),
        ("GPU utilization above 90%", "gpu_utilization > 90%"),
        ("mfu≥40 %", "mfu >= 40 %"),
        ("no PFC deadlock: routes and priorities acyclic", "no PFC deadlock"),
        ("headroom at 300m holds", "headroom holds at 300m"),
    ],
)
def test_what_people_write_is_read(written, meant):
    assert spellings.as_plain(written) == meant
    assert spellings.as_plain(meant) == meant
    assert grammar.read(written) == grammar.read(meant)


def test_no_single_point_of_failure_is_every_switch_and_every_cable():
    """One leaf holds every NIC of a server's rail: it is such a point, and no spine or cable between switches is."""
    cluster = planned(drafted(64, "leaf-spine", "roce", {"ports_per_leaf": 16})).cluster
    whole = {one.name for one in losses_of(cluster, "part")}
    assert whole == {one.name for part in ("switch", "link") for one in losses_of(cluster, part)}
