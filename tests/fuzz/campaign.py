"""Looks for files on which a reader fails: `python -m tests.fuzz.campaign [NAME or GROUP ...] --seconds 600`.

With `--runs N` every reader gets N files from a draw that is always the same: so a change is judged by itself and not
by luck. With `--seconds` the draw is new each time.

Atheris (libFuzzer for Python) spoils files under the guidance of the lines that they reach. What a reader raises
besides a `RailyardError` is kept once for each place that raises it, in `build/fuzz/NAME`, with its trace; exit code 1
where there was any. What was mended goes into `tests/fuzz/corpus/NAME`, which `test_readers.py` reads every time.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz.readers import LARGEST, ROOT, TARGETS

if TYPE_CHECKING:
    from tests.fuzz.readers import Target

FOUND = ROOT / "build" / "fuzz"
_RUNS = "stat::number_of_executed_units"
SLOW_S = 10
"""A file of 16 kB that takes longer is a fault too."""


def place_of(error: BaseException) -> str:
    """Type and last line of Railyard's own in the trace: what tells faults apart."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/railyard" in frame.filename]
    last = frames[-1] if frames else None
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}" if last else type(error).__name__


def one(name: str, extent: list[str]) -> None:
    """Tries one reader in this process, which ends with it.

    Args:
        name: Of the reader.
        extent: Options of libFuzzer that say how much is tried.
    """
    import atheris

    _from_source()
    with atheris.instrument_imports(include=["railyard"]):
        from railyard.kit.errors import RailyardError

        target = next(target for target in TARGETS if target.name == name)
        with tempfile.TemporaryDirectory() as warm:
            path = target.place(Path(warm))
            for seed in target.seeds():
                path.write_bytes(seed)
                _tried(target, path, RailyardError)

    work = Path(tempfile.mkdtemp(prefix="railyard-fuzz-"))
    begun = work / "corpus"
    begun.mkdir()
    for seed in target.seeds():
        (begun / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    (work / "file").mkdir()
    path, seen = target.place(work / "file"), set[str]()

    def look(data: bytes) -> None:
        path.write_bytes(data)
        start = time.process_time()
        error = _tried(target, path, RailyardError)
        took = time.process_time() - start
        what = place_of(error) if error else f"{took:.0f} s" if took > SLOW_S else ""
        if what and what not in seen:
            seen.add(what)
            _keep(name, data, what, error)

    limits = ["-timeout=60", "-rss_limit_mb=6000", "-verbosity=1", "-print_final_stats=1"]
    options = [*extent, f"-max_len={LARGEST}", f"-artifact_prefix={work}/", *limits]
    atheris.Setup([sys.argv[0], *options, str(begun)], look)
    atheris.Fuzz()


def _from_source() -> None:
    """Imports by path from here on: what an editable install imports by itself, Atheris cannot instrument."""
    core = importlib.util.find_spec("railyard._core")
    for name in [name for name in sys.modules if name.partition(".")[0] == "railyard"]:
        del sys.modules[name]
    sys.meta_path[:] = [finder for finder in sys.meta_path if "Redirecting" not in type(finder).__name__]
    sys.path.insert(0, str(ROOT / "src"))
    module = importlib.util.module_from_spec(core)
    sys.modules["railyard._core"] = module
    core.loader.exec_module(module)


def _tried(target: Target, path: Path, refusal: type[Exception]) -> BaseException | None:
    try:
        target.read(path)
    except refusal:
        return None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of Polars is no `Exception`
        return error
    return None


def _keep(name: str, data: bytes, what: str, error: BaseException | None) -> None:
    folder = FOUND / name
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{hashlib.sha256(data).hexdigest()[:12]}"
    (folder / stem).write_bytes(data)
    trace = "" if error is None else "".join(traceback.format_exception(error))
    (folder / f"{stem}.txt").write_text(f"{what}\n\n{trace}", encoding="utf-8", errors="replace")
    sys.stderr.write(f"{name}: {what}\n")


def _extent(runs: int | None, seconds: int) -> list[str]:
    return [f"-max_total_time={seconds}"] if runs is None else [f"-runs={runs}", "-seed=1"]


def main() -> int:
    """All readers that are named, a process each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="readers or groups of readers; none: all")
    parser.add_argument("--seconds", type=int, default=600, help="in all, shared among the readers")
    parser.add_argument("--runs", type=int, help="files a reader, the same ones each time; instead of --seconds")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        one(asked.names[0], _extent(asked.runs, asked.seconds))
        return 0
    known = {target.name for target in TARGETS} | {target.group for target in TARGETS}
    if unknown := set(asked.names) - known:
        parser.error(f"there is no reader or group {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    chosen = [one for one in TARGETS if not asked.names or {one.name, one.group} & set(asked.names)]
    extent = (
        ["--seconds", str(max(1, asked.seconds // len(chosen)))] if asked.runs is None else ["--runs", str(asked.runs)]
    )
    shutil.rmtree(FOUND, ignore_errors=True)
    died = []
    for target in chosen:
        command = [sys.executable, "-m", "tests.fuzz.campaign", target.name, *extent, "--one"]
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        lines = [line for line in ended.stderr.splitlines() if line.startswith(f"{target.name}: ")]
        runs = next((line for line in ended.stderr.splitlines() if line.startswith(_RUNS)), "")
        if ended.returncode:
            died.append(target.name)
            lines.append(f"{target.name}: the process ended with {ended.returncode}: {ended.stderr[-2000:]}")
        sys.stdout.write("\n".join([f"{target.name}: {len(lines)} faults. {runs}", *lines]) + "\n")
        sys.stdout.flush()
    return 1 if died or FOUND.exists() else 0


if __name__ == "__main__":
    sys.exit(main())
