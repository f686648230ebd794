"""A congestion control in Python: the decorator, and what it makes."""

from __future__ import annotations

from dataclasses import dataclass

from railyard.engine.packet.mechanisms import names_of
from railyard.engine.packet.user.compiling import Functions, check_function
from railyard.engine.packet.user.records import CONTROL_HOOKS, check_state
from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.registry import Registry


@dataclass(frozen=True, eq=False)
class UserControl(Functions):
    """A congestion control that a user wrote. `Settings(congestion_control=...)` of the packet engine takes it."""

    @property
    def wants_hops(self) -> bool:
        """Whether `on_ack` reads telemetry, which egresses then write into every packet."""
        function = self.functions.get("on_ack")
        code = getattr(function, "__code__", None)
        return function is not None and (code is None or code.co_argcount == 4)


controls: Registry[UserControl] = Registry("congestion control", taken=names_of("congestion_control"))
"""Controls in Python by the name that settings call them."""


def functions_of(given: type, allowed: tuple[str, ...], kind: str) -> dict[str, object]:
    """The functions of a user's class by name.

    Raises:
        InputError: One is not known, or its parameters do not fit, or there is none.
    """
    found = {name: value for name, value in vars(given).items() if not name.startswith("_") and name != "state"}
    for name, value in found.items():
        if name not in allowed:
            code = getattr(value, "__code__", None)
            raise InputError(
                f"a {kind} has no such function",
                file=getattr(code, "co_filename", None),
                line=getattr(code, "co_firstlineno", None),
                key=given.__name__,
                found=name,
                allowed=allowed,
                hint=did_you_mean(name, allowed),
            )
        check_function(value, name, given.__name__)
    if not found:
        raise InputError(f"a {kind} needs functions", key=given.__name__, found="none", allowed=allowed)
    return found


def summary_of(given: type) -> str:
    """The first line of a class's docstring."""
    return (given.__doc__ or "").strip().split("\n", 1)[0]


def control(given: type) -> UserControl:
    """Makes a class of functions a congestion control.

    The class has a `state`, a dictionary of a flow's own fields and what they begin with (integers stay integers),
    and any of these functions, none of which takes `self`:

    - `on_open(flow, now_ps, network)`: the flow starts; `flow.rate_bps` is the line rate, there is no window.
    - `on_ack(flow, ack, network)` or, with telemetry, `on_ack(flow, ack, hops, network)`.
    - `on_cnp(flow, now_ps, network)`: a congestion notification came (RoCE).
    - `on_nack(flow, now_ps, network)`: the receiver reported a gap.
    - `on_timeout(flow, now_ps, network)`: nothing came back in time.
    - `on_sent(flow, size_bytes, now_ps, network)`: a packet of so many bytes leaves.
    - `on_timer(flow, now_ps, network)`: the time in `flow.timer_ps` has come; sets a later one, or 0.

    A function may instead be the result of `numba.cfunc(packet.signature(name, state))`.

    Raises:
        InputError: The class does not fit; with file and line.
    """
    if not isinstance(given, type):
        raise InputError("`control` decorates a class", found=type(given).__name__)
    return UserControl(
        name=given.__name__,
        summary=summary_of(given),
        state=check_state(vars(given).get("state", {}), given.__name__),
        functions=functions_of(given, CONTROL_HOOKS, "congestion control"),
    )
