"""`railyard synthesize`: a schedule of a collective for a given network."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.collective.synthesis.collectives import collectives
from railyard.collective.synthesis.msccl import MOST_MESSAGES, least_messages, msccl_xml
from railyard.collective.synthesis.mscclpp import MOST_IN_PLAN, mscclpp_json
from railyard.collective.synthesis.network import SizeMeaning, read_network
from railyard.collective.synthesis.search import synthesize as search
from railyard.collective.synthesis.uneven import COLLECTIVE, read_matrix, slots_bytes, synthesize_uneven
from railyard.face import signals, terminal
from railyard.face.terminal import Progress, emit, say
from railyard.kit import quantities
from railyard.kit.errors import InputError
from railyard.kit.files import keep_existing, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from railyard.collective.synthesis.network import LinkNetwork
    from railyard.collective.synthesis.search import Synthesized
    from railyard.work.study.synthesis import Ground, Played

_ENGINES = ("flow", "packet")


@dataclass(frozen=True)
class Files:
    """Files that are written.

    Attributes:
        out: A row a send.
        msccl: An MSCCL algorithm.
        mscclpp: An execution plan of MSCCL++.
        force: Whether they may replace others.
    """

    out: Path | None
    msccl: Path | None
    mscclpp: Path | None
    force: bool

    def check(self) -> None:
        """Refuses files that exist, and two answers in one file.

        Raises:
            InputError: Names the file.
        """
        named = {"--out": self.out, "--msccl": self.msccl, "--mscclpp": self.mscclpp}
        seen: dict[Path, str] = {}
        for option, path in named.items():
            keep_existing(path, force=self.force)
            if path is not None and path.resolve() in seen:
                raise InputError(f"{seen[path.resolve()]} and {option} are the same file", file=path)
            if path is not None:
                seen[path.resolve()] = option

    @property
    def most_messages(self) -> int | None:
        """That the files take; None: none is written."""
        if self.mscclpp is not None:
            return MOST_IN_PLAN
        return MOST_MESSAGES if self.out is not None or self.msccl is not None else None

    def write(self, network: LinkNetwork, found: Synthesized, collective: str) -> None:
        """Writes what was asked for."""
        if self.out is not None:
            write_text(self.out, sends_csv(network, found))
        if self.msccl is not None:
            write_text(
                self.msccl, msccl_xml(network, found.schedule, collective, found.cut, keeps=found.pieces is None)
            )
        if self.mscclpp is not None:
            text = mscclpp_json(network, found.schedule, collective, found.cut, keeps=found.pieces is None)
            write_text(self.mscclpp, text)


@dataclass(frozen=True)
class Table:
    """A table of links, and which of its networks.

    Attributes:
        links: The file.
        topology, chassis: Which network, where it holds several.
        switches: Numbers of nodes, with commas; None: guessed.
    """

    links: Path
    topology: str | None
    chassis: str | None
    switches: str | None


@dataclass(frozen=True)
class Machine:
    """The cluster of a scenario.

    Attributes:
        scenario: The file.
        sets: Keys that are changed.
        ranks: The first so many take part; None: all.
    """

    scenario: Path
    sets: Sequence[str]
    ranks: int | None
    engines: Sequence[str]


@dataclass(frozen=True)
class _Most:
    """The finest schedule that is tried.

    Attributes:
        sends: Sends, of which others may be images.
        whole: All sends, where all are laid down; None: they are not.
    """

    sends: int
    whole: int | None

    @staticmethod
    def of(sends: int, collective: str, ranks: int, most: int | None) -> _Most:
        """Refuses to lay down more than files and engines take.

        Raises:
            InputError: Says how many messages.
        """
        least = least_messages(collective, ranks)
        if most is not None and least > most:
            raise InputError(
                "so many messages are neither played nor written; without engine and file the search says the finish",
                key="--engine, --out, --msccl, --mscclpp",
                found=f"{least:,} messages of {ranks:,} ranks",
                allowed=f"up to {most:,} messages",
            )
        return _Most(sends, most)


@dataclass(frozen=True)
class _Size:
    """How much a collective moves.

    Attributes:
        buffer_bytes: Of a rank, as nccl-tests counts it.
        ranks: That it is for; None: any.
    """

    collective: str
    buffer_bytes: float
    ranks: None = None

    @staticmethod
    def of(text: str, collective: str) -> _Size:
        try:
            size_bytes = quantities.size(text)
        except InputError as error:
            raise error.located(key="--size") from None
        if size_bytes <= 0:
            raise InputError("a collective moves more than nothing", key="--size", found=text, allowed="such as 1 MB")
        return _Size(collective, size_bytes)

    def meaning(self, network: LinkNetwork) -> SizeMeaning:
        return SizeMeaning.of(self.collective, self.buffer_bytes, len(network.ranks))

    def searched(self, network: LinkNetwork, most: _Most, progress: Callable[[float], None]) -> Synthesized:
        size, collective = self.buffer_bytes, self.collective
        return search(network, collective, size, most_sends=most.sends, most_whole=most.whole, progress=progress)


@dataclass(frozen=True)
class _Matrix:
    """Bytes from rank to rank."""

    values: NDArray[np.float64]

    @staticmethod
    def of(path: Path, collective: str) -> _Matrix:
        if collective != COLLECTIVE:
            raise InputError(
                "a matrix is of an all-to-all",
                key="--collective",
                found=collective,
                allowed=f"{COLLECTIVE} with --matrix",
            )
        return _Matrix(read_matrix(path))

    @property
    def ranks(self) -> int:
        """That it is for."""
        return len(self.values)

    @property
    def buffer_bytes(self) -> float:
        """Of a rank whose every slot has room for the heaviest pair."""
        return slots_bytes(self.values)

    def meaning(self, network: LinkNetwork) -> SizeMeaning:
        del network
        return SizeMeaning.of_matrix(self.values)

    def searched(self, network: LinkNetwork, most: _Most, progress: Callable[[float], None]) -> Synthesized:
        return synthesize_uneven(network, self.values, most_sends=most.sends, progress=progress)


def synthesize(
    ground: Table | Machine,
    files: Files,
    *,
    collective: str,
    size: str | Path,
    most_sends: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Prints how long a synthesized collective takes, what none beats, and what engines make of it.

    Args:
        ground: On what.
        files: That are written.
        collective: Which.
        size: How much, or the file of a matrix of bytes from rank to rank.
        most_sends: Of the finest schedule to try.
        as_json: For programs.
        quiet: No progress.

    Raises:
        InputError: The table, the scenario, a name or a size is wrong.
    """
    signals.ready(once=True)
    files.check()
    collectives.get(collective)
    wanted = _Matrix.of(size, collective) if isinstance(size, Path) else _Size.of(size, collective)
    place: Ground | None = None
    if isinstance(ground, Machine):
        place = _machine(ground, collective, wanted.ranks)
        network = place.network()
    else:
        network = _table(ground, quiet=quiet)
    laid = MOST_MESSAGES if isinstance(ground, Machine) and ground.engines else None
    most = _Most.of(most_sends, collective, len(network.ranks), files.most_messages or laid)
    with Progress(wanted=not quiet) as progress:
        found = wanted.searched(network, most, lambda share: progress("schedules", share))
    played: list[Played] = []
    if place is not None and isinstance(ground, Machine) and ground.engines and not found.stopped:
        text = msccl_xml(network, found.schedule, collective, found.cut, keeps=found.pieces is None)
        played = place.played(text, round(wanted.buffer_bytes), ground.engines, found.pieces)
    files.write(network, found, collective)
    size_of = wanted.meaning(network)
    if as_json:
        plain: dict[str, Any] = {**_plain(found), "collective": collective, "size": asdict(size_of)}
        emit(json.dumps({**plain, "played": [vars(one) for one in played]} if played else plain))
    else:
        _print(network, found, size_of, played)
    if found.stopped:
        terminal.so_far("the best schedule so far; finer ones were not tried, and engines did not play it")


def _table(table: Table, *, quiet: bool) -> LinkNetwork:
    switches = _numbers(table.switches)
    network = read_network(table.links, topology=table.topology, chassis=table.chassis, switches=switches)
    if not quiet and switches is None and network.switch.any():
        say(f"taken for switches: {', '.join(map(str, np.flatnonzero(network.switch)))} (`--switches` says otherwise)")
    return network


def _machine(machine: Machine, collective: str, ranks: int | None) -> Ground:
    """Where it is played; `ranks`: for how many it is, where nothing else is asked for."""
    from railyard.work.study.synthesis import Ground

    wrong = next((name for name in machine.engines if name not in _ENGINES), None)
    if wrong is not None:
        raise InputError(
            "collectives are played on an engine that sees them", key="--engine", found=wrong, allowed=_ENGINES
        )
    some = ranks if machine.ranks is None else machine.ranks
    ground = Ground.of(terminal.scenario(machine.scenario, machine.sets), collective, some)
    if not 2 <= ground.ranks <= ground.cluster.ranks:
        raise InputError(
            "so many ranks are not there", key="--ranks", found=ground.ranks, allowed=f"2 to {ground.cluster.ranks}"
        )
    return ground


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


def _plain(found: Synthesized) -> dict[str, float | bool]:
    return {
        "finish_us": found.finish_us,
        "lower_bound_us": found.lower_bound_us,
        "solver_s": found.solver_s,
        "steps": found.sends,
        "stopped": found.stopped,
    }


def _print(network: LinkNetwork, found: Synthesized, size: SizeMeaning, played: Sequence[Played]) -> None:
    finish, kept = found.finish_us, found.kept.sends
    part = "each part" if found.pieces is None else "the heaviest pair"
    table = terminal.Table(["what", "value", "what it means"], right=[1])
    table.add("size", f"{size.bytes:,.0f} B", size.definition)
    table.add(
        "pair", f"{size.per_pair_bytes:,.0f} B", f"of it, of {size.ranks} ranks; {size.total_bytes:,.0f} B of all"
    )
    table.add("finish", f"{finish:,.4g} us", "from the start to the last byte at the last rank")
    table.add(
        "lower bound",
        f"{found.lower_bound_us:,.4g} us",
        f"no schedule beats it; this one is {max(finish / found.lower_bound_us - 1, 0.0):.1%} above",
    )
    table.add("algbw", f"{size.bytes / finish / 1e3:,.4g} GB/s", "the size over the finish, as nccl-tests has it")
    table.add(
        "sends",
        f"{found.sends:,}",
        f"{part} in {found.cut} pieces of {kept.piece_bytes:,.0f} bytes",
    )
    if found.symmetry is not None:
        table.add("symmetry", f"{found.images:,}", "turns of the ranks under which the network is the same")
    slot = np.arange(len(network.source)) if found.symmetry is None else found.symmetry.orbit
    each = 1 if found.symmetry is None else found.symmetry.together[slot]
    busiest = np.bincount(slot[kept.link], minlength=len(slot))[slot] * each * kept.piece_bytes / network.bytes_per_us
    at = int(np.argmax(busiest))
    share = busiest[at] / finish
    table.add("busiest link", f"{share:.1%}", f"of the time, {network.source[at]} to {network.target[at]}")
    table.add("search", f"{found.solver_s:.2f} s", "with the linear programs of the bound")
    for one in played:
        apart = f"{one.took_us / finish - 1:+.1%} of the finish above"
        table.add(f"{one.engine}, {one.algorithm}", f"{one.took_us:,.4g} us", apart)
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
