"""A kind of work as a record of its steps: `kind.py` in its folder, imported when a study asks for it.

The name of the folder is the name of the kind, and the key under `workload` of a scenario (`works`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from railyard.kit.errors import InputError
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railyard.kit.errors import Problem
    from railyard.measure.cost.assumptions import Source
    from railyard.measure.result.reading import Result
    from railyard.measure.result.reading import Variant as Figures
    from railyard.measure.result.section import KeyFigure
    from railyard.measure.result.variants import BaseVariant
    from railyard.work.scenario.load import ImpossibleVariant, Variant
    from railyard.work.study.tasks import Control


class StudyDocument(Protocol):
    """The document of a study: a scenario, or traffic over a network."""

    @property
    def kind(self) -> str:
        """Name of its kind of work."""

    @property
    def title(self) -> str:
        """Name of the result."""

    @property
    def seed(self) -> int:
        """Seed of every random choice."""


class Measured(Protocol):
    """One variant of the result, and where its numbers come from."""

    @property
    def variant(self) -> Figures:
        """Name of the variant in the result."""

    @property
    def digest(self) -> str:
        """Fingerprint of the run."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """Origins of its prices, powers, rates."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Omissions of engine and model."""

    @property
    def defaults(self) -> tuple[str, ...]:
        """Defaults that were chosen because the document did not say."""


F = TypeVar("F", bound="BaseVariant")


@dataclass(frozen=True, eq=False)
class MeasuredVariant(Generic[F]):
    """One variant of the result, and the sources of its numbers, as `Measured` requires.

    Attributes:
        variant: As in `result.json`.
        defaults: Defaults that were chosen because the document did not say.
        sampled_ranks: A few representative ranks, for the trace.
    """

    variant: F
    sources: tuple[Source, ...] = ()
    left_out: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()
    sampled_ranks: tuple[int, ...] = ()

    @property
    def digest(self) -> str:
        """Fingerprint of the run."""
        return self.variant.digest


class Named(Protocol):
    """A variant of a document."""

    @property
    def name(self) -> str:
        """Name in tables."""


STOPPED = "it was stopped before it ended"
"""Reason for a variant without figures that Ctrl-C or SIGTERM interrupted."""


@dataclass(frozen=True)
class Failed:
    """A variant that failed.

    Attributes:
        problems: What is wrong with its input; empty if its run could not finish.
    """

    variant: Variant
    error: str
    problems: tuple[Problem, ...] = ()


D = TypeVar("D", bound=StudyDocument)
V = TypeVar("V", bound=Named)
P = TypeVar("P")
O = TypeVar("O")  # noqa: E741 - prepared, outcome, measured
M = TypeVar("M", bound=Measured)


def _nothing(*_: object) -> None:
    """A step that a kind does not have."""


def _unexplained(file: Path, *_: object, **_how: object) -> Any:
    raise InputError("only steps of training and serving runs can be explained", file=file)


def _expand(draft: Any, varies: Sequence[str]) -> tuple[Sequence[Any], Sequence[ImpossibleVariant]]:
    """The variants of a scenario, and combinations that are none."""
    from railyard.work.scenario.load import (
        possible,  # it reads sections of kinds, which may stand next to this record
    )

    return possible(draft, varies)


def _resolved(draft: Any, varies: Sequence[str]) -> dict[str, Any]:
    """A scenario as plain values, with its comparison."""
    from railyard.work.scenario.load import resolved

    return resolved(draft, varies)


def _write_inputs(folder: Path, plain: dict[str, Any], variants: Sequence[Any], chosen: Sequence[str]) -> None:
    """The scenario, and the files that it names."""
    from railyard.work.study.folder import write_inputs

    write_inputs(folder, plain, variants, chosen)


def _as_it_is(plain: dict[str, Any], _result: Result) -> dict[str, Any]:
    """A document that leaves nothing open for its run to decide."""
    return plain


def _as_measured(_outcome: object, found: M, _control: Control) -> M:
    """No further runs."""
    return found


def _unrelated(measured: Sequence[M]) -> Sequence[M]:
    """Variants that are independent of one another."""
    return measured


@dataclass(frozen=True)
class StudyKind(Generic[D, V, P, O, M]):
    """A kind of work.

    Attributes:
        check: Rejects a requested engine that cannot run this work.
        prepare: Prepares all variants, given them and the requested engine; every input error is raised here.
        engine: Name of the engine that runs a prepared variant.
        search: Further runs that the document asks for, such as its capacity, added to the figures.
        relate: Adds what only all variants together show.
        write: Writes tables and traces of one variant into its folder.
        expand: The variants of a document, with `key=a,b,c` in place of its own comparison, and impossible ones.
        resolved: The document as plain values with the same comparison; names the folder.
        settled: The document with the run's decisions (such as a searched layout) written out.
        write_inputs: Writes the document and the files that it names into the folder of the run.
        parallel: Whether variants run at the same time: engines free the GIL.
        faulty: Whether it supports the scenario's faults; other kinds reject them.
        dated: Whether the result has a date; without one, the same study gives the same bytes.
        closed_form: Whether the engine `analytic` estimates it in closed form.
        expected: Key figures of a variant in closed form, where that engine does not run it.
        explain: Explains a variant by its name, given the file of the result and the result; see `study.explain`.
    """

    name: str
    prepare: Callable[[Sequence[V], str | None], Sequence[P]]
    engine: Callable[[P], str]
    run: Callable[[P, Control], O]
    measure: Callable[[O], M]
    write: Callable[[Path, O, M], None]
    expand: Callable[[D, Sequence[str]], tuple[Sequence[V], Sequence[ImpossibleVariant]]] = _expand
    resolved: Callable[[D, Sequence[str]], dict[str, Any]] = _resolved
    settled: Callable[[dict[str, Any], Result], dict[str, Any]] = _as_it_is
    write_inputs: Callable[[Path, dict[str, Any], Sequence[V], Sequence[str]], None] = _write_inputs
    check: Callable[[D, str | None], None] = _nothing
    search: Callable[[O, M, Control], M] = _as_measured
    relate: Callable[[Sequence[M]], Sequence[M]] = _unrelated
    parallel: bool = False
    faulty: bool = False
    dated: bool = True
    closed_form: bool = False
    expected: Callable[[Variant], Sequence[KeyFigure]] | None = None
    explain: Callable[..., Any] = _unexplained

    def one(self, prepared: P, place: Path | None, control: Control) -> M:
        """Runs one variant through all steps.

        Args:
            prepared: The variant.
            place: Folder of its files; None writes none.
            control: Progress, and when to stop.
        """
        outcome = self.run(prepared, control)
        found = self.measure(outcome)
        if place is not None:
            place.mkdir(parents=True, exist_ok=True)
            self.write(place, outcome, found)
        return self.search(outcome, found, control)


kinds: Registry[StudyKind[Any, Any, Any, Any, Any]] = Registry("kind of work", package="railyard.work", part="kind")

TRIALS = 10
"""Approximate simulations per variant in addition to its seeds, for the progress bar only."""
