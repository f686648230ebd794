"""GOAL schedules of LogGOPSim and ATLAHS, as text and in the binary form of `txt2bin`."""

from __future__ import annotations

import struct

from railyard.work.trace.importer import Importer, first_word, importers

COOKIE = struct.pack("<Q", 4223)
"""What the binary form begins with."""

GOAL = importers.add(
    "goal",
    Importer(
        name="goal",
        summary="GOAL schedules: calculations, sends and receives of ranks.",
        reader="railyard.work.trace.goal",
        recognizes=lambda head: head.startswith(COOKIE) or first_word(head) == "num_ranks",
        suffixes=(".goal", ".bin"),
    ),
)
