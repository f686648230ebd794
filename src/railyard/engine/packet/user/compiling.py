"""Turns a user's Python functions into addresses of machine code, with errors that name file and line."""

from __future__ import annotations

import dis
import inspect
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.engine.packet.user.numba_import import numba_module
from railyard.engine.packet.user.records import (
    ACK,
    BALANCER_HOOKS,
    HOP,
    NETWORK,
    PORT,
    TIMED,
    first_slots,
    flow_dtype,
    signature,
)
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

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
        name: Of the class.
        summary: First line of its docstring.
        state: The user's own fields of a flow, and what they begin with.
        functions: By name.
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
