"""One rank of a lab: a process that computes by sleeping and communicates over TCP, and notes when.

It knows its own steps only. What other ranks do it learns from what arrives. Nothing beyond the standard library is
imported, so that ranks start quickly.
"""

from __future__ import annotations

import heapq
import os
import select
import socket
import struct
import time
from collections import defaultdict, deque
from typing import TYPE_CHECKING

from railyard.engine.lab.blueprint import FIRST_LISTENING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.engine.lab.blueprint import Blueprint, Connection, RankProgram, RankStep

WORD = struct.Struct("=q")
"""What goes before a transfer: the number of its task."""

NOTE = struct.Struct("=cq")
REACHED, GO, THROUGH, ENDED = b"r", b"g", b"t", b"e"
"""Notes between ranks, outside the network: a member has reached a collective; all have; a member is through with it; a
task has ended."""

AT_ONCE = 1 << 18
_ZEROS = memoryview(bytes(AT_ONCE))
_NS = 1e9


Inbox = tuple[socket.socket, socket.socket]
"""The socket on which a rank receives notes, and the one on which others send them."""


class Outgoing:
    """The sending end of a connection: messages leave in their order, each when it may."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.queue: deque[_Sending] = deque()
        self.events = 0


class Incoming:
    """The receiving end of a connection."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.queue: deque[_Receiving] = deque()
        self.events = 0
        self.shared = False
        self.head = b""
        self.task = -1
        self.left = 0


class _Sending:
    """A message on its way out."""

    __slots__ = ("blocked", "header", "left", "run")

    def __init__(self, left: int, blocked: int, run: _Run | None, header: bytes = b"") -> None:
        self.left, self.blocked, self.run, self.header = left, blocked, run, header


class _Receiving:
    """A message of a collective that is expected."""

    __slots__ = ("left", "number", "run")

    def __init__(self, left: int, run: _Run, number: int) -> None:
        self.left, self.run, self.number = left, run, number


class _Run:
    """A collective that this rank has reached.

    Attributes:
        left: Sends and receives of this round that are not over.
        unblocks: By receive: sends that wait for it.
    """

    def __init__(self, step: RankStep, rounds: int) -> None:
        self.step, self.rounds, self.left = step, rounds, 0
        self.unblocks: dict[int, list[tuple[int, _Sending]]] = {}


class Rank:
    """One rank while it runs."""

    def __init__(
        self, plan: Blueprint, program: RankProgram, listener: socket.socket, inboxes: Sequence[Inbox]
    ) -> None:
        self.plan, self.program, self.listener, self.inboxes = plan, program, listener, inboxes
        self.inbox = inboxes[program.rank][0]
        self.parts: dict[int, int] = defaultdict(int)
        self.heard: dict[tuple[bytes, int], int] = defaultdict(int)
        self.times: dict[int, tuple[int, int]] = {}
        self.steps = {step.task: step for step in program.steps}
        self.left = {step.task: step.need for step in program.steps}
        self.waiting: dict[int, list[int]] = defaultdict(list)
        self.streams: dict[int, deque[int]] = defaultdict(deque)
        self.begun: set[int] = set()
        self.timers: list[tuple[int, int, Callable[[], None]]] = []
        self.unfinished = len(program.steps) + len(program.arrives) + program.noted
        self.late = sorted((round(at * _NS), round(by * _NS)) for at, by in program.late_s)
        self.epoll = select.epoll()
        self.out: dict[int, Outgoing] = {}
        self.into: dict[int, Incoming] = {}
        self.by_fd: dict[int, Outgoing | Incoming] = {}
        self.scratch = memoryview(bytearray(AT_ONCE))
        self.begin_ns = self.timed = 0
        for step in program.steps:
            for before in step.waits:
                self.waiting[before].append(step.task)
            if step.stream >= 0:
                self.streams[step.stream].append(step.task)

    def connect(self) -> None:
        """Opens what leaves this rank and takes what comes to it."""
        mine = self.program.rank
        for number, one in enumerate(self.plan.connections):
            if one.source == mine:
                self.out[number] = Outgoing(self._opened(number, one))
        for _ in range(sum(one.target == mine for one in self.plan.connections)):
            end, _ = self.listener.accept()
            number = WORD.unpack(_exactly(end, WORD.size))[0]
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.into[number] = Incoming(end)
        both: list[Outgoing | Incoming] = [*self.out.values(), *self.into.values()]
        for each in both:
            each.end.setblocking(False)
            self.by_fd[each.end.fileno()] = each
            self.epoll.register(each.end.fileno(), 0)
        for number in {number for step in self.program.steps for number in step.into}:
            self.into[number].shared = True
        self.inbox.setblocking(False)
        self.epoll.register(self.inbox.fileno(), select.EPOLLIN)
        for incoming in self.into.values():
            self._listen(incoming)

    def _opened(self, number: int, one: Connection) -> socket.socket:
        end = socket.socket()
        end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.plan.window_bytes)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.bind((one.source_address, one.source_port))
        end.connect((one.target_address, FIRST_LISTENING + one.target))
        end.sendall(WORD.pack(number))
        return end

    def run(self, begin_ns: int) -> dict[int, tuple[int, int]]:
        """All steps; returns start and end of each task that this rank saw, ns from the start.

        Args:
            begin_ns: The start of the run, on the machine's monotonic clock.
        """
        self.begin_ns = begin_ns
        self._at(begin_ns, self._first)
        while self.unfinished or any(each.queue for each in self.out.values()):
            self._wait()
        return self.times

    def _first(self) -> None:
        for stream in list(self.streams):
            self._turn(stream)
        for step in self.program.steps:
            if step.stream < 0:
                self._try(step)

    def _wait(self) -> None:
        """Waits until something can be read or written, or is due."""
        due = self.timers[0][0] if self.timers else None
        now = time.monotonic_ns()
        timeout = None if due is None else max(due - now, 0) / _NS
        select.select([self.epoll.fileno()], [], [], timeout)  # microseconds, where epoll counts milliseconds
        for fd, _ in self.epoll.poll(0):
            each = self.by_fd.get(fd)
            if each is None:
                self._read_notes()
            elif isinstance(each, Incoming):
                self._receive(each)
            else:
                self._send(each)
        while self.timers and self.timers[0][0] <= time.monotonic_ns():
            heapq.heappop(self.timers)[2]()

    def _at(self, when_ns: int, do: Callable[[], None]) -> None:
        self.timed += 1
        heapq.heappush(self.timers, (when_ns, self.timed, do))

    def _now(self) -> int:
        return time.monotonic_ns() - self.begin_ns

    # steps

    def _turn(self, stream: int) -> None:
        queue = self.streams[stream]
        if queue:
            self._try(self.steps[queue[0]])

    def _try(self, step: RankStep) -> None:
        """Starts a step whose turn it is and whose waits are over."""
        if self.left[step.task] > 0 or step.task in self.begun:
            return
        if step.stream >= 0 and self.streams[step.stream][0] != step.task:
            return
        self.begun.add(step.task)
        when = max(self._now(), round(step.release_s * _NS)) + round(step.delay_s * _NS)
        if when > self._now():
            self._at(self.begin_ns + when, lambda: self._begin(step))
        else:
            self._begin(step)

    def _begin(self, step: RankStep) -> None:
        now = self._now()
        self.times[step.task] = now, -1
        if step.script >= 0:
            self._let_know(REACHED, step.task, step.members[0])
        elif step.size_bytes >= 0:
            for by in step.out:
                self._queue(self.out[by], _Sending(step.size_bytes, 0, None, WORD.pack(step.task)))
        else:
            took = round(step.seconds * self.program.slower * _NS)
            while self.late and self.late[0][0] <= now + took:
                took += self.late.pop(0)[1]
            self._at(self.begin_ns + now + took, lambda: self._computed(step, now + took))

    def _computed(self, step: RankStep, due: int) -> None:
        """A computation is over when it is due, as a device would note it; this process wakes up a little later."""
        self.times[step.task] = self.times[step.task][0], due
        self._end(step)

    def _mark(self, task: int) -> None:
        """This rank saw the end of a communication."""
        self.times[task] = self.times.get(task, (-1, -1))[0], self._now()

    def _end(self, step: RankStep) -> None:
        self._ended(step.task)
        if step.stream >= 0:
            self.streams[step.stream].popleft()
            self._turn(step.stream)

    def _ended(self, task: int) -> None:
        """A task is over as far as this rank is concerned."""
        self.unfinished -= 1
        for other in self.program.notes.get(task, ()):
            self._let_know(ENDED, task, other)
        for after in self.waiting.get(task, ()):
            self.left[after] -= 1
            self._try(self.steps[after])

    # notes

    def _let_know(self, what: bytes, task: int, rank: int) -> None:
        if rank == self.program.rank:
            self._noted(what, task)
        else:
            self.inboxes[rank][1].send(NOTE.pack(what, task))

    def _read_notes(self) -> None:
        while True:
            try:
                note = self.inbox.recv(NOTE.size)
            except BlockingIOError:
                return
            self._noted(*NOTE.unpack(note))

    def _noted(self, what: bytes, task: int) -> None:
        if what in (REACHED, THROUGH):
            self.heard[what, task] += 1
            members = self.steps[task].members
            if self.heard[what, task] == len(members):
                for rank in members:
                    self._let_know(GO if what == REACHED else ENDED, task, rank)
        elif what == GO:
            step = self.steps[task]
            self._round(_Run(step, self.program.scripts[step.script].rounds))
        elif task in self.steps:
            self._end(self.steps[task])
        else:
            self._ended(task)

    # collectives

    def _round(self, run: _Run) -> None:
        """Queues the sends and receives of a collective once more."""
        script = self.program.scripts[run.step.script]
        run.rounds -= 1
        run.left = len(script.sends) + len(script.receives)
        run.unblocks = defaultdict(list)
        touched = []
        for by, size, after in script.sends:
            each = self.out[run.step.out[by]]
            sending = _Sending(size, len(after), run)
            each.queue.append(sending)
            for receive in after:
                run.unblocks[receive].append((run.step.out[by], sending))
            touched.append(each)
        for number, (by, size) in enumerate(script.receives):
            incoming = self.into[run.step.into[by]]
            incoming.queue.append(_Receiving(size, run, number))
            self._listen(incoming)
        for each in dict.fromkeys(touched):
            self._send(each)

    def _over(self, run: _Run) -> None:
        run.left -= 1
        if run.left:
            return
        if run.rounds:
            self._round(run)
        else:
            self._mark(run.step.task)
            self._let_know(THROUGH, run.step.task, run.step.members[0])

    # connections

    def _queue(self, each: Outgoing, sending: _Sending) -> None:
        each.queue.append(sending)
        self._send(each)

    def _send(self, each: Outgoing) -> None:
        """Sends as much as the connection takes of what may leave."""
        while each.queue and each.queue[0].blocked == 0:
            first = each.queue[0]
            try:
                if first.header:
                    first.header = first.header[each.end.send(first.header) :]
                    continue
                if first.left:
                    first.left -= each.end.send(_ZEROS[: min(first.left, AT_ONCE)])
                    continue
            except BlockingIOError:
                self._watch(each, select.EPOLLOUT)
                return
            each.queue.popleft()
            if first.run is not None:
                self._over(first.run)
        self._watch(each, 0)

    def _watch(self, each: Outgoing | Incoming, events: int) -> None:
        if each.events != events:
            self.epoll.modify(each.end.fileno(), events)
            each.events = events

    def _listen(self, each: Incoming) -> None:
        """Reads of a collective's connection only what this rank has reached."""
        self._watch(each, select.EPOLLIN if each.queue or not each.shared else 0)

    def _receive(self, each: Incoming) -> None:
        if each.shared:
            self._receive_part(each)
        else:
            self._receive_transfer(each)

    def _receive_part(self, each: Incoming) -> None:
        while each.queue:
            first = each.queue[0]
            try:
                got = each.end.recv_into(self.scratch[: min(first.left, AT_ONCE)])
            except BlockingIOError:
                return
            if got == 0:
                raise ConnectionError(f"rank {self.program.rank} lost a connection")
            first.left -= got
            if first.left:
                continue
            each.queue.popleft()
            for by, sending in first.run.unblocks.get(first.number, ()):
                sending.blocked -= 1
                if self.out[by].queue[0] is sending:
                    self._send(self.out[by])
            self._over(first.run)
        self._listen(each)

    def _receive_transfer(self, each: Incoming) -> None:
        while True:
            try:
                if each.task < 0:
                    got = each.end.recv(WORD.size - len(each.head))
                    each.head += got
                    size = len(got)
                else:
                    size = each.end.recv_into(self.scratch[: min(each.left, AT_ONCE)])
                    each.left -= size
            except BlockingIOError:
                return
            if size == 0:
                self._closed(each)
                return
            if each.task < 0 and len(each.head) == WORD.size:
                each.task = WORD.unpack(each.head)[0]
                each.head, each.left = b"", self.program.arrives[each.task][1]
            if each.task >= 0 and each.left == 0:
                self._arrived(each)

    def _arrived(self, each: Incoming) -> None:
        task, each.task = each.task, -1
        source, _, parts = self.program.arrives[task]
        self.parts[task] += 1
        if self.parts[task] < parts:
            return
        self._mark(task)
        self._let_know(ENDED, task, source)
        self._ended(task)

    def _closed(self, each: Incoming) -> None:
        if self.unfinished:
            raise ConnectionError(f"rank {self.program.rank} lost a connection")
        self._watch(each, 0)


def _exactly(end: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        more = end.recv(size - len(got))
        if not more:
            raise ConnectionError("a connection closed before it had a number")
        got += more
    return got


def listening(rank: int, window_bytes: int) -> socket.socket:
    """The sockets on which other ranks reach this one; made before any of them runs."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window_bytes)
    listener.bind(("0.0.0.0", FIRST_LISTENING + rank))
    listener.listen(1024)
    return listener


def raised_priority() -> None:
    """Runs before other processes of the machine, as far as it may: a rank that waits for a core measures nothing."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return
