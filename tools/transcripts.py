"""Runs the commands that pages print, in order, in a copy of a fresh clone, and compares what they print.

A block ```console has commands after `$ ` (a line that ends in a backslash goes on in the next) and what each prints on
stdout; a command with nothing below it must only succeed. `...` stands for any words, as a line, in a line or in a
word. Numbers may differ by 2 % or by one in the last decimal place; line breaks, hashes of runs and bars are not
compared. A block with a title, such as ```yaml title="mine.yaml", is a file that the reader writes. A comment above a
block of commands says more of it: `<!-- slow -->`, it takes long and runs with `--slow` only; `<!-- fails -->`, its
commands fail, and stderr is compared too.

    tools/transcripts README.md docs/tutorial/index.md    # which commands fail, what differs
    tools/transcripts --write --slow README.md            # write what is printed today; review the difference
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FENCE = re.compile(
    r"^(?:<!-- (?P<mark>slow|fails) -->\n)?```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$",
    re.M | re.S,
)
COMMAND = re.compile(r"^\$ (?P<line>(?:.*\\\n)*.*)\n?(?P<printed>(?:(?!\$ ).*\n)*)", re.M)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
IGNORED = re.compile(r"[█▏▎▍▌▋▊▉]+|(?<=-)[0-9a-f]{8}\b")
TOLERANCE = 0.02


@dataclass(frozen=True)
class Command:
    """One command of a page.

    Attributes:
        line: As the shell gets it.
        printed: What the page says that it prints; empty: it is not compared.
        mark: `slow`, `fails` or nothing.
        at: First and last letter of `printed` in the page.
    """

    line: str
    printed: str
    mark: str
    at: tuple[int, int]


def blocks(text: str) -> list[tuple[str, str] | Command]:
    """Files (name and text) and commands of a page, in order."""
    found: list[tuple[str, str] | Command] = []
    for block in FENCE.finditer(text):
        if block["title"]:
            found.append((block["title"], block["text"]))
        elif block["kind"] == "console":
            start = block.start("text")
            for one in COMMAND.finditer(block["text"]):
                at = (start + one.start("printed"), start + one.end("printed"))
                found.append(Command(one["line"], one["printed"], block["mark"] or "", at))
    return found


def clone(folder: Path) -> Path:
    """A folder with the files of the examples and the validation's data that are committed or about to be."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "examples", "validation/data"]
    for name in subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command in a folder, with the `railyard` of this Python first on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(
        ["bash", "-c", line], check=False, cwd=folder, env=environment, capture_output=True, text=True
    )


def same(expected: str, found: str) -> bool:
    """Whether a page's words fit what was printed."""
    wanted, given = (IGNORED.sub("", text).split() for text in (expected, found))
    parts: list[list[str]] = [[]]
    for word in wanted:
        if word == "...":
            parts.append([])
        else:
            parts[-1].append(word)
    if len(parts) == 1:
        return len(wanted) == len(given) and _fits(wanted, given)
    first, *middle, last = parts
    end = len(given) - len(last)
    at = len(first)
    if end < at or not _fits(first, given[:at]) or not _fits(last, given[end:]):
        return False
    for part in middle:
        at = next((i for i in range(at, end - len(part) + 1) if _fits(part, given[i : i + len(part)])), end) + len(part)
    return at <= end


def _fits(wanted: list[str], given: list[str]) -> bool:
    return all(a == b or _alike(a, b) for a, b in zip(wanted, given, strict=True))


def _alike(wanted: str, given: str) -> bool:
    """Whether two words are equal but for small differences of their numbers."""
    if "..." in wanted:
        return re.fullmatch(".*".join(map(re.escape, wanted.split("..."))), given) is not None
    if NUMBER.sub("#", wanted) != NUMBER.sub("#", given):
        return False
    for a, b in zip(NUMBER.findall(wanted), NUMBER.findall(given), strict=True):
        decimals = len(a.partition(".")[2]) if "e" not in a else 0
        one = 10.0**-decimals * 1.001 if decimals else 0.0
        x, y = (float(text.replace(",", "")) for text in (a, b))
        if abs(x - y) > max(TOLERANCE * max(x, y), one):
            return False
    return True


def written(expected: str, found: str) -> str:
    """What a page prints of an output: all of it, or as many lines as now around each line `...`."""
    lines, parts = found.rstrip("\n").splitlines(), re.split(r"^\.\.\.\n", expected, flags=re.M)
    if len(parts) == 1:
        return "".join(f"{line}\n" for line in lines)
    shown: list[str] = []
    at = 0
    for number, part in enumerate(parts):
        old = part.splitlines()
        if number == len(parts) - 1:
            at = max(at, len(lines) - len(old))
        elif number and old:
            near = [difflib.SequenceMatcher(None, old[0], line).ratio() for line in lines[at:]]
            at += near.index(max(near)) if near else 0
        new = lines[at : at + len(old)]
        kept = [a if "..." in a and same(a, b) else b for a, b in zip(old, new, strict=False)]
        shown += ["...", *kept] if number else kept
        at += len(new)
    return "".join(f"{line}\n" for line in shown)


def check(page: Path, folder: Path, *, slow: bool = False, write: bool = False) -> tuple[int, list[str]]:
    """Runs the commands of a page in a folder.

    Returns:
        How many ran, and one text for each that failed or printed something else.
    """
    text = page.read_text(encoding="utf-8")
    ran, wrong, changes = 0, list[str](), list[tuple[tuple[int, int], str]]()
    for block in blocks(text):
        if not isinstance(block, Command):
            (folder / block[0]).write_text(block[1], encoding="utf-8")
            continue
        if block.mark == "slow" and not slow:
            continue
        done = shell(block.line, folder)
        ran += 1
        fails = block.mark == "fails"
        found = done.stdout + done.stderr * fails
        if (done.returncode != 0) != fails:
            wrong.append(f"$ {block.line}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
        elif block.printed and write:
            changes.append((block.at, written(block.printed, found)))
        elif block.printed and not same(block.printed, found):
            both = (block.printed.splitlines(), found.splitlines())
            wrong.append(
                "\n".join([f"$ {block.line}", *difflib.unified_diff(*both, str(page), "printed now", lineterm="")])
            )
    for (start, end), new in reversed(changes):
        text = text[:start] + new + text[end:]
    if changes:
        page.write_text(text, encoding="utf-8")
    return ran, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--slow", action="store_true", help="run the blocks marked slow too")
    parser.add_argument("--write", action="store_true", help="write what is printed into the pages")
    asked = parser.parse_args()
    failed = False
    for page in asked.pages:
        with tempfile.TemporaryDirectory() as place:
            ran, wrong = check(page, clone(Path(place)), slow=asked.slow, write=asked.write)
        print(f"{page}: {ran} commands, {len(wrong)} wrong")
        for text in wrong:
            print(text)
        failed = failed or bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
