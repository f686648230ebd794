"""What every kind of assertion is: read from words, judged of one variant of a scenario."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from railyard.ask.audit.step_price import StepPricing
from railyard.kit.registry import Registry
from railyard.work.study import compose

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.cluster import Cluster
    from railyard.work.scenario.load import Draft


@dataclass(frozen=True)
class Outcome:
    """What was found of one assertion.

    Attributes:
        found: In words, with units.
        holds: Whether the assertion does.
        remark: What to know before it is believed; empty where nothing.
    """

    found: str
    holds: bool
    remark: str = ""


@dataclass(frozen=True, eq=False)
class Subject:
    """One variant of a scenario; what is costly is made when an assertion asks for it.

    Attributes:
        name: Of the variant.
        draft: Its scenario, without a comparison.
        prepared: Gives it ready to run.
        measured: Gives the variant of the result.
        progress: Takes what is being done, and its share from 0 to 1.
    """

    name: str
    draft: Draft
    prepared: Callable[[], Any] = field(repr=False)
    measured: Callable[[], Any] = field(repr=False)
    progress: Callable[[str, float], None] = field(repr=False)

    @cached_property
    def cluster(self) -> Cluster:
        """The machine as planned."""
        return compose.cluster_of(self.draft, compose.catalog_of(self.draft))

    @cached_property
    def pricing(self) -> StepPricing:
        """Steps of the job on the network with parts lost."""
        return StepPricing(self.prepared())


class Assertion(Protocol):
    """One assertion.

    Attributes:
        forms: How it is written, for messages and pages.
    """

    forms: ClassVar[tuple[str, ...]]

    @classmethod
    def read(cls, text: str) -> Self:
        """From the words of the scenario, blanks made single.

        Raises:
            InputError: They are no assertion of the kind.
        """

    def check(self, subject: Subject) -> None:
        """Refuses a scenario of which it cannot be judged, before anything runs.

        Raises:
            InputError: It cannot.
        """

    def judge(self, subject: Subject) -> Outcome:
        """Whether it holds; of what `check` lets pass."""


assertions: Registry[type[Assertion]] = Registry("assertion", package="railyard.ask.check.kinds")
