"""A machine that gives out: no memory, no disk, no stdout, a stdout of few letters, code that never ends.

Each ends with one message, the exit code of its kind, and no file that is half there.
"""

from __future__ import annotations

import io
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from railyard.face.cli import guard
from railyard.face.verbs import init

CONTROLS = """\
from railyard.engine import packet

@packet.control
class Endless:
    def on_open(flow, now_ps, network):
        turn = 1
        while turn > 0:
            turn = turn + 2 if turn < 100 else 1

@packet.control
class Zero:
    state = {"none": 0}

    def on_open(flow, now_ps, network):
        flow.rate_bps = min(network.rate_bps, network.rate_bps / flow.none)
"""


@pytest.fixture
def small(tmp_path):
    """A run of under a second: its arguments but for `--out`."""
    (tmp_path / "flows.csv").write_text("source,target,size_bytes\n1,0,10000\n2,0,10000\n", encoding="utf-8")
    return ["packet", "--traffic", str(tmp_path / "flows.csv"), "--fabric", "roce", "--set", "hosts=16", "--quiet"]


def bounded(kind, bound, *arguments, env=None):
    """The command in a process whose `kind` of resource is bounded."""
    return subprocess.run(
        [sys.executable, "-m", "railyard", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(env or {})},
        preexec_fn=lambda: None if kind is None else resource.setrlimit(kind, (bound, bound)),
    )


def left(folder: Path) -> list[str]:
    """Files below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_too_little_memory_to_begin_with_is_refused(small, tmp_path):
    ended = bounded(resource.RLIMIT_AS, 1_000_000_000, *small, "--out", tmp_path / "runs")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: ulimit -v: this process may have too little memory")
    assert "found: 1.00 GB" in ended.stderr
    assert not (tmp_path / "runs").exists()


def test_memory_that_runs_out_is_one_message_and_code_1():
    code = (
        "import sys; from railyard.face.cli import guard; from railyard.face.verbs import init; "
        "init.template = lambda: bytearray(1 << 40); sys.exit(guard.run(['init']))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)),
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("error: out of memory\n\nhint: ")


def test_a_library_that_aborts_for_want_of_memory_ends_alike():
    code = (
        "import os, sys; from railyard.face.cli import guard; from railyard.face.verbs import init; "
        "init.template = lambda: os.abort(); sys.exit(guard.run(['init']))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)),
    )
    assert ended.returncode == 1
    assert "error: out of memory\n\nhint: " in ended.stderr


@pytest.mark.parametrize("most_kib", [2, 40, 125])
def test_a_disk_that_fills_up_leaves_nothing(small, tmp_path, most_kib):
    """Bounds at which a table, the report and the result are cut off."""
    ended = bounded(resource.RLIMIT_FSIZE, most_kib << 10, *small, "--out", tmp_path / "runs")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("error: the output cannot be written: ")
    assert "Traceback" not in ended.stderr
    assert left(tmp_path) == ["flows.csv"]


def test_a_full_disk_keeps_the_run_that_was_there(small, tmp_path):
    runs = tmp_path / "runs"
    assert guard.run([*small, "--out", str(runs)]) == 0
    before = left(runs)
    ended = bounded(resource.RLIMIT_FSIZE, 40 << 10, *small, "--out", runs)
    assert ended.returncode == 1
    assert left(runs) == before
    assert "report.html" in "".join(before)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_stdout_of_few_letters_gets_letters_that_it_has(encoding):
    code = "import sys; from railyard.face.cli.guard import letters; letters(sys.stdout); "
    code += "print('└─ ███▌ 3 µs × ± … \u4e00')"
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, check=False)
    micro, times, either = ("u", "x", "+-") if encoding == "ascii" else ("µ", "×", "±")
    wanted = f"`- #### 3 {micro}s {times} {either} ... \\u4e00\n"
    assert (ended.returncode, ended.stdout.decode(encoding), ended.stderr) == (0, wanted, b"")


def test_the_command_line_asks_for_such_letters(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(init, "template", lambda: "└─ whole tree")
    assert guard.run(["init"]) == 0
    assert stream.buffer.getvalue() == b"`- whole tree\n"


def test_a_rerun_leaves_files_of_others_and_refuses_to_write_over_their_changes(small, tmp_path, capsys):
    runs, command = tmp_path / "runs", [*small, "--out", str(tmp_path / "runs")]
    assert guard.run(command) == 0
    (folder,) = [path for path in runs.iterdir() if path.is_dir()]
    (folder / "notes").mkdir()
    (folder / "notes" / "mine.md").write_text("why", encoding="utf-8")
    (folder / "latest").symlink_to("report.html")
    (folder / "report.html").unlink()
    assert guard.run(command) == 0
    assert (folder / "notes" / "mine.md").read_text(encoding="utf-8") == "why"
    assert (folder / "latest").is_symlink()
    assert (folder / "report.html").is_file()
    text = (folder / "fct.csv").read_text(encoding="utf-8")
    (folder / "fct.csv").write_text(text + "mine\n", encoding="utf-8")
    capsys.readouterr()
    assert guard.run(command) == 2
    assert "fct.csv" in capsys.readouterr().err
    assert (folder / "fct.csv").read_text(encoding="utf-8").endswith("mine\n")


def test_a_file_or_folder_of_somebody_in_the_place_of_a_run_is_left_alone(small, tmp_path, capsys):
    runs, command = tmp_path / "runs", [*small, "--out", str(tmp_path / "runs")]
    assert guard.run(command) == 0
    (folder,) = [path for path in runs.iterdir() if path.is_dir()]
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (folder / "result.json").write_text("mine", encoding="utf-8")
    assert guard.run(command) == 2
    assert "Railyard did not write this folder" in capsys.readouterr().err
    (folder / "result.json").unlink()
    folder.rmdir()
    folder.write_text("mine", encoding="utf-8")
    assert guard.run(command) == 2
    assert folder.read_text(encoding="utf-8") == "mine"


def test_a_plan_is_not_written_into_a_folder(tmp_path, capsys):
    folder = tmp_path / "taken"
    folder.mkdir()
    example = Path(__file__).parents[3] / "examples" / "serving" / "plan.yaml"
    assert guard.run(["plan", "serving", str(example), "--write", str(folder)]) == 2
    assert "this is a folder, expected a file" in capsys.readouterr().err


@pytest.fixture
def incast(small, tmp_path):
    (tmp_path / "controls.py").write_text(CONTROLS, encoding="utf-8")
    return lambda name: [*small, "--trust", "--set", f"congestion_control=user:{tmp_path / 'controls.py'}:{name}"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_control_that_divides_by_zero_is_named(incast, capsys):
    pytest.importorskip("numba")
    assert guard.run(incast("Zero")) == 2
    assert "the user's on_open raised an error" in capsys.readouterr().err


def test_a_control_in_an_endless_loop_hears_ctrl_c(incast, tmp_path):
    pytest.importorskip("numba")
    command = [sys.executable, "-m", "railyard", *incast("Endless"), "--out", str(tmp_path / "runs")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and _cpu_s(process.pid) < 3.0:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "stopped by Ctrl-C\n")
    assert left(tmp_path / "runs") == []


def _cpu_s(pid: int) -> float:
    """What a process has used of a processor: one in a loop goes on using it."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
