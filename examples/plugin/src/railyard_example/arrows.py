"""A reader of traffic: `workload: {trace: {file: step.arrows}}` and `railyard packet --traffic step.arrows`."""

import re

from railyard import InputError
from railyard.work.trace.builder import GraphBuilder, integer, lines
from railyard.work.trace.formats import Importer, importers

FLOW = re.compile(r"(\d+) > (\d+): (\d+)")


def flows(path):
    """Yields line, source, target and size in bytes of each flow; the first line names the format."""
    for line, text in lines(path):
        if line == 1 or not text.strip():
            continue
        found = FLOW.fullmatch(text.strip())
        if found is None:
            raise InputError("this is no flow", file=path, line=line, found=text, allowed="`0 > 5: 2000000`")
        yield line, *(integer(cell, "a flow") for cell in found.groups())


def read(path):
    """Reads a task graph of transfers that start at once."""
    found = list(flows(path))
    if not found:
        raise InputError("the file has no flow", file=path)
    builder = GraphBuilder(1 + max(max(source, target) for _, source, target, _ in found))
    for line, source, target, size_bytes in found:
        builder.transfer(source, target, size_bytes, line=line)
    return builder.build()


importers.add(
    "arrows",
    Importer(
        name="arrows",
        summary="Flows between ranks, an arrow each.",
        reader=read,
        recognizes=lambda head: head.startswith(b"arrows"),
        suffixes=(".arrows",),
    ),
)
