"""Files that verbs wrote: listed, saved one by one and all as one archive, by nobody else and from nowhere else."""

from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from tests.face.report.test_answers import SUSPECT, diagnosis
from tests.face.web.conftest import SMALL, serving
from tests.face.web.test_shelf import ANNA, BERT, bearer, digest

from railyard.ask.deploy.cabling import dialects, drawn, plan_of
from railyard.ask.deploy.emit.labs import netlist
from railyard.face import api
from railyard.face.api.client import Client, ServerError
from railyard.face.cli import guard
from railyard.face.reports import keep_answer
from railyard.face.web.routes import outputs
from railyard.graph.parquet import read_table
from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.study import compose

from .conftest import SMALL as ANSWERS_SMALL
from .test_views import opened

API = "/api/v1/outputs"
FOLDER = "deployments/hall"
PAGE = b"<script>alert(1)</script>"


@pytest.fixture
def hall(settings):
    """A folder of a deployment, with what must not leave it."""
    folder = settings.folder / FOLDER
    (folder / "switches" / "a").mkdir(parents=True)
    (folder / "index.html").write_bytes(PAGE)
    (folder / "switches" / "a" / "leaf 0.conf").write_bytes(b"hostname leaf0\n" * 40_000)
    (folder / "cables.parquet").write_bytes(os.urandom(1000))
    (folder / ".unfinished").write_bytes(b"x")
    (settings.folder / "secret.txt").write_text("x")
    (folder / "link.txt").symlink_to(settings.folder / "secret.txt")
    (folder / "linked").symlink_to(settings.folder)
    (settings.folder / "deployments" / "out").symlink_to(settings.folder)
    return folder


def archive(client, folder=FOLDER, **more):
    answer = client.get(f"{API}/archive", params={"folder": folder}, **more)
    assert answer.status_code == 200, answer.text
    return answer, zipfile.ZipFile(io.BytesIO(answer.content))


def test_files_are_listed_by_name_without_links_and_what_is_unfinished(client, hall):
    rows = client.get(API, params={"folder": FOLDER}).json()
    assert [(row["name"], row["bytes"]) for row in rows] == [
        ("cables.parquet", 1000), ("index.html", 25), ("switches/a/leaf 0.conf", 600_000),
    ]  # fmt: skip


def test_an_archive_has_every_byte_of_every_file(client, hall):
    answer, found = archive(client)
    names = ["hall/cables.parquet", "hall/index.html", "hall/switches/a/leaf 0.conf"]
    assert found.namelist() == names
    assert found.testzip() is None
    for name in names:
        assert found.read(name) == (hall.parent / name).read_bytes()
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == 'attachment; filename="hall.zip"'
    assert len(answer.content) < 20_000, "text is packed"
    info = found.getinfo("hall/cables.parquet")
    assert info.compress_type == zipfile.ZIP_STORED, "what is packed already is not packed again"


def test_no_file_is_shown_only_saved(client, hall):
    answer = client.get(f"{API}/file", params={"folder": FOLDER, "name": "index.html"})
    assert answer.content == PAGE
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == 'attachment; filename="index.html"'
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert archive(client)[0].headers["content-security-policy"] == "sandbox; default-src 'none'"


@pytest.mark.parametrize(
    "folder",
    ["deployments", "deployments/", "deployments/none", "deployments/..", "deployments/out", "runs/../deployments/hall",
     "uploads/x", ".railyard/x", "people/anna", "/etc/ssl", "deployments/hall/switches", "a\0/b", "deployments/\0"],
)  # fmt: skip
def test_no_other_folder_is_opened(client, hall, folder):
    for call in ("", "/archive"):
        assert client.get(f"{API}{call}", params={"folder": folder}).status_code == 404


@pytest.mark.parametrize(
    "name",
    [
        "link.txt",
        "linked/secret.txt",
        "../../secret.txt",
        "/etc/passwd",
        ".unfinished",
        "switches",
        "none",
        "a\0b",
        ".",
    ],
)
def test_no_other_file_is_saved(client, hall, name):
    assert client.get(f"{API}/file", params={"folder": FOLDER, "name": name}).status_code == 404


def test_an_archive_is_bounded(settings, hall, monkeypatch):
    with serving(replace(settings, limits=replace(settings.limits, archive_bytes=1 << 20))) as client:
        archive(client)
        (hall / "more.bin").write_bytes(b"x" * (1 << 20))
        refused = client.get(f"{API}/archive", params={"folder": FOLDER})
        assert (refused.status_code, "an archive at most 1" in refused.json()["error"]) == (413, True)
        monkeypatch.setattr(outputs, "MOST_FILES", 3)
        assert client.get(API, params={"folder": FOLDER}).status_code == 413


def test_an_archive_is_read_as_it_is_sent_and_leaves_out_what_is_gone(hall):
    files = outputs.files_of(hall)
    pieces = outputs.archived(hall, files)
    first = next(pieces)
    assert len(first) < 2000
    files[1].path.unlink()
    files[2].path.write_bytes(b"grew" * 200_000)
    found = zipfile.ZipFile(io.BytesIO(first + b"".join(pieces)))
    assert found.namelist() == ["hall/cables.parquet", "hall/switches/a/leaf 0.conf"]
    assert found.read("hall/switches/a/leaf 0.conf") == (b"grew" * 200_000)[:600_000]


@pytest.mark.parametrize("changed", [-1e18, -1.0, 4_354_819_200.0, 1e18])
def test_dates_that_no_archive_knows_break_none(hall, changed):
    files = [replace(file, changed=changed) for file in outputs.files_of(hall)]
    found = zipfile.ZipFile(io.BytesIO(b"".join(outputs.archived(hall, files))))
    year = 1980 if changed < 0 else 2107
    assert [info.date_time[:3] for info in found.infolist()] == [(year, *((1, 1) if changed < 0 else (12, 31)))] * 3


def test_a_name_that_is_no_utf8_is_left_out(client, hall):
    (hall / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    assert len(client.get(API, params={"folder": FOLDER}).json()) == 3
    assert len(archive(client)[1].namelist()) == 3


def test_what_goes_while_files_are_listed_is_left_out(hall, monkeypatch):
    listed = list(os.walk(hall))
    (hall / "index.html").unlink()
    monkeypatch.setattr(outputs.os, "walk", lambda _: iter(listed))
    assert [file.name for file in outputs.files_of(hall)] == ["cables.parquet", "switches/a/leaf 0.conf"]


@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("a\nX-More: 1", "a_X-More: 1"),
        ('a"b', "a_b"),
        ("a\\b", "a_b"),
        ("\u4e2d", "_"),
        ("a\x7fb", "a_b"),
        ("~ !", "~ !"),
    ],
)
def test_no_name_of_a_folder_breaks_the_header(client, hall, name, saved):
    hall.rename(hall.with_name(name))
    answer, _ = archive(client, f"deployments/{name}")
    assert answer.headers["content-disposition"] == f'attachment; filename="{saved}.zip"'


def test_nobody_else_fetches_files_and_who_does_is_written_down(settings):
    people = replace(settings, people={"anna": digest(ANNA), "bert": digest(BERT)})
    with serving(people) as client:
        folder = settings.folder / "people" / "anna" / "runs" / "a"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text("{}")
        query = {"folder": "runs/a", "name": "result.json"}
        assert client.get(f"{API}/file", params=query).status_code == 401
        assert client.get(f"{API}/file", params=query, headers=bearer(BERT)).status_code == 404
        assert client.get(f"{API}/file", params=query, headers=bearer(ANNA)).status_code == 200
        archive(client, "runs/a", headers=bearer(ANNA))
        assert client.get(API, params=query, headers=bearer(ANNA)).status_code == 200
        log = [json.loads(line) for line in (settings.state / "audit.log").read_text().splitlines()]
    assert [(row["person"], row["status"], row["path"].removeprefix(API)) for row in log] == [
        ("bert", 404, "/file?folder=runs%2Fa&name=result.json"),
        ("anna", 200, "/file?folder=runs%2Fa&name=result.json"),
        ("anna", 200, "/archive?folder=runs%2Fa"),
    ]


def test_a_deployment_is_fetched_from_python(server, tmp_path):
    client = Client(server.address)
    asked = client.submit(SMALL, verb="deploy")
    *_, job = client.follow(asked.id)
    names = [row["name"] for row in client.files(job)]
    assert {"index.html"} < set(names)
    with zipfile.ZipFile(client.save_all(job, tmp_path)) as found:
        assert sorted(found.namelist()) == [f"small/{name}" for name in names]
    kept = client.save("deployments/small", names[0], tmp_path)
    assert kept.read_bytes() == (server.folder / "deployments" / "small" / names[0]).read_bytes()
    with pytest.raises(ServerError, match="there is no file"):
        client.save(job, "../../../../etc/passwd", tmp_path)
    with pytest.raises(ServerError, match="there is no folder"):
        client.save_all("none", tmp_path)
    with pytest.raises(InputError, match="no result yet"):
        client.files(asked)
    assert not (tmp_path / "passwd").exists()
    assert not (tmp_path / "none.zip").exists()


# Answers of other commands in the page: listed, read, and their parts in the hall; the load of a run over
# time.

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
    built = found.edited(rate_bps={70: found.rate_bps[70] // 4}).without([11])
    (settings.folder / "found.txt").write_text(netlist(built))
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
    assert row["sentence"].startswith("2 faults cost $")
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


def test_a_suspected_part_lies_on_its_cables(house, folder):
    answer = diagnosis(
        replace_row(part="leaf 1 - spine 0", kind="cable"), replace_row(part="server 2 nic 3", kind="nic"),
        replace_row(part="the data loader", kind="software"),
    )  # fmt: skip
    kept = keep_answer(answer, folder / "runs", CABLED)
    base = f"/api/v1/answers/{kept.name}"
    head, _ = opened(house.get(f"{base}/hall").content)
    _, cables = opened(house.get(f"{base}/cables").content)
    link, nic, software = house.get(f"{base}/marks").json()["rows"]
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
def test_the_load_over_time_adds_up_to_the_load_of_the_step(house, folder, engine):
    scenario = folder / f"{engine}.yaml"
    scenario.write_text(ANSWERS_SMALL.replace("tp: 8", "tp: 2").replace("llama-3-8b", "llama-3.2-1b"))
    run = api.run(scenario, engine=engine, out=folder / "runs")
    base = f"/api/v1/runs/{run.folder.name}"
    head, over = opened(house.get(f"{base}/load").content)
    _, cables = opened(house.get(f"{base}/cables").content)
    seconds = run.result.variants[0].step.seconds
    assert head["end_us"] == pytest.approx(seconds * 1e6)
    assert 100 <= head["windows"] <= 200
    span = np.diff(np.append(over["start_us"], head["end_us"]))
    chunks = [opened(house.get(f"{base}/load/cables?first={first}&count=90").content)[1] for first in (0, 90, 180)]
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


def test_a_run_without_windows_says_so(house, folder):
    scenario = folder / "no-windows.yaml"
    scenario.write_text(ANSWERS_SMALL.replace("name: small", "name: no-windows"))
    run = api.run(scenario, out=folder / "runs")
    (run.folder / "timeline.link_windows.parquet").unlink()
    found = house.get(f"/api/v1/runs/{run.folder.name}/load")
    assert (found.status_code, found.json()["error"]) == (400, "this run kept no load over time")
