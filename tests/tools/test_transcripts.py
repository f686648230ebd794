"""`tools/transcripts`: what it tolerates and writes; commands and examples that are printed run in a fresh clone."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from railyard.face.cli import guard
from railyard.face.verb import verbs

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import transcripts  # noqa: E402

PAGES = [
    "README.md",
    "docs/tutorial/index.md",
    *(f"docs/how-to/{page.name}" for page in (ROOT / "docs/how-to").glob("*.md")),
]
NEEDS = re.compile(r"railyard (?:ui|serve-api|lab exec|watch --prometheus|.*examples/lab/|calibrate device --out)")
"""Commands that no clone alone can run: servers, root, a Prometheus, an accelerator."""


def runs(page, *, slow):
    """How many commands of a page run."""
    found = (block for block in transcripts.blocks((ROOT / page).read_text("utf-8")) if not isinstance(block, tuple))
    return sum(slow or block.mark != "slow" for block in found)


CASES = [
    pytest.param(page, slow, marks=pytest.mark.slow if slow else (), id=f"{page}-{'slow' if slow else 'quick'}")
    for page in sorted(PAGES)
    for slow in (False, True)
    if runs(page, slow=slow) > slow * runs(page, slow=False)
]


@pytest.mark.parametrize(
    ("expected", "found", "fits"),
    [
        ("step 8.63 s, 1,024 GPUs\n", "step   8.70 s,\n  1,030 GPUs", True),
        ("step 8.63 s", "step 8.93 s", False),
        ("lost 0.2 %", "lost 0.3 %", True),
        ("3 flows of 21", "4 flows of 21", False),
        ("8.63 s", "8.63 ms", False),
        ("a\n...\nd e\n...\ng", "a\nb\nc\nd e\nf\ng", True),
        ("a\n...\nd e\n...\ng", "a\nb\nd\nf\ng", False),
        ("a\n...\nc", "a", False),
        ("a ... a", "a", False),
        ("runs/first-...", "runs/first-e3133113/report.html", True),
        ("runs/first-e3133113", "runs/first-0a0a0a0a", True),
        ("├─ MLP ██████▌ 64.6 %", "├─ MLP ██████▎ 64.5 %", True),
    ],
)
def test_numbers_may_differ_a_little_and_words_may_not(expected, found, fits) -> None:
    assert transcripts.same(expected, found) is fits


@pytest.mark.parametrize(
    ("expected", "found", "new"),
    [
        ("old\n", "new\nlines\n", "new\nlines\n"),
        ("old\n...\n", "new\nmore\n", "new\n...\n"),
        ("a 1\n...\nd 1\ne 1\n...\ng 1\n", "a 2\nb\nc\nd 2\ne 2\nf\ng 2\n", "a 2\n...\nd 2\ne 2\n...\ng 2\n"),
        ("a\nruns/x-...\n", "a\nruns/x-12\n", "a\nruns/x-12\n"),
        ("...\nruns/x-...\n", "a\nruns/x-12\n", "...\nruns/x-...\n"),
    ],
)
def test_what_is_left_out_stays_left_out(expected, found, new) -> None:
    assert transcripts.written(expected, found) == new


@pytest.mark.parametrize(
    ("block", "ran", "wrong"),
    [
        ('```yaml title="a.txt"\nhello\n```\n\n```console\n$ cat a.txt\nhello\n```\n', 1, 0),
        ("```console\n$ echo one \\\n  two\none three\n$ true\n```\n", 2, 1),
        ("```console\n$ false\n```\n", 1, 1),
        ("<!-- fails -->\n```console\n$ echo no >&2; false\nno\n```\n", 1, 0),
        ("<!-- fails -->\n```console\n$ true\n```\n", 1, 1),
        ("<!-- slow -->\n```console\n$ false\n```\n", 0, 0),
    ],
)
def test_a_page_is_run_in_order(tmp_path, block, ran, wrong) -> None:
    (tmp_path / "page.md").write_text(block, encoding="utf-8")
    count, texts = transcripts.check(tmp_path / "page.md", tmp_path)
    assert (count, len(texts)) == (ran, wrong)


PLAIN = re.compile(r"railyard [^|;&<>$`*?#~(){}]*")
"""A command that no shell has to read."""
SHELL = transcripts.shell


def at_once(line, folder):
    """What a command prints, of railyard alone without a process of its own: this one has begun already."""
    if not PLAIN.fullmatch(line):
        return SHELL(line, folder)
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.chdir(folder)
        patch.setenv("COLUMNS", "100")
        patch.setenv("NO_COLOR", "1")
        code = guard.run(shlex.split(line.replace("\\\n", " "))[1:])
    return subprocess.CompletedProcess(line, code, out.getvalue(), err.getvalue())


@pytest.mark.parametrize(("page", "slow"), CASES)
def test_a_page_prints_what_is_printed_today(page, slow, tmp_path, monkeypatch) -> None:
    """The tutorial by a shell, as a reader does."""
    if page != "docs/tutorial/index.md":
        monkeypatch.setattr(transcripts, "shell", at_once)
    ran, wrong = transcripts.check(ROOT / page, transcripts.clone(tmp_path), slow=slow)
    assert ran == runs(page, slow=slow)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", sorted(PAGES))
def test_a_printed_command_runs_unless_a_clone_cannot(page) -> None:
    blocks = re.sub(r"^```console\n.*?^```$", "", (ROOT / page).read_text("utf-8"), flags=re.M | re.S)
    commands = re.findall(
        r"^(?: {4}|\$ )?(railyard [a-z][^\n]*)",
        "\n".join(re.findall(r"^(?:```(?:sh|bash|text)?\n.*?^```$| {4}railyard [^\n]*)", blocks, re.M | re.S)),
        re.M,
    )
    assert [command for command in commands if not NEEDS.match(command)] == []


ELSEWHERE = {"ui", "lab exec"}
"""Two serve until they are stopped, one needs root; tests of their own start them."""
SLOW = {
    "compare", "diagnose", "operate scenario", "tune", "calibrate serving", "calibrate device", "bring-up", "watch",
    "plan designs", "plan growth", "plan query", "plan serving", "plan worth",
}  # fmt: skip
EXAMPLES = {verb.name: verb.example for _, verb in verbs.shipped() if verb.name not in ELSEWHERE}
BEFORE = {
    "diff": "railyard run examples/first.yaml --set oversubscription=2:1 --out other",
    "diagnose": "railyard run examples/slow-nic.yaml",
    "watch": "railyard run examples/slow-nic.yaml",
    "plan query": "railyard plan examples/plan.yaml",
}
"""Commands whose runs an example reads."""


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    folder = transcripts.clone(tmp_path_factory.mktemp("clone"))
    succeeds("railyard run examples/first.yaml", folder)
    return folder


def succeeds(line, folder) -> None:
    done = at_once(line, folder)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in EXAMPLES]
)
def test_the_example_of_a_command_runs(name, clone) -> None:
    if name in BEFORE:
        succeeds(BEFORE[name], clone)
    succeeds(EXAMPLES[name], clone)


def test_examples_are_copied_once(tmp_path) -> None:
    succeeds("railyard examples --copy mine", tmp_path)
    assert (tmp_path / "mine" / "traces" / "incast.cm").is_file()
    again = at_once("railyard examples --copy mine", tmp_path)
    assert (again.returncode, again.stdout) == (2, "")
    assert "the folder exists already" in again.stderr
