"""`railyard lab exec`: a program on every rank of a scaled-down cluster."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from railyard.ask.observe.answer import cluster_of
from railyard.engine.lab.switches import Executed, execute
from railyard.face.cli.terminal import Table, emit, say
from railyard.kit.errors import InputError, SimulationError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


_SHOWN = 12


def run(file: Path, words: Sequence[str], *, dilation: float, routing: str, as_json: bool) -> None:
    """Runs it and says what the links did.

    Raises:
        InputError: There is no command, or this machine or cluster cannot be a lab.
        SimulationError: A rank failed.
    """
    if not words:
        raise InputError("there is no command", hint="railyard lab exec SCENARIO -- python train.py")
    if shutil.which(words[0]) is None:
        raise InputError("there is no such program", found=words[0])
    if routing not in ("static", "frr"):
        raise InputError("there is no such routing", key="--routing", found=routing, allowed="static, frr")
    done = execute(cluster_of(file), words, lambda: None, dilation=dilation, routing=routing)
    _show(done, as_json=as_json)
    failed = [rank for rank, status in enumerate(done.statuses) if status]
    if failed:
        raise SimulationError(f"rank {failed[0]} ended with status {done.statuses[failed[0]]}")


def _show(done: Executed, *, as_json: bool) -> None:
    if as_json:
        links = [
            {"link": link.name, "rate_bps": link.rate_bps, "bytes": link.bytes, "waited_s": link.waited_s}
            for link in done.links
        ]
        emit(json.dumps({"statuses": list(done.statuses), "links": links}, indent=2))
        return
    table = Table(["link", "Mb/s", "MB on the wire", "packets waited"], right=(1, 2, 3))
    for link in done.links[:_SHOWN]:
        table.add(link.name, f"{link.rate_bps / 1e6:g}", f"{link.bytes / 1e6:,.1f}", f"{link.waited_s:.2f} s")
    table.print()
    if len(done.links) > _SHOWN:
        say(f"{len(done.links) - _SHOWN} more links carried something; --json lists all")
