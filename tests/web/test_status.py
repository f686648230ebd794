"""Where jobs stand, answered before any routing: the same as described, never stale, nobody else's."""

import json

import pytest

from railyard.face.web import status
from railyard.face.web.documents import Health, NewJob, QueuedJob
from railyard.face.web.journal import JobJournal
from railyard.face.web.status import Status

from .conftest import serving
from .test_guard import ANNA, BERT, bearer, digest


@pytest.fixture
def journal(tmp_path):
    journal = JobJournal(tmp_path / "journal.sqlite")
    yield journal
    journal.close()


def test_answers_have_the_published_form(client):
    client.app.state.house.journal.take = lambda: None
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
    monkeypatch.setattr(status, "_FRESH_S", 1e9)
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
    monkeypatch.setattr(status.time, "monotonic", lambda: now)
    first = here.health()
    now += 0.4
    assert here.health() is first
    now += 0.2
    assert here.health() is not first


def test_what_is_kept_has_an_end(journal, monkeypatch):
    monkeypatch.setattr(status, "_MOST", 3)
    here = Status(journal)
    for name in [journal.add("anna", NewJob(text="x")).id for _ in range(8)]:
        here.job("anna", name)
        assert len(here._kept) <= 3
