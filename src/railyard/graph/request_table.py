"""Requests as columns: when each arrives, how long its prompt and answer are, and which prefix it shares with others.

A *block hash* stands for the whole prompt up to the end of its block, not for the tokens of the block alone: two
requests share as many tokens as their leading hashes are equal. Requests of which no prefixes are known have no hashes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


PS_PER_S = 10**12
LAST_PS = 2**63 - 1
MOST_TOKENS = 2**31 - 1
NO_SESSION = -1


@dataclass(frozen=True, eq=False)
class RequestTable:
    """Requests in the order of their arrival.

    Attributes:
        arrival_ps: Time of arrival, i64[n], ascending, 0 or more.
        input_tokens: Length of the prompt, i32[n], at least 1.
        output_tokens: Length of the answer, i32[n], at least 1.
        block_ptr: The hashes of request i are `block_hash[block_ptr[i]:block_ptr[i + 1]]`, i64[n + 1].
        block_hash: Of each block of a prompt, chained: equal leading hashes are a shared prefix, u64. The last block of
            a prompt may be a partial one where the source hashes it too (Mooncake does).
        block_tokens: Tokens of a block; 0 where no prefixes are known.
        session: Conversation that the request is a turn of, i64[n]; -1 for none.
        kind: Index into `kinds`, i16[n].
        kinds: Names of the classes of requests.
        source: Where they come from, with whatever was changed on the way.
    """

    arrival_ps: NDArray[np.int64]
    input_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    block_ptr: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    block_hash: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    block_tokens: int = 0
    session: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    kind: NDArray[np.int16] = field(default_factory=lambda: np.zeros(0, np.int16))
    kinds: tuple[str, ...] = ("request",)
    source: str = ""

    def __post_init__(self) -> None:
        count = len(self.arrival_ps)
        for name, dtype, default in _COLUMNS:
            given = np.asarray(getattr(self, name))
            if given.size == 0 and default is not None:
                given = np.full(count + (name == "block_ptr"), default, dtype)
            _checked_width(name, given, dtype)
            object.__setattr__(self, name, np.ascontiguousarray(given, dtype))
        _check_rows(self)
        _check_blocks(self)

    def __len__(self) -> int:
        """Number of requests."""
        return len(self.arrival_ps)

    def __eq__(self, other: object) -> bool:
        """The same requests, wherever they come from."""
        if not isinstance(other, RequestTable):
            return NotImplemented
        same = all(np.array_equal(getattr(self, name), getattr(other, name)) for name, _, _ in _COLUMNS)
        return same and (self.block_tokens, self.kinds) == (other.block_tokens, other.kinds)

    __hash__ = None  # type: ignore[assignment]

    @property
    def duration_s(self) -> float:
        """Time from the first arrival to the last."""
        return int(self.arrival_ps[-1] - self.arrival_ps[0]) / PS_PER_S if len(self) else 0.0

    @property
    def rate_per_s(self) -> float:
        """Mean arrivals a second: one over the mean gap; 0 where there is no gap."""
        return (len(self) - 1) / self.duration_s if self.duration_s > 0 else 0.0

    def blocks_of(self, request: int) -> NDArray[np.uint64]:
        """The block hashes of one request."""
        return self.block_hash[self.block_ptr[request] : self.block_ptr[request + 1]]

    def take(self, rows: NDArray[np.int64], arrival_ps: NDArray[np.int64] | None = None) -> RequestTable:
        """The requests of these rows.

        Args:
            rows: In the order of arrival.
            arrival_ps: When each of them arrives, in place of when it did.
        """
        counts = np.diff(self.block_ptr)[rows]
        columns = {name: getattr(self, name)[rows] for name in ROW_COLUMNS}
        if arrival_ps is not None:
            columns["arrival_ps"] = arrival_ps
        return replace(
            self,
            **columns,
            block_ptr=np.concatenate(([0], np.cumsum(counts))),
            block_hash=self.block_hash[ranges(self.block_ptr[:-1][rows], counts)],
        )

    def head(self, count: int) -> RequestTable:
        """The first `count` requests, or all where there are fewer."""
        return self.take(np.arange(min(max(count, 0), len(self))))

    def concat(self, other: RequestTable) -> RequestTable:
        """These requests and the others merged by arrival; of equal arrivals these come first.

        Classes of the same name become one. Sessions and hashes are taken as they are: equal ones are the same.

        Raises:
            InputError: Their blocks are of different length.
        """
        return merged((self, other))


_COLUMNS: tuple[tuple[str, type, int | None], ...] = (
    ("arrival_ps", np.int64, None),
    ("input_tokens", np.int32, None),
    ("output_tokens", np.int32, None),
    ("block_ptr", np.int64, 0),
    ("block_hash", np.uint64, None),
    ("session", np.int64, NO_SESSION),
    ("kind", np.int16, 0),
)
ROW_COLUMNS = ("arrival_ps", "input_tokens", "output_tokens", "session", "kind")


def _checked_width(name: str, given: NDArray[Any], dtype: type) -> None:
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise InputError(f"{name} must be a 1-D array of integers", found=f"{given.ndim} axes of {given.dtype}")
    limits = np.iinfo(dtype)
    if given.size and not limits.min <= int(given.min()) <= int(given.max()) <= limits.max:
        found = f"{given.min()} to {given.max()}"
        raise InputError(f"{name} is out of range", found=found, allowed=f"{limits.min} to {limits.max}")


def _check_rows(requests: RequestTable) -> None:
    count = len(requests)
    for name in ROW_COLUMNS:
        if len(getattr(requests, name)) != count:
            raise InputError(f"{name} must have one row per request", found=len(getattr(requests, name)), allowed=count)
    if not count:
        return
    behind = np.flatnonzero(np.diff(requests.arrival_ps) < 0)
    if requests.arrival_ps[0] < 0 or behind.size:
        row = int(behind[0]) + 1 if behind.size else 0
        raise InputError(f"arrival_ps must ascend from 0: request {row}", found=int(requests.arrival_ps[row]))
    for name in ("input_tokens", "output_tokens"):
        if getattr(requests, name).min() < 1:
            row = int(np.argmin(getattr(requests, name)))
            raise InputError(f"{name} of request {row} must be at least 1", found=int(getattr(requests, name)[row]))
    if not 0 <= requests.kind.min() <= requests.kind.max() < len(requests.kinds):
        raise InputError("kind must be an index into kinds", allowed=f"0 to {len(requests.kinds) - 1}")


def _check_blocks(requests: RequestTable) -> None:
    pointers = requests.block_ptr
    complete = len(pointers) == len(requests) + 1 and pointers[0] == 0 and pointers[-1] == len(requests.block_hash)
    if not complete or (np.diff(pointers) < 0).any():
        raise InputError("block_ptr must ascend from 0 to the number of block hashes, one more than requests")
    if requests.block_tokens < 0 or (requests.block_tokens == 0 and len(requests.block_hash)):
        raise InputError("block hashes need the length of a block", key="block_tokens", found=requests.block_tokens)
    if requests.block_tokens:
        most = -(-requests.input_tokens.astype(np.int64) // requests.block_tokens)
        if (np.diff(pointers) > most).any():
            row = int(np.argmax(np.diff(pointers) > most))
            raise InputError(
                f"request {row} has more block hashes than its prompt has blocks",
                found=int(np.diff(pointers)[row]),
                allowed=int(most[row]),
            )


def joined(parts: Sequence[RequestTable]) -> RequestTable:
    """Parts of one trace, each later than the one before, as one.

    Raises:
        InputError: The parts are not in order, or do not belong together.
    """
    last = parts[-1]
    ends = np.concatenate(([0], np.cumsum([len(part.block_hash) for part in parts])))
    pointers = [part.block_ptr[1:] + start for part, start in zip(parts, ends, strict=False)]
    columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ROW_COLUMNS}
    return replace(
        last,
        **columns,
        block_ptr=np.concatenate([np.zeros(1, np.int64), *pointers]),
        block_hash=np.concatenate([part.block_hash for part in parts]),
        block_tokens=max(part.block_tokens for part in parts),
    )


def merged(parts: Sequence[RequestTable]) -> RequestTable:
    """Several sets of requests as one, by arrival; of equal arrivals the earlier part's come first.

    Raises:
        InputError: Their blocks are of different length.
    """
    lengths = {part.block_tokens for part in parts if part.block_tokens}
    if len(lengths) > 1:
        raise InputError("requests whose blocks differ in length cannot be concatenated", found=sorted(lengths))
    kinds = tuple(dict.fromkeys(name for part in parts if len(part) for name in part.kinds)) or parts[0].kinds
    arrival = np.concatenate([part.arrival_ps for part in parts])
    order = np.argsort(arrival, kind="stable")
    ends = np.concatenate(([0], np.cumsum([len(part.block_hash) for part in parts])))
    starts = np.concatenate([part.block_ptr[:-1] + start for part, start in zip(parts, ends, strict=False)])[order]
    counts = np.concatenate([np.diff(part.block_ptr) for part in parts])[order]
    kind_of = [np.array([kinds.index(name) for name in part.kinds] if len(part) else [0], np.int16) for part in parts]
    kind = np.concatenate([table[part.kind] for table, part in zip(kind_of, parts, strict=True)])
    plain = ("input_tokens", "output_tokens", "session")
    return RequestTable(
        arrival_ps=arrival[order],
        **{name: np.concatenate([getattr(part, name) for part in parts])[order] for name in plain},
        block_ptr=np.concatenate(([0], np.cumsum(counts))),
        block_hash=np.concatenate([part.block_hash for part in parts])[ranges(starts, counts)],
        block_tokens=max(lengths, default=0),
        kind=kind[order],
        kinds=kinds,
        source=" + ".join(dict.fromkeys(part.source for part in parts if part.source)),
    )
