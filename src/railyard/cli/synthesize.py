"""`railyard synthesize`: a schedule of a collective for a given network."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from railyard import units
from railyard.cli.messages import say
from railyard.cli.progress import Progress
from railyard.cli.tables import Table, emit
from railyard.errors import InputError
from railyard.files import keep_existing, write_text
from railyard.tune.synthesis.msccl import msccl_xml
from railyard.tune.synthesis.network import read_network
from railyard.tune.synthesis.search import synthesize as search

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.tune.synthesis.network import LinkNetwork
    from railyard.tune.synthesis.search import Synthesized


def synthesize(
    links: Path,
    *,
    collective: str,
    size: str,
    topology: str | None,
    chassis: str | None,
    switches: str | None,
    most_sends: int,
    out: Path | None,
    msccl: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Prints how long a synthesized collective takes, and what none beats.

    Raises:
        InputError: The table, a name or a size is wrong.
    """
    keep_existing(out, force=force)
    keep_existing(msccl, force=force)
    if out is not None and msccl is not None and out.resolve() == msccl.resolve():
        raise InputError("--out and --msccl are the same file", file=out)
    size_bytes = units.size(size)
    if size_bytes <= 0:
        raise InputError("a collective moves more than nothing", key="--size", found=size, allowed="such as 1 MB")
    network = read_network(links, topology=topology, chassis=chassis, switches=_numbers(switches))
    if not quiet and switches is None and network.switch.any():
        say(f"taken for switches: {', '.join(map(str, np.flatnonzero(network.switch)))} (`--switches` says otherwise)")
    with Progress(wanted=not quiet) as progress:
        found = search(
            network, collective, size_bytes, most_sends=most_sends, progress=lambda share: progress("schedules", share)
        )
    if out is not None:
        write_text(out, sends_csv(network, found))
    if msccl is not None:
        write_text(msccl, msccl_xml(network, found.schedule, collective, found.cut))
    if as_json:
        emit(json.dumps(_plain(found)))
        return
    _print(network, found, size_bytes)


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    words = [word.strip() for word in text.split(",") if word.strip()]
    wrong = next((word for word in words if not (word.isascii() and word.isdigit() and len(word) <= 9)), None)
    if wrong is not None:
        raise InputError(
            "expected numbers of nodes", key="--switches", found=wrong, allowed="such as 0,17; empty: none"
        )
    return [int(word) for word in words]


def _plain(found: Synthesized) -> dict[str, float | int]:
    return {
        "finish_us": found.schedule.finish_us,
        "lower_bound_us": found.lower_bound_us,
        "solver_s": found.solver_s,
        "steps": len(found.schedule.sends),
    }


def _print(network: LinkNetwork, found: Synthesized, size_bytes: int) -> None:
    finish = found.schedule.finish_us
    table = Table(["what", "value", "what it means"], right=[1])
    table.add("finish", f"{finish:,.4g} us", "from the start to the last byte at the last rank")
    table.add(
        "lower bound",
        f"{found.lower_bound_us:,.4g} us",
        f"no schedule beats it; this one is {max(finish / found.lower_bound_us - 1, 0.0):.1%} above",
    )
    table.add("algbw", f"{size_bytes / finish / 1e3:,.4g} GB/s", "bytes of the collective over the finish")
    table.add(
        "sends",
        f"{len(found.schedule.sends):,}",
        f"each part in {found.cut} pieces of {found.schedule.sends.piece_bytes:,.0f} bytes",
    )
    busiest = np.bincount(found.schedule.sends.link, minlength=len(network.source)) * found.schedule.sends.piece_bytes
    at = int(np.argmax(busiest / network.bytes_per_us))
    share = busiest[at] / network.bytes_per_us[at] / finish
    table.add("busiest link", f"{share:.1%}", f"of the time, {network.source[at]} to {network.target[at]}")
    table.add("search", f"{found.solver_s:.2f} s", "with the linear programs of the bound")
    table.print()


def sends_csv(network: LinkNetwork, found: Synthesized) -> str:
    """A row a send, in the order of their starts."""
    rows = ["start_us,arrive_us,source,destination,piece,bytes,reduce"]
    schedule = found.schedule
    for send in np.argsort(schedule.start_us, kind="stable").tolist():
        link = int(schedule.sends.link[send])
        rows.append(
            f"{schedule.start_us[send]:.6f},{schedule.arrive_us[send]:.6f},{network.source[link]},{network.target[link]},"
            f"{schedule.sends.piece[send]},{schedule.sends.piece_bytes:.6f},{int(schedule.sends.reduce[send])}"
        )
    return "\n".join(rows) + "\n"
