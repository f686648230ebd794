"""Commands over small drawn scenarios: `python -m tests.fuzz.commands N SEED`.

A case is one of the small bases with values inside their ranges or sections drawn anew, and one of the commands that
read a scenario. It has to end within `LONGEST_S`, with an answer, or refused with file, line and key, or with a reason
why it cannot be run; never with an internal error, and no result may have numbers that are none.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import math
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.fuzz.campaign import place_of
from tests.fuzz.documents import BASES, Document, documents, text_of
from tests.fuzz.readers import ROOT
from tests.fuzz.scenarios import CHANGES, Case, Found, misplaced, refusal, report

from railyard.face.terminal import placed
from railyard.kit.errors import InputError, RailyardError

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_S = 30.0
"""Processor time of one case; it may wait for others four times as long."""
VERBS = {
    "run": "run FILE --out OUT --json",
    "compare": "compare FILE --vary engine=flow,analytic --out OUT --json",
    "place": "place FILE --nodes FILE --json",
    "topology": "topology FILE --as slurm-tree",
    "scale": f"scale {ROOT / 'examples' / 'traces' / 'mlcommons-pytorch.tar.gz'} --world 2 --cluster FILE --json",
    "synthesize": "synthesize --cluster FILE --most-sends 2000 --json",
    "tune": "tune FILE --json",
    "diagnose": "diagnose --symptom slow --cluster FILE --json",
    "deploy": "deploy FILE --out OUT/plan --json",
    "accept": "accept FILE --out OUT/tests --json",
    "bring-up": "bring-up FILE --json",
    "check": "check FILE --json",
    "plan designs": "plan designs FILE --out OUT --json",
    "plan growth": "plan growth FILE --json",
    "plan worth": "plan worth FILE --json",
    "plan serving": "plan serving FILE --json",
    "operate scenario": "operate scenario FILE --out OUT --json",
}
"""Each command that reads a scenario, and how it is called."""
LEFT_OUT = {
    "schema": "prints the schema",
    "audit": "reads what was found in a network",
    "observe": "reads traces",
    "watch": "asks a Prometheus",
    "lab exec": "runs programs as root",
    "ui": "serves a page",
}
"""Commands that need more than a scenario."""
MEANT = {
    "packets": ("tune", "run", "synthesize"),
    "tenants": ("check", "deploy", "run", "accept"),
    "designs": ("plan designs", "plan growth", "plan worth"),
    "bring-up": ("bring-up", "run"),
    "pipeline": ("plan serving", "run"),
    "operate": ("operate scenario", "run"),
    "training": ("run", "place", "topology", "scale", "diagnose", "accept", "deploy", "synthesize"),
}
"""What most cases of a base are asked; the others are run and compared."""
SHARE_OF_ANY = 0.1
"""Of cases that are asked any command, such as to tune a service."""


class TooLong(BaseException):
    """A case is not done within `LONGEST_S`."""


def _late(number: int, frame: object) -> None:
    raise TooLong(f"not done after {LONGEST_S:.0f} s")


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Ends what takes too long: by an exception, and the process where nothing hears of it."""
    timers = {signal.ITIMER_PROF: LONGEST_S, signal.ITIMER_REAL: LONGEST_S * 4}
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, _late)
    for timer, limit_s in timers.items():
        signal.setitimer(timer, limit_s)
    faulthandler.dump_traceback_later(LONGEST_S * 6, exit=True)
    try:
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0.0)
        faulthandler.cancel_dump_traceback_later()


def call(words: str, file: Path, out: Path) -> tuple[int, str]:
    """Exit code and output of a command in this process.

    Raises:
        RailyardError: It was refused, or cannot be run.
    """
    from railyard.face.cli.commands import command

    arguments = [word.replace("FILE", str(file)).replace("OUT", str(out)) for word in words.split()]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(io.StringIO()):
        code = command().main(args=arguments, prog_name="railyard", standalone_mode=False)
    return code if isinstance(code, int) else 0, shown.getvalue()


def verb_of(name: str, draw: random.Random) -> str:
    """A command for a base."""
    if draw.random() < SHARE_OF_ANY:
        return draw.choice(list(VERBS))
    return draw.choice(MEANT.get(name, ("run", "run", "compare")))


def case(draw: random.Random, scenario: Document) -> tuple[Case, str]:
    """A scenario and the command that it is given to."""
    name = draw.choice(list(BASES))
    made = Case(scenario, name, BASES[name])
    inside, drawn = (next(change for change, _ in CHANGES if change.__name__ == one) for one in ("_inside", "_drawn"))
    for _ in range(draw.randint(0, 2)):
        (inside if draw.random() < 0.75 else drawn)(made, draw)
    return made, verb_of(name, draw)


def campaign(count: int, seed: int, folder: Path, found: Found | None = None) -> Found:
    """Runs so many scenarios that can be read, and judges what comes of each; into `found` where it is given."""
    draw, found = random.Random(seed), found or Found()
    scenario = documents()[0]
    file, out = folder / "case.yaml", folder / "out"
    for more in (ROOT / "tests" / "fuzz" / "bases").glob("*.goal"):
        shutil.copy(more, folder)
    done = 0
    while done < count:
        made, verb = case(draw, scenario)
        if refusal(made.root, file) is not None:
            continue
        if verb == "topology" and "cluster" not in made.root:
            continue  # a file that is no tree of switches at all: there is no key to name
        done += 1
        begun = time.monotonic()
        outcome, words = _judged(VERBS[verb], file, out)
        taken = time.monotonic() - begun
        found.counts[f"{verb}: {made.kind.rpartition(' ')[2]}", outcome] += 1
        found.longest_s = max(found.longest_s, taken)
        if words:
            found.note(f"{verb}: {made.kind.rpartition(' ')[2]}", f"{verb} of {made.name}: {words}", text_of(made.root))
        shutil.rmtree(out, ignore_errors=True)
    return found


def _judged(words: str, file: Path, out: Path) -> tuple[str, str]:
    """What came of a command, and what is wrong with that; nothing where all is well."""
    try:
        with limited():
            _, shown = call(words, file, out)
    except InputError as error:
        wrong = misplaced(placed(error), file)
        return "refused", f"no place: {wrong[0].splitlines()[0]}"[:300] if wrong else ""
    except RailyardError as error:
        return "not run", "" if str(error) else f"{type(error).__name__} without a reason"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of Polars is no `Exception`
        if type(error).__name__ == "Abort":  # what Typer makes of Ctrl-C
            raise KeyboardInterrupt from None
        if type(error).__name__ == "Exit":
            return "answered", ""
        return "fault", f"{place_of(error)}: {error}"[:300]
    return "answered", _no_numbers(shown)


def _no_numbers(shown: str) -> str:
    """The first number of an answer that is none, such as NaN; empty where there is no such."""
    if not shown.startswith("{"):
        return ""
    path = next(_wrong_numbers(json.loads(shown), ""), "")
    return f"no number at {path}" if path else ""


def _wrong_numbers(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, float) and not math.isfinite(value):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _wrong_numbers(item, f"{path}.{'0' if isinstance(key, int) else key}")


def main(count: int, seed: int) -> int:
    """A campaign with its counts, also of one that Ctrl-C ends; exit code 1 where there was a fault."""
    begun, found = time.monotonic(), Found()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as temporary, contextlib.suppress(KeyboardInterrupt):
        campaign(count, seed, Path(temporary), found)
    return report(found, f"commands-{seed}", time.monotonic() - begun)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
