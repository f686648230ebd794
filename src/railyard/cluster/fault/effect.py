"""What a fault does, in terms that every engine reads: spells during which links or ranks are not what they were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Spell:
    """From when on and until when, ps; no end: for good."""

    begin_ps: int
    end_ps: int | None = None

    def holds(self, at_ps: int) -> bool:
        """Whether a moment is part of it."""
        return self.begin_ps <= at_ps and (self.end_ps is None or at_ps < self.end_ps)


@dataclass(frozen=True, eq=False)
class LinkRate:
    """Directed links keep a part of their rate.

    Attributes:
        link: int64[], links.
        factor: 0, they are dead, to less than 1.
        spell: When.
    """

    link: NDArray[np.int64]
    factor: float
    spell: Spell


@dataclass(frozen=True, eq=False)
class LinkErrors:
    """A part of the bits on directed links arrives wrong.

    Attributes:
        link: int64[], links.
        ratio: Which part, 0 to 1.
        spell: When.
    """

    link: NDArray[np.int64]
    ratio: float
    spell: Spell


@dataclass(frozen=True, eq=False)
class LinkSetting:
    """Switches at the ends of directed links are set otherwise than the fabric needs, during the entire run.

    Attributes:
        link: int64[], links.
        what: `pause`: the far end stops its sender before it has to drop; `obey`: the sender stops when it is told to;
            `mark`: the sender's queue marks; `headroom`: the far end's, of what the link needs.
        kept: What is left of it: 0, none, to 1.
    """

    link: NDArray[np.int64]
    what: Literal["pause", "obey", "mark", "headroom"]
    kept: float


@dataclass(frozen=True)
class RankSpeed:
    """A rank computes at a part of its speed."""

    rank: int
    factor: float
    spell: Spell


@dataclass(frozen=True)
class RankDelay:
    """The computation that runs on a rank at a moment, or the next one, takes longer."""

    rank: int
    by_ps: int
    at_ps: int


@dataclass(frozen=True)
class RankDeath:
    """The processes of some ranks are gone, and their memory with them."""

    ranks: tuple[int, ...]
    spell: Spell


Effect = LinkRate | LinkErrors | LinkSetting | RankSpeed | RankDelay | RankDeath
