"""Records of 64-bit fields that a user's functions see, as in `control/user_control.hpp` and `balance/user.hpp`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.engine.packet.user.numba_import import numba_module
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

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
