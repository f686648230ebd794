"""Server and workers killed at any moment: no run is lost, none is half-shown."""

import json
import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from .conftest import LONG, SMALL
from .server import running, until

MOMENTS = 1


def children_of(server):
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(server.process.pid)], capture_output=True, text=True, check=False
    ).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "railyard.face.web.worker" in line]


def end(process):
    with suppress(ProcessLookupError):  # its work may be done by now
        os.kill(process, signal.SIGKILL)


def is_over(process):
    """Whether a process has ended, though perhaps nobody has asked how."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_for_ends(server, names):
    for _ in range(1200 * len(names)):
        found = {row["id"]: row for row in server.ask("GET", "/jobs")}
        if all(found[name]["state"] in {"done", "failed", "stopped"} for name in names):
            return [found[name] for name in names]
        time.sleep(0.1)
    raise AssertionError(found)


def named(ends):
    return sorted(row["outcome"]["name"] for row in ends)


def test_runs_outlive_kills_of_the_server_and_of_their_processes(tmp_path):
    draw = random.Random(7)
    with running(tmp_path) as server:
        texts = [SMALL.replace("name: small", f"name: small-{number}\nseed: {number}") for number in range(2)]
        names = [server.ask("POST", "/jobs", {"text": text})["id"] for text in texts]
        for _ in range(MOMENTS):
            time.sleep(draw.uniform(0.2, 1.5))
            server.kill()
            for row in tmp_path.glob("runs/*/result.json"):
                assert row.stat().st_size > 0
            server.start()
        for worker in children_of(server)[:1]:
            end(worker)
        ends = wait_for_ends(server, names)
        assert [row["state"] for row in ends] == ["done", "done"]
        assert sorted(row["run"] for row in server.ask("GET", "/runs")) == named(ends)


@pytest.mark.slow
def test_fifty_kills_at_random_lose_no_run_and_show_none_by_halves(tmp_path):
    """The server, or the process of a run, with runs asked for in between."""
    draw, names, killed = random.Random(50), [], {"server": 0, "worker": 0}
    with running(tmp_path) as server:
        for moment in range(50):
            if moment % 3 == 0:
                text = SMALL.replace("name: small", f"name: small-{moment}\nseed: {moment}")
                names.append(server.ask("POST", "/jobs", {"text": text})["id"])
            time.sleep(draw.uniform(0.0, 2.0))
            alive = children_of(server) if moment % 5 == 4 else []
            if alive:
                end(alive[0])
            else:
                server.kill()
                server.start()
            killed["worker" if alive else "server"] += 1
            for file in tmp_path.glob("runs/*/result.json"):
                json.loads(file.read_text(encoding="utf-8"))
            for row in server.ask("GET", "/runs"):
                assert server.ask("GET", f"/runs/{row['run']}/result")["name"] == row["name"]
        ends = wait_for_ends(server, names)
        assert [row["state"] for row in ends] == ["done"] * len(names), killed
        assert sorted(row["run"] for row in server.ask("GET", "/runs")) == named(ends)


@pytest.mark.parametrize("begun", [False, True], ids=["starting", "at-work"])
def test_a_worker_ends_with_its_server(tmp_path, begun):
    """One that has only been started too: it asks to be ended with a server that is gone already."""
    with running(tmp_path) as server:
        job = server.ask("POST", "/jobs", {"text": LONG})["id"]
        alive = until(lambda: children_of(server))
        if begun:
            until(lambda: server.ask("GET", f"/jobs/{job}")["share"] > 0)
        server.kill()
        until(lambda: is_over(alive[0]))
        server.start()
        name = server.ask("GET", "/jobs")[0]["id"]
        server.ask("POST", f"/jobs/{name}/stop")
        assert wait_for_ends(server, [name])[0]["state"] == "stopped"
