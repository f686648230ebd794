"""The keeper of a lab: a process that makes the namespaces, starts the ranks in them, and counts at the ports.

Its namespaces have no names: they live as long as the keeper and the processes in them. All of these die with the
process that started them, however that ends, and with the last of them the kernel removes every namespace, interface,
route and queue. So nothing is left behind, and nothing has to be cleaned up.

`python -m railyard.engine.lab.keeper FD` reads a blueprint from its standard input and writes what came of it to
that file descriptor, as `blueprint.write_frame` has it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.engine.lab.blueprint import GATEWAY, LabResult, PortCounts, read_frame, write_frame
from railyard.engine.lab.rank import Inbox, Rank, listening, raised_priority
from railyard.engine.lab.switches import Daemons, Watch
from railyard.kit.files import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from railyard.engine.lab.blueprint import Blueprint, Connection, LabPort, Wires

CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)

BURST_S = 0.002
"""Burst of a port after a pause, as time at its rate: about a turn of another process, which it makes up for."""

QUEUE_BYTES = 1 << 25
"""Queue of a port: more than all windows that meet at it, so that nothing is lost."""

SWITCHING = {
    "ipv4/ip_forward": "1",
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/default/rp_filter": "0",
    "ipv6/conf/all/forwarding": "1",
    "ipv6/conf/all/accept_dad": "0",
    "ipv6/conf/default/accept_dad": "0",
}
HOSTING = {
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/default/rp_filter": "0",
    "ipv4/tcp_congestion_control": "cubic",
    "ipv4/tcp_slow_start_after_idle": "0",
    "ipv4/tcp_no_metrics_save": "1",
    "ipv4/ip_local_port_range": "60001 65535",
}


class Keeper:
    """The namespaces of a lab, by open file descriptors.

    Attributes:
        crossing: Connections by link.
        home: The namespace of the keeper itself.
    """

    def __init__(self, wires: Wires, connections: Sequence[Connection] = ()) -> None:
        self.wires = wires
        self.crossing: dict[int, list[Connection]] = {}
        for connection in connections:
            for link in connection.links:
                self.crossing.setdefault(link, []).append(connection)
        self.home = _here()
        self.spaces: list[int] = []
        self.watches: list[Watch] = []

    def build(self) -> None:
        """Makes everything.

        Raises:
            OSError: The kernel refuses something.
        """
        for node in self.wires.nodes:
            _called("unshare", CLONE_NEWNET)
            self.spaces.append(_here())
            _set(SWITCHING if node.hash_seed else HOSTING)
            if node.hash_seed:
                _set(
                    {
                        "ipv4/fib_multipath_hash_policy": "3",
                        "ipv4/fib_multipath_hash_fields": str(0x37),
                        "ipv4/fib_multipath_hash_seed": str(node.hash_seed),
                    }
                )
        for number, port in enumerate(self.wires.ports):
            if number < port.peer:
                self._cable(port, self.wires.ports[port.peer])
        by_node: dict[int, list[LabPort]] = {}
        for port in self.wires.ports:
            by_node.setdefault(port.node, []).append(port)
        for number in range(len(self.wires.nodes)):
            self.enter(number)
            ports = by_node.get(number, [])
            _batch("ip", self._addresses(number, ports))
            _batch(
                "tc", [line for port in ports for line in shaped(port, self.wires.mtu, self.crossing.get(port.link))]
            )
            self.watches.append(Watch({socket.if_nametoindex(port.name): self._number(port) for port in ports}))

    def enter(self, node: int) -> None:
        """What follows is done in that namespace."""
        _called("setns", self.spaces[node], CLONE_NEWNET)

    def leave(self) -> None:
        """Back to the namespace of the keeper."""
        _called("setns", self.home, CLONE_NEWNET)

    def count(self) -> dict[int, tuple[int, int, int]]:
        """Bytes sent, packets that wait, packets dropped, by port."""
        return {port: rest for watch in self.watches for port, *rest in watch.read()}  # type: ignore[misc]

    def _number(self, port: LabPort) -> int:
        return self.wires.ports[port.peer].peer

    def _cable(self, one: LabPort, other: LabPort) -> None:
        self.enter(one.node)
        mtu = self.wires.mtu
        there = f"/proc/{os.getpid()}/fd/{self.spaces[other.node]}"
        _batch(
            "ip",
            [
                f"link add dev {one.name} address {one.mac} mtu {mtu} type veth"
                f" peer name {other.name} address {other.mac} mtu {mtu} netns {there}"
            ],
        )

    def _addresses(self, node: int, ports: list[LabPort]) -> Iterable[str]:
        """Commands of `ip` for one node: addresses, neighbours that are known without asking, routes."""
        mine = self.wires.nodes[node]
        yield "link set dev lo up"
        for port in ports:
            gso = min(max(_turn_bytes(port.rate_bps) // 2, self.wires.mtu), 65_536)
            yield f"link set dev {port.name} gso_max_size {gso} up"
            yield f"neigh replace {GATEWAY} lladdr {self.wires.ports[port.peer].mac} dev {port.name} nud permanent"
        for table, (interface, address) in enumerate(mine.addresses, start=100):
            yield f"addr add {address}/32 dev {interface}"
            if len(mine.addresses) > 1:  # what leaves by an address leaves by its NIC
                yield f"rule add from {address} lookup {table}"
                yield f"route add default via {GATEWAY} dev {interface} onlink table {table}"
        if mine.addresses:
            yield f"route add default via {GATEWAY} dev {mine.addresses[0][0]} onlink"
        attached = {port.name for port in ports if self.wires.ports[port.peer].node < self.wires.hosts}
        for address, interfaces in mine.routes:
            if self.wires.routing == "static" or set(interfaces) <= attached:
                hops = " ".join(f"nexthop via {GATEWAY} dev {one} onlink" for one in interfaces)
                yield f"route add {address}/32 {hops}"


def _here() -> int:
    return os.open("/proc/self/ns/net", os.O_RDONLY)


def _called(name: str, *words: int) -> None:
    if getattr(_LIBC, name)(*words) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def _set(values: dict[str, str]) -> None:
    for key, value in values.items():
        path = Path("/proc/sys/net") / key
        if key.endswith("tcp_congestion_control"):
            with contextlib.suppress(OSError):  # a namespace may use only what its host allows
                path.write_text(value, encoding="ascii")
        elif path.exists():
            path.write_text(value, encoding="ascii")


def _batch(tool: str, commands: Iterable[str]) -> None:
    text = "\n".join(commands)
    done = subprocess.run([tool, "-batch", "-"], input=text + "\n", text=True, capture_output=True, check=False)
    if done.returncode:
        raise OSError(f"{tool}: {done.stderr.strip().splitlines()[0] if done.stderr.strip() else 'failed'}")


def _turn_bytes(rate_bps: float) -> int:
    return math.ceil(rate_bps / 8 * BURST_S)


def shaped(port: LabPort, mtu: int, crossing: Sequence[Connection] | None) -> list[str]:
    """Commands of `tc` for a port: its rate, and fair turns among the connections that cross it, where these are known.

    Turns replace a fabric's congestion control: connections share a link fairly. Other packets, which are
    acknowledgements, go before them.
    """
    rate, device = round(port.rate_bps), f"dev {port.name}"
    burst = f"{max(_turn_bytes(port.rate_bps), 2 * (mtu + 14))}b"
    if not crossing:
        return [f"qdisc replace {device} root tbf rate {rate}bit burst {burst} limit {QUEUE_BYTES}b"]
    turn = f"quantum {2 * (mtu + 14)} burst {burst} cburst {burst}"
    each = max(rate // len(crossing), 8)
    lines = [
        f"qdisc replace {device} root handle 1: htb default 1",
        f"class add {device} parent 1: classid 1:fff htb rate {rate}bit burst {burst} cburst {burst}",
        f"class add {device} parent 1:fff classid 1:1 htb rate {each}bit ceil {rate}bit prio 0 {turn}",
    ]
    for number, one in enumerate(crossing, start=2):
        lines += [
            f"class add {device} parent 1:fff classid 1:{number:x} htb rate {each}bit ceil {rate}bit prio 1 {turn}",
            f"filter add {device} parent 1: protocol ip prio 1 u32 match ip src {one.source_address}/32"
            f" match ip sport {one.source_port} 0xffff flowid 1:{number:x}",
        ]
    return lines


class Child:
    """A process of the lab.

    Attributes:
        control: What it waits at; closing it lets it go.
    """

    def __init__(self, pid: int, results: int, control: int) -> None:
        self.pid, self.results, self.control = pid, results, control


def _forked(do: Callable[[int, int], None]) -> Child:
    """A child that runs a function of what it writes to and what it waits at."""
    result_read, result_write = os.pipe()
    control_read, control_write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(result_write)
        os.close(control_read)
        return Child(pid, result_read, control_write)
    status = 1
    try:
        die_with_parent()
        os.close(result_read)
        os.close(control_write)
        do(result_write, control_read)
        status = 0
    except BaseException as error:  # its end is its answer
        with contextlib.suppress(OSError):
            write_frame(result_write, ("error", f"{type(error).__name__}: {error}"))
    finally:
        os._exit(status)


def _play(
    plan: Blueprint, number: int, listener: socket.socket, inboxes: Sequence[Inbox], ends: tuple[int, int]
) -> None:
    """A rank from its connections to its times."""
    gc.disable()
    rank = Rank(plan, plan.programs[number], listener, inboxes)
    rank.connect()
    write_frame(ends[0], ("ready", number))
    begin_ns, before = read_frame(ends[1]), _queued_ns()
    times = rank.run(begin_ns)
    spent = max(time.monotonic_ns() - begin_ns, 1)
    write_frame(ends[0], ("times", (times, (_queued_ns() - before) / spent)))
    os.read(ends[1], 1)  # connections stay open until all are through


def _ranks(plan: Blueprint, keeper: Keeper) -> list[Child]:
    listeners = []
    for program in plan.programs:
        keeper.enter(program.host)
        listeners.append(listening(program.rank, plan.window_bytes))
    inboxes = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in plan.programs]
    children = []
    for number, program in enumerate(plan.programs):
        keeper.enter(program.host)
        listener = listeners[number]
        children.append(_forked(lambda *ends: _play(plan, number, listener, inboxes, ends)))  # noqa: B023 - forked at once
    keeper.leave()
    for listener in listeners:
        listener.close()
    return children


def _gathered(children: Sequence[Child], kind: str, each: Callable[[], None], until: float) -> list[Any]:
    """One frame of each child; in between, something is done now and then.

    Raises:
        TimeoutError: They take too long.
        ChildProcessError: One of them failed.
    """
    found: dict[int, Any] = {}
    left = {child.results: number for number, child in enumerate(children)}
    while left:
        if time.monotonic() > until:
            raise TimeoutError(f"ranks {sorted(left.values())[:8]} did not end")
        ready, _, _ = select.select([*left, 0], [], [], 0.02)
        each()
        for end in ready:
            if end == 0:
                if not os.read(0, 1):  # whoever asked for the lab is gone
                    os._exit(0)
                continue
            number = left.pop(end)
            try:
                said, value = read_frame(end)
            except EOFError:
                raise ChildProcessError(f"rank {number} ended too soon") from None
            if said != kind:
                raise ChildProcessError(f"rank {number}: {value}")
            found[number] = value
    return [found[number] for number in range(len(children))]


class Tally:
    """What ports count while a run goes on.

    Attributes:
        full_s: By port: how long packets waited, by the samples.
    """

    def __init__(self, keeper: Keeper, every_s: float) -> None:
        self.keeper, self.every_s = keeper, every_s
        self.before = keeper.count()
        self.full_s = dict.fromkeys(self.before, 0.0)
        self.last = time.monotonic()

    def sample(self) -> None:
        """Looks at the queues, if it is time to."""
        now = time.monotonic()
        if self.every_s <= 0 or now - self.last < self.every_s:
            return
        for port, (_, waiting, _) in self.keeper.count().items():
            if waiting:
                self.full_s[port] += now - self.last
        self.last = now

    def counted(self) -> PortCounts:
        """All since the beginning."""
        after, ports = self.keeper.count(), range(len(self.keeper.wires.ports))
        none = (0, 0, 0)
        sent = tuple(after.get(port, none)[0] - self.before.get(port, none)[0] for port in ports)
        drops = tuple(after.get(port, none)[2] - self.before.get(port, none)[2] for port in ports)
        return PortCounts(sent, tuple(self.full_s.get(port, 0.0) for port in ports), drops)


def _queued_ns() -> int:
    """How long this process has been ready and had no processor, in all; 0 where the kernel does not say."""
    file = Path("/proc/self/schedstat")
    return int(file.read_text(encoding="ascii").split()[1]) if file.exists() else 0


LEAD_NS = 100_000_000
"""Time from the word to begin to the beginning: all ranks have heard it by then."""


def run(plan: Blueprint, keeper: Keeper) -> LabResult:
    """All ranks from their first step to their last."""
    children = _ranks(plan, keeper)
    _gathered(children, "ready", lambda: None, time.monotonic() + 60)
    begin_ns = time.monotonic_ns() + LEAD_NS
    tally = Tally(keeper, plan.sample_s)
    for child in children:
        write_frame(child.control, begin_ns)
    found = _gathered(children, "times", tally.sample, time.monotonic() + plan.limit_s)
    counted = tally.counted()
    for child in children:
        os.close(child.control)
    for child in children:
        os.waitpid(child.pid, 0)
    return LabResult(tuple(times for times, _ in found), counted, max(starved for _, starved in found))


def run_commands(plan: Blueprint, keeper: Keeper) -> LabResult:
    """The user's programs, each in the namespace of its host, until all have ended."""
    processes = []
    tally = Tally(keeper, plan.sample_s)
    for command in plan.commands:
        keeper.enter(command.host)
        processes.append(
            subprocess.Popen(
                command.words,
                env={**os.environ, **command.environment},
                stdin=subprocess.DEVNULL,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - a process without threads
            )
        )
    keeper.leave()
    until = time.monotonic() + plan.limit_s
    while any(process.poll() is None for process in processes):
        tally.sample()
        if select.select([0], [], [], 0.02)[0] and not os.read(0, 1):
            os._exit(0)
        if time.monotonic() > until:
            raise TimeoutError("the programs did not end")
        if any(process.returncode for process in processes):
            for process in processes:
                process.terminate()
    statuses = tuple(int(process.returncode) for process in processes)
    return LabResult((), tally.counted(), 0.0, statuses)


def main() -> None:
    """Builds, runs and answers; then ends, and with it everything that it made."""
    answer = int(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked for the lab hears it, and ends this process
    plan: Blueprint = read_frame(0)
    try:
        raised_priority()
        keeper = Keeper(plan.wires, plan.connections)
        keeper.build()
        routed = plan.wires.routing == "frr"
        daemons = Daemons(keeper.wires, keeper.enter) if routed else contextlib.nullcontext()
        with daemons:
            ran = run_commands(plan, keeper) if plan.commands else run(plan, keeper)
        write_frame(answer, ("ran", ran))
    except TimeoutError as error:
        write_frame(answer, ("hung", str(error)))
    except (OSError, ChildProcessError) as error:
        write_frame(answer, ("error", str(error)))


if __name__ == "__main__":
    die_with_parent()
    main()
