"""All-to-all of uneven sizes: a matrix of bytes, its table, and the schedule that is searched for it.

Every pair's bytes are cut into chunks of one size, the last of which is sent as full as the others: chunks are what
interpreters of schedules know. Buffers have room for the heaviest pair in every slot, and chunks beyond a pair's bytes
are not sent.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.synthesis.bound import need_solver, uneven_bound_us
from railyard.collective.synthesis.collectives import ScheduleRequest, collectives
from railyard.collective.synthesis.search import (
    MOST_SENDS,
    NEAR_ENOUGH,
    Attempt,
    SynthesizedSchedule,
    best_of,
    best_two,
)
from railyard.kit.errors import InputError
from railyard.kit.files import read_text
from railyard.kit.table import finite, headless

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.collective.synthesis.network import LinkNetwork

COLLECTIVE = "all-to-all"
MOST_RANKS = 64
"""Ranks whose pairs each have paths of their own."""
_CHUNKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Chunks of the heaviest pair."""
_COARSE = 4
_SHARPNESS = (4.0, 10.0, 25.0)
"""Nearness where links are paid by how busy they are."""
_WORTH = 0.99
"""Share of the best finish that chunks of a quarter of the size have to reach, or a search of more than few sends
ends."""
_FEW_SENDS = 4_000
_FEW_PAIRS = 1_000
_MOST_BYTES = 1e15


def matrix_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """A matrix that an all-to-all can be made for: itself.

    Args:
        values: float64[ranks, ranks], bytes from each row's rank to each column's; 0 on the diagonal, for what a rank
            keeps is not sent.

    Raises:
        InputError: It is not square, or names the cell that is wrong.
    """
    matrix = np.asarray(values, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise InputError(
            "the matrix is not square",
            found=" x ".join(map(str, matrix.shape)),
            allowed="a row and a column for each of two ranks or more",
        )
    at = np.argwhere(~((matrix >= 0) & (matrix < _MOST_BYTES)))
    if len(at):
        raise _cell("bytes are 0 or more", at[0], matrix, f"0 to {_MOST_BYTES:g}")
    kept = np.flatnonzero(np.diag(matrix))
    if len(kept):
        raise _cell("a rank sends nothing to itself", np.array([kept[0]] * 2), matrix, "0 on the diagonal")
    if not matrix.any():
        raise InputError("the matrix sends nothing", found="0 everywhere", allowed="bytes from a rank to another")
    return matrix


def _cell(message: str, at: NDArray[np.int64], matrix: NDArray[np.float64], allowed: str) -> InputError:
    row, column = at.tolist()
    return InputError(message, key=f"from {row} to {column}", found=f"{matrix[row, column]:g}", allowed=allowed)


def read_matrix(path: Path) -> NDArray[np.float64]:
    """float64[ranks, ranks], bytes from rank to rank, of a CSV without a heading: a row a source, a column a target.

    Raises:
        InputError: Names the file, and the line where one is wrong.
    """
    rows = headless(read_text(path), path)
    values = []
    for line, row in rows:
        if len(row) != len(rows):
            raise InputError(
                "the matrix is not square",
                file=path,
                line=line,
                found=f"{len(row)} columns, and {len(rows)} rows",
                allowed="as many columns as rows",
            )
        values.append([_bytes(text, path, line, column) for column, text in enumerate(row)])
    try:
        return matrix_of(np.array(values))
    except InputError as error:
        raise error.located(file=str(path)) from None


def _bytes(text: str, path: Path, line: int, column: int) -> float:
    value = finite(text)
    if value is None:
        raise InputError(
            f"expected a number of bytes, got `{text.strip()[:40]}`",
            file=str(path),
            line=line,
            key=f"to {column}",
            allowed="such as 1048576",
        )
    return value


def synthesize_uneven(
    network: LinkNetwork,
    matrix: NDArray[np.float64],
    *,
    most_sends: int = MOST_SENDS,
    progress: Callable[[float], None] | None = None,
) -> SynthesizedSchedule:
    """A schedule of an all-to-all of uneven sizes; the same for the same arguments.

    Chunks are halved until a schedule is near enough to the bound, or gains little, or has too many sends.

    Args:
        network: The links.
        matrix: float64[ranks, ranks], bytes from each rank to each; see `matrix_of`.
        most_sends: No schedule of more sends is tried, but for the coarsest.
        progress: Called with the share of sizes of chunks that were tried.

    Raises:
        InputError: The matrix is wrong, or is one for other ranks than the network has.
    """
    matrix = matrix_of(matrix)
    _check_ranks(network, matrix)
    need_solver()
    begin = time.process_time()
    bound = uneven_bound_us(network, matrix)

    def tries(found: list[Attempt]) -> Iterator[Attempt]:
        for number, cut in enumerate(_CHUNKS):
            pieces = chunks_of(matrix, cut)
            if found and (_ends(found, bound * NEAR_ENOUGH) or _sends(found, pieces) > most_sends):
                return
            for nearness in _tried(found, pieces):
                ask = ScheduleRequest(network, slots_bytes(matrix), cut, nearness, bound_us=bound, pieces=pieces)
                yield Attempt(collectives.get(COLLECTIVE)(ask), cut, nearness)
            if progress is not None:
                progress((number + 1) / len(_CHUNKS))

    found = best_of(tries, network, COLLECTIVE, bound, begin)
    return replace(found, pieces=chunks_of(matrix, found.cut))


def slots_bytes(matrix: NDArray[np.float64]) -> float:
    """Bytes that a rank sends where all pairs are as heavy as the heaviest, what it keeps included."""
    return float(matrix.max()) * len(matrix)


def chunks_of(matrix: NDArray[np.float64], cut: int) -> NDArray[np.int64]:
    """int64[ranks, ranks], chunks of each pair, of which the heaviest has `cut`."""
    return np.ceil(matrix / (float(matrix.max()) / cut) * (1 - 1e-12)).astype(np.int64)


def _check_ranks(network: LinkNetwork, matrix: NDArray[np.float64]) -> None:
    ranks = len(network.ranks)
    if len(matrix) != ranks:
        raise InputError(
            "the matrix is for other ranks than the network has",
            key="--matrix",
            found=f"{len(matrix)} x {len(matrix)}",
            allowed=f"{ranks} x {ranks}",
        )
    if ranks > MOST_RANKS:
        raise InputError(
            "so many ranks are not searched pair by pair", key="ranks", found=ranks, allowed=f"up to {MOST_RANKS}"
        )


def _tried(found: list[Attempt], pieces: NDArray[np.int64]) -> Sequence[float]:
    """Next values to try; of many pairs a try takes seconds."""
    if np.count_nonzero(pieces) > _FEW_PAIRS:
        return _SHARPNESS[1:2]
    return best_two(found) if found and found[-1].cut >= _COARSE else _SHARPNESS


def _ends(found: list[Attempt], enough: float) -> bool:
    """Whether the best is near enough, or chunks were halved twice for little and many."""
    cut, sends = found[-1].cut, len(found[-1].schedule.sends)
    best = min(one.schedule.finish_us for one in found)
    before = min((one.schedule.finish_us for one in found if one.cut <= cut // 4), default=math.inf)
    return best <= enough or (sends > _FEW_SENDS and best > before * _WORTH)


def _sends(found: list[Attempt], pieces: NDArray[np.int64]) -> int:
    """Sends of a finer schedule, as far as can be foreseen: a chunk's journey has as many hops as before."""
    last = found[-1]
    chunks = len(np.unique(last.schedule.sends.piece))
    return len(last.schedule.sends) * int(pieces.sum()) // chunks
