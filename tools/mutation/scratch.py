"""A copy of the tree in which faults are tried: nothing is ever changed in the working tree."""

from __future__ import annotations

import importlib.util
import os
import select
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mutation.forked import forked, import_common

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mutation.fault import Fault

_HANGS_S = 120.0
_FIRST_FILES = 3
_PYTEST = ("-vv", "-m", "not slow", "--tb=line")
_PYTEST += tuple(f"-p{name}" for name in ("no:cacheprovider", "no:randomly", "no:xdist", "mutation_profile"))
# The editable install would lead to the working tree; and examples that Hypothesis shrinks or keeps cost time.
_SITE = {
    "sitecustomize.py": "import os, sys\n"
    "if 'COVERAGE_PROCESS_START' in os.environ:\n    import coverage\n    coverage.process_startup()\n"
    "sys.meta_path[:] = [one for one in sys.meta_path if 'ScikitBuild' not in repr(one)]\n",
    "mutation_profile.py": "import os\nfrom hypothesis import Phase, settings\n"
    "settings.register_profile('mutation', phases=[Phase.explicit, Phase.generate], database=None, deadline=None,"
    " derandomize=True)\nsettings.load_profile('mutation')\n"
    "def pytest_runtest_logreport(report):\n    with open(os.environ['MUTATION_TIMES'], 'a') as out:\n"
    "        out.write(f'{report.nodeid} {report.when}\\t{report.duration}\\n')\n"
    "def pytest_runtest_logstart(nodeid):\n    file = nodeid.split('::')[0]\n"
    "    if 'COVERAGE_PROCESS_START' in os.environ and os.environ.get('TRACED_FILE') != file:\n"
    "        import coverage\n"
    "        os.environ['TRACED_FILE'] = file\n"
    "        coverage.Coverage.current().switch_context(file)\n",
}


@dataclass(frozen=True)
class Outcome:
    """How tests ended.

    Attributes:
        noticed: A test failed, or hung.
        by: The test, with the error; or why there is none.
        seconds: Spent.
    """

    noticed: bool
    by: str
    seconds: float


class Scratch:
    """The copy, with what runs in it."""

    def __init__(self, source: Path, home: Path) -> None:
        self.source, self.home, self.root = source, home, home / "tree"
        self.build = home / "build"
        import_common()

    def refresh(self) -> None:
        """Brings the copy up to the working tree: tracked and new files, and the core that is installed."""
        listed = _output(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], self.source)
        wanted = dict.fromkeys(name for name in listed.split("\0") if name and (self.source / name).is_file())
        for old in self.root.glob("**/*"):
            if old.is_file() and str(old.relative_to(self.root)) not in wanted:
                old.unlink()
        for name in wanted:
            _copied(self.source / name, self.root / name)
        site = self.home / "site"
        site.mkdir(exist_ok=True)
        for name, text in _SITE.items():
            (site / name).write_text(text, encoding="utf-8")
        spec = importlib.util.find_spec("railyard._core")
        if spec is not None and spec.origin:
            _copied(Path(spec.origin), self._extension)
        facts, shared = self.source.parent / "shared", self.home / "shared"
        if facts.exists() and not shared.exists():
            shared.symlink_to(facts.resolve())

    @property
    def _times(self) -> Path:
        return self.home / "times.tsv"

    def seconds(self) -> dict[str, float]:
        """What each test file takes, as far as its tests have run."""
        found: dict[str, float] = {}
        if self._times.exists():
            lines = [line.rsplit("\t", 1) for line in self._times.read_text(encoding="utf-8").splitlines()]
            for test, seconds in dict(lines).items():
                name = test.split("::")[0]
                found[name] = found.get(name, 0.0) + float(seconds)
        return found

    @property
    def _extension(self) -> Path:
        return self.root / "src/railyard/_core.abi3.so"

    @contextmanager
    def with_fault(self, fault: Fault) -> Iterator[None]:
        """Puts a fault in, and takes it out whatever happens."""
        file = self.root / fault.path
        before = file.read_bytes()
        try:
            _written(file, fault.applied(before))
            yield
        finally:
            _written(file, before)

    def tested(self, files: Sequence[str], limit_s: float, without: Sequence[str] = ()) -> Outcome:
        """Runs test files in their order until one test fails or the time is over.

        In parts of ever more files, because pytest imports all of a run's files before the first test.

        Args:
            files: Test files or single tests.
            limit_s: After which the fault counts as not noticed.
            without: Tests that fail without any fault.
        """
        begin, outcome, first, count = time.monotonic(), Outcome(noticed=False, by="", seconds=0.0), 0, _FIRST_FILES
        while first < len(files) and not outcome.noticed and time.monotonic() < begin + limit_s:
            some = [one for one in files[first : first + count] if one not in without]
            outcome = self._pytest(some, begin + limit_s - time.monotonic(), without) if some else outcome
            first, count = first + count, 2 * count
        by = outcome.by if outcome.noticed else f"{min(first, len(files))} of {len(files)} test files"
        return Outcome(outcome.noticed, by, time.monotonic() - begin)

    def traced(self, files: Sequence[str], settings: Path) -> None:
        """Runs all tests of some files with coverage."""
        environment = {**self._environment(), "COVERAGE_PROCESS_START": str(settings)}
        subprocess.run(
            [sys.executable, "-m", "pytest", *_PYTEST, *files],
            cwd=self.root,
            env=environment,
            capture_output=True,
            check=False,
        )

    def _pytest(self, files: Sequence[str], limit_s: float, without: Sequence[str]) -> Outcome:
        begin = time.monotonic()
        arguments = [*_PYTEST, "-p_hypothesis_pytestplugin", "-x", *files, *(f"--deselect={one}" for one in without)]
        environment = {**self._environment(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        process, output = forked(arguments, self.root, self._paths, environment)
        try:
            text, ended = _read(output, begin + limit_s)
        finally:
            os.close(output)
            with suppress(ProcessLookupError):
                os.killpg(process, 9)
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        seconds = time.monotonic() - begin
        if ended == "":
            return Outcome(code not in (0, 5), _blamed(text), seconds)
        return Outcome(ended == "hangs", f"{ended}: {_last_test(text)}", seconds)

    @property
    def _paths(self) -> list[str]:
        return [str(path) for path in (self.home / "site", self.root / "src", self.root)]

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(self._paths),
            "COLUMNS": "250",
            "MUTATION_TIMES": str(self._times),
        }

    def compiled(self, target: str = "_core") -> bool:
        """Builds the extension, or the core's own tests (`railyard_test`); whether it compiles."""
        if not (self.build / "build.ninja").exists():
            self._configure()
        done = subprocess.run([_ninja(), "-C", str(self.build), target], capture_output=True, check=False)
        built = self.build / "_core.abi3.so"
        if done.returncode == 0 and target == "_core":
            _copied(built, self._extension)
        return done.returncode == 0

    def _configure(self) -> None:
        nanobind = _output([sys.executable, "-m", "nanobind", "--cmake_dir"], self.home).strip()
        options = ["RAILYARD_BUILD_PYTHON=ON", "RAILYARD_BUILD_TESTS=ON", "CMAKE_BUILD_TYPE=Mutation"]
        options += ["CMAKE_CXX_FLAGS=-O1", f"nanobind_DIR={nanobind}", f"CMAKE_MAKE_PROGRAM={_ninja()}"]
        options += [f"Python_EXECUTABLE={sys.executable}", f"CMAKE_PREFIX_PATH={sys.prefix}"]
        cmake = shutil.which("cmake", path=_path()) or "cmake"
        command = [cmake, "-S", str(self.root), "-B", str(self.build), "-G", "Ninja"]
        subprocess.run([*command, *(f"-D{one}" for one in options)], check=True, stdout=subprocess.DEVNULL)

    def core_tested(self) -> Outcome:
        """Runs the core's own tests."""
        begin = time.monotonic()
        try:
            done = subprocess.run([str(self.build / "railyard_test")], capture_output=True, timeout=600, check=False)
        except subprocess.TimeoutExpired:
            return Outcome(noticed=True, by="hangs: railyard_test", seconds=time.monotonic() - begin)
        lines = [line for line in done.stdout.decode(errors="replace").splitlines() if "FAIL" in line.upper()]
        by = f"railyard_test: {lines[0] if lines else done.returncode}"
        return Outcome(done.returncode != 0, by[:200], time.monotonic() - begin)


def _read(output: int, end: float) -> tuple[str, str]:
    """What is printed until the end, and why it was cut short: "" for not at all."""
    text = b""
    while True:
        left = end - time.monotonic()
        ready, _, _ = select.select([output], [], [], max(min(left, _HANGS_S), 0.0))
        if not ready:
            return text.decode(errors="replace"), "out of time" if left <= _HANGS_S else "hangs"
        more = os.read(output, 1 << 16)
        if not more:
            return text.decode(errors="replace"), ""
        text += more


def _blamed(text: str) -> str:
    failed = [line for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0][:250] if failed else text.strip().splitlines()[-1][:250] if text.strip() else ""


def _last_test(text: str) -> str:
    named = [line.split()[0] for line in text.splitlines() if "::" in line]
    return named[-1] if named else "before the first test"


def _written(file: Path, text: bytes) -> None:
    """Writes a file, and forgets what was compiled of it: times of files are too coarse for changes of one second."""
    file.write_bytes(text)
    for old in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        old.unlink()


def _copied(source: Path, target: Path) -> None:
    text = source.read_bytes()
    if not target.exists() or target.read_bytes() != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        _written(target, text)
        target.chmod(source.stat().st_mode)


def _output(command: Sequence[str], folder: Path) -> str:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def _path() -> str:
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def _ninja() -> str:
    return shutil.which("ninja", path=_path()) or "ninja"
