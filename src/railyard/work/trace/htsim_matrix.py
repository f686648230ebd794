"""Reads htsim's connection matrices (`.cm`): flows, their starts, and the flows that they wait for.

    # comment
    Nodes 16
    Connections 2
    Triggers 1
    2->11 id 1 start 0 size 2000000 send_done_trigger 1
    2->4 id 2 trigger 1 size 2000000
    trigger id 1 oneshot

The format is that of `connection_matrix.cpp` of Broadcom/csg-htsim and ultraethernet/uet-htsim. Sizes are not limited
to 32 bits here, comments may stand anywhere, and words may be separated by any blanks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.graph import AT_RECEIVER, AT_SENDER
from railyard.kit.errors import InputError, did_you_mean
from railyard.work.trace.builder import MOST_HOSTS, Failure, GraphBuilder, decimal, integer, lines

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.work.trace.builder import Trace


KINDS = ("oneshot", "multishot", "barrier")


@dataclass
class Trigger:
    """One trigger.

    Attributes:
        kind: One of `KINDS`.
        count: Of a barrier, how often it must be fired.
        targets: Rows that it starts, in the order of the file.
        firers: Rows that fire it, and where they must be done.
    """

    line: int
    id: int = 0
    kind: str = ""
    count: int = 0
    targets: list[int] = field(default_factory=list)
    firers: list[tuple[int, int]] = field(default_factory=list)


def connect(builder: GraphBuilder, trigger: Trigger) -> None:
    """Lets the targets of a trigger wait for those who fire it.

    Raises:
        InputError: More flows fire it than it can take.
    """
    if trigger.kind == "multishot":
        for shot, row in enumerate(trigger.targets, start=1):
            builder.wait(row, trigger.firers, need=shot)
        return
    most = trigger.count if trigger.kind == "barrier" else 1
    if len(trigger.firers) > most:
        raise InputError(
            f"the {trigger.kind} {trigger.id} can be fired {most} times, but {len(trigger.firers)} flows fire it",
            hint="use `multishot` or `barrier count <n>`",
        )
    for row in trigger.targets:
        builder.wait(row, trigger.firers, need=most)


BY_OTHERS = -1
"""Start of a flow that only triggers start."""

START_UNITS = {"us": 10**6, "ps": 1}
"""Picoseconds of one unit of `start`: uet-htsim reads microseconds, csg-htsim picoseconds."""
RECEIVE_TRIGGERS = ("fire", "ignore")

_LAST_PS = 10**17
_HEADER = {"Nodes": MOST_HOSTS, "Connections": 1 << 26, "Triggers": 1 << 26, "Failures": 1 << 20}
_FLOW_WORDS = ("id", "start", "trigger", "size", "send_done_trigger", "recv_done_trigger", "prio", "addon", "msg")
_SWITCHES = ("TOR", "AGG", "CORE")


@dataclass
class _Flow:
    source: int
    target: int
    line: int
    id: int = 0
    start_ps: int = BY_OTHERS
    trigger: int = 0
    size: int = 0
    sent: int = 0
    received: int = 0
    message: bool = False

    @property
    def timing(self) -> tuple[int, int, int, int]:
        return self.start_ps, self.trigger, self.sent, self.received


@dataclass
class _Sheet:
    """Everything read so far."""

    unit_ps: int
    header: dict[str, tuple[int, int]] = field(default_factory=dict)
    flows: list[_Flow] = field(default_factory=list)
    triggers: dict[int, Trigger] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    connections: int = 0

    def take(self, words: list[str], line: int) -> None:
        """Reads one line that is not empty and no comment."""
        if "->" in words[0]:
            self._flow(words, line)
        elif words[0] == "trigger":
            self._trigger(words, line)
        elif words[0] == "failure":
            self._failure(words, line)
        else:
            self._count(words, line)

    def _count(self, words: list[str], line: int) -> None:
        key = words[0]
        if key not in _HEADER:
            known = (*_HEADER, "trigger", "failure")
            raise InputError(
                "unknown word", found=key, allowed=(*known, "<source>-><target>"), hint=did_you_mean(key, known)
            )
        if len(words) != 2:
            raise InputError(f"`{key}` takes one number", found=" ".join(words))
        if key in self.header:
            raise InputError(f"`{key}` is given twice", hint=f"first in line {self.header[key][1]}")
        if self.flows:
            raise InputError(f"`{key}` must stand before the first flow")
        self.header[key] = integer(words[1], key, low=int(key == "Nodes"), high=_HEADER[key]), line

    def _flow(self, words: list[str], line: int) -> None:
        if "Nodes" not in self.header:
            raise InputError("a flow before `Nodes`")
        ends = words[0].split("->")
        if len(ends) != 2:
            raise InputError("a flow begins with <source>-><target>", found=words[0])
        high = self.header["Nodes"][0] - 1
        flow = _Flow(integer(ends[0], "the source", high=high), integer(ends[1], "the target", high=high), line)
        if flow.source == flow.target:
            raise InputError("a flow from a host to itself", found=words[0])
        position = 1
        while position < len(words):
            position = self._attribute(flow, words, position)
        self._check(flow)
        self.flows.append(flow)
        self.connections += 1

    def _attribute(self, flow: _Flow, words: list[str], at: int) -> int:
        key = words[at]
        if key not in _FLOW_WORDS:
            raise InputError("unknown word", found=key, allowed=_FLOW_WORDS, hint=did_you_mean(key, _FLOW_WORDS))
        if key == "msg":
            flow.message = True
            numbered = at + 1 < len(words) and words[at + 1].isdigit()
            return at + 1 + numbered
        if at + 1 == len(words):
            raise InputError(f"`{key}` needs a value")
        text = words[at + 1]
        if key == "start":
            flow.start_ps = round(decimal(text, "start", high=_LAST_PS / self.unit_ps) * self.unit_ps)
        elif key == "size":
            flow.size = integer(text, "size", low=1)
        elif key in _NUMBERS:
            setattr(flow, _NUMBERS[key], integer(text, key, low=1, high=(1 << 31) - 1))
        return at + 2

    def _check(self, flow: _Flow) -> None:
        if flow.start_ps == BY_OTHERS and not flow.trigger:
            raise InputError("the flow has neither `start` nor `trigger`")
        if flow.start_ps != BY_OTHERS and flow.trigger:
            raise InputError("the flow has both `start` and `trigger`")
        if not flow.size:
            raise InputError("the flow has no `size`")
        if flow.trigger and not flow.id:
            raise InputError("a flow that is started by a trigger needs an `id`")
        if flow.message and not flow.id:
            raise InputError("a message needs the `id` of its connection")

    def _trigger(self, words: list[str], line: int) -> None:
        trigger = Trigger(line=line)
        position = 1
        while position < len(words):
            key = words[position]
            if key in KINDS:
                trigger.kind = key
                position += 1
            elif key in {"id", "count"} and position + 1 < len(words):
                setattr(trigger, key, integer(words[position + 1], key, low=1, high=(1 << 31) - 1))
                position += 2
            else:
                raise InputError("unknown word or no value", found=key, allowed=("id", *KINDS, "count"))
        self._new_trigger(trigger)

    def _new_trigger(self, trigger: Trigger) -> None:
        if not trigger.id:
            raise InputError("a trigger without `id`")
        if not trigger.kind:
            raise InputError("a trigger without a kind", allowed=KINDS)
        if trigger.id in self.triggers:
            raise InputError(
                f"trigger {trigger.id} is declared twice", hint=f"first in line {self.triggers[trigger.id].line}"
            )
        if trigger.kind == "barrier" and not trigger.count:
            raise InputError("a barrier needs `count`")
        self.triggers[trigger.id] = trigger

    def _failure(self, words: list[str], line: int) -> None:
        values = dict(zip(words[1::2], words[2::2], strict=False))
        if len(words) != 7 or set(values) != {"switch_type", "switch_id", "link_id"}:
            raise InputError(
                "a failure is `failure switch_type <type> switch_id <i> link_id <l>`", found=" ".join(words)
            )
        if values["switch_type"] not in _SWITCHES:
            raise InputError("unknown type of switch", found=values["switch_type"], allowed=_SWITCHES)
        switch, link = (integer(values[key], key, high=MOST_HOSTS) for key in ("switch_id", "link_id"))
        self.failures.append(Failure(values["switch_type"], switch, link, line))


_NUMBERS = {"id": "id", "trigger": "trigger", "send_done_trigger": "sent", "recv_done_trigger": "received"}


def read(path: Path, *, start_unit: str = "us", recv_done_trigger: str = "fire") -> Trace:
    """The flows of a connection matrix.

    Args:
        path: The file.
        start_unit: What `start` counts: `us` as uet-htsim reads it, `ps` as csg-htsim does.
        recv_done_trigger: `fire` starts the flows of such a trigger when the receiver has everything; `ignore` never
            does, as htsim (which keeps the trigger and never fires it), so that those flows do not run.

    Returns:
        Transfers and failed links. Transfers that nothing can ever start are in `never`.

    Raises:
        InputError: The file cannot be read, or breaks a rule of the format; with the line.
    """
    if start_unit not in START_UNITS:
        raise InputError("unknown unit", key="start_unit", found=start_unit, allowed=tuple(START_UNITS))
    if recv_done_trigger not in RECEIVE_TRIGGERS:
        raise InputError("unknown word", key="recv_done_trigger", found=recv_done_trigger, allowed=RECEIVE_TRIGGERS)
    sheet = _Sheet(START_UNITS[start_unit])
    for line, text in lines(path):
        words = text.split()
        if words and not words[0].startswith("#"):
            try:
                sheet.take(words, line)
            except InputError as error:
                raise error.located(file=path, line=line) from None
    _counts(sheet, path)
    return _table(sheet, path, receive=recv_done_trigger == "fire")


def _counts(sheet: _Sheet, path: Path) -> None:
    """Refuses a header that says other numbers than the file holds.

    Raises:
        InputError: A count is wrong, or `Nodes` or `Connections` is missing.
    """
    for key in ("Nodes", "Connections"):
        if key not in sheet.header:
            raise InputError(f"the header lacks `{key}`", file=path)
    found = {"Connections": sheet.connections, "Triggers": len(sheet.triggers), "Failures": len(sheet.failures)}
    for key, number in found.items():
        announced, line = sheet.header.get(key, (0, None))
        if announced != number:
            raise InputError(f"`{key}` says {announced}, but the file holds {number}", file=path, line=line)


def _table(sheet: _Sheet, path: Path, *, receive: bool) -> Trace:
    builder = GraphBuilder(sheet.header["Nodes"][0])
    flows, left_out = _merged(sheet.flows, path)
    for flow in flows:
        builder.transfer(flow.source, flow.target, flow.size, release_ps=max(flow.start_ps, 0), line=flow.line)
    for row, flow in enumerate(flows):
        named = {"trigger": flow.trigger, "send_done_trigger": flow.sent, "recv_done_trigger": flow.received}
        for word, number in named.items():
            if number and number not in sheet.triggers:
                raise InputError(f"`{word} {number}`: there is no such trigger", file=path, line=flow.line)
        if flow.trigger:
            sheet.triggers[flow.trigger].targets.append(row)
        if flow.sent:
            sheet.triggers[flow.sent].firers.append((row, AT_SENDER))
        if flow.received and receive:
            sheet.triggers[flow.received].firers.append((row, AT_RECEIVER))
    for trigger in sheet.triggers.values():
        try:
            connect(builder, trigger)
        except InputError as error:
            raise error.located(file=path, line=trigger.line) from None
    return builder.build(left_out=left_out, failures=tuple(sheet.failures))


def _merged(flows: list[_Flow], path: Path) -> tuple[list[_Flow], tuple[str, ...]]:
    """Messages of one connection become one flow: they share its window and follow one another without a gap.

    Raises:
        InputError: An `id` stands for two connections, or messages of one do not start together.
    """
    known: dict[int, _Flow] = {}
    merged: list[_Flow] = []
    for flow in flows:
        first = known.get(flow.id) if flow.id else None
        if first is None:
            known[flow.id] = flow
            merged.append(flow)
            continue
        if not (flow.message and first.message) or (flow.source, flow.target) != (first.source, first.target):
            raise InputError(
                f"`id {flow.id}` is used twice", file=path, line=flow.line, hint=f"first in line {first.line}"
            )
        if flow.timing != first.timing:
            raise InputError(
                "messages of one connection must have the same start and triggers",
                file=path,
                line=flow.line,
                hint="give them ids of their own to run them as flows",
            )
        first.size += flow.size
    joined = len(flows) - len(merged)
    note = f"{joined} messages are sent as one flow with the first message of their connection"
    return merged, (note,) if joined else ()
