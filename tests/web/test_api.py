"""From a draft to a run, over the API, with the processes that do the work."""

import json
import time

import pytest

from railyard.face import api

from .conftest import LONG, SMALL

WRONG = SMALL.replace("accelerators: 16", "acelerators: 16").replace("llama-3-8b", "llama-3-8x")


def ended(client, job, seconds=300.0):
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        found = client.get(f"/api/v1/jobs/{job}").json()
        if found["state"] in {"done", "failed", "stopped"}:
            return found
        time.sleep(0.1)
    raise AssertionError(f"the job is still {found}")


def test_faults_stand_at_their_lines(client):
    found = client.post("/api/v1/check", json={"text": WRONG}).json()
    by_key = {fault["key"]: fault for fault in found["faults"]}
    assert by_key["cluster.acelerators"]["line"] == 3
    assert by_key["cluster.acelerators"]["hint"] == "did you mean `accelerators`?"
    assert client.post("/api/v1/check", json={"text": SMALL}).json() == {
        "faults": [], "name": "small", "kind": "training", "engine": "flow",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "[", "a: &x [*x]", "\x00", "- 1", "name: [" * 3000])
def test_what_is_no_scenario_is_said_to_be_none(client, text):
    answer = client.post("/api/v1/check", json={"text": text})
    assert answer.status_code == 200
    assert answer.json()["faults"]


def test_files_outside_are_not_read(client, settings):
    outside = settings.folder.parent / "config.json"
    outside.write_text("{}")
    for name in ("../config.json", str(outside)):
        text = SMALL.replace("llama-3-8b", name)
        faults = client.post("/api/v1/check", json={"text": text}).json()["faults"]
        assert "outside of your folder" in faults[0]["message"]
        job = client.post("/api/v1/jobs", json={"text": text}).json()["id"]
        assert "outside of your folder" in ended(client, job)["faults"][0]["message"]


def test_a_rough_answer_is_near_the_run_of_the_same_text(client, settings):
    rough = client.post("/api/v1/estimate", json={"text": SMALL}).json()["result"]["variants"][0]
    job = client.post("/api/v1/jobs", json={"text": SMALL, "file": "mine/small.yaml"}).json()["id"]
    done = ended(client, job)
    assert done["state"] == "done"
    run = client.get(f"/api/v1/runs/{done['outcome']['name']}/result").json()["variants"][0]
    assert rough["step"]["seconds"] == pytest.approx(run["step"]["seconds"], rel=0.05)
    assert "searched when the scenario is run" in rough["bottleneck"]["headline"]
    assert rough["bottleneck"]["ranking"] == []


def test_the_command_line_and_the_server_make_and_read_the_same_runs(client, settings):
    (settings.folder / "small.yaml").write_text(SMALL)
    by_hand = api.run(settings.folder / "small.yaml", out=settings.folder / "runs").folder
    rows = client.get("/api/v1/runs").json()
    assert [row["run"] for row in rows] == [by_hand.name]
    assert rows[0]["rows"][0][0] == "small"
    before = json.loads((by_hand / "result.json").read_text())
    job = client.post("/api/v1/jobs", json={"text": SMALL, "file": "small.yaml"}).json()["id"]
    assert ended(client, job)["outcome"] == {"view": "run", "name": by_hand.name}
    after = json.loads((by_hand / "result.json").read_text())
    assert after["variants"] == before["variants"]
    report = client.get(f"/api/v1/runs/{by_hand.name}/report")
    assert "attachment" in report.headers["content-disposition"]


def test_a_run_is_stopped_and_leaves_nothing(client, settings):
    job = client.post("/api/v1/jobs", json={"text": LONG}).json()["id"]
    while client.get(f"/api/v1/jobs/{job}").json()["share"] == 0.0:
        time.sleep(0.05)
    client.post(f"/api/v1/jobs/{job}/stop")
    assert ended(client, job)["state"] == "stopped"
    assert client.get("/api/v1/runs").json() == []
    assert not list(settings.folder.glob("runs/**/result.json"))


def test_refusals_have_one_form(client):
    for answer in (
        client.post("/api/v1/jobs", json={"text": 1, "extra": 2}),
        client.get("/api/v1/jobs/none"),
        client.get("/api/v1/nothing"),
        client.delete("/api/v1/jobs"),
        client.get("/api/v1/file?file=../x.yaml"),
    ):
        assert answer.status_code in {400, 404, 405, 422}
        assert set(answer.json()) == {"error", "faults"}
    faults = client.post("/api/v1/jobs", json={"text": 1, "extra": 2}).json()["faults"]
    assert {fault["key"] for fault in faults} == {"body.text", "body.extra"}


def test_templates_can_be_run(client):
    for template in client.get("/api/v1/templates").json():
        assert client.post("/api/v1/check", json={"text": template["text"]}).json()["faults"] == [], template["name"]


def test_work_without_a_closed_form_says_so(client):
    serving = next(row for row in client.get("/api/v1/templates").json() if row["name"] == "serving")
    found = client.post("/api/v1/estimate", json={"text": serving["text"]}).json()
    assert found["result"] is None
    assert "no closed form of `serving`" in found["faults"][0]["message"]


def test_what_takes_too_long_to_look_at_is_given_up(client, monkeypatch):
    looking = client.app.state.house.looking
    monkeypatch.setattr(looking, "settings", _quick(looking.settings))
    answer = client.post("/api/v1/check", json={"text": SMALL})
    assert answer.status_code == 422
    assert "run it" in answer.json()["error"]


def _quick(settings):
    from dataclasses import replace

    return replace(settings, limits=replace(settings.limits, preview_s=0.001))
