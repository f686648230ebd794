"""Registries find records in the files of a package, in installed packages and in the files of a user."""

import importlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from railyard.kit import registry
from railyard.kit.errors import InputError
from railyard.kit.registry import Registry


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of two files; each says on being imported that it was."""
    folder = tmp_path / f"seam_{tmp_path.name}"
    folder.mkdir()
    (folder / "__init__.py").write_text("imported = []\n")
    for number, name in enumerate(("first", "second_one")):
        word = name.replace("_", "-")
        text = f"from {folder.name} import imported\nimported.append('{name}')\nREGISTRY.add('{word}', {number})\n"
        (folder / f"{name}.py").write_text(f"from builtins import REGISTRY\n{text}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("builtins.REGISTRY", Registry("seam", package=folder.name), raising=False)
    return folder.name


def _imported(package):
    return sys.modules[package].imported


def test_a_file_called_as_the_record_is_imported_alone(package):
    assert REGISTRY.get("second-one") == 1  # noqa: F821 - the fixture's
    assert _imported(package) == ["second_one"]
    assert REGISTRY.names() == ["first", "second-one"]  # noqa: F821
    assert _imported(package) == ["second_one", "first"]


def test_what_is_not_there_is_refused_with_all_names(package):
    with pytest.raises(InputError, match="there is no seam `frist`") as caught:
        REGISTRY.get("frist")  # noqa: F821
    problem = caught.value.problems[0]
    assert problem.allowed == "first, second-one"
    assert "first" in problem.hint


def test_a_file_of_the_user_adds_a_record_and_is_run_once(tmp_path, monkeypatch, package):
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "_helper.py").write_text("raise RuntimeError\n")
    (folder / "third.py").write_text("from builtins import REGISTRY\nREGISTRY.add('third', 2)\n")
    monkeypatch.setenv(registry.VARIABLE, str(folder))
    assert [REGISTRY.get("third"), len(REGISTRY)] == [2, 3]  # noqa: F821
    assert "third" in REGISTRY  # noqa: F821


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("\nraise ValueError('no')\n", 2, "the file raises ValueError: no"),
        ("x = 1\ndef\n", 2, "the file is not Python: invalid syntax"),
        ("from builtins import REGISTRY\n\nREGISTRY.add('first', 0)\n", 3, "the seam `first` is registered twice"),
    ],
)
def test_an_error_in_a_file_of_the_user_names_file_and_line(tmp_path, monkeypatch, text, line, message):
    file = tmp_path / "broken.py"
    file.write_text(text)
    monkeypatch.setenv(registry.VARIABLE, str(file))
    for _ in range(2):
        with pytest.raises(InputError, match=message) as caught:
            REGISTRY.names()  # noqa: F821
        problem = caught.value.problems[0]
        assert [problem.file, problem.line] == [str(file), line]


def test_a_file_that_is_not_there_is_refused_by_the_command_line(tmp_path):
    environment = {registry.VARIABLE: str(tmp_path / "none.py"), "PATH": ""}
    command = [sys.executable, "-m", "railyard", "schema"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert "there is no such Python file" in done.stderr
    assert "none.py" in done.stderr


def test_a_thread_never_sees_half_of_a_package(tmp_path, monkeypatch):
    """Variants run in threads: one that looks up names while another imports the package's files waits for all."""
    package = tmp_path / "slow_parts"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from railyard.kit.registry import Registry\nparts = Registry('part', package=__name__)\n"
    )
    for name in ("one", "two", "three"):
        text = f"import time\nfrom slow_parts import parts\ntime.sleep(0.05)\nparts.add({name!r}, 1)\n"
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    parts = importlib.import_module("slow_parts").parts
    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(lambda _: parts.names(), range(4)))
    assert seen == [["one", "three", "two"]] * 4
