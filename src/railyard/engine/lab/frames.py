"""Values between the processes of a lab: a length and a pickle. All of them run the same program."""

from __future__ import annotations

import os
import pickle
import struct
from typing import Any

_LENGTH = struct.Struct("=Q")


def write_frame(end: int, value: object) -> None:
    """Writes a value to a file descriptor."""
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    data = _LENGTH.pack(len(data)) + data
    while data:
        data = data[os.write(end, data) :]


def read_frame(end: int) -> Any:
    """The next value of a file descriptor.

    Raises:
        EOFError: It ends before.
    """
    return pickle.loads(_exactly(end, _LENGTH.unpack(_exactly(end, _LENGTH.size))[0]))


def _exactly(end: int, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        more = os.read(end, size - len(got))
        if not more:
            raise EOFError("the other process ended")
        got += more
    return bytes(got)
