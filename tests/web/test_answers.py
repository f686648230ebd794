"""Answers of other commands in the page: listed, read, and their parts in the hall; the load of a run over time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.report.test_answers import SUSPECT, diagnosis

from railyard.ask.deploy.cabling import dialects, drawn, plan_of
from railyard.ask.deploy.emit.labs import netlist
from railyard.face import api
from railyard.face.cli import guard
from railyard.face.report import keep_answer
from railyard.graph.parquet import read_table
from railyard.work.scenario import load
from railyard.work.study import compose

from .conftest import SMALL
from .test_views import opened

CABLED = """\
name: cabled
cluster:
  accelerators: 64
  server: hgx-h100
  back_end: {topology: {kind: leaf-spine, ports_per_leaf: 16, spines: 2}, fabric: infiniband}
workload:
  training: {model: llama-3-8b, tokens: 1 B, global_batch: 64, sequence: 1024, parallelism: {tp: 1, zero: 1}}
"""


@pytest.fixture
def audited(client, settings, capsys):
    """An audit of a network that lacks one cable and has a slow one; its folder and both cables' rows of the plan."""
    scenario = settings.folder / "cabled.yaml"
    scenario.write_text(CABLED)
    draft = load.load(scenario)
    plan = plan_of(compose.cluster_of(draft, compose.catalog_of(draft)))
    found = drawn(plan, 0, dialects(plan, 0)[0])
    cables = list(found.cables)
    cables[70] = replace(cables[70], rate_bps=cables[70].rate_bps // 4)
    del cables[11]
    (settings.folder / "found.txt").write_text(netlist(replace(found, cables=tuple(cables))))
    arguments = ["audit", "--ibnetdiscover", str(settings.folder / "found.txt"), "--plan", str(scenario)]
    assert guard.run([*arguments, "--out", str(settings.folder / "runs")]) == 0
    capsys.readouterr()
    rows = plan.of_network(plan.networks[0])
    return next(settings.folder.glob("runs/audit-*")).name, {int(rows[11]), int(rows[70])}


def test_answers_are_listed_read_and_passed_on(client, settings, audited):
    name, _ = audited
    (settings.folder / "runs" / "broken").mkdir()
    (settings.folder / "runs" / "broken" / "plan.json").write_text("{}")
    (row,) = client.get("/api/v1/answers").json()
    assert (row["answer"], row["kind"], row["name"], row["hall"]) == (name, "audit", "cabled", True)
    assert row["sentence"].startswith("2 findings, $")
    answer = client.get(f"/api/v1/answers/{name}").json()
    assert answer["format"] == "railyard-audit/1"
    assert {one["kind"] for one in answer["findings"]} == {"missing", "wrong-speed"}
    page = client.get(f"/api/v1/answers/{name}/page")
    assert page.headers["content-disposition"] == f'attachment; filename="{name}.html"'
    assert client.get("/api/v1/pages").json() == [], "what the page shows by itself is no page of another program"
    for wrong in ("none", ".railyard", "%2e%2e", "a%00b"):
        assert client.get(f"/api/v1/answers/{wrong}").status_code == 404


def test_findings_lie_on_the_cables_of_the_hall(client, audited):
    name, rows = audited
    head, _ = opened(client.get(f"/api/v1/answers/{name}/hall").content)
    _, cables = opened(client.get(f"/api/v1/answers/{name}/cables").content)
    marks = client.get(f"/api/v1/answers/{name}/marks").json()["rows"]
    assert {row for mark in marks for row in mark["cables"]} == rows
    for mark in marks:
        (row,) = mark["cables"]
        ends = {int(cables["a"][row]), int(cables["b"][row])}
        assert set(mark["devices"]) == ends
        assert all(head["names"][device] in mark["name"] for device in ends)
    assert marks[0]["usd_per_month"] >= marks[1]["usd_per_month"]


def test_a_suspected_part_lies_on_its_cables(client, settings):
    answer = diagnosis(
        replace_row(part="leaf 1 - spine 0", kind="cable"), replace_row(part="server 2 nic 3", kind="nic"),
        replace_row(part="the data loader", kind="software"),
    )  # fmt: skip
    folder = keep_answer(answer, settings.folder / "runs", CABLED)
    base = f"/api/v1/answers/{folder.name}"
    head, _ = opened(client.get(f"{base}/hall").content)
    _, cables = opened(client.get(f"{base}/cables").content)
    link, nic, software = client.get(f"{base}/marks").json()["rows"]
    assert {head["names"][one] for one in link["devices"]} == {"be-leaf1", "be-spine0"}
    ends = {(head["names"][cables["a"][row]], head["names"][cables["b"][row]]) for row in link["cables"]}
    assert ends == {("be-leaf1", "be-spine0")}
    (row,) = nic["cables"]
    assert head["names"][cables["a"][row]] == "node2"
    assert nic["usd_per_month"] == pytest.approx(12.5 * 720)
    assert (software["cables"], software["devices"]) == ([], [])


def replace_row(**changes):
    return SUSPECT.model_copy(update=changes)


def test_an_answer_without_a_cluster_has_no_hall(client, settings):
    folder = keep_answer(diagnosis(SUSPECT), settings.folder / "runs")
    (row,) = client.get("/api/v1/answers").json()
    assert not row["hall"]
    found = client.get(f"/api/v1/answers/{folder.name}/hall")
    assert (found.status_code, found.json()["error"]) == (400, "this answer keeps no cluster, so it has no hall")


@pytest.mark.parametrize("engine", ["flow", "packet"])
def test_the_load_over_time_adds_up_to_the_load_of_the_step(client, settings, engine):
    scenario = settings.folder / "small.yaml"
    scenario.write_text(SMALL.replace("tp: 8", "tp: 2"))
    run = api.run(scenario, engine=engine, out=settings.folder / "runs")
    base = f"/api/v1/runs/{run.folder.name}"
    head, over = opened(client.get(f"{base}/load").content)
    _, cables = opened(client.get(f"{base}/cables").content)
    seconds = run.result.variants[0].step.seconds
    assert head["end_us"] == pytest.approx(seconds * 1e6)
    assert 100 <= head["windows"] <= 200
    span = np.diff(np.append(over["start_us"], head["end_us"]))
    chunks = [opened(client.get(f"{base}/load/cables?first={first}&count=90").content)[1] for first in (0, 90, 180)]
    load_of = np.concatenate([chunk["load"] for chunk in chunks]).reshape(head["windows"], -1) / 255
    assert load_of.shape[1] == len(cables["load"])
    mean = (load_of * span[:, None]).sum(axis=0) / head["end_us"]
    # Packets count a link by the rate at which it carries them, a little below its line's.
    assert mean == pytest.approx(cables["load"], rel=0.02, abs=0.002)
    edges = over["edges"].reshape(head["windows"], -1) / 255
    assert edges.shape[1] == len(head["picture"]["edges"])
    assert edges.max() == pytest.approx(over["most"].max(), abs=1e-6)
    assert over["step"].max() == pytest.approx(cables["load"].max(), rel=0.02)
    kept = read_table(run.folder / "timeline.link_windows.parquet", "link_windows")
    assert kept["load"].dtype == np.uint8


def test_a_run_without_windows_says_so(client, settings):
    scenario = settings.folder / "small.yaml"
    scenario.write_text(SMALL)
    run = api.run(scenario, out=settings.folder / "runs")
    (run.folder / "timeline.link_windows.parquet").unlink()
    found = client.get(f"/api/v1/runs/{run.folder.name}/load")
    assert (found.status_code, found.json()["error"]) == (400, "this run kept no load over time")
