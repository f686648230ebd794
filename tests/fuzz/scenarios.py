"""Documents drawn from the schema, with changes: `python -m tests.fuzz.scenarios N SEED`.

A case is a right document with a few changes: numbers inside or outside of their ranges, values of another type, whole
sections, unknown, missing or exchanged keys; or it is drawn whole. It has to be read, or refused with file, line, key
and what is allowed; what is read and written anew is the same scenario.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.fuzz.campaign import place_of
from tests.fuzz.documents import BASES, Document, documents, kind_of, text_of, texts
from tests.fuzz.drawn import Drawn, Place, Spot, places
from tests.fuzz.readers import ROOT

from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.scenario.load import Draft, dump
from railyard.work.scenario.problems import MOST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.fuzz.drawn import Step

__all__ = ["BASES", "Place", "places"]

FOUND = ROOT / "build" / "fuzz" / "documents"
"""Where documents are kept that were not read as they should."""
SLOW_S = 5.0
"""Of a document that is only read."""
WRONG: tuple[Any, ...] = ("", "x", True, None, -1, 1e30, [], {}, "1 furlong", "-3 s", float("nan"), [1], {"a": 1})


def put(root: Any, path: Sequence[Step], value: Any) -> Any:
    """The plain tree with a value at a path; what is missing on the way is made."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = list(root) if isinstance(root, list) else []
        items += [None] * (step + 1 - len(items))
        items[step] = put(items[step], rest, value)
        return items
    section = dict(root) if isinstance(root, dict) else {}
    section[step] = put(section.get(step), rest, value)
    return section


def document(base: Any, changes: Sequence[tuple[Place | Spot, Any]]) -> dict[str, Any]:
    """A base document with values at places."""
    root = base
    for place, value in changes:
        for path, word in place.tags:
            root = put(root, path, word)
        root = put(root, place.path, value)
    return dict(root)


def refusal(values: dict[str, Any], file: Path) -> InputError | None:
    """What a scenario file of these values is refused with; None where it is read."""
    file.unlink(missing_ok=True)
    file.write_text(text_of(values), encoding="utf-8")
    try:
        load.load(file)
    except InputError as error:
        return error
    return None


def misplaced(error: InputError, file: Path) -> list[str]:
    """Problems that do not say where they are, or what is wrong there."""
    whole = file.read_text(encoding="utf-8").splitlines()
    more = error.problems[MOST:]
    return [
        problem.render()
        for problem in error.problems
        if problem not in more
        and (problem.file != str(file) or not problem.line or problem.line > len(whole) or not problem.key)
    ]


@dataclass
class Case:
    """A document with changes.

    Attributes:
        document: What it is.
        name: Of the base; `drawn` where there is none.
        root: Its values.
        spoilt: Places whose value is outside of their range, if it is still there.
    """

    document: Document
    name: str
    root: Any
    spoilt: list[Place] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """How it is counted: a kind of work, or of another document."""
        return f"scenario: {kind_of(self.root)}" if self.document.name == "scenario" else self.document.name

    def kept(self) -> list[Place]:
        """Of `spoilt` those of which no later change replaced value or section."""
        return [one for one in self.spoilt if _still(self.root, one)]


def _still(values: Any, place: Place) -> bool:
    same = all(_at(values, path) == word for path, word in place.tags)
    return same and _at(values, place.path) in place.outside()


def _at(values: Any, path: Sequence[Step]) -> Any:
    for step in path:
        held = isinstance(values, dict) and step in values
        if not held and not (isinstance(values, list) and isinstance(step, int) and step < len(values)):
            return None
        values = values[step]
    return values


def _of_work(found: Sequence[Any], root: Any, draw: random.Random) -> Any:
    """One of the places of a document, most of its own kind of work and in sections that it may have."""
    kind = kind_of(root)
    while True:
        one = draw.choice(found)
        foreign = one.path[0] == "workload" and len(one.path) > 1 and one.path[1] != kind
        if draw.random() < 0.01 or not (foreign or (one.path[0] == "cluster" and "cluster" not in root)):
            return one


def _outside(case: Case, draw: random.Random) -> None:
    place = _of_work(case.document.places, case.root, draw)
    beyond = place.outside()
    if beyond:
        case.root = document(case.root, [(place, draw.choice(beyond))])
        case.spoilt.append(place)


def _inside(case: Case, draw: random.Random) -> None:
    place = _of_work(case.document.places, case.root, draw)
    case.root = document(case.root, [(place, place.inside(draw))])


def _wrong(case: Case, draw: random.Random) -> None:
    spot = _of_work(case.document.spots, case.root, draw)
    case.root = document(case.root, [(spot, draw.choice(WRONG))])


def _drawn(case: Case, draw: random.Random) -> None:
    spot = _of_work(case.document.spots, case.root, draw)
    value = Drawn(draw, texts()).value(spot.hint, str(spot.path[-1]), (), len(spot.path) // 2)
    case.root = document(case.root, [(spot, value)])


def _unknown(case: Case, draw: random.Random) -> None:
    spot = _of_work(case.document.spots, case.root, draw)
    case.root = put(case.root, (*spot.path[:-1], "no_such_key"), 1)


def _paths(value: Any, path: tuple[Step, ...] = ()) -> list[tuple[Step, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [one for key, item in items for one in ((*path, key), *_paths(item, (*path, key)))]


def _without(root: Any, path: Sequence[Step]) -> Any:
    if len(path) == 1:
        items = root.items() if isinstance(root, dict) else enumerate(root)
        left = [(key, item) for key, item in items if key != path[0]]
        return dict(left) if isinstance(root, dict) else [item for _, item in left]
    return put(root, path[:1], _without(root[path[0]], path[1:]))


def _missing(case: Case, draw: random.Random) -> None:
    found = _paths(case.root)
    case.root = _without(case.root, draw.choice(found)) if found else case.root


def _exchanged(case: Case, draw: random.Random) -> None:
    found = _paths(case.root)
    if found:
        case.root = put(case.root, draw.choice(found), _at(case.root, draw.choice(found)))


CHANGES: tuple[tuple[Callable[[Case, random.Random], None], float], ...] = (
    (_outside, 0.2),
    (_inside, 0.42),
    (_wrong, 0.08),
    (_drawn, 0.18),
    (_unknown, 0.02),
    (_missing, 0.06),
    (_exchanged, 0.04),
)


def case(draw: random.Random) -> Case:
    """A document with one to three changes, or drawn whole."""
    known = documents()
    chosen = draw.choices(known, (20, 1, 1, 2, 1))[0]
    if chosen.model is not None and draw.random() < 0.05:
        return Case(chosen, "drawn", _whole(chosen, draw))
    name = draw.choice(list(chosen.bases))
    made = Case(chosen, name, chosen.bases[name])
    changes, weights = zip(*CHANGES, strict=True)
    for change in draw.choices(changes, weights, k=draw.choice((1, 1, 2, 3))):
        change(made, draw)
    return made


def _whole(chosen: Document, draw: random.Random) -> Any:
    root = Drawn(draw, texts()).section(chosen.model)
    if chosen.name == "scenario":
        hint = next(spot.hint for spot in chosen.spots if spot.path == ("workload",))
        kind = draw.choice(list(hint.model_fields))
        spot = next(spot for spot in chosen.spots if spot.path == ("workload", kind))
        root["workload"] = {kind: Drawn(draw, texts()).value(spot.hint, kind, (), 2)}
    return root


@dataclass
class Found:
    """What came of many cases.

    Attributes:
        counts: By kind of document and outcome.
        faults: What was not as it should be, one case of each kind of fault, with its document.
        longest_s: Of a case.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: dict[str, str] = field(default_factory=dict)
    longest_s: float = 0.0

    def total(self, outcome: str) -> int:
        """Cases of an outcome."""
        return sum(count for (_, one), count in self.counts.items() if one == outcome)

    def note(self, kind: str, words: str, text: str) -> None:
        """Notes a fault, once for each kind of it."""
        self.counts[kind, "wrong"] += 1
        self.faults.setdefault(words, text)


def campaign(count: int, seed: int, folder: Path, found: Found | None = None) -> Found:
    """Reads so many documents, and judges what comes of each; into `found` where it is given."""
    draw, found = random.Random(seed), found or Found()
    for _ in range(count):
        made = case(draw)
        file = folder / "case.yaml"
        file.unlink(missing_ok=True)  # a file that is cut and written anew is flushed to the disk
        file.write_text(text_of(made.root), encoding="utf-8")
        begun = time.process_time()
        outcome, words = _judged(made, file)
        taken = time.process_time() - begun
        found.counts[made.kind, outcome] += 1
        found.longest_s = max(found.longest_s, taken)
        if taken > SLOW_S:
            words = f"takes {taken:.0f} s"
        if words:
            found.note(made.kind, words, file.read_text("utf-8"))
    return found


def _judged(made: Case, file: Path) -> tuple[str, str]:
    """Whether it was read or refused, and what is wrong with that; nothing where all is well."""
    try:
        read = made.document.read(file)
    except InputError as error:
        return "refused", _refused(made, error, file)
    except Exception as error:
        return "refused", f"{place_of(error)}: {error}"[:200]
    kept = [place.key for place in made.kept()]
    if kept:
        return "read", f"read with values outside the range of {_general(kept[0])}"
    return "read", _changed(read) if isinstance(read, Draft) else ""


def _refused(made: Case, error: InputError, file: Path) -> str:
    wrong = misplaced(error, file)
    if wrong:
        return f"no place: {wrong[0].splitlines()[0]}"[:200]
    shown = error.problems[:MOST]
    strange = [
        one.key or "" for one in shown if "unknown key" not in one.message and not made.document.knows(one.key or "")
    ]
    if strange:
        return f"names a key that is none: {_general(strange[0])}"
    if len(error.problems) <= MOST:
        named = [problem.key or "" for problem in error.problems]
        hidden = [one.key for one in made.kept() if not any(_around(key, one.key) for key in named)]
        if hidden and not _before(error):
            return f"hides what is wrong at {_general(hidden[0])} behind {named[0]}"
    return ""


def _before(error: InputError) -> bool:
    """Whether the file was refused as a whole, before any section was read."""
    return all("is not valid YAML" in one.message for one in error.problems)


def _around(key: str, place: str) -> bool:
    return place == key or place.startswith(f"{key}.")


def _general(key: str) -> str:
    return ".".join("0" if step.isdecimal() else step for step in key.split("."))


def _changed(read: Draft) -> str:
    plain = dump(read.scenario)
    try:
        again = load.from_values(plain).scenario
    except InputError as error:
        return f"written anew it is refused: {error.problems[0].headline()}"[:200]
    if again == read.scenario:
        return ""
    other = dump(again)
    moved = [
        path
        for path in _paths(plain)
        if not isinstance(_at(plain, path), dict | list) and _at(plain, path) != _at(other, path)
    ]
    return f"written anew it is another scenario: {_general('.'.join(map(str, moved[0]))) if moved else ''}"


def main(count: int, seed: int) -> int:
    """A campaign with its counts, also of one that Ctrl-C ends; exit code 1 where there was a fault."""
    import tempfile

    begun, found = time.monotonic(), Found()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as temporary, suppress(KeyboardInterrupt):
        campaign(count, seed, Path(temporary), found)
    return report(found, f"documents-{seed}", time.monotonic() - begun)


def report(found: Found, name: str, taken_s: float) -> int:
    """Prints the counts, and keeps a document of each fault; exit code 1 where there was one."""
    outcomes = sorted({outcome for _, outcome in found.counts})
    for kind in sorted({kind for kind, _ in found.counts}):
        counts = (f"{found.counts[kind, one]:,} {one}" for one in outcomes if found.counts[kind, one])
        sys.stdout.write(f"{kind}: {', '.join(counts)}\n")
    FOUND.mkdir(parents=True, exist_ok=True)
    for number, (words, text) in enumerate(found.faults.items()):
        (FOUND / f"{name}-{number}.yaml").write_text(f"# {words}\n{text}", encoding="utf-8")
        sys.stdout.write(f"{name}-{number}.yaml: {words}\n")
    total = sum(count for (_, outcome), count in found.counts.items() if outcome != "wrong")
    sys.stdout.write(f"{total:,} in {taken_s:.0f} s, the longest {found.longest_s:.2f} s\n")
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
