"""Congestion control and load balancing that a user writes in Python, compiled by Numba to the speed of the core.

    from railyard.engine import packet

    @packet.controls.register("halving")
    @packet.control
    class Halving:
        state = {"last_cut_ps": 0}

        def on_ack(flow, ack, network):
            flow.rate_bps = min(flow.rate_bps + 1e6, network.rate_bps)

        def on_cnp(flow, now_ps, network):
            flow.rate_bps = max(flow.rate_bps / 2, 1e8)

Registered, it is called by its name, as those of the core are; else `user:FILE.py:Halving` names it.

The records that these functions read and write are in `compiling`; a guide with examples is
`docs/how-to/congestion-control.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from railyard.engine.packet.compiling import (
    BALANCER_HOOKS,
    CONTROL_HOOKS,
    SLOTS,
    Functions,
    check_function,
    check_state,
    signature,
)
from railyard.engine.packet.mechanisms import names_of
from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.registry import Registry, module_of

F = TypeVar("F", bound=Functions)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class UserControl(Functions):
    """A congestion control that a user wrote; `Settings(rdma_control=...)` of the packet engine takes it."""

    @property
    def wants_hops(self) -> bool:
        """Whether `on_ack` reads telemetry, which egresses then write into every packet."""
        function = self.functions.get("on_ack")
        code = getattr(function, "__code__", None)
        return function is not None and (code is None or code.co_argcount == 4)


controls: Registry[UserControl] = Registry("congestion control", taken=names_of("congestion_control"))
"""Controls in Python by the name that settings call them."""


def _made(made: type[F], given: type, allowed: tuple[str, ...], kind: str) -> F:
    """What a user's class of functions says, as `made` takes it.

    Raises:
        InputError: It is no class; a function is not known, or its parameters do not fit, or there is none.
    """
    if not isinstance(given, type):
        raise InputError(f"a {kind} is a class", found=type(given).__name__)
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
    return made(
        name=given.__name__,
        summary=(given.__doc__ or "").strip().split("\n", 1)[0],
        state=check_state(vars(given).get("state", {}), given.__name__),
        functions=found,
    )


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
    return _made(UserControl, given, CONTROL_HOOKS, "congestion control")


GOOD, MARKED, TRIMMED, TIMEOUT = range(4)
"""What came back over the path of an entropy."""


@dataclass(frozen=True, eq=False)
class UserBalancer(Functions):
    """A load balancer that a user wrote. `Settings(load_balancing=...)` of the packet engine takes it."""


balancers: Registry[UserBalancer] = Registry("load balancer", taken=names_of("load_balancing"))
"""Load balancers in Python by the name that settings call them."""


def balancer(given: type) -> UserBalancer:
    """Makes a class of functions a load balancer.

    The class has a `state` like a control's and any of these functions, none of which takes `self`:

    - `next_entropy(path, now_ps, random, paths)`: the entropy (0 to 65535) of the flow's next packet; switches hash
      it. `random` is a fresh 63-bit number of this flow, the same in every run with the same seed, `paths` the setting.
    - `feedback(path, entropy, what, now_ps)`: what came back: `GOOD`, `MARKED`, `TRIMMED` or `TIMEOUT`.
    - `choose(ports, random, now_ps)`: in a switch, the row of the egress that a data packet leaves by.

    Raises:
        InputError: The class does not fit; with file and line.
    """
    made = _made(UserBalancer, given, BALANCER_HOOKS, "load balancer")
    if "feedback" in made.functions and "next_entropy" not in made.functions:
        raise InputError("`feedback` has no effect without `next_entropy`", key=made.name, found="feedback")
    return made


PREFIX = "user:"
_FORM = "user:path/to/file.py:Name"


def is_user(text: str) -> bool:
    """Whether a setting names something in a user's file."""
    return text.startswith(PREFIX)


def load(text: str, kind: type[T]) -> T:
    """What `user:path/to/file.py:Name` names. The file is run.

    Args:
        text: The setting.
        kind: `UserControl` or `UserBalancer`.

    Raises:
        InputError: The form is wrong, the file cannot be read or run, or holds nothing of that name.
    """
    file, sign, name = text.removeprefix(PREFIX).rpartition(":")
    if not is_user(text) or not sign or not file or not name.isidentifier():
        raise InputError("expected a file and a name in it", found=text, allowed=_FORM)
    path = Path(file)
    module = module_of(path)
    made = {key: value for key, value in vars(module).items() if isinstance(value, kind)}
    if name not in made:
        there = "something else" if hasattr(module, name) else "nothing"
        raise InputError(
            f"{there} of that name is in the file",
            file=path,
            found=name,
            allowed=sorted(made) or f"a class under @packet.{'control' if 'Control' in kind.__name__ else 'balancer'}",
            hint=did_you_mean(name, made),
        )
    return made[name]


__all__ = [
    "GOOD",
    "MARKED",
    "SLOTS",
    "TIMEOUT",
    "TRIMMED",
    "UserBalancer",
    "UserControl",
    "balancer",
    "balancers",
    "control",
    "controls",
    "load",
    "signature",
]
