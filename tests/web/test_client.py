"""The client of the API: as the published description has it, and against a server as users start it."""

from __future__ import annotations

from dataclasses import fields

import pytest
from tests.web.conftest import LONG, SMALL
from tests.web.server import running

from railyard.face.api.client import CALLS, ENDED, PREFIX, Client, Job, ServerError
from railyard.kit.errors import InputError


@pytest.fixture
def description(client):
    return client.get(f"{PREFIX}/openapi.json").json()


@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_published(description, call):
    method, path = CALLS[call]
    assert method.lower() in description["paths"][PREFIX + path]


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


def test_from_a_scenario_to_its_result_and_one_that_is_stopped(tmp_path):
    (tmp_path / "folder").mkdir()
    scenario = tmp_path / "small.yaml"
    scenario.write_text(SMALL, encoding="utf-8")
    with running(tmp_path / "folder") as server:
        client = Client(server.address)
        seen = list(client.follow(client.submit(scenario, engine="analytic").id))
        assert (seen[-1].state, seen[-1].share, seen[-1].file) == ("done", 1.0, "small.yaml")
        assert [job.change for job in seen] == sorted({job.change for job in seen})
        result = client.result(seen[-1])
        assert result.variants[0].step.seconds > 0
        assert client.runs()[0]["run"] == seen[-1].outcome.name
        kept = client.save(seen[-1], "scenario.yaml", tmp_path)
        assert kept.read_text().startswith("format: railyard/1")

        long = client.submit(LONG)
        assert client.stop(long.id).id == long.id
        assert list(client.follow(long.id))[-1].state == "stopped"
        assert {job.id for job in client.jobs()} == {seen[-1].id, long.id}

        wrong = client.submit(SMALL.replace("hgx-h100", "hgx-h1000"))
        with pytest.raises(InputError, match="did you mean `hgx-h100`") as caught:
            list(client.follow(wrong.id))
        assert caught.value.problems[0].line == 4
        with pytest.raises(ServerError, match="there is no job `none`") as refused:
            client.job("none")
        assert refused.value.status == 404
        with pytest.raises(ServerError, match="there is no file"):
            client.save(seen[-1].outcome.name, "../../etc/passwd", tmp_path)
    assert not (tmp_path / "passwd").exists()


def test_files_of_this_machine_are_given_to_a_verb(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "nodes.yaml").write_text(SMALL)
    (tmp_path / "jobs.csv").write_text("job,nodes\na,1\n")
    (tmp_path / "several").mkdir()
    for name in ("a.json", "b.json"):
        (tmp_path / "several" / name).write_text("{}")
    with running(tmp_path / "folder") as server:
        client = Client(server.address)
        assert {row["name"] for row in client.verbs()} >= {"run", "plan", "audit"}
        job = client.submit(verb="place", files={"jobs": tmp_path / "jobs.csv", "nodes": "nodes.yaml"})
        *_, last = client.follow(job.id)
        assert (last.verb, last.file, last.outcome.view) == ("place", "uploads/place-jobs.csv", "answer")
        assert client.result(last).jobs[0].nodes == ("node-0",)
        assert client.upload(tmp_path / "several") == "uploads/several"
        assert {path.name for path in (tmp_path / "folder/uploads/several").iterdir()} == {"a.json", "b.json"}
        with pytest.raises(InputError, match="takes a scenario"):
            client.submit(verb="plan")
        with pytest.raises(InputError, match="no result"):
            client.result(job)
