"""Records of 64-bit fields that a user's functions see, as in `control/user_control.hpp` and `balance/user.hpp`."""

from __future__ import annotations

import dis
import importlib
import inspect
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray


def numba_module() -> Any:
    """Numba.

    Raises:
        InputError: It is not installed.
    """
    try:
        return importlib.import_module("numba")
    except ImportError as error:
        raise InputError(
            "functions of your own need Numba, which is not installed",
            found=str(error),
            hint="install it by `pip install 'railyard[numba]'`",
        ) from None


SLOTS = 24
"""Fields of the user's own that a flow can have, for a control and for a balancer each."""

FLOW = (("rate_bps", "f8"), ("window_bytes", "i8"), ("timer_ps", "i8"))
"""What the transport obeys: packets leave no faster than the rate, no more than the window is in flight (0: no bound),
`on_timer` is called at the timer (0: never)."""

ACK = np.dtype(
    [
        (name, "i8")
        for name in (
            "now_ps",
            "rtt_ps",
            "marked",
            "fresh_bytes",
            "in_flight_bytes",
            "sequence",
            "next_sequence",
            "hops",
            "host_delay_ps",
        )
    ]
)
"""An acknowledgement: when, the round trip of the packet it answers, whether that was marked (0 or 1), payload newly
acknowledged, bytes still out, the first packet not yet received, the packet that is sent next, rows of telemetry, time
in the receiving host."""

HOP = np.dtype([("tx_bytes", "i8"), ("time_ps", "i8"), ("queue_bytes", "u4"), ("rate_mbps", "u4")])
"""Telemetry of one egress on the way: sent so far, when the packet left, what stayed behind, rate of the link."""

NETWORK = np.dtype(
    [
        ("rate_bps", "f8"),
        *(
            (name, "i8")
            for name in (
                "base_rtt_ps",
                "mtu_bytes",
                "header_bytes",
                "window_bytes",
                "queue_bytes",
                "ecn_low_bytes",
                "ecn_high_bytes",
                "hops",
            )
        ),
    ]
)
"""Constants of the run: rate of a host's link, unloaded round trip, packet and header, first window, queue of an
egress, marking thresholds, links of the longest path."""

PORT = np.dtype([("queue_bytes", "i8"), ("limit_bytes", "i8"), ("link", "i8")])
"""An egress that a packet could leave by: what waits there, what it can hold, its link."""

TIMED = ("on_open", "on_cnp", "on_nack", "on_timeout", "on_timer")
CONTROL_HOOKS = ("on_ack", "on_sent", *TIMED)
BALANCER_HOOKS = ("next_entropy", "feedback", "choose")


def flow_dtype(state: Mapping[str, float]) -> np.dtype[Any]:
    """The record of a flow: what the transport obeys, then the user's own fields."""
    fields = [(name, "f8" if isinstance(value, float) else "i8") for name, value in state.items()]
    return np.dtype(
        [*FLOW, *fields, ("_spare", "i8", (SLOTS - len(fields),))] if len(fields) < SLOTS else [*FLOW, *fields]
    )


def path_dtype(state: Mapping[str, float]) -> np.dtype[Any]:
    """The record of a flow under a balancer: the user's own fields."""
    fields = [(name, "f8" if isinstance(value, float) else "i8") for name, value in state.items()]
    return np.dtype([*fields, ("_spare", "i8", (SLOTS - len(fields),))] if len(fields) < SLOTS else fields)


def first_slots(state: Mapping[str, float]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """uint64[SLOTS], the bits that a flow's own fields begin with."""
    bits = np.zeros(SLOTS, np.uint64)
    for at, value in enumerate(state.values()):
        bits[at : at + 1] = np.array([value], "f8" if isinstance(value, float) else "i8").view(np.uint64)
    return bits


def check_state(state: object, owner: str) -> dict[str, float]:
    """The user's own fields and what they begin with.

    Raises:
        InputError: They are no mapping from names to numbers, too many, or take a name that is in use.
    """
    if not isinstance(state, dict):
        raise InputError("`state` maps names to first values", key=f"{owner}.state", found=type(state).__name__)
    if len(state) > SLOTS:
        raise InputError("too many fields of state", key=f"{owner}.state", found=len(state), allowed=f"{SLOTS} at most")
    taken = {name for name, _ in FLOW} | {"_spare"}
    for name, value in state.items():
        key = f"{owner}.state"
        if not (isinstance(name, str) and name.isidentifier()) or name in taken:
            raise InputError(
                "a field of state needs a unique identifier as its name",
                key=key,
                found=name,
                hint="a Python identifier",
            )
        if not isinstance(value, (bool, int, float)) or (isinstance(value, int) and not -(2**63) <= value < 2**63):
            raise InputError(
                "a field of state begins with a number",
                key=f"{key}.{name}",
                found=repr(value),
                allowed="int64 or float",
            )
    return {name: int(value) if isinstance(value, bool) else value for name, value in state.items()}


def signature(hook: str, state: Mapping[str, float] | None = None) -> Any:
    """The Numba signature of a function, for those who call `numba.cfunc` themselves.

    The plain form takes pointers (open them by `numba.carray(pointer, 1)[0]`) and returns an int64: controls 1;
    `next_entropy` the entropy plus 1; `feedback` 1; `choose` the row of the egress plus 1. Anything else is a failure.

    Args:
        hook: One of the functions of a control or a balancer.
        state: The user's own fields.

    Raises:
        InputError: There is no such function, or Numba is not installed.
    """
    numba = numba_module()
    allowed = (*CONTROL_HOOKS, *BALANCER_HOOKS)
    if hook not in allowed:
        raise InputError("no such function", found=hook, allowed=allowed, hint=did_you_mean(hook, allowed))

    def pointer(dtype: np.dtype[Any]) -> Any:
        return numba.types.CPointer(numba.from_dtype(dtype))

    fields = state or {}
    integer = numba.types.int64
    if hook in BALANCER_HOOKS:
        path = pointer(path_dtype(fields))
        taken = {
            "next_entropy": (path, integer, integer, integer),
            "feedback": (path, integer, integer, integer),
            "choose": (pointer(PORT), integer, integer, integer),
        }
        return integer(*taken[hook])
    flow, network = pointer(flow_dtype(fields)), pointer(NETWORK)
    if hook == "on_ack":
        return integer(flow, pointer(ACK), pointer(HOP), network)
    return integer(flow, integer, integer, network) if hook == "on_sent" else integer(flow, integer, network)


_PARAMETERS = {
    "on_ack": ("flow, ack, network", "flow, ack, hops, network"),
    "on_sent": ("flow, size_bytes, now_ps, network",),
    **dict.fromkeys(TIMED, ("flow, now_ps, network",)),
    "next_entropy": ("path, now_ps, random, paths",),
    "feedback": ("path, entropy, what, now_ps",),
    "choose": ("ports, random, now_ps",),
}
_HOPS = 8


@dataclass(frozen=True, eq=False)
class Functions:
    """Functions of a user's class, plain or compiled.

    Attributes:
        summary: First line of its docstring.
        state: The user's own fields of a flow, and what they begin with.
    """

    name: str
    summary: str
    state: Mapping[str, float]
    functions: Mapping[str, Any]
    _made: dict[str, tuple[int, object]] = field(default_factory=dict, repr=False)

    def addresses(self) -> dict[str, int]:
        """Addresses of machine code by name; compiles at the first call (about half a second).

        Raises:
            InputError: Numba is missing or cannot compile a function.
        """
        for hook, function in self.functions.items():
            if hook not in self._made:
                self._made[hook] = compile_hook(function, hook, self.name, self.state)
        return {hook: address for hook, (address, _) in self._made.items()}

    @property
    def slots(self) -> NDArray[np.uint64]:
        """uint64[SLOTS], the bits that a flow's own fields begin with."""
        return first_slots(self.state)


def is_compiled(function: object) -> bool:
    """Whether this is the result of `numba.cfunc`, or a bare address."""
    return isinstance(getattr(function, "address", None), int) or (type(function) is int and function > 0)


def check_function(function: object, hook: str, owner: str) -> None:
    """Refuses what is no function, or has the wrong parameters.

    Raises:
        InputError: With the right ones.
    """
    if is_compiled(function):
        return
    key = f"{owner}.{hook}"
    if not inspect.isfunction(function):
        raise InputError("this must be a plain function", key=key, found=type(function).__name__)
    parameters = inspect.signature(function).parameters.values()
    method = "self" in inspect.signature(function).parameters
    plain = not method and all(p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in parameters)
    wanted = _PARAMETERS[hook]
    if not plain or len(parameters) not in {text.count(",") + 1 for text in wanted}:
        raise InputError(
            "the parameters do not fit",
            file=function.__code__.co_filename,
            line=function.__code__.co_firstlineno,
            key=key,
            found=f"({', '.join(p.name for p in parameters)})",
            allowed=" or ".join(f"({text})" for text in wanted),
            hint="there is no object: leave out `self`" if method else None,
        )


def compile_hook(function: Any, hook: str, owner: str, state: Mapping[str, float]) -> tuple[int, object]:
    """The address of the compiled function, and what keeps it alive.

    Raises:
        InputError: Numba is missing, or cannot compile it; with file and line.
    """
    if is_compiled(function):
        return (function if isinstance(function, int) else int(function.address)), function
    numba = numba_module()
    try:
        body = numba.njit(error_model="python")(function)
        made = numba.cfunc(signature(hook, state), error_model="python")(_wrapped(numba, hook, body, function))
    except numba.core.errors.NumbaError as error:
        raise _refused(error, function, f"{owner}.{hook}") from None
    except KeyError as error:  # WHY: so Numba says that a record has no such field
        raise _no_field(str(error.args[0]), function, f"{owner}.{hook}", state) from None
    return int(made.address), made


def _wrapped(numba: Any, hook: str, body: Any, function: Any) -> Callable[..., Any]:
    carray = numba.carray
    if hook == "on_ack":
        return _ack_with_hops(carray, body) if function.__code__.co_argcount == 4 else _ack(carray, body)
    if hook in BALANCER_HOOKS:
        return {"next_entropy": _next, "feedback": _feedback, "choose": _choose}[hook](carray, body)
    return _sent(carray, body) if hook == "on_sent" else _timed(carray, body)


def _ack(carray: Any, body: Any) -> Callable[..., Any]:
    def call(flow: Any, ack: Any, hops: Any, network: Any) -> int:  # noqa: ARG001
        body(carray(flow, 1)[0], carray(ack, 1)[0], carray(network, 1)[0])
        return 1

    return call


def _ack_with_hops(carray: Any, body: Any) -> Callable[..., Any]:
    def call(flow: Any, ack: Any, hops: Any, network: Any) -> int:
        body(carray(flow, 1)[0], carray(ack, 1)[0], carray(hops, _HOPS), carray(network, 1)[0])
        return 1

    return call


def _timed(carray: Any, body: Any) -> Callable[..., Any]:
    def call(flow: Any, now_ps: Any, network: Any) -> int:
        body(carray(flow, 1)[0], now_ps, carray(network, 1)[0])
        return 1

    return call


def _sent(carray: Any, body: Any) -> Callable[..., Any]:
    def call(flow: Any, size_bytes: Any, now_ps: Any, network: Any) -> int:
        body(carray(flow, 1)[0], size_bytes, now_ps, carray(network, 1)[0])
        return 1

    return call


def _next(carray: Any, body: Any) -> Callable[..., Any]:
    def call(path: Any, now_ps: Any, random: Any, paths: Any) -> Any:
        return body(carray(path, 1)[0], now_ps, random, paths) + 1

    return call


def _feedback(carray: Any, body: Any) -> Callable[..., Any]:
    def call(path: Any, entropy: Any, what: Any, now_ps: Any) -> int:
        body(carray(path, 1)[0], entropy, what, now_ps)
        return 1

    return call


def _choose(carray: Any, body: Any) -> Callable[..., Any]:
    def call(ports: Any, count: Any, random: Any, now_ps: Any) -> Any:
        return body(carray(ports, count), random, now_ps) + 1

    return call


def _refused(error: Exception, function: Any, key: str) -> InputError:
    """Numba's long message in two lines: what it says first, and the last line of the user's file that it names."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    file = function.__code__.co_filename
    lines = [int(number) for number in re.findall(rf'File "{re.escape(_tail(file))}", line (\d+)', text)]
    lines += [int(number) for number in re.findall(rf'File "[^"]*{re.escape(_tail(file))}", line (\d+)', text)]
    written = [line.strip() for line in text.splitlines() if line.strip()]
    reasons = [
        line for line in written if not line.startswith(("Failed in", "File ", "During", "def ", "<source", "-"))
    ]
    return InputError(
        f"Numba cannot compile this: {reasons[0] if reasons else type(error).__name__}",
        file=file,
        line=lines[-1] if lines else function.__code__.co_firstlineno,
        key=key,
        hint="only numbers, the records' fields, `math` and functions made by `numba.njit` can be used",
    )


def _no_field(name: str, function: Any, key: str, state: Mapping[str, float]) -> InputError:
    records = (flow_dtype(state), ACK, HOP, NETWORK, PORT)
    allowed = [field for record in records for field in record.names or () if field != "_spare"]
    lines = [at.positions.lineno for at in dis.get_instructions(function) if at.argval == name and at.positions]
    return InputError(
        "a record has no such field",
        file=function.__code__.co_filename,
        line=lines[0] if lines else function.__code__.co_firstlineno,
        key=key,
        found=name,
        hint=did_you_mean(name, allowed),
    )


def _tail(file: str) -> str:
    return file.rsplit("/", 1)[-1]
