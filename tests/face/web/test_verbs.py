"""Everything that can be asked for: described, checked before it waits, carried out, opened; and files to give it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from railyard.measure.result.answers import answer_from

from .conftest import LONG, SMALL, serving
from .server import until
from .test_api import ended
from .test_outputs import CABLED

DESIGNS = """\
name: which
cluster: {accelerators: 16, server: hgx-h100, back_end: {topology: leaf-spine, fabric: roce}}
workload:
  training: {model: llama-3-8b, tokens: 1 B, global_batch: 16, sequence: 2048, parallelism: {tp: 8, pp: 1, zero: 1}}
plan:
  space: {fabric: [roce, infiniband]}
  effort: {flow: 1, layouts: 0, draws: 100}
"""
EXAMPLES = Path(__file__).parents[3] / "examples" / "traces"
TUNED = SMALL + "tune: {space: {qps: [2, 4]}, seeds: 1, unseen_seeds: 2, unseen_loads: [0], unseen_jobs: 1}\n"


def faults(client, **body):
    answer = client.post("/api/v1/jobs", json=body)
    assert answer.status_code == 400, answer.text
    return [(fault["key"], fault["message"], fault["hint"]) for fault in answer.json()["faults"]]


def put(client, name, data=b"x"):
    return client.put("/api/v1/uploads", params={"file": name}, content=data)


def test_verbs_say_what_they_are_given(client):
    rows = {row["name"]: row for row in client.get("/api/v1/verbs").json()}
    assert list(rows) == [
        "run", "plan", "tune", "check", "diagnose", "audit", "operate", "deploy", "place", "scale", "calibrate",
    ]  # fmt: skip
    assert rows["run"]["scenario"]
    assert not rows["audit"]["scenario"]
    assert [(one["name"], one["needed"], one["takes"]) for one in rows["diagnose"]["inputs"]] == [
        ("path", True, "either"),
        ("cluster", False, "file"),
    ]
    assert [(one["name"], one["default"], one["allowed"]) for one in rows["scale"]["options"]] == [
        (name, "", []) for name in ("accelerators", "gradients", "world", "parallelism")
    ]
    (system,) = rows["deploy"]["options"]
    assert (system["default"], system["allowed"]) == ("sonic", ["frr", "sonic", "eos", "junos"])


def test_what_cannot_be_carried_out_never_waits(client, settings):
    (settings.folder / "there.txt").write_text("x")
    (settings.folder.parent / "secret.txt").write_text("x")
    (settings.folder / "link.txt").symlink_to(settings.folder.parent / "secret.txt")
    assert faults(client, verb="audti") == [(None, "there is no verb `audti`", "did you mean `audit`?")]
    assert faults(client, text=" ")[0][:2] == ("text", "`run` takes a scenario")
    assert faults(client, verb="audit")[0][1] == "`audit` reads something"
    for name in ("../secret.txt", "/etc/passwd", ".railyard/journal.sqlite", "link.txt", "none", "a\0b", ""):
        body = {"verb": "audit", "files": {"netbox": [name]}}
        found = client.post("/api/v1/jobs", json=body)
        assert found.status_code in {400, 422}, name
    assert faults(client, verb="diagnose", files={"cluster": ["there.txt"]})[0][:2] == (
        "files.path", "`diagnose` needs it",
    )  # fmt: skip
    wrong = {"verb": "audit", "text": "x", "engine": "flow", "vary": ["a=b"], "options": {"os": "frr"}}
    found = faults(client, **wrong, files={"lldp": ["there.txt"], "ldlp": [], "netbox": ["there.txt", "there.txt"]})
    assert found == [
        ("text", "`audit` takes no scenario", None),
        ("engine", "`audit` takes no engine", None),
        ("vary", "`audit` takes no vary", None),
        ("options", "`audit` knows no `os`", None),
        ("files", "`audit` knows no `ldlp`", "did you mean `lldp`?"),
        ("files.lldp", "this is a file, expected a folder", None),
        ("files.netbox", "one is taken", None),
    ]
    assert faults(client, verb="deploy", text=CABLED, options={"os": "sonik"}) == [
        ("options.os", "this is not a choice of `os`", "did you mean `sonic`?")
    ]
    given = {"path": ["there.txt"], "cluster": ["there.txt"]}
    assert faults(client, verb="scale", files=given, options={"accelerators": "many"}) == [
        ("options.accelerators", "this is not a whole number", None)
    ]
    assert client.get("/api/v1/jobs").json() == []


def test_uploads_appear_whole_below_their_folder(client, settings):
    row = put(client, "found.txt", b"first").json()
    assert (row["file"], row["bytes"]) == ("uploads/found.txt", 5)
    assert put(client, "found.txt", b"second").status_code == 200
    assert (settings.folder / "uploads" / "found.txt").read_bytes() == b"second"
    put(client, "dumps/rank-0.json", b"{}")
    listed = {row["file"]: row["folder"] for row in client.get("/api/v1/inputs").json()}
    assert listed == {"uploads/found.txt": False, "uploads/dumps": True, "uploads/dumps/rank-0.json": False}
    assert client.delete("/api/v1/uploads", params={"file": "found.txt"}).status_code == 204
    assert client.delete("/api/v1/uploads", params={"file": "found.txt"}).status_code == 404
    assert not list((settings.folder / "uploads").glob(".*"))


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/x",
        "a/b/c",
        ".hidden",
        "a/.hidden",
        "a\\b",
        "x" * 256,
        "a\nb",
        "code.py",
        "CODE.PY",
        "core.so",
        "do.sh",
    ],
)
def test_uploads_lead_nowhere_else_and_bring_no_code(client, settings, name):
    assert put(client, name).status_code == 400
    assert not [path for path in settings.folder.parent.rglob("*") if path.name in {Path(name).name, "x"}]


def test_uploads_do_not_follow_links_out(client, settings):
    (settings.folder / "uploads").mkdir()
    (settings.folder / "uploads" / "out").symlink_to(settings.folder.parent)
    assert put(client, "out/x").status_code == 400
    assert not (settings.folder.parent / "x").exists()


def test_uploads_have_limits(settings):
    limits = replace(settings.limits, upload_bytes=1000, uploads=2, body_bytes=100)
    with serving(replace(settings, limits=limits)) as client:
        assert put(client, "a", b"x" * 1001).status_code == 413

        def pieces():
            for _ in range(40):
                yield b"x" * 100

        assert put(client, "a", pieces()).status_code == 413, "one without a length too"
        assert not list((settings.folder / "uploads").iterdir())
        assert [put(client, name, b"x" * 900).status_code for name in "abc"] == [200, 200, 413]
        assert client.post("/api/v1/check", content=b"x" * 200).status_code == 413, "other requests stay small"


def test_every_verb_gives_what_its_view_opens(settings):
    """All at once, as each has its process."""
    with serving(replace(settings, limits=replace(settings.limits, runs=4))) as client:
        (settings.folder / "cabled.yaml").write_text(CABLED)
        put(client, "trace.json.gz", (EXAMPLES / "resnet-ddp.json.gz").read_bytes())
        put(client, "target.txt", (EXAMPLES / "scale.yaml").read_bytes())
        put(client, "jobs.csv", b"job,nodes\nfirst,4\nsecond,3\nthird,2\n")
        run = ended(client, client.post("/api/v1/jobs", json={"text": SMALL}).json()["id"])["outcome"]["name"]
        asked = {
            "plan": {"text": DESIGNS},
            "tune": {"text": TUNED},
            "check": {"text": SMALL + "check: [step < 1 h, step < 1 us]\n"},
            "deploy": {"text": CABLED, "options": {"os": "frr"}},
            "place": {
                "files": {"jobs": ["uploads/jobs.csv"], "nodes": ["cabled.yaml"]},
                "options": {"policy": "worst"},
            },
            "diagnose": {"files": {"path": [f"runs/{run}"]}},
            "scale": {
                "files": {"path": ["uploads/trace.json.gz"], "cluster": ["uploads/target.txt"]},
                "options": {"accelerators": "64", "world": ""}, "engine": "analytic",
            },
            "operate": {"text": SMALL},
        }  # fmt: skip
        jobs = {verb: client.post("/api/v1/jobs", json={"verb": verb, **body}).json() for verb, body in asked.items()}
        done = {verb: ended(client, job["id"]) for verb, job in jobs.items()}
        assert done["operate"]["faults"][0]["message"] == "the scenario has no `workload.operate`"
        assert done.pop("operate")["state"] == "failed"
        assert [(verb, row["faults"]) for verb, row in done.items() if row["state"] != "done"] == []
        page = client.get("/api/v1/page", params={"file": done.pop("deploy")["outcome"]["name"]})
        assert "cabled: plan" in page.text
        answers = {
            verb: answer_from(client.get(f"/api/v1/answers/{row['outcome']['name']}").content)
            for verb, row in done.items()
        }
        assert answers["plan"].looked_at["designs"] == 2
        assert answers["tune"].engine == "flow"
        assert [(row.assertion, row.holds) for row in answers["check"].checks] == [
            ("step < 1 h", True), ("step < 1 us", False),
        ]  # fmt: skip
        assert answers["place"].rule == "worst"
        assert [(row.job, row.wanted, len(row.nodes)) for row in answers["place"].jobs] == [
            ("first", 4, 4), ("second", 3, 3), ("third", 2, 0),
        ]  # fmt: skip
        assert answers["place"].idle == 1
        assert done["place"]["file"] == "uploads/jobs.csv"
        assert answers["diagnose"].name == run
        assert (answers["scale"].accelerators, answers["scale"].engine) == (64, "analytic")
        kinds = {row["kind"] for row in client.get("/api/v1/answers").json()}
        assert kinds == {"plan", "tune", "check", "placement", "diagnosis", "scale"}


def test_a_worker_that_is_told_to_end_is_begun_again(client):
    job = client.post("/api/v1/jobs", json={"text": LONG}).json()["id"]
    while client.get(f"/api/v1/jobs/{job}").json()["share"] == 0.0:
        time.sleep(0.05)
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=False
    ).stdout
    (worker,) = [int(line.split()[0]) for line in listed.splitlines() if "railyard.face.web.worker" in line]
    begun = client.get(f"/api/v1/jobs/{job}").json()["started"]
    os.kill(worker, signal.SIGTERM)
    until(lambda: client.get(f"/api/v1/jobs/{job}").json()["started"] not in {None, begun})
    row = client.get(f"/api/v1/jobs/{job}").json()
    assert (row["state"], row["outcome"]) == ("running", None)
    client.post(f"/api/v1/jobs/{job}/stop")
    assert ended(client, job)["state"] == "stopped"


def test_measured_steps_calibrate_later_runs_which_say_so(settings):
    with serving(settings) as client:
        _calibrate(client)


def _calibrate(client):
    put(client, "steps.csv", (EXAMPLES.parent / "measured" / "steps.csv").read_bytes())
    before = step_of(client)
    asked = {"verb": "calibrate", "files": {"table": ["uploads/steps.csv"]}}
    answer = ended(client, client.post("/api/v1/jobs", json=asked).json()["id"])["outcome"]["name"]
    assert client.get(f"/api/v1/answers/{answer}/decision").json()["verdict"].startswith("Your constants change")
    after = step_of(client)
    (unknown,) = before["warnings"]
    assert unknown.startswith("the software is not known")
    assert unknown not in after["warnings"]
    assert after["warnings"][0].startswith("calibrated with steps.csv (")
    assert after["warnings"][0].endswith("), 3 rows")
    assert after["step"]["seconds"] != before["step"]["seconds"]
    assert client.delete("/api/v1/uploads", params={"file": "calibration/training.toml"}).status_code == 204
    assert step_of(client)["step"]["seconds"] == before["step"]["seconds"]


def step_of(client):
    return client.post("/api/v1/estimate", json={"text": SMALL}).json()["result"]["variants"][0]
