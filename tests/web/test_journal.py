"""Jobs over every kind of end."""

import pytest

from railyard.face.web.documents import NewJob, Outcome, TextFault
from railyard.face.web.journal import JobJournal


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
