"""What every stage is to those around it: requests come in at times, go out at times, and these are made of parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import numpy as np

from railyard.engine.serving.running import Columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from railyard.engine.stages.drafting import Drafting
    from railyard.graph import Record

    Progress = Callable[[int, int], None]

CAUSES = ("queue", "compute", "network", "transfer")
"""Of which every time is made: waiting, computing, collectives that nothing hides, data on its way."""
PS = 1e12


@dataclass(frozen=True)
class Cached:
    """What a model's caches did for the prompts that it answered.

    Attributes:
        prompt_tokens: Of these prompts.
        found_tokens: Of them, not computed.
        loaded_tokens: Of those, loaded from below the replicas' memory.
        preemptions: Requests that had to make room for others.
    """

    prompt_tokens: int
    found_tokens: int
    loaded_tokens: int
    preemptions: int


@dataclass(frozen=True, eq=False)
class Tokens:
    """Answers of a language model; a row a request, in the order in which they came.

    Attributes:
        first_ps: i64[m], first token; -1 where there was none.
        first_parts: f64[m, 4], parts of the time until then.
        decode_network_s: f64[m], collectives for each further token.
        cached_tokens: i64[m], of its prompt, not computed.
        gap_count: i64[bins], gaps between two tokens.
        gap_lower_s: f64[bins], where the bins begin.
        cache: Of all of them.
    """

    first_ps: NDArray[np.int64]
    first_parts: NDArray[np.float64]
    decode_network_s: NDArray[np.float64]
    cached_tokens: NDArray[np.int64]
    gap_count: NDArray[np.int64]
    gap_lower_s: NDArray[np.float64]
    cache: Cached


@dataclass(frozen=True, eq=False)
class Passed:
    """What became of the requests of one stage; a row a request, in the order in which they came.

    Attributes:
        end_ps: i64[m], when the stage was through with it; -1 where it never was.
        parts: f64[m, 4], seconds from its coming to `end_ps` by `CAUSES`.
        refused: bool[m], it can never be served here.
        overloaded: The stage's queue grew without bound.
        run: Of the serving engine; None where the stage has none.
        busy_s: Of all its servers together, where there is no such run.
        tokens: Of answers; None where there are none.
        drafting: Guesses from other accelerators, as they settled; None without.
    """

    end_ps: NDArray[np.int64]
    parts: NDArray[np.float64]
    refused: NDArray[np.bool_]
    overloaded: bool
    run: Record | None = None
    busy_s: float = 0.0
    tokens: Tokens | None = None
    drafting: Drafting | None = None

    @property
    def served_run(self) -> Record:
        """The run of the serving engine.

        Raises:
            ValueError: The stage has none.
        """
        if self.run is None:
            raise ValueError("this stage does not run on the serving engine")
        return self.run


class Asked(Columns, Protocol):
    """What the engine reads of requests, and how it picks some of them."""

    def __len__(self) -> int:
        """Number of requests."""

    def take(self, rows: NDArray[np.int64], arrival_ps: NDArray[np.int64] | None = None) -> Self:
        """Some rows, with other arrivals."""


R_contra = TypeVar("R_contra", bound=Asked, contravariant=True)


class Stage(Protocol[R_contra]):
    """A stage, ready to run."""

    @property
    def nic_bps(self) -> float:
        """Rate at which one of its requests' data may come and go; infinite where nothing bounds it."""

    def sends_bytes(self, requests: R_contra) -> NDArray[np.float64]:
        """f64[n], what each request carries on from here."""

    def run(self, requests: R_contra, rows: NDArray[np.int64], seed: int, progress: Progress | None) -> Passed:
        """Serves requests.

        Args:
            requests: Those that take the stage, with the times at which they come, ascending.
            rows: int64[m], their numbers among all requests.
            seed: Of everything random.
            progress: Called with how many have left, and the simulated time in ps.
        """


def parts(**seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """f64[m, 4] of columns by cause; causes that are left out are zero."""
    count = len(next(iter(seconds.values())))
    return np.column_stack([seconds.get(cause, np.zeros(count)) for cause in CAUSES])
