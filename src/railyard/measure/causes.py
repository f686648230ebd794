"""Names of the causes of a rank's time, and the tables that map labels to small integers.

    compute      the compute stream runs a kernel other than communication; longer if communications slow it
    latency      exposed communication: the part that more bandwidth would not shorten
    bandwidth    exposed communication: its time with the network to itself, minus latency
    contention   exposed communication: its additional time because others used the same links
    straggler    waiting in a collective for members that do the same work and arrive late
    bubble       waiting for another pipeline stage to compute
    data         waiting for input data
    checkpoint   waiting for a checkpoint to be written
    fault        delayed by an injected fault of its own
    dependency   waiting for a computation elsewhere, such as on the host, that no transfer or collective connects
    release      waiting for the time at which a trace releases its work

Results use the names, computations the numbers.
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
    """Cause of a picosecond of a rank's compute stream."""

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
"""Communicator class of pipeline transfers, to which every bubble is charged."""

OUTAGE: Final = "outage"
"""Cause of the time that one-off faults add to the mean step: hang, repair and restart, or a period of slow steps."""

NETWORK_CAUSES = (Cause.LATENCY, Cause.BANDWIDTH, Cause.CONTENTION)
CAUSES = len(Cause)


@dataclass(frozen=True)
class Vocabulary:
    """Phases and groups of a label table as small integers, so that sums use dense arrays.

    Attributes:
        phases: Names; index 0 is the empty phase.
        groups: Names; index 0 is the empty group, `PIPELINE_INDEX` that of the pipeline.
        phase_of: int64[labels].
        group_of: int64[labels].
        data: uint8[labels]; whether the phase is "data".
        checkpoint: uint8[labels]; whether the phase is "checkpoint".
    """

    phases: list[str]
    groups: list[str]
    phase_of: NDArray[np.int64]
    group_of: NDArray[np.int64]
    data: NDArray[np.uint8]
    checkpoint: NDArray[np.uint8]

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
        data, checkpoint = ((words == phase).astype(np.uint8) for phase in ("data", "checkpoint"))
        return Vocabulary(phases, groups, phase_of, group_of, data, checkpoint)


def _index_of(word: str, names: list[str], index: dict[str, int]) -> int:
    if word not in index:
        index[word] = len(names)
        names.append(word)
    return index[word]


_LOW_BITS = 24


def integer_sums(place: NDArray[np.int64], amount: NDArray[np.int64], places: int) -> NDArray[np.int64]:
    """int64[places]: sums of amounts by place, without rounding.

    `bincount` adds in float64; with high and low bits summed separately, each sum stays far below 2^53.
    """
    high = np.bincount(place, amount >> _LOW_BITS, minlength=places).astype(np.int64)
    low = np.bincount(place, amount & ((1 << _LOW_BITS) - 1), minlength=places).astype(np.int64)
    return (high << _LOW_BITS) + low
