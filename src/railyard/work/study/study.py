"""The order of every study: prepare, run, measure, write. The kind of work defines each step."""

from __future__ import annotations

import os
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from railyard.kit.errors import InputError, Interrupted, Stopped
from railyard.kit.files import write_text
from railyard.work.study import folder as folders
from railyard.work.study.folder import calibrations
from railyard.work.study.kind import STOPPED, Failed, kinds
from railyard.work.study.provenance import result_of, version
from railyard.work.study.tasks import Control, Meter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railyard.measure.result.reading import Result
    from railyard.work.scenario.load import Draft, ImpossibleVariant
    from railyard.work.study.kind import Measured, Named, StudyDocument, StudyKind
    from railyard.work.study.sweep import Sweep
    from railyard.work.study.tasks import Progress, Workers

    AnyKind = StudyKind[Any, Any, Any, Any, Any]
    Face = Callable[[Result, Path], None]


T = TypeVar("T")


def at_once(one: Callable[[int], T], count: int, threads: int, stop: Event) -> list[T]:
    """Results of `one` for every number, computed on several threads.

    Args:
        one: Called with a number from 0.
        count: Number of calls.
        threads: Maximum number of threads.
        stop: Set when a call fails, or the user stops the run.
    """
    pool = ThreadPoolExecutor(max_workers=min(count, threads))
    futures = [pool.submit(one, number) for number in range(count)]
    waits = True
    try:
        return _gathered(futures)
    except Interrupted:
        waits = False  # what had ended by now is the answer, and the process ends behind it
        raise
    finally:
        stop.set()
        pool.shutdown(wait=waits, cancel_futures=True)


def _gathered(futures: Sequence[Future[T]]) -> list[T]:
    """The results in order; the first real error is raised at once."""
    pending = set(futures)
    while pending:
        ended, pending = wait(pending, return_when=FIRST_COMPLETED)
        for future in ended:
            error = future.exception()
            if error is not None and not isinstance(error, Stopped):
                raise error
    return [future.result() for future in futures]


@dataclass(frozen=True)
class FinishedStudy:
    """A finished study.

    Attributes:
        folder: Folder of the run, None if nothing was written.
    """

    folder: Path | None
    measured: tuple[Any, ...]
    compose: Callable[[], Result]

    @cached_property
    def result(self) -> Result:
        """The result, made on first use: `railyard packet` prints without it."""
        return self.compose()


def run(
    document: StudyDocument,
    varies: Sequence[str] = (),
    *,
    engine: str | None = None,
    out: Path | None = None,
    faces: Sequence[Face] = (),
    progress: Progress | None = None,
    searched: bool = True,
    prepared: Sequence[Any] | None = None,
    pool: Callable[[], Workers] | None = None,
) -> FinishedStudy:
    """Runs a document with every variant that it compares.

    With several variants each is stored as it ends. After a kill the same call resumes, and a variant that fails does
    not affect the others.

    Args:
        document: A scenario, or traffic over a network.
        varies: `key=a,b,c` in place of the document's comparison.
        engine: Replaces the document's engine.
        out: Parent of the run's folder; None writes nothing.
        faces: Write further files (the report) into the folder, given the result.
        progress: Called with the current activity and the share done, from 0 to 1.
        searched: Whether to search for what would help.
        prepared: Its variants from `prepare`, if already done.
        pool: Makes worker processes for variants, closed at the end, such as those of a Ray cluster; None: this
            process.

    Raises:
        InputError: The document cannot be run; nothing has been written.
        SimulationError: The run cannot finish, or all of several variants fail.
    """
    notify: Progress = progress or (lambda _what, _share: None)
    notify("preparing", 0.0)
    kind = kinds.get(document.kind)
    variants, prepared, impossible = _prepared(kind, document, varies, engine, prepared, first=pool is not None)
    notify("simulating", 0.0)
    plain = kind.resolved(document, varies) if engine is None else {**kind.resolved(document, varies), "engine": engine}
    name = folders.name_of(plain, version())
    with nullcontext(None) if out is None else folders.replaced(out, name) as folder:
        sweep = _sweep_of(document, variants, engine, out, searched=searched, pool=pool)
        state = None if out is None else out / folders.STATES / name
        running = _Running(kind, variants, prepared, Meter(notify, [0.0] * len(variants)), searched, state)
        measured, failed = running.measured(folder) if sweep is None else running.swept(sweep, folder)
        related: Sequence[Measured] = kind.relate(measured)
        finished = FinishedStudy(
            None if out is None else out / name,
            tuple(related),
            partial(
                result_of,
                document,
                plain,
                kind.engine(prepared[0]),
                related,
                dated=kind.dated,
                failed=failed,
                impossible=impossible,
                unusual={variant.name: _unusual(variant, kind.engine(prepared[0])) for variant in variants},
            ),
        )
        if folder is not None:
            notify("writing the folder of the run", 1.0)
            result = finished.result
            kind.write_inputs(folder, kind.settled(plain, result), variants, result.provenance.defaults)
            _write(folder, result, faces)
    if sweep is not None and not failed:
        sweep.clear()
    if state is not None and not failed and not any(getattr(one.variant, "stopped", None) for one in measured):
        folders.forget_states(state)
    return finished


def prepare(document: StudyDocument, varies: Sequence[str] = (), engine: str | None = None) -> list[Any]:
    """Prepares every variant of a document.

    Raises:
        InputError: A variant cannot be run; names the place in the document.
    """
    kind = kinds.get(document.kind)
    kind.check(document, engine)
    variants, impossible = kind.expand(document, varies)
    for one in impossible:
        raise one.error
    return list(kind.prepare(_faultless(kind, variants), engine))


def prepared_of(file: Path, result: Result, number: int, engine: str | None = None) -> Any:
    """A variant of a run, prepared again from the scenario next to its result.

    Raises:
        InputError: It cannot be run, or that scenario has other variants.
    """
    from railyard.work.scenario import load  # `railyard packet` does not need it

    scenario = file.parent / "scenario.yaml"
    draft = load.load(scenario) if scenario.is_file() else load.from_values(result.scenario)
    variants = load.ended(draft, result.absent)
    if len(variants) != len(result.variants):
        text = f"the scenario next to the result has {len(variants)} variants, the result {len(result.variants)}"
        raise InputError(text, file=file)
    return kinds.get(draft.kind).prepare(variants, engine)[number]


def keep(result: Result, out: Path, *faces: Face) -> Path:
    """Stores a result that was not measured in this process in a folder, as `run` does.

    Returns:
        The folder.

    Raises:
        InputError: The folder cannot be made.
    """
    name = folders.name_of(dict(result.scenario), version())
    with folders.replaced(out, name) as folder:
        _write(folder, result, faces)
    return out / name


def _prepared(
    kind: AnyKind,
    document: StudyDocument,
    varies: Sequence[str],
    engine: str | None,
    prepared: Sequence[Any] | None = None,
    *,
    first: bool = False,
) -> tuple[Sequence[Named], Sequence[Any], Sequence[ImpossibleVariant]]:
    """Variants, prepared ones (only the `first` if others are prepared elsewhere), and those that are impossible."""
    kind.check(document, engine)
    variants, impossible = kind.expand(document, varies)
    _faultless(kind, variants)
    if prepared is not None:
        return variants, prepared, impossible
    try:
        return variants, kind.prepare(variants[:1] if first else variants, engine), impossible
    except InputError:
        if len(variants) < 2:
            raise
        refused = _impossible(kind, variants, engine)
        if len(refused) in (0, len(variants)):
            raise
    names = {one.name for one in refused}
    left = [one for one in variants if one.name not in names]
    return left, kind.prepare(left, engine), [*impossible, *refused]


def _impossible(kind: AnyKind, variants: Sequence[Any], engine: str | None) -> list[ImpossibleVariant]:
    """Variants that cannot be prepared alone.

    Raises:
        InputError: A name in one of them is misspelt.
    """
    from railyard.work.scenario.load import ImpossibleVariant

    found = []
    for variant in variants:
        try:
            kind.prepare([variant], engine)
        except InputError as error:
            if any(problem.unknown for problem in error.problems):
                raise
            found.append(ImpossibleVariant(variant.name, variant.settings, error))
    return found


def _unusual(variant: Any, engine: str) -> list[str]:
    draft: Draft | None = getattr(variant, "draft", None)
    if draft is None:  # `railyard packet`, which reads no scenario
        return []
    from railyard.work.scenario.load import Variant

    misnamed = variant.misnamed() if isinstance(variant, Variant) else []
    problems = (*draft.unusual, *draft.ignored(engine))
    return [*misnamed, *calibrations(draft), *(problem.headline() for problem in problems)]


def _faultless(kind: AnyKind, variants: Sequence[Any]) -> Sequence[Any]:
    """The variants.

    Raises:
        InputError: One has faults that its kind of work would ignore.
    """
    for variant in variants:
        _refuse_faults(kind, getattr(variant, "draft", None))
    return variants


def _refuse_faults(kind: AnyKind, draft: Draft | None) -> None:
    """Rejects faults that a kind of work would ignore."""
    if draft is None or kind.faulty or not draft.scenario.faults:
        return
    known = [name for name, one in kinds.items() if one.faulty]
    message = f"work of the kind `{kind.name}` knows no faults"
    raise draft.blame(InputError(message, key="faults", allowed=known, hint="leave them out"))


def _sweep_of(
    document: StudyDocument,
    variants: Sequence[Any],
    engine: str | None,
    out: Path | None,
    *,
    searched: bool,
    pool: Callable[[], Workers] | None,
) -> Sweep | None:
    """The store of finished variants; None if there is only one variant, or nothing is written.

    Raises:
        InputError: Variants should run in other processes, but nothing is written.
    """
    if pool is not None and out is None:
        raise InputError("what runs on a Ray cluster is kept as it ends: give a folder", key="out")
    if out is None or (len(variants) < 2 and pool is None):
        return None
    from railyard.work.scenario.load import Draft  # `railyard packet` does not need these
    from railyard.work.study.sweep import Sweep

    if not isinstance(document, Draft):
        return None
    return replace(Sweep.of(document, variants, engine, out, searched=searched), pool=pool)


def _write(folder: Path, result: Result, faces: Sequence[Face]) -> None:
    write_text(folder / "result.json", result.text())
    for face in faces:
        face(result, folder)


@dataclass(frozen=True)
class _Running:
    """All variants of a study on their way.

    Attributes:
        prepared: The variants as their kind prepares them; where others do that, the first alone.
        state: Path for states of runs, by number; None: none.
    """

    kind: AnyKind
    variants: Sequence[Any]
    prepared: Sequence[Any]
    meter: Meter
    searched: bool
    state: Path | None

    def measured(self, folder: Path | None) -> tuple[list[Measured], tuple[Failed, ...]]:
        """Runs every variant, with its files in the folder of the run; also returns those that a signal interrupted."""
        ended: dict[int, Measured] = {}

        def remembered(number: int, one: Callable[[int, Path | None], Measured]) -> Measured:
            name = self.variants[number].name
            ended[number] = one(number, None if folder is None else folders.of_variant(folder, number, name))
            return ended[number]

        try:
            return self._at_once(remembered), ()
        except Interrupted:
            if not ended:
                raise
        found = dict(sorted(ended.items()))
        lost = (Failed(one, STOPPED) for at, one in enumerate(self.variants) if at not in found)
        return list(found.values()), tuple(lost)

    def swept(self, sweep: Sweep, folder: Path | None) -> tuple[list[Measured], tuple[Failed, ...]]:
        """Variants that succeeded, with their files in the folder of the run, and the others."""
        from railyard.work.study.sweep import split

        try:
            found = self._every(sweep)
        except Interrupted:
            found = sweep.so_far()
            if all(isinstance(one, Failed) for one in found):
                raise
        try:
            ended, failed = split(found)
        except InputError:
            sweep.clear()
            raise
        for place, (number, _) in enumerate(ended):
            if folder is not None:
                sweep.fetch(number, folders.of_variant(folder, place, sweep.variants[number].name))
        return [one for _, one in ended], tuple(failed)

    def _every(self, sweep: Sweep) -> list[Measured | Failed]:
        """Runs every variant of a sweep, in this process or in others."""
        if sweep.pool is None:
            return self._at_once(sweep.here)
        pool = sweep.pool()
        try:
            return sweep.there(pool, self.meter)
        finally:
            pool.close()

    def _at_once(self, around: Callable[[int, Callable[[int, Path | None], Measured]], T]) -> list[T]:
        """Runs every variant, one at a time or one per processor; `around` is given its number, and what runs it."""
        processors, stop = os.cpu_count() or 1, Event()
        workers = max(1, processors // len(self.prepared))

        def through(number: int, place: Path | None) -> Measured:
            control = Control(
                self.meter.of(number),
                stop,
                workers,
                recorded=place is not None,
                searched=self.searched,
                state=self.state and self.state.with_name(f"{self.state.name}-{number}"),
                alone=len(self.prepared) == 1,
            )
            draft: Draft | None = getattr(self.variants[number], "draft", None)
            try:
                found: Measured = self.kind.one(self.prepared[number], place, control)
            except InputError as error:
                raise error if draft is None else draft.blame(error) from None
            return found

        def one(number: int) -> T:
            found = around(number, through)
            self.meter.done(number)
            return found

        if not self.kind.parallel:
            return [one(number) for number in range(len(self.prepared))]
        return at_once(one, len(self.prepared), processors, stop)
