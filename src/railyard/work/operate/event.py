"""What can happen in a run, and in which order at one time."""

from __future__ import annotations

from enum import IntEnum


class Event(IntEnum):
    """Kinds of events, in the order in which those of one moment are taken: what becomes free can be had at once."""

    END = 0
    REPAIR = 1
    CLOSE = 2
    DETECT = 3
    FAULT = 4
    OPEN = 5
    CHUNK = 6
    RENEW = 7
    REPLICA = 8
