"""Writes the numbers of every example, guide and study on every engine to a file, through the command line alone.

tools/answers FILE [--python RAILYARD] [--tree FOLDER] [--only PATTERN] [--tag quick] [--jobs N] [--list]

The commands stand in `answers.yaml`. FILE holds one JSON object a line, one line a command, and grows as they end:
started again, what is in it is not run again. `tools/same-answers OLD NEW` compares two such files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import answers_leaves
from answers_list import Command, blocks, commands, lay_out, matches

ROOT = Path(__file__).resolve().parent.parent


class Expired(Exception):
    """A command ran past its time."""


@dataclass
class Runner:
    """Runs commands of one installation.

    Attributes:
        railyard: The executable.
        tree: Where the examples and pages are.
        work: Folder for what the commands write.
        running: Processes that are under way.
        stopped: Set when nothing more is to be started.
    """

    railyard: Path
    tree: Path
    work: Path
    running: set[subprocess.Popen[str]] = field(default_factory=set)
    stopped: threading.Event = field(default_factory=threading.Event)

    def answer(self, command: Command) -> dict[str, Any]:
        """Runs a command; its line of the file.

        Raises:
            Expired: It ran past its time.
        """
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            out = Path(folder)
            started = time.monotonic()
            before = {} if not command.first else {"run": self._prepare(command, out)}
            arguments = [self._place(text, out, **before) for text in command.arguments]
            code, text, error = self._call(arguments, command.timeout_s)
            found = {"exit": code, **({} if before else dict(answers_leaves.of_folder(out)))}
            printed = dict(answers_leaves.of_text(text, "stdout"))
            return {
                "name": command.name,
                "input": self._fingerprint(arguments),
                "wall_s": round(time.monotonic() - started, 2),
                "error": error.strip().partition("\n")[0] if code else "",
                "leaves": self._portable(found if _repeated(printed, found) else found | printed, out),
            }

    def _prepare(self, command: Command, out: Path) -> Path:
        self._call([self._place(text, out) for text in command.first], command.timeout_s)
        return next(out.iterdir(), out)

    def _place(self, text: str, out: Path, run: Path | None = None) -> str:
        page, mark, name = text.partition("#")
        if mark and page.endswith(".md"):
            file = self.work / f"{page.replace('/', '-')}-{name}.yaml"
            file.write_text(blocks(self.tree / page)[name], encoding="utf-8")
            return str(file)
        return text.replace("{out}", str(out)).replace("{work}", str(self.work)).replace("{run}", str(run))

    def _call(self, arguments: list[str], timeout_s: float) -> tuple[int, str, str]:
        process = subprocess.Popen(
            [str(self.railyard), *arguments],
            cwd=self.tree,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.running.add(process)
        try:
            text, error = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            end(process)
            raise Expired from None
        finally:
            self.running.discard(process)
        return process.returncode, text, error

    def _fingerprint(self, arguments: list[str]) -> str:
        given = [self.tree / text for text in arguments if (self.tree / text).is_file()]
        return hashlib.sha256(b"".join(file.read_bytes() for file in given)).hexdigest()[:16]

    def _portable(self, leaves: dict[str, Any], out: Path) -> dict[str, Any]:
        """The leaves without the names of this run's folders."""
        runs = {str(folder): "RUN" for folder in out.iterdir() if folder.is_dir()}  # named by a hash of the question
        folders = runs | {str(out): "OUT", str(self.work): "WORK", str(self.tree): "TREE"}
        return {path: _replaced(value, folders) if isinstance(value, str) else value for path, value in leaves.items()}


def _replaced(text: str, words: dict[str, str]) -> str:
    for word, other in words.items():
        text = text.replace(word, other)
    return text


def _repeated(printed: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether what was printed is what stands in the file of the result."""
    return bool(printed) and all(
        found.get(path.replace("stdout", "result.json", 1), found) == value for path, value in printed.items()
    )


def end(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def done(file: Path) -> set[str]:
    """Names of the commands whose answers the file holds."""
    if not file.exists():
        return set()
    return {json.loads(line)["name"] for line in file.read_text(encoding="utf-8").splitlines()}


def run_all(runner: Runner, wanted: list[Command], file: Path, jobs: int) -> int:
    """Runs the commands and appends their lines; how many came to no answer in time."""
    late = 0
    with file.open("a", encoding="utf-8") as lines, ThreadPoolExecutor(jobs) as pool:
        under_way = {pool.submit(runner.answer, command): command for command in wanted}
        try:
            for number, future in enumerate(as_completed(under_way), 1):
                late += _keep(future, under_way[future], f"{number}/{len(wanted)}", lines)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in tuple(runner.running):
                end(process)
            sys.exit(f"stopped; the same command goes on from here ({file})")
    return late


def _keep(future: Any, command: Command, position: str, lines: Any) -> int:
    try:
        found = future.result()
    except Expired:
        print(f"{position}  LATE after {command.timeout_s:.0f} s: {command.name}", file=sys.stderr)
        return 1
    lines.write(json.dumps(found) + "\n")
    lines.flush()
    note = f"  exit {found['leaves']['exit']}: {found['error']}" if found["error"] else ""
    print(f"{position}  {found['wall_s']:5.1f} s  {command.name}{note}", file=sys.stderr)
    return 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="where the answers go")
    parser.add_argument("--python", type=Path, default=Path(sys.executable).with_name("railyard"), metavar="RAILYARD")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout whose examples and pages are run")
    parser.add_argument("--only", default="*", help="commands that fit; * stands for anything")
    parser.add_argument("--tag", help="commands with this tag of answers.yaml")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="print the commands and run nothing")
    return parser.parse_args()


def main() -> None:
    given = parsed()
    tree = given.tree.resolve()
    before = done(given.file)
    wanted = [
        command
        for command in commands(tree)
        if matches(given.only, command.name) and (given.tag is None or given.tag in command.tags)
    ]
    if given.list:
        print("\n".join(command.name for command in wanted))
        return
    with tempfile.TemporaryDirectory() as work:
        lay_out(Path(work), tree)
        runner = Runner(given.python.absolute(), tree, Path(work).resolve())
        late = run_all(runner, [command for command in wanted if command.name not in before], given.file, given.jobs)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of processor, {late} late, {given.file}", file=sys.stderr)
    sys.exit(1 if late else 0)


if __name__ == "__main__":
    main()
