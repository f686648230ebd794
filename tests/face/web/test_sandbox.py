"""What a process that works for somebody may open and run; each in a process of its own, as hooks stay."""

import subprocess
import sys

import pytest

PROLOGUE = """
import sys
from pathlib import Path
from railyard.kit.errors import InputError
from railyard.face.web import dispatch
folder = Path(sys.argv[1])
dispatch.confine(folder)
"""


def confined(folder, code):
    return subprocess.run(
        [sys.executable, "-c", PROLOGUE + code, str(folder)], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "secret").write_text("token")
    return tmp_path / "mine"


@pytest.mark.parametrize(
    "code",
    [
        "open(folder.parent / 'secret')",
        "(folder.parent / 'secret').read_bytes()",
        "import os; os.open(folder / '../secret', os.O_RDONLY)",
        "(folder / 'link').symlink_to(folder.parent / 'secret'); open(folder / 'link')",
        "open('/etc/passwd')",
        "open('/usr/new', 'w')",
        "open(folder.parent / 'new', 'w')",
    ],
)
def test_files_outside_are_refused(folder, code):
    ended = confined(folder, code)
    assert "is outside of your folder" in ended.stderr, ended.stderr


def test_files_inside_are_read_and_written(folder):
    code = (
        "(folder / 'a').write_text('x'); import tempfile; tempfile.TemporaryFile(); print((folder / 'a').read_text())"
    )
    assert confined(folder, code).stdout == "x\n"


def test_modules_that_nobody_has_imported_yet_are_imported(folder, monkeypatch):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    code = "sys.pycache_prefix = sys.prefix + '/nothing'; import colorsys; print(colorsys.ONE_THIRD > 0)"
    assert confined(folder, code).stdout == "True\n"


def test_plugins_that_lie_elsewhere_are_loaded(folder, monkeypatch):
    (folder.parent / "plugin.py").write_text("print('loaded')")
    monkeypatch.setenv("RAILYARD_PLUGINS", str(folder.parent / "plugin.py"))
    assert confined(folder, "from railyard.cluster.fabric.fabric import fabrics; fabrics.items()").stdout == "loaded\n"


@pytest.mark.parametrize(
    "code",
    [
        "import runpy; runpy.run_path(str(folder / 'code.py'))",
        "from railyard.kit.registry import module_of; module_of(folder / 'code.py')",
        "sys.path.insert(0, str(folder)); import code_of_theirs",
        "import ctypes; ctypes.CDLL(str(folder / 'code.py'))",
    ],
)
def test_no_python_of_the_folder_runs(folder, code):
    for name in ("code.py", "code_of_theirs.py"):
        (folder / name).write_text("print('ran')")
    ended = confined(folder, code)
    assert "ran" not in ended.stdout
    assert "a server does not run" in ended.stderr, ended.stderr


POOL = """
from functools import partial
from railyard.work.study.tasks import Task
from railyard.work.study.workers import workers
if __name__ == "__main__":
    pool = workers(processes=1, begin=partial(dispatch.confine, folder))
    for name in ("a", "../secret"):
        (done,) = pool.run([Task("railyard.kit.files:read_text", folder / name)])
        print(name, done.value, done.error)
    pool.close()
"""


def test_processes_of_a_confined_one_are_confined(folder):
    (folder / "a").write_text("x")
    (folder.parent / "pool.py").write_text(PROLOGUE + POOL)
    command = [sys.executable, str(folder.parent / "pool.py"), str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    inside, outside = ended.stdout.splitlines()
    assert inside == "a x "
    assert "is outside of your folder" in outside


def test_a_folder_is_given_only_if_nothing_in_it_leads_out(folder):
    (folder / "dumps").mkdir()
    (folder / "dumps" / "rank-0").symlink_to(folder.parent / "secret")
    ended = confined(folder, "dispatch.refuse_outside(folder / 'dumps', folder)")
    assert "`rank-0` is outside of your folder" in ended.stderr


def test_memory_has_an_end():
    code = "from railyard.kit.files import limit_memory\nlimit_memory(1 << 30)\nbytearray(2 << 30)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "MemoryError" in ended.stderr
