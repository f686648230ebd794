"""Pickles as data: numbers, text, lists, tuples and dictionaries, and nothing else.

A pickle is a program for a small machine, and `pickle.load` runs it: it may import and call anything. Here only those
of its instructions exist that make plain data; any other one is refused by name, and nothing is ever imported or
called.
"""

from __future__ import annotations

import pickletools
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_INSTRUCTIONS = 50_000_000

_MARK = object()
_VALUES = {
    "INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT", "UNICODE", "BINUNICODE",
    "SHORT_BINUNICODE", "BINUNICODE8", "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES",
    "BINBYTES8",
}  # fmt: skip
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_GETS, _PUTS = {"GET", "BINGET", "LONG_BINGET"}, {"PUT", "BINPUT", "LONG_BINPUT"}


def load(data: bytes) -> Any:
    """The value of a pickle of plain data.

    Raises:
        InputError: It is damaged, or would do something else than make plain data.
    """
    machine = _Machine()
    try:
        for count, (instruction, argument, _) in enumerate(pickletools.genops(data)):
            if count > MOST_INSTRUCTIONS:
                raise InputError("the pickle is too long", allowed=f"{MOST_INSTRUCTIONS} instructions")
            if instruction.name == "STOP":
                return machine.pop()
            machine.step(instruction.name, argument)
    except InputError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        raise InputError(f"the pickle is damaged: {error}") from None
    raise InputError("the pickle is damaged: it does not end")


class _Machine:
    """The stack and the memory of the machine."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memory: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> None:
        """One instruction."""
        if name in _VALUES:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            self.stack.append(_EMPTY[name]())
        elif name in _GETS:
            self.stack.append(self.memory[int(argument)])
        elif name in _PUTS:
            self.memory[int(argument)] = self.stack[-1]
        else:
            self._gathers(name)

    def _gathers(self, name: str) -> None:
        """Instructions that make something of what lies on the stack."""
        if name in _TUPLES:
            count = _TUPLES[name]
            self.stack[-count:] = [tuple(self.stack[-count:])]
        elif name == "MARK":
            self.stack.append(_MARK)
        elif name == "MEMOIZE":
            self.memory[len(self.memory)] = self.stack[-1]
        elif name in ("APPEND", "SETITEM"):
            self._one(name)
        elif name in ("APPENDS", "SETITEMS", "LIST", "TUPLE", "DICT"):
            self._many(name)
        elif name == "POP":
            self.pop()
        elif name not in ("PROTO", "FRAME"):
            raise InputError(f"the pickle would do more than make plain data (`{name}`): it is not run", found=name)

    def _one(self, name: str) -> None:
        value = self.pop()
        if name == "APPEND":
            self._last(list).append(value)
        else:
            key = self.pop()
            self._last(dict)[key] = value

    def _many(self, name: str) -> None:
        items = self._since_mark()
        if name == "APPENDS":
            self._last(list).extend(items)
        elif name == "LIST":
            self.stack.append(items)
        elif name == "TUPLE":
            self.stack.append(tuple(items))
        else:
            pairs = dict(zip(items[::2], items[1::2], strict=True))
            if name == "DICT":
                self.stack.append(pairs)
            else:
                self._last(dict).update(pairs)

    def pop(self) -> Any:
        """What lies on top."""
        if not self.stack or self.stack[-1] is _MARK:
            raise ValueError("the stack is empty")
        return self.stack.pop()

    def _last(self, kind: type) -> Any:
        if not isinstance(self.stack[-1], kind):
            raise TypeError(f"expected a {kind.__name__}")
        return self.stack[-1]

    def _since_mark(self) -> list[Any]:
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] is _MARK:
                items = self.stack[at + 1 :]
                del self.stack[at:]
                return items
        raise ValueError("there is no mark")
