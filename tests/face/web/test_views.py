"""The hall and the timeline of a run, as columns and pixels."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
import pytest
from tests.face.web.conftest import LONG
from tests.face.web.conftest import SMALL as CLIENT_SMALL

from railyard.face import api
from railyard.face.api.client import CALLS, ENDED, PREFIX, Client, Job, ServerError
from railyard.face.web.views import packed
from railyard.graph.parquet import read_record, write_record
from railyard.kit.errors import InputError

from .conftest import SMALL

LARGE = SMALL.replace("s: 16\n", "s: 256\n").replace("h: 16", "h: 256")

KINDS = {"uint8": np.uint8, "int16": np.int16, "int32": np.int32, "float32": np.float32}


def opened(data):
    length = int.from_bytes(data[:4], "little")
    head = json.loads(data[4 : 4 + length])
    columns = {
        row["name"]: np.frombuffer(data, KINDS[row["kind"]], row["count"], 4 + length + row["offset"])
        for row in head["columns"]
    }
    return head, columns


@pytest.fixture(scope="module")
def run(folder):
    (folder / "small.yaml").write_text(SMALL.replace("tp: 8", "tp: 2"))
    return api.run(folder / "small.yaml", out=folder / "runs")


def test_columns_come_back_from_aligned_bytes():
    columns = {"a": np.array([1, 2, 3], np.uint8), "b": np.array([[-1, 7]], np.int16), "c": np.zeros(0, np.float32)}
    data = packed({"words": "ä"}, columns)
    head, found = opened(data)
    assert head["words"] == "ä"
    assert {name: column.tolist() for name, column in found.items()} == {"a": [1, 2, 3], "b": [-1, 7], "c": []}
    length = int.from_bytes(data[:4], "little")
    assert all((4 + length + row["offset"]) % 8 == 0 for row in head["columns"])
    with pytest.raises(TypeError):
        packed({}, {"a": np.zeros(1)})


def test_the_hall_has_every_device_and_the_load_of_every_cable(house, run):
    head, hall = opened(house.get(f"/api/v1/runs/{run.folder.name}/hall").content)
    assert (head["servers"], head["accelerators_per_server"], head["cables"]) == (2, 8, 16)
    assert sorted(set(head["roles"])) == ["leaf", "server"]
    assert len(hall["rack"]) == len(head["names"])
    assert hall["power_w"].sum() == pytest.approx(hall["draw_w"].sum())
    told, cables = opened(house.get(f"/api/v1/runs/{run.folder.name}/cables").content)
    assert told["loaded"]
    tiers = {tier.name: tier for tier in run.result.variants[0].network.tiers}
    nic = cables["load"][cables["tier"] == 0]
    assert nic.max() == pytest.approx(tiers["nic"].max_utilization, rel=1e-5)


def test_a_hall_is_drawn_before_any_run(house):
    draft = {"text": LARGE, "file": "large.yaml"}
    head, hall = opened(house.post("/api/v1/hall", json=draft).content)
    cables = opened(house.post("/api/v1/cables", json=draft).content)
    assert len(hall["row"]) >= 1
    assert not cables[0]["loaded"]
    assert (cables[1]["load"] == -1).all()
    assert head["spoken"][-1].startswith("spine")
    wrong = house.post("/api/v1/hall", json={"text": LARGE.replace("roce", "rocky")})
    assert wrong.status_code == 400
    assert "rocky" in wrong.json()["error"] or "rocky" in json.dumps(wrong.json()["faults"])


def test_a_fault_that_the_page_writes_is_one_that_a_scenario_takes(house):
    head, _ = opened(house.post("/api/v1/hall", json={"text": LARGE}).content)
    switches = [name for name in head["spoken"] if name]
    leaf, spine = switches[0], switches[-1]
    faults = f"faults: [{{kind: switch-down, switch: {leaf}}}, {{kind: link-down, cable: {leaf} - {spine}}}]"
    for text in (faults, "faults: [{kind: host-down, host: 1}]"):
        found = house.post("/api/v1/check", json={"text": f"{LARGE}\n{text}\n"}).json()
        assert found["faults"] == []


def test_the_timeline_is_drawn_at_any_zoom(house, run):
    base = f"/api/v1/runs/{run.folder.name}/timeline"
    head = house.get(base).json()
    assert {lane["rank"] for lane in head["lanes"]} == set(range(16))
    assert head["end_us"] == pytest.approx(run.result.variants[0].step.seconds * 1e6, rel=1e-6)
    window = f"{base}/window?from_us=0&to_us={head['end_us']}&count=3&pixels=50"
    about, pixels = opened(house.get(window).content)
    assert (about["first"], about["count"], pixels["look"].shape, pixels["busy"].shape) == (0, 3, (150,), (150,))
    assert pixels["look"].max() < len(head["looks"])
    middle = head["end_us"] / 2
    under = house.get(f"{base}/slice?lane=0&at_us={middle}").json()
    assert under["start_us"] <= middle < under["end_us"]
    assert house.get(f"{base}/slice?lane=0&at_us=-5").json()["look"] is None
    backwards = house.get(f"{base}/window?from_us=5&to_us=5")
    assert (backwards.status_code, backwards.json()["error"]) == (400, "the window ends before it begins")
    assert house.get(f"{base}?variant=7").status_code == 404


def test_kept_runs_are_compared(house, run, folder):
    other = api.run(folder / "small.yaml", overrides={"fabric": "uec"}, out=folder / "runs")
    found = house.get(f"/api/v1/comparison?run={run.folder.name}&run={other.folder.name}").json()
    assert [variant["name"] for variant in found["variants"]] == [run.folder.name, other.folder.name]
    assert found["verdict"]["differences"][0]["shared"] == "computation"
    assert house.get(f"/api/v1/comparison?run={run.folder.name}").status_code == 422
    assert house.get(f"/api/v1/comparison?run={run.folder.name}&run=none").status_code == 404


def test_runs_at_other_prices(house, run):
    base = f"/api/v1/prices?run={run.folder.name}"
    before, after = (house.get(f"{base}{more}").json()["variants"][0] for more in ("", "&change=network:2"))
    assert before["cpmt"]["typical"] == pytest.approx(run.result.variants[0].cpmt.typical)
    assert after["cpmt"]["typical"] > before["cpmt"]["typical"]
    assert house.get(f"{base}&change=network").status_code == 400
    wrong = house.get(f"{base}&change=netwrk:2")
    assert (wrong.status_code, wrong.json()["faults"][0]["hint"]) == (400, "did you mean `network`?")


def test_what_was_measured_is_drawn_as_a_run_is(house, run, folder):
    record = read_record(run.folder / "timeline.parquet")
    write_record(replace(record, tables={}, parts={}), folder / "measured.parquet")
    (folder / "other.parquet").write_bytes(b"PAR1 no")
    (row,) = house.get("/api/v1/records").json()
    assert row["file"] == "measured.parquet"
    head = house.get("/api/v1/record/timeline?file=measured.parquet").json()
    assert head == house.get(f"/api/v1/runs/{run.folder.name}/timeline").json()
    seen = f"from_us=0&to_us={head['end_us']}&count=3&pixels=50"
    ours = house.get(f"/api/v1/record/timeline/window?file=measured.parquet&{seen}").content
    assert ours == house.get(f"/api/v1/runs/{run.folder.name}/timeline/window?{seen}").content
    moment = f"lane=0&at_us={head['end_us'] / 2}"
    under = house.get(f"/api/v1/record/timeline/slice?file=measured.parquet&{moment}").json()
    assert under["start_us"] <= head["end_us"] / 2 < under["end_us"]
    for name in ("other.parquet", "none.parquet", "../x.parquet", f"runs/{run.folder.name}/result.json", "%00"):
        assert house.get(f"/api/v1/record/timeline?file={name}").status_code == 404


# The client of the API: as the published description has it, and against a server as users start it.


@pytest.fixture(scope="module")
def description(house):
    return house.get(f"{PREFIX}/openapi.json").json()


def test_calls_are_published(description):
    missing = [
        call for call, (method, path) in CALLS.items() if method.lower() not in description["paths"][PREFIX + path]
    ]
    assert missing == []


def test_a_job_has_the_published_fields(description):
    published = description["components"]["schemas"]["QueuedJob"]["properties"]
    assert {one.name for one in fields(Job)} == set(published)
    wanted = set(description["components"]["schemas"]["NewJob"]["properties"])
    assert {"verb", "file", "text", "engine", "vary", "files", "options"} == wanted
    states = published["state"]["enum"]
    assert set(states) - set(ENDED) == {"queued", "running"}


def test_fields_that_a_later_server_adds_are_passed_over():
    job = Job.of(
        {"id": "a", "file": "x", "state": "done", "created": 1.0, "change": 3, "colour": "red", "vary": ["a=1,2"]}
    )
    assert (job.id, job.vary) == ("a", ("a=1,2",))


def test_from_a_scenario_to_its_result_and_one_that_is_stopped(server, tmp_path):
    scenario = tmp_path / "small.yaml"
    scenario.write_text(CLIENT_SMALL, encoding="utf-8")
    client = Client(server.address)
    seen = list(client.follow(client.submit(scenario, engine="analytic").id))
    assert (seen[-1].state, seen[-1].share, seen[-1].file) == ("done", 1.0, "small.yaml")
    assert [job.change for job in seen] == sorted({job.change for job in seen})
    result = client.result(seen[-1])
    assert result.variants[0].step.seconds > 0
    assert seen[-1].outcome.name in {row["run"] for row in client.runs()}
    kept = client.save(seen[-1], "scenario.yaml", tmp_path)
    assert "\nformat: railyard/1\n" in kept.read_text()  # its defaults stand above

    long = client.submit(LONG)
    assert client.stop(long.id).id == long.id
    assert list(client.follow(long.id))[-1].state == "stopped"
    assert {job.id for job in client.jobs()} >= {seen[-1].id, long.id}

    wrong = client.submit(CLIENT_SMALL.replace("hgx-h100", "hgx-h1000"))
    with pytest.raises(InputError, match="did you mean `hgx-h100`") as caught:
        list(client.follow(wrong.id))
    assert caught.value.problems[0].line == 4
    with pytest.raises(ServerError, match="there is no job `none`") as refused:
        client.job("none")
    assert refused.value.status == 404
    with pytest.raises(ServerError, match="there is no file"):
        client.save(seen[-1].outcome.name, "../../etc/passwd", tmp_path)
    assert not (tmp_path / "passwd").exists()


def test_files_of_this_machine_are_given_to_a_verb(server, tmp_path):
    (server.folder / "nodes.yaml").write_text(CLIENT_SMALL)
    (tmp_path / "jobs.csv").write_text("job,nodes\na,1\n")
    (tmp_path / "several").mkdir()
    for name in ("a.json", "b.json"):
        (tmp_path / "several" / name).write_text("{}")
    client = Client(server.address)
    assert {row["name"] for row in client.verbs()} >= {"run", "plan", "audit"}
    job = client.submit(verb="place", files={"jobs": tmp_path / "jobs.csv", "nodes": "nodes.yaml"})
    *_, last = client.follow(job.id)
    assert (last.verb, last.file, last.outcome.view) == ("place", "uploads/place-jobs.csv", "answer")
    assert client.result(last).jobs[0].nodes == ("node0",)
    assert client.upload(tmp_path / "several") == "uploads/several"
    assert {path.name for path in (server.folder / "uploads/several").iterdir()} == {"a.json", "b.json"}
    with pytest.raises(InputError, match="takes a scenario"):
        client.submit(verb="plan")
    with pytest.raises(InputError, match="no result"):
        client.result(job)
