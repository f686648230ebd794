"""The order of every study: prepare, run, measure, write. What each step does is the kind's."""

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
from railyard.work.study.kind import STOPPED, Failed, kinds
from railyard.work.study.provenance import result_of, version
from railyard.work.study.tasks import Control, Meter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railyard.measure.result.reading import Result
    from railyard.work.scenario.load import Draft
    from railyard.work.study.kind import Measured, Named, StudyDocument, StudyKind
    from railyard.work.study.sweep import Sweep
    from railyard.work.study.tasks import Progress, Workers

    AnyKind = StudyKind[Any, Any, Any, Any, Any]
    Face = Callable[[Result, Path], None]


T = TypeVar("T")


def at_once(one: Callable[[int], T], count: int, threads: int, stop: Event) -> list[T]:
    """What `one` gives for every number, on so many threads.

    Args:
        one: Given a number from 0.
        count: How many numbers.
        threads: At most.
        stop: Set when the first of them fails, or the user stops the run.
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
    """The results in order; the first real error is raised as soon as it is there."""
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
    """A study that is done.

    Attributes:
        folder: Of the run, None when nothing was written.
        measured: What its kind measured, a record a variant.
        compose: Makes the result of it.
    """

    folder: Path | None
    measured: tuple[Any, ...]
    compose: Callable[[], Result]

    @cached_property
    def result(self) -> Result:
        """All of it, made when it is first asked for: `railyard packet` prints without."""
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

    Of several variants each is kept as it ends: after a kill the same call goes on, and one that fails takes no other
    with it.

    Args:
        document: A scenario that was read, or traffic over a network.
        varies: `key=a,b,c` in place of what the document compares.
        engine: In place of the document's.
        out: Where the folder of the run is put; None writes nothing.
        faces: Each writes further files (the report) into the folder, given the result.
        progress: Called with what is being done, and its share from 0 to 1.
        searched: Whether it is tried what would help.
        prepared: Its variants as `prepare` gives them, where that was done already.
        pool: Makes processes on which variants run, closed at the end, such as those of a Ray cluster; None: this one.

    Raises:
        InputError: The document cannot be run; nothing has been written then.
        SimulationError: The run cannot finish, or none of several variants can.
    """
    notify: Progress = progress or (lambda _what, _share: None)
    notify("preparing", 0.0)
    kind = kinds.get(document.kind)
    variants, prepared = _prepared(kind, document, varies, engine, prepared, first=pool is not None)
    plain = kind.resolved(document, varies) if engine is None else {**kind.resolved(document, varies), "engine": engine}
    name = folders.name_of(plain, version())
    with nullcontext(None) if out is None else folders.replaced(out, name) as folder:
        meter = Meter(notify, [0.0] * len(variants))
        failed: tuple[Failed, ...] = ()
        sweep = _sweep_of(document, variants, engine, out, searched=searched, pool=pool)
        state = None if out is None else out / folders.STATES / name
        if sweep is None:
            places = _places(folder, variants)
            measured, failed = _measured(kind, variants, prepared, places, meter, searched=searched, state=state)
        else:
            measured, failed = _swept(sweep, kind, prepared, folder, meter, state=state)
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
                unusual={variant.name: _unusual(variant) for variant in variants},
            ),
        )
        if folder is not None:
            notify("writing the folder of the run", 1.0)
            result = finished.result
            kind.write_inputs(folder, kind.settled(plain, result), variants)
            _write(folder, result, faces)
    if sweep is not None and not failed:
        sweep.clear()
    if state is not None and not failed and not any(getattr(one.variant, "stopped", None) for one in measured):
        folders.forget_states(state)
    return finished


def prepare(document: StudyDocument, varies: Sequence[str] = (), engine: str | None = None) -> list[Any]:
    """Every variant of a document, ready to run, as its kind prepares it.

    Raises:
        InputError: One of them cannot be run; with the place in the document.
    """
    return list(_prepared(kinds.get(document.kind), document, varies, engine)[1])


def keep(result: Result, out: Path, *faces: Face) -> Path:
    """Puts a result that no study of this process measured into a folder, as `run` does.

    Returns:
        The folder.

    Raises:
        InputError: It cannot be made.
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
) -> tuple[Sequence[Named], Sequence[Any]]:
    """Variants, and these ready to run: all, or the `first` alone where others are made ready elsewhere."""
    kind.check(document, engine)
    variants = kind.expand(document, varies)
    for variant in variants:
        _refuse_faults(kind, getattr(variant, "draft", None))
    return variants, kind.prepare(variants[:1] if first else variants, engine) if prepared is None else prepared


def _unusual(variant: Any) -> list[str]:
    draft: Draft | None = getattr(variant, "draft", None)
    return [] if draft is None else [problem.headline() for problem in draft.unusual]


def _refuse_faults(kind: AnyKind, draft: Draft | None) -> None:
    """Refuses faults that work of a kind would pass over."""
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
    """What keeps variants as they end; None where there is one alone, or nothing is written.

    Raises:
        InputError: Variants are to run in other processes, and nothing is written.
    """
    if pool is not None and out is None:
        raise InputError("what runs on a Ray cluster is kept as it ends: give a folder", key="out")
    if out is None or (len(variants) < 2 and pool is None):
        return None
    from railyard.work.scenario.load import Draft  # `railyard packet` has no use for these
    from railyard.work.study.sweep import Sweep

    if not isinstance(document, Draft):
        return None
    return replace(Sweep.of(document, variants, engine, out, searched=searched), pool=pool)


def _every(
    sweep: Sweep, kind: AnyKind, prepared: Sequence[Any], meter: Meter, state: Path | None
) -> list[Measured | Failed]:
    """Every variant of a sweep, in this process or in others."""
    if sweep.pool is None:
        return _at_once(kind, sweep.variants, prepared, meter, sweep.here, searched=sweep.searched, state=state)
    pool = sweep.pool()
    try:
        return sweep.there(pool, meter)
    finally:
        pool.close()


def _swept(
    sweep: Sweep, kind: AnyKind, prepared: Sequence[Any], folder: Path | None, meter: Meter, *, state: Path | None
) -> tuple[list[Measured], tuple[Failed, ...]]:
    """Variants that ended well, with their files in the folder of the run, and the others."""
    from railyard.work.study.sweep import split

    try:
        found = _every(sweep, kind, prepared, meter, state)
    except Interrupted:
        found = sweep.so_far()
        if all(isinstance(one, Failed) for one in found):
            raise
    ended, failed = split(found)
    for place, (number, _) in enumerate(ended):
        if folder is not None:
            sweep.fetch(number, folders.of_variant(folder, place, sweep.variants[number].name))
    return [one for _, one in ended], tuple(failed)


def _places(folder: Path | None, variants: Sequence[Named]) -> list[Path | None]:
    """Where the files of each variant go; None where nothing is written."""
    if folder is None:
        return [None] * len(variants)
    return [folders.of_variant(folder, number, variant.name) for number, variant in enumerate(variants)]


def _write(folder: Path, result: Result, faces: Sequence[Face]) -> None:
    write_text(folder / "result.json", result.text())
    for face in faces:
        face(result, folder)


def _measured(
    kind: AnyKind,
    variants: Sequence[Any],
    prepared: Sequence[Any],
    places: Sequence[Path | None],
    meter: Meter,
    *,
    searched: bool,
    state: Path | None,
) -> tuple[list[Measured], tuple[Failed, ...]]:
    """Every variant through its steps, its files where they belong; and those that a signal did not let end."""
    ended: dict[int, Measured] = {}

    def remembered(number: int, one: Callable[[int, Path | None], Measured]) -> Measured:
        ended[number] = one(number, places[number])
        return ended[number]

    try:
        return _at_once(kind, variants, prepared, meter, remembered, searched=searched, state=state), ()
    except Interrupted:
        if not ended:
            raise
    found = dict(sorted(ended.items()))
    return list(found.values()), tuple(Failed(one, STOPPED) for at, one in enumerate(variants) if at not in found)


def _at_once(
    kind: AnyKind,
    variants: Sequence[Named],
    prepared: Sequence[Any],
    meter: Meter,
    around: Callable[[int, Callable[[int, Path | None], Measured]], T],
    *,
    searched: bool,
    state: Path | None,
) -> list[T]:
    """Every variant: one after another, or as many at a time as there are processors.

    Args:
        kind: Of the work.
        variants: Whose scenarios errors point to.
        prepared: The same, ready to run.
        meter: Of all of them.
        around: Runs a variant by what it is given, which takes its number and the folder of its files.
        searched: Whether it is tried what would help.
        state: Where states of runs are kept, by number; None: nowhere.
    """
    processors, stop = os.cpu_count() or 1, Event()
    workers = max(1, processors // len(prepared))

    def through(number: int, place: Path | None) -> Measured:
        control = Control(
            meter.of(number),
            stop,
            workers,
            recorded=place is not None,
            searched=searched,
            state=state and state.with_name(f"{state.name}-{number}"),
            alone=len(prepared) == 1,
        )
        draft: Draft | None = getattr(variants[number], "draft", None)
        try:
            found: Measured = kind.one(prepared[number], place, control)
        except InputError as error:
            raise error if draft is None else draft.blame(error) from None
        return found

    def one(number: int) -> T:
        found = around(number, through)
        meter.done(number)
        return found

    if not kind.parallel:
        return [one(number) for number in range(len(prepared))]
    return at_once(one, len(prepared), processors, stop)
