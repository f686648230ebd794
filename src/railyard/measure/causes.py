"""The words for what a rank's time went to, and the tables that turn labels into small integers.

    compute      the compute stream runs a kernel that is not communication; longer where communications slow it
    latency      exposed communication: its part that more bandwidth would not shorten
    bandwidth    exposed communication: what it would take with the network to itself, minus that
    contention   exposed communication: what it took beyond that, because others used the same links
    straggler    waiting in a collective for members that do the same work and came late
    bubble       waiting for another pipeline stage to compute
    data         waiting for input data
    checkpoint   waiting for a checkpoint to be written
    fault        held up by an injected delay of its own
    dependency   waiting for a computation elsewhere, such as on the host, to which no transfer or collective leads
    release      waiting for the time at which a trace lets its work start

Results carry the words, computations the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.graph import Label


class Cause(IntEnum):
    """What a picosecond of a rank's compute stream went to."""

    COMPUTE = 0
    LATENCY = 1
    BANDWIDTH = 2
    CONTENTION = 3
    STRAGGLER = 4
    BUBBLE = 5
    DATA = 6
    CHECKPOINT = 7
    FAULT = 8
    DEPENDENCY = 9
    RELEASE = 10

    @property
    def word(self) -> str:
        """The name in results."""
        return self.name.lower()


PIPELINE_GROUP, PIPELINE_INDEX = "pp", 1
"""Communicator class of pipeline transfers, to which every bubble is booked."""

OUTAGE: Final = "outage"
"""Cause of what the mean step has of faults that come once: hang, repair and restart, or a while of slow steps."""

NETWORK_CAUSES = (Cause.LATENCY, Cause.BANDWIDTH, Cause.CONTENTION)
CAUSES = len(Cause)


@dataclass(frozen=True)
class Vocabulary:
    """Phases and groups of a label table as small integers, so that sums go into dense arrays.

    Attributes:
        phases: Names; index 0 is the empty phase.
        groups: Names; index 0 is the empty group, `PIPELINE_INDEX` that of the pipeline.
        phase_of: int64[labels].
        group_of: int64[labels].
        data: bool[labels]; whether the phase is "data".
        checkpoint: bool[labels]; whether the phase is "checkpoint".
    """

    phases: list[str]
    groups: list[str]
    phase_of: NDArray[np.int64]
    group_of: NDArray[np.int64]
    data: NDArray[np.bool_]
    checkpoint: NDArray[np.bool_]

    @staticmethod
    def of(labels: Sequence[Label]) -> Vocabulary:
        """The vocabulary of a label table."""
        phases, groups = [""], ["", PIPELINE_GROUP]
        phase_index, group_index = {"": 0}, {"": 0, PIPELINE_GROUP: PIPELINE_INDEX}
        phase_of = np.zeros(len(labels), np.int64)
        group_of = np.zeros(len(labels), np.int64)
        for number, label in enumerate(labels):
            phase_of[number] = _index_of(label.phase, phases, phase_index)
            group_of[number] = _index_of(label.group, groups, group_index)
        words = np.array([label.phase for label in labels], dtype=object)
        return Vocabulary(phases, groups, phase_of, group_of, words == "data", words == "checkpoint")

    @property
    def cells(self) -> int:
        """Number of (cause, group, phase) combinations."""
        return CAUSES * len(self.groups) * len(self.phases)

    def cell(self, cause: NDArray[np.int64], group: NDArray[np.int64], phase: NDArray[np.int64]) -> NDArray[np.int64]:
        """Index of each (cause, group, phase) in a dense array of `cells`."""
        return (cause * len(self.groups) + group) * len(self.phases) + phase


def _index_of(word: str, names: list[str], index: dict[str, int]) -> int:
    if word not in index:
        index[word] = len(names)
        names.append(word)
    return index[word]
