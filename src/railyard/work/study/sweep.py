"""Variants of a scenario, each stored on disk as it ends: after a kill the finished ones do not run again.

Each has its own folder below `.points` next to the runs, named after everything that its figures depend on: the
version,
its scenario, the contents of the files that it names. It has the files of the variant and `measured.json`, and gets its
name when it is complete. Once the run's folder is written these folders are removed, unless a variant failed: a failed
variant is stored with its error and does not run again either.

On a Ray cluster a variant is a task that returns its figures and its files; nodes need no shared disk.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from railyard.kit.errors import InputError, Problem, SimulationError
from railyard.kit.files import MOST_STREAMED, copy_file, read_bytes, read_text
from railyard.measure.cost.assumptions import Source
from railyard.measure.result.reading import Variant as Figures
from railyard.work.scenario import load
from railyard.work.scenario.load import GIVEN, Variant, dump
from railyard.work.study.folder import begun, digests_of, key_of, slug
from railyard.work.study.kind import STOPPED, Failed, MeasuredVariant, kinds
from railyard.work.study.provenance import version
from railyard.work.study.tasks import GONE, Control, Task, failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from railyard.work.scenario.load import Draft
    from railyard.work.study.kind import Measured
    from railyard.work.study.tasks import Meter, Workers

    One = Callable[[int, Path | None], Measured]

POINTS = ".points"
"""Folder next to the runs for results of unfinished ones."""

RAN = "railyard.work.study.sweep:ran"
_MEASURED = "measured.json"
_NOTHING: Callable[[str, float], None] = lambda _what, _share: None  # noqa: E731


def measured_of(plain: dict[str, Any]) -> MeasuredVariant[Any]:
    """Restores the output of `plain_of`, of another process or an earlier run."""
    return MeasuredVariant(
        TypeAdapter(Figures).validate_json(json.dumps(plain["variant"])),
        tuple(Source(**row) for row in plain["sources"]),
        tuple(plain["left_out"]),
        tuple(plain["defaults"]),
    )


def plain_of(found: Measured) -> dict[str, Any]:
    """Measurements as plain values."""
    return {
        "variant": found.variant.plain(),
        "sources": [vars(source) for source in found.sources],
        "left_out": list(found.left_out),
        "defaults": list(found.defaults),
    }


@dataclass(frozen=True)
class Sweep:
    """The variants of a run, and the store of finished ones.

    Attributes:
        root: Parent of the variants' folders; None stores nothing.
        pool: Makes worker processes for them; None: this process.
    """

    variants: tuple[Variant, ...]
    engine: str | None
    root: Path | None
    searched: bool
    pool: Callable[[], Workers] | None = None

    @classmethod
    def of(cls, draft: Draft, variants: Sequence[Variant], engine: str | None, out: Path, *, searched: bool) -> Sweep:
        """The sweep of a scenario whose runs are put into `out`."""
        name = draft.scenario.name
        here = f"{slug(name)}-{key_of(str(draft.folder.resolve()), name)[:8]}"
        return cls(tuple(variants), engine, out / POINTS / here, searched)

    def place(self, number: int) -> Path:
        """The folder of a variant."""
        variant = self.variants[number]
        what = (version(), dump(variant.draft.scenario), digests_of(variant.draft), self.engine, self.searched)
        if self.root is None:
            raise AssertionError("nothing is kept")
        return self.root / key_of(variant.name, dict(variant.settings), *what)

    def known(self, number: int) -> Measured | Failed | None:
        """Result of an earlier run of a variant; None if there is none."""
        file = self.place(number) / _MEASURED
        if not file.is_file():
            return None
        plain = json.loads(read_text(file))
        return self._failed(number, plain) if "error" in plain else measured_of(plain)

    def keep(self, number: int, plain: dict[str, Any], files: Path | None = None) -> None:
        """Stores a variant on disk, completely or not at all."""
        place = self.place(number)
        unfinished = files or place.with_name(f"{place.name}.{os.getpid()}")
        unfinished.mkdir(parents=True, exist_ok=True)
        with (unfinished / _MEASURED).open("w", encoding="utf-8") as file:
            json.dump(plain, file, ensure_ascii=False, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        shutil.rmtree(place, ignore_errors=True)
        unfinished.rename(place)

    def fetch(self, number: int, folder: Path) -> None:
        """Moves the files of a variant into the folder of the run."""
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(self.place(number).rglob("*")):
            target = folder / path.relative_to(self.place(number))
            if path.is_file() and path.name != _MEASURED:
                target.parent.mkdir(parents=True, exist_ok=True)
                copy_file(path, target)

    def clear(self) -> None:
        """Removes the stored variants, and unfinished ones of killed runs."""
        if self.root is not None:
            shutil.rmtree(self.root, ignore_errors=True)
            try:
                self.root.parent.rmdir()
            except OSError:
                return  # other runs still use it

    def here(self, number: int, one: One) -> Measured | Failed:
        """Runs a variant in this process, unless its result is known."""
        found = self.known(number)
        if found is not None:
            return found
        place = self.place(number)
        unfinished = place.with_name(f"{place.name}.{os.getpid()}")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        begun(unfinished)
        try:
            measured = one(number, unfinished)
        except (InputError, SimulationError) as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            self.keep(number, _refused(error))
            return self._failed(number, _refused(error))
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        self.keep(number, plain_of(measured), unfinished)
        return measured

    def there(self, workers: Workers, meter: Meter) -> list[Measured | Failed]:
        """Runs all variants without a known result as tasks."""
        found: dict[int, Measured | Failed] = {}
        for number in range(len(self.variants)):
            known = self.known(number)
            if known is not None:
                found[number] = known
                meter.done(number)
        left = [number for number in range(len(self.variants)) if number not in found]
        for done in workers.run([Task(RAN, self._task(number)) for number in left]):
            number = left[done.number]
            found[number] = self._took(number, done.value, done.error)
            meter.done(number)
            meter.of(number)(f"{len(found)} of {len(self.variants)} variants", 1.0)
        return [found[number] for number in range(len(self.variants))]

    def so_far(self) -> list[Measured | Failed]:
        """All variants when the run was stopped: finished ones, and the others as failed."""
        return [self.known(number) or Failed(variant, STOPPED) for number, variant in enumerate(self.variants)]

    def _task(self, number: int) -> dict[str, Any]:
        variant = self.variants[number]
        products = [one for one in self.variants if variant.bound and not one.bound]
        return {
            **{"variants": [(one.name, dict(one.settings), one.draft.tree.plain()) for one in (*products, variant)]},
            **{"folder": str(variant.draft.folder.resolve()), "engine": self.engine, "searched": self.searched},
        }

    def _took(self, number: int, value: dict[str, Any] | None, error: str) -> Measured | Failed:
        """Stores a task's answer, except that of a killed process, which may succeed another time."""
        if value is None:
            if error != GONE:
                self.keep(number, {"error": error, "problems": []})
            return Failed(self.variants[number], error)
        if "error" in value:
            self.keep(number, value)
            return self._failed(number, value)
        place = self.place(number)
        unfinished = place.with_name(f"{place.name}.{os.getpid()}")
        for name, data in value["files"].items():
            target = unfinished / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        self.keep(number, value["measured"], unfinished)
        return measured_of(value["measured"])

    def _failed(self, number: int, plain: dict[str, Any]) -> Failed:
        """A variant that failed, each problem with its place in the scenario: its task had values without a file."""
        variant, problems = self.variants[number], [Problem(**row) for row in plain["problems"]]
        if not problems:
            return Failed(variant, plain["error"])
        keyed = (replace(one, file=None) if one.file == GIVEN else one for one in problems)
        return Failed(variant, plain["error"], variant.draft.blame(InputError.many(keyed)).problems)


def _refused(error: InputError | SimulationError) -> dict[str, Any]:
    """Why a variant has no figures, as plain values."""
    problems = error.problems if isinstance(error, InputError) else ()
    return {"error": failure(error), "problems": [vars(problem) for problem in problems]}


def split(found: Sequence[Measured | Failed]) -> tuple[list[tuple[int, Measured]], list[Failed]]:
    """Variants that succeeded, with their numbers, and those that failed.

    Raises:
        InputError: The input of all is wrong.
        SimulationError: All failed.
    """
    failed = [one for one in found if isinstance(one, Failed)]
    if len(failed) == len(found):
        if all(one.problems for one in failed):
            raise InputError.many(dict.fromkeys(problem for one in failed for problem in one.problems))
        raise SimulationError(f"none of the {len(found)} variants succeeded: {failed[0].error}")
    return [(number, one) for number, one in enumerate(found) if not isinstance(one, Failed)], failed


def ran(task: dict[str, Any]) -> dict[str, Any]:
    """Runs a variant on its node: its figures as plain values and its files, or why it has none.

    Args:
        task: `variants`, the last of which is run, as names, settings and values (a bound has the layout of one of the
            products before it), their `folder`, `engine` and `searched`.

    """
    folder_of = Path(task["folder"])
    variants = [
        Variant(name, settings, replace(load.from_values(values), folder=folder_of))
        for name, settings, values in task["variants"]
    ]
    kind = kinds.get(variants[0].draft.kind)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        control = Control(_NOTHING, Event(), recorded=True, searched=task["searched"])
        try:
            *_, prepared = kind.prepare(variants, task["engine"])
            measured = kind.one(prepared, place, control)
        except (InputError, SimulationError) as error:
            return _refused(error)
        return {"measured": plain_of(measured), "files": dict(_files(place))}


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), read_bytes(path, MOST_STREAMED)
