"""The settings of a run: what the run has, and a field for every constant that a mechanism of the core has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

import railyard._core as _core
from railyard.engine.packet.mechanisms import CONSTANTS
from railyard.engine.packet.user import UserBalancer, UserControl, balancers, controls, is_user, load
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.engine.packet.compiling import Functions
    from railyard.engine.packet.faults import LinkFault
    from railyard.engine.packet.records import Traffic
    from railyard.graph import Record
    from railyard.kit.registry import Registry


@dataclass(frozen=True, eq=False)
class QueuePairSplit:
    """Flows over queue pairs.

    Attributes:
        traffic: Rows of the given traffic first, in place: flows that are split have become work of no length at their
            sender that waits for the last acknowledgement of every part. Then the parts, then what joins them.
        rows: Rows of the given traffic.
        flow_of: int64[parts], the flow of each part; parts begin at row `rows`.
    """

    traffic: Traffic
    rows: int
    flow_of: NDArray[np.int64]

    def joined(self, record: Record, flows: Traffic, settings: Settings) -> Record:
        """The record with a row a given flow: begun with its first part, done with its last.

        Args:
            record: Of the parts.
            flows: Those that were given.
            settings: With the flows that were to be sampled.
        """
        parts = slice(self.rows, self.rows + len(self.flow_of))
        columns: dict[str, NDArray[Any]] = {}
        for name, least in (("start_ps", True), ("end_ps", False), ("receiver_finish_ps", False)):
            column = record.column(name)
            columns[name] = _gathered(column[: self.rows].copy(), self.flow_of, column[parts], least=least)
        tables = dict(record.tables)
        if "sampled_flows" in tables:
            tables["sampled_flows"] = {"flow": np.asarray(settings.sample_flows, np.int32)}
        return replace(
            record,
            who=np.asarray(flows.source, np.int32),
            what=np.zeros(self.rows, np.int32),
            start_ps=columns["start_ps"],
            end_ps=columns["end_ps"],
            size_bytes=np.asarray(flows.size_bytes, np.int64),
            optional={
                "target": np.asarray(flows.target, np.int32),
                "receiver_finish_ps": columns["receiver_finish_ps"],
            },
            tables=tables,
        )

    def sampled(self, flows: tuple[int, ...]) -> tuple[int, ...]:
        """Flows to be sampled: of a split one its first part."""
        first = {flow: self.rows + part for part, flow in reversed(list(enumerate(self.flow_of.tolist())))}
        return tuple(first.get(flow, flow) for flow in flows)


def _gathered(
    column: NDArray[np.int64], flow_of: NDArray[np.int64], parts: NDArray[np.int64], *, least: bool
) -> NDArray[np.int64]:
    """The least or greatest over the parts of each flow; the greatest is -1 where a part has none."""
    extreme = np.iinfo(np.int64).max
    split = np.unique(flow_of)
    column[split] = extreme if least else -1
    if least:
        np.minimum.at(column, flow_of, np.where(parts < 0, extreme, parts))
        column[column == extreme] = -1
    else:
        np.maximum.at(column, flow_of, parts)
        column[flow_of[parts < 0]] = -1
    return column


def split(traffic: Traffic, pairs: int, payload_bytes: int) -> QueuePairSplit:
    """Splits every flow over as many queue pairs, or as many as it has packets, in whole packets as evenly as can be.

    Args:
        traffic: Flows.
        pairs: Queue pairs of a flow.
        payload_bytes: Payload of a full packet.
    """
    rows = len(traffic)
    packets = -(-traffic.size_bytes // payload_bytes)
    count = np.where(traffic.source == traffic.target, 1, np.minimum(packets, pairs))
    cut = np.flatnonzero(count > 1)
    flow_of = np.repeat(cut, count[cut])
    place = ranges(0, count[cut])
    # Packets in turn; the last packet, which may be short, belongs to the part whose turn it is.
    share = (packets[flow_of] - place + count[flow_of] - 1) // count[flow_of]
    short = packets[flow_of] * payload_bytes - traffic.size_bytes[flow_of]
    holds_last = (packets[flow_of] - 1) % count[flow_of] == place
    size = share * payload_bytes - np.where(holds_last, short, 0)
    return QueuePairSplit(_rewired(traffic, cut, flow_of, size), rows, flow_of.astype(np.int64))


def _rewired(traffic: Traffic, cut: NDArray[np.int64], flow_of: NDArray[np.int64], size: NDArray[np.int64]) -> Traffic:
    """The traffic with parts.

    Rows: the given ones; the parts; a gate for every split flow, which waits for what the flow waited for; for those
    whose receiver another flow waits for, an end, which waits for every part's receiver.

    Args:
        traffic: Flows.
        cut: Those that are split.
        flow_of: Of which of them each part is.
        size: Bytes of each part.
    """
    rows = len(traffic)
    heard = np.zeros(rows, bool)
    heard[traffic.dep_idx[traffic.dep_at == 1]] = True
    ends = cut[heard[cut]]
    part_row = rows + np.arange(len(flow_of))
    gate_row = np.arange(rows)
    gate_row[cut] = rows + len(flow_of) + np.arange(len(cut))
    end_row = np.full(rows, -1)
    end_row[ends] = rows + len(flow_of) + len(cut) + np.arange(len(ends))
    ended = np.flatnonzero(end_row[flow_of] >= 0)
    # What waits, for what, for which of its ends.
    before, at = traffic.dep_idx.astype(np.int64), traffic.dep_at.astype(np.int64)
    moved = (at == 1) & (end_row[before] >= 0)
    waits = np.concatenate(
        [gate_row[np.repeat(np.arange(rows), np.diff(traffic.dep_ptr))], part_row, flow_of, end_row[flow_of[ended]]]
    )
    waited = np.concatenate([np.where(moved, end_row[before], before), gate_row[flow_of], part_row, part_row[ended]])
    ends_at = np.concatenate(
        [np.where(moved, 0, at), np.zeros(2 * len(flow_of), np.int64), np.ones(len(ended), np.int64)]
    )
    order = np.argsort(waits, kind="stable")
    every = rows + len(flow_of) + len(cut) + len(ends)
    count = np.bincount(waits, minlength=every)
    need = count.copy()
    need[gate_row] = traffic.need
    need[cut] = count[cut]
    target = traffic.target.copy()
    target[cut] = traffic.source[cut]
    start, delay = traffic.start_ps.copy(), traffic.delay_ps.copy()
    start[cut], delay[cut] = -1, 0
    later = np.full(len(flow_of), -1), np.full(len(ends), -1)
    none = np.zeros(len(flow_of), np.int64), np.zeros(len(ends), np.int64)
    columns: dict[str, tuple[NDArray[Any], ...]] = {
        "source": (traffic.source, traffic.source[flow_of], traffic.source[cut], traffic.target[ends]),
        "target": (target, traffic.target[flow_of], traffic.source[cut], traffic.target[ends]),
        "size_bytes": (traffic.size_bytes, size, np.zeros(len(cut), np.int64), none[1]),
        "start_ps": (start, later[0], traffic.start_ps[cut], later[1]),
        "delay_ps": (delay, none[0], traffic.delay_ps[cut], none[1]),
        "klass": (traffic.klass, traffic.klass[flow_of], traffic.klass[cut], traffic.klass[ends]),
    }
    for name, column in (("deaf", traffic.deaf), ("nic_share", traffic.nic_share)):
        if column is not None:
            columns[name] = tuple(column[rows] for rows in (slice(None), flow_of, cut, ends))
    joined: dict[str, Any] = {name: np.concatenate(four).astype(four[0].dtype) for name, four in columns.items()}
    return replace(
        traffic,
        **joined,
        need=need.astype(np.int32),
        dep_ptr=np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
        dep_idx=waited[order].astype(np.int32),
        dep_at=ends_at[order].astype(np.uint8),
    )


_Class = TypeVar("_Class")

_PLAIN = {"flag": bool, "integer": int, "number": float, "word": str, "list": list}

USER_KINDS: dict[str, type[UserControl] | type[UserBalancer]] = {
    "rdma_control": UserControl,
    "load_balancing": UserBalancer,
}
"""Settings that may be functions of the user's own in place of a word."""

REGISTERED: dict[str, Registry[UserControl] | Registry[UserBalancer]] = {
    "rdma_control": controls,
    "load_balancing": balancers,
}
"""Those functions by name."""


def with_constants(kind: type[_Class]) -> type[_Class]:
    """A frozen dataclass with a field for every constant of the mechanisms, before the fields of the class itself."""
    inherited = getattr(kind, "__dataclass_fields__", {})
    new = {name: one.default for name, one in CONSTANTS.items() if name not in inherited}
    for name, default in new.items():
        setattr(kind, name, default)
    kind.__annotations__ = dict.fromkeys(new, Any) | kind.__annotations__
    return dataclass(frozen=True)(kind)


@with_constants
class Settings:
    """Constants of a run by keyword: those of `railyard.engine.packet.mechanisms.CONSTANTS`, and what the run has.

    `load_balancing` may be a `UserBalancer`, `rdma_control` a `UserControl`, in place of a name, or name one that is
    registered or in a file: `user:FILE.py:NAME`.

    Attributes:
        failed_links: Links that keep only `failed_fraction` of their rate, queue and thresholds.
        faults: What happens to links in time; see `railyard.engine.packet.faults`.
        sample_links: Links that are sampled every `sample_ps`.
        sample_flows: Flows that are sampled.

    Raises:
        InputError: A value is of another kind than the constant, or out of its range.
    """

    seed: int = 0
    failed_links: tuple[int, ...] = ()
    faults: tuple[LinkFault, ...] = ()
    sample_links: tuple[int, ...] = ()
    sample_flows: tuple[int, ...] = ()

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Any]]

        def __init__(self, **settings: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

    def __post_init__(self) -> None:
        for name, constant in CONSTANTS.items():
            value = getattr(self, name)
            if value != constant.default and not is_python(name, value):
                constant.check(value)


def is_python(name: str, value: Any) -> bool:
    """Whether a setting is functions in Python, or names them."""
    if name not in USER_KINDS or value in CONSTANTS[name].words:
        return False
    return isinstance(value, USER_KINDS[name]) or (
        isinstance(value, str) and (is_user(value) or value in REGISTERED[name])
    )


def functions_of(name: str, value: Any) -> UserControl | UserBalancer | None:
    """The functions in Python that a setting is or names; None: a mechanism of the core.

    Raises:
        InputError: The file cannot be run, or holds nothing of that name.
    """
    if not is_python(name, value):
        return None
    if not isinstance(value, str):
        found: UserControl | UserBalancer = value
        return found
    return load(value, USER_KINDS[name]) if is_user(value) else REGISTERED[name].get(value)


def core_options(settings: Settings, threads: int, *, repeats: bool) -> _core.PacketOptions:
    """The settings as the core takes them.

    Raises:
        InputError: Numba is missing or cannot compile a user's function.
    """
    options = _core.PacketOptions()
    options.seed = settings.seed
    options.threads, options.repeats = threads, repeats
    functions = {name: functions_of(name, getattr(settings, name)) for name in USER_KINDS}
    for name, constant in CONSTANTS.items():
        value = "user" if functions.get(name) else getattr(settings, name)
        if value != constant.default:
            options.set(constant.mechanism, constant.field, value if value is None else _PLAIN[constant.kind](value))
    control, balancer = functions["rdma_control"], functions["load_balancing"]
    if isinstance(control, UserControl):
        _put(options.user_control, control)
        options.telemetry = control.wants_hops
    if balancer:
        _put(options.user_balance, balancer)
    return options


def _put(into: Any, functions: Functions) -> None:
    """Puts the addresses of a user's functions, and what a flow's own fields begin with, into the core's options."""
    for hook, address in functions.addresses().items():
        setattr(into, hook, address)
    into.set_slots(functions.slots)
