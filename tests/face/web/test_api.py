"""From a draft to a run, over the API, with the processes that do the work."""

import json
import time

import numpy as np
import polars as pl
import pytest

from railyard.face import api
from railyard.face.web.documents import Health, NewJob, Outcome, QueuedJob, TextFault
from railyard.face.web.journal import JobJournal, Status

from .conftest import LONG, SMALL, serving
from .test_shelf import ANNA, BERT, bearer, digest
from .test_views import opened

WRONG = SMALL.replace("accelerators: 16", "acelerators: 16").replace("llama-3-8b", "llama-3-8x")


def ended(client, job, seconds=300.0):
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        found = client.get(f"/api/v1/jobs/{job}").json()
        if found["state"] in {"done", "failed", "stopped"}:
            return found
        time.sleep(0.1)
    raise AssertionError(f"the job is still {found}")


def test_faults_stand_at_their_lines(house):
    found = house.post("/api/v1/check", json={"text": WRONG}).json()
    by_key = {fault["key"]: fault for fault in found["faults"]}
    assert by_key["cluster.acelerators"]["line"] == 3
    assert by_key["cluster.acelerators"]["hint"] == "did you mean `accelerators`?"
    assert house.post("/api/v1/check", json={"text": SMALL}).json() == {
        "faults": [], "name": "small", "kind": "training", "engine": "flow",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "[", "a: &x [*x]", "\x00", "- 1", "name: [" * 3000])
def test_what_is_no_scenario_is_said_to_be_none(house, text):
    answer = house.post("/api/v1/check", json={"text": text})
    assert answer.status_code == 200
    assert answer.json()["faults"]


def test_files_outside_are_not_read(house, folder):
    outside = folder.parent / "config.json"
    outside.write_text("{}")
    for name in ("../config.json", str(outside)):
        text = SMALL.replace("llama-3-8b", name)
        faults = house.post("/api/v1/check", json={"text": text}).json()["faults"]
        assert "outside of your folder" in faults[0]["message"]
        job = house.post("/api/v1/jobs", json={"text": text}).json()["id"]
        assert "outside of your folder" in ended(house, job)["faults"][0]["message"]


def test_a_rough_answer_is_near_the_run_of_the_same_text(house):
    rough = house.post("/api/v1/estimate", json={"text": SMALL}).json()["result"]["variants"][0]
    job = house.post("/api/v1/jobs", json={"text": SMALL, "file": "mine/small.yaml"}).json()["id"]
    done = ended(house, job)
    assert done["state"] == "done"
    run = house.get(f"/api/v1/runs/{done['outcome']['name']}/result").json()["variants"][0]
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


def test_refusals_have_one_form(house):
    for answer in (
        house.post("/api/v1/jobs", json={"text": 1, "extra": 2}),
        house.get("/api/v1/jobs/none"),
        house.get("/api/v1/nothing"),
        house.delete("/api/v1/jobs"),
        house.get("/api/v1/file?file=../x.yaml"),
    ):
        assert answer.status_code in {400, 404, 405, 422}
        assert set(answer.json()) == {"error", "faults"}
    faults = house.post("/api/v1/jobs", json={"text": 1, "extra": 2}).json()["faults"]
    assert {fault["key"] for fault in faults} == {"body.text", "body.extra"}


def test_templates_can_be_run(house):
    for template in house.get("/api/v1/templates").json():
        assert house.post("/api/v1/check", json={"text": template["text"]}).json()["faults"] == [], template["name"]


def test_a_service_has_a_rough_answer(house):
    serving = next(row for row in house.get("/api/v1/templates").json() if row["name"] == "serving")
    found = house.post("/api/v1/estimate", json={"text": serving["text"]}).json()
    assert (found["faults"], found["result"]) == ([], None)
    figures = {row["name"]: row for row in found["figures"]}
    assert figures["TTFT, p50"]["value"].endswith(" ms")
    assert figures["SLO attainment"]["band"].startswith("target ")
    assert figures["Capital"]["value"].startswith("$")


def test_work_without_a_closed_form_says_so(house):
    text = "cluster: {accelerators: 8}\nworkload: {jobs: [{name: a, training: {model: llama-3-8b}}]}\n"
    found = house.post("/api/v1/estimate", json={"text": text}).json()
    assert (found["result"], found["figures"]) == (None, [])
    assert found["faults"]


def test_what_takes_too_long_to_look_at_is_given_up(client, monkeypatch):
    looking = client.app.state.server.looking
    monkeypatch.setattr(looking, "settings", _quick(looking.settings))
    answer = client.post("/api/v1/check", json={"text": SMALL})
    assert answer.status_code == 422
    assert "run it" in answer.json()["error"]


def _quick(settings):
    from dataclasses import replace

    return replace(settings, limits=replace(settings.limits, preview_s=0.001))


# Requests of a serving run: counts that add up, distributions, rows in three orders.

SERVED = """\
name: served
cluster: {accelerators: 16, server: hgx-h100, back_end: {topology: leaf-spine, fabric: roce}}
workload:
  serving:
    model: llama-3-8b
    requests: {synthetic: {rate: 24, count: 160, input: 2000, output: 60}}
    pools: {prefill: {replicas: 1, tp: 1}, decode: {replicas: 1, tp: 1}}
    slo: {ttft: 1 s, tpot: 50 ms}
"""


@pytest.fixture
def run(folder):
    (folder / "served.yaml").write_text(SERVED)
    return api.run(folder / "served.yaml", out=folder / "runs")


def test_requests_over_time_and_one_by_one(house, run):
    base = f"/api/v1/runs/{run.folder.name}/requests"
    table = pl.read_parquet(run.folder / "requests.parquet").filter(pl.col("status") == 0)
    head, found = opened(house.get(base).content)
    assert head["requests"] == len(table)
    waits, reads, answers = found["count"].reshape(3, -1)
    assert waits[-1] == reads[-1] == answers[-1] == 0
    # Little: the mean number in the system is the arrivals' rate times the mean stay.
    mean = (waits + reads + answers).mean()
    assert mean == pytest.approx(table["e2e_s"].sum() / head["end_s"], rel=0.05)
    for name in ("ttft", "tpot", "e2e"):
        assert (np.diff(found[name]) >= 0).all()
        values = table[f"{name}_s"].drop_nans().drop_nulls()
        assert found[name][100] == pytest.approx(values.median(), rel=1e-5)
    about, rows = opened(house.get(f"{base}/rows?order=ttft&count=5").content)
    assert about["count"] == 5
    assert rows["ttft_s"] == pytest.approx(np.sort(table["ttft_s"].to_numpy())[::-1][:5], rel=1e-5)
    parts = sum(rows[name] for name in ("queue_s", "compute_s", "collectives_s", "transfer_s"))
    assert parts == pytest.approx(rows["ttft_s"], rel=1e-4)
    _, second = opened(house.get(f"{base}/rows?first=3&count=2").content)
    assert second["row"].tolist() == [3, 4]
    assert house.get(f"{base}/rows?order=tpot").status_code == 422
    assert house.get(f"{base}?variant=3").status_code == 404


# Jobs over every kind of end.


@pytest.fixture
def journal(tmp_path):
    journal = JobJournal(tmp_path / "journal.sqlite")
    yield journal
    journal.close()


def test_jobs_run_in_the_order_in_which_they_came(journal):
    names = [journal.add("anna", NewJob(text=str(number))).id for number in range(3)]
    assert [journal.take().id for _ in names] == names
    assert journal.take() is None


def test_what_was_asked_comes_out_again(journal):
    asked = NewJob(text="name: x", file="a/b.yaml", engine="packet", vary=["fabric=roce,uec"])
    journal.add("anna", asked)
    taken = journal.take()
    assert (taken.owner, taken.request) == ("anna", asked)


def test_a_job_that_ended_stays_as_it_ended(journal):
    job = journal.add("anna", NewJob(text="x"))
    journal.take()
    journal.progress(job.id, "simulating", 0.5)
    journal.end(job.id, "done", outcome=Outcome(view="run", name="x-1"))
    journal.progress(job.id, "late words of its process", 0.7)
    journal.end(job.id, "failed", faults=[TextFault(message="late")])
    found = journal.job("anna", job.id)
    assert (found.state, found.outcome.name, found.share) == ("done", "x-1", 1.0)
    assert (found.stage, found.faults) == ("simulating", [])


def test_a_job_that_waits_stops_at_once_and_one_that_runs_is_marked(journal):
    first, second = (journal.add("anna", NewJob(text="x")) for _ in range(2))
    journal.take()
    assert journal.stop("anna", second.id).state == "stopped"
    assert journal.stop("anna", first.id).state == "running"
    assert journal.stopping() == {first.id}
    assert journal.take() is None


def test_jobs_of_a_killed_server_are_begun_again(tmp_path):
    before = JobJournal(tmp_path / "journal.sqlite")
    running, stopped, waiting = (before.add("anna", NewJob(text="x")) for _ in range(3))
    before.take()
    before.take()
    before.stop("anna", stopped.id)
    before.close()
    after = JobJournal(tmp_path / "journal.sqlite")
    assert after.resume() == 2
    assert after.job("anna", stopped.id).state == "stopped"
    assert [after.take().id, after.take().id] == [running.id, waiting.id]
    after.close()


def test_a_killed_process_gets_a_second_chance_and_no_third(journal):
    job = journal.add("anna", NewJob(text="x"))
    journal.take()
    journal.killed(job.id, "killed twice")
    assert journal.job("anna", job.id).state == "queued"
    journal.take()
    journal.killed(job.id, "killed twice")
    found = journal.job("anna", job.id)
    assert (found.state, found.faults) == ("failed", [TextFault(message="killed twice")])


def test_changes_are_counted_so_that_nobody_misses_one(journal):
    job = journal.add("anna", NewJob(text="x"))
    journal.add("bert", NewJob(text="x"))
    seen = journal.last_change()
    assert journal.jobs("anna", since=seen) == []
    journal.take()
    assert [found.id for found in journal.jobs("anna", since=seen)] == [job.id]
    assert journal.jobs("bert", since=seen) == []


def test_time_to_go_follows_the_share(journal, monkeypatch):
    job = journal.add("anna", NewJob(text="x"))
    journal.take()
    begun = journal.job("anna", job.id).started
    journal.progress(job.id, "simulating", 0.25)
    monkeypatch.setattr("railyard.face.web.journal.time.time", lambda: begun + 10.0)
    assert journal.job("anna", job.id).eta_s == pytest.approx(30.0)


def test_sessions_end(journal):
    tokens = {"anna": "1" * 64, "bert": "2" * 64}
    journal.open_session("secret", "anna", tokens["anna"], until=4e9)
    journal.open_session("old", "bert", tokens["bert"], until=1.0)
    assert journal.owner_of("secret", tokens) == "anna"
    assert journal.owner_of("secret", {**tokens, "anna": tokens["bert"]}) is None
    assert journal.owner_of("old", tokens) is None
    journal.close_session("secret")
    assert journal.owner_of("secret", tokens) is None


# Where jobs stand, answered before any routing: the same as described, never stale, nobody else's.


def test_answers_have_the_published_form(client):
    client.app.state.server.journal.take = lambda: None
    job = client.post("/api/v1/jobs", json={"text": "name: x"}).json()
    found = client.get(f"/api/v1/jobs/{job['id']}")
    assert QueuedJob.model_validate_json(found.content).model_dump() == job
    assert found.headers["content-type"] == "application/json"
    assert "default-src 'self'" in found.headers["content-security-policy"]
    assert Health.model_validate_json(client.get("/api/v1/health").content).queued == 1
    for name in ("none", "a%2Fb", f"{job['id']}x"):
        assert client.get(f"/api/v1/jobs/{name}").status_code == 404
    assert client.head("/api/v1/health").status_code == 405


def test_a_job_is_answered_to_its_owner_alone(settings):
    from dataclasses import replace

    with serving(replace(settings, people={"anna": digest(ANNA), "bert": digest(BERT)})) as client:
        job = client.post("/api/v1/jobs", json={"text": "name: x"}, headers=bearer(ANNA)).json()["id"]
        assert client.get(f"/api/v1/jobs/{job}", headers=bearer(ANNA)).status_code == 200
        assert client.get(f"/api/v1/jobs/{job}", headers=bearer(BERT)).status_code == 404
        assert client.get(f"/api/v1/jobs/{job}").status_code == 401


def test_every_change_is_seen_at_once_whoever_makes_it(journal, tmp_path, monkeypatch):
    monkeypatch.setattr("railyard.face.web.journal._FRESH_S", 1e9)
    here, other = Status(journal), JobJournal(tmp_path / "journal.sqlite")
    job = journal.add("anna", NewJob(text="x")).id

    def seen():
        return json.loads(here.job("anna", job))["state"], json.loads(here.health())["running"]

    assert seen() == ("queued", 0)
    other.take()
    assert seen() == ("running", 1)
    assert here.job("anna", job) is here.job("anna", job), "made once for each change"
    journal.progress(job, "simulating", 0.5)
    assert json.loads(here.job("anna", job))["share"] == 0.5
    other.end(job, "done")
    assert seen() == ("done", 0)
    other.close()


def test_the_time_to_go_is_not_sent_for_ever(journal, monkeypatch):
    here, now = Status(journal), 100.0
    monkeypatch.setattr("railyard.face.web.journal.time.monotonic", lambda: now)
    first = here.health()
    now += 0.4
    assert here.health() is first
    now += 0.2
    assert here.health() is not first


def test_what_is_kept_has_an_end(journal, monkeypatch):
    monkeypatch.setattr("railyard.face.web.journal._MOST", 3)
    here = Status(journal)
    for name in [journal.add("anna", NewJob(text="x")).id for _ in range(8)]:
        here.job("anna", name)
        assert len(here._kept) <= 3
