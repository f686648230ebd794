"""`railyard synthesize`: a schedule of a collective for a given network."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.collective.synthesis.msccl import MOST_MESSAGES, least_messages, msccl_xml
from railyard.collective.synthesis.mscclpp import MOST_IN_PLAN, mscclpp_json
from railyard.collective.synthesis.network import SizeMeaning, read_network
from railyard.collective.synthesis.search import synthesize as search
from railyard.collective.synthesis.uneven import COLLECTIVE, read_matrix, slots_bytes, synthesize_uneven
from railyard.face import terminal
from railyard.kit import quantities
from railyard.kit.errors import InputError
from railyard.kit.files import keep_existing, write_text
from railyard.measure import numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.collective.synthesis.network import LinkNetwork
    from railyard.collective.synthesis.search import SynthesizedSchedule
    from railyard.work.scenario.load import Draft
    from railyard.work.study.synthesis import Ground, Played

_ENGINES = ("flow", "packet")


@dataclass(frozen=True)
class Files:
    """Files that are written.

    Attributes:
        out: One row per send.
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
        """Most messages that the files take; None: no file is written."""
        if self.mscclpp is not None:
            return MOST_IN_PLAN
        return MOST_MESSAGES if self.out is not None or self.msccl is not None else None

    def write(self, network: LinkNetwork, found: SynthesizedSchedule, collective: str) -> None:
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
class FinestSchedule:
    """The finest schedule that is tried.

    Attributes:
        sends: Sends, of which others may be images.
        whole: All sends, where all are laid down; None: they are not.
    """

    sends: int
    whole: int | None

    @staticmethod
    def of(sends: int, collective: str, ranks: int, most: int | None) -> FinestSchedule:
        """Refuses to lay down more than files and engines take.

        Raises:
            InputError: Says how many messages.
        """
        least = least_messages(collective, ranks)
        if most is not None and least > most:
            raise InputError(
                "too many messages to play or write; leave out engine and file to get the finish",
                key="--engine, --out, --msccl, --mscclpp",
                found=f"{least:,} messages of {ranks:,} ranks",
                allowed=f"up to {most:,} messages",
            )
        return FinestSchedule(sends, most)


@dataclass(frozen=True)
class EvenSize:
    """Size of a collective.

    Attributes:
        buffer_bytes: Of a rank, as nccl-tests counts it.
        ranks: That it is for; None: any.
    """

    collective: str
    buffer_bytes: float
    ranks: None = None

    @staticmethod
    def of(text: str, collective: str) -> EvenSize:
        """The size that an option says; refuses nothing and less."""
        try:
            size_bytes = quantities.size(text)
        except InputError as error:
            raise error.located(key="--size") from None
        if size_bytes <= 0:
            raise InputError("a collective needs a size above 0", key="--size", found=text, allowed="such as 1 MB")
        return EvenSize(collective, size_bytes)

    def meaning(self, network: LinkNetwork) -> SizeMeaning:
        """The size in the terms of nccl-tests."""
        return SizeMeaning.of(self.collective, self.buffer_bytes, len(network.ranks))

    def searched(
        self, network: LinkNetwork, most: FinestSchedule, progress: Callable[[float], None]
    ) -> SynthesizedSchedule:
        """The best schedule that the search finds."""
        size, collective = self.buffer_bytes, self.collective
        return search(network, collective, size, most_sends=most.sends, most_whole=most.whole, progress=progress)


@dataclass(frozen=True)
class UnevenSize:
    """Bytes from rank to rank."""

    values: NDArray[np.float64]

    @staticmethod
    def of(path: Path, collective: str) -> UnevenSize:
        """The matrix of a file; refuses other collectives than an all-to-all."""
        if collective != COLLECTIVE:
            raise InputError(
                "a matrix is for an all-to-all",
                key="--collective",
                found=collective,
                allowed=f"{COLLECTIVE} with --matrix",
            )
        return UnevenSize(read_matrix(path))

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.values)

    @property
    def buffer_bytes(self) -> float:
        """Buffer of a rank whose every slot has room for the heaviest pair."""
        return slots_bytes(self.values)

    def meaning(self, network: LinkNetwork) -> SizeMeaning:
        """The size in the terms of nccl-tests."""
        del network
        return SizeMeaning.of_matrix(self.values)

    def searched(
        self, network: LinkNetwork, most: FinestSchedule, progress: Callable[[float], None]
    ) -> SynthesizedSchedule:
        """The best schedule that the search finds."""
        return synthesize_uneven(network, self.values, most_sends=most.sends, progress=progress)


def network_of(links: Path, topology: str | None, chassis: str | None, switches: str | None) -> LinkNetwork:
    """The network of a table of links.

    Raises:
        InputError: The table or a name is wrong.
    """
    return read_network(links, topology=topology, chassis=chassis, switches=_numbers(switches))


def guessed(network: LinkNetwork, switches: str | None) -> list[str]:
    """Names the nodes that were taken for switches without being declared."""
    if switches is not None or not network.switch.any():
        return []
    return [f"taken for switches: {', '.join(map(str, np.flatnonzero(network.switch)))} (`--switches` changes that)"]


def ground_of(draft: Draft, collective: str, ranks: int | None, engines: Sequence[str]) -> Ground:
    """The cluster of a scenario, and its first ranks.

    Raises:
        InputError: There are not so many ranks, or an engine does not play collectives.
    """
    from railyard.work.study.synthesis import Ground

    wrong = next((name for name in engines if name not in _ENGINES), None)
    if wrong is not None:
        raise InputError("this engine does not play collectives", key="--engine", found=wrong, allowed=_ENGINES)
    ground = Ground.of(draft, collective, ranks)
    if not 2 <= ground.ranks <= ground.cluster.ranks:
        raise InputError(
            "the cluster does not have so many ranks",
            key="--ranks",
            found=ground.ranks,
            allowed=f"2 to {ground.cluster.ranks}",
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


def plain(found: SynthesizedSchedule, collective: str, size: SizeMeaning, played: Sequence[Played]) -> dict[str, Any]:
    """The result as `--json` prints it."""
    return {
        "finish_us": found.finish_us,
        "lower_bound_us": found.lower_bound_us,
        "solver_s": found.solver_s,
        "steps": found.sends,
        "stopped": found.stopped,
        "collective": collective,
        "size": asdict(size),
        **({"played": [vars(one) for one in played]} if played else {}),
    }


def headline(found: SynthesizedSchedule, collective: str, size: SizeMeaning, played: Sequence[Played]) -> str:
    """How long the collective takes, and how far that is above the bound."""
    above = numbers.percent(max(found.finish_us / found.lower_bound_us - 1, 0.0))
    ran = "".join(f"; engine {one.engine} plays {one.algorithm} in {one.took_us:,.4g} us" for one in played)
    algbw = size.bytes / found.finish_us / 1e3
    return (
        f"This {collective} of {size.bytes:,.0f} bytes takes {found.finish_us:,.4g} us ({algbw:,.4g} GB/s algbw),"
        f" {above} above the lower bound{ran}."
    )


def show(network: LinkNetwork, found: SynthesizedSchedule, size: SizeMeaning, played: Sequence[Played]) -> None:
    """Prints the figures of a schedule, the bound, and what engines make of it."""
    finish, kept = found.finish_us, found.kept.sends
    part = "each part" if found.pieces is None else "the heaviest pair"
    table = terminal.Table(["figure", "value", "meaning"], right=[1], prose=True)
    table.add("size", f"{size.bytes:,.0f} B", size.definition)
    pair = f"sent between each pair of the {size.ranks} ranks; {size.total_bytes:,.0f} B in all"
    table.add("pair", f"{size.per_pair_bytes:,.0f} B", pair)
    table.add("finish", f"{finish:,.4g} us", "from the start until the last byte is at the last rank")
    above = f"no schedule is faster; this one is {max(finish / found.lower_bound_us - 1, 0.0):.1%} above"
    table.add("lower bound", f"{found.lower_bound_us:,.4g} us", above)
    table.add("algbw", f"{size.bytes / finish / 1e3:,.4g} GB/s", "size over finish, as in nccl-tests")
    table.add("sends", f"{found.sends:,}", f"{part} in {found.cut} pieces of {kept.piece_bytes:,.0f} bytes")
    if found.symmetry is not None:
        table.add("symmetry", f"{found.images:,}", "permutations of ranks that leave the network unchanged")
    slot = np.arange(len(network.source)) if found.symmetry is None else found.symmetry.orbit
    each = 1 if found.symmetry is None else found.symmetry.together[slot]
    busiest = np.bincount(slot[kept.link], minlength=len(slot))[slot] * each * kept.piece_bytes / network.bytes_per_us
    at = int(np.argmax(busiest))
    share = busiest[at] / finish
    table.add(
        "busiest link", f"{share:.1%}", f"utilization of the link from {network.source[at]} to {network.target[at]}"
    )
    table.add("search", f"{found.solver_s:.2f} s", "time of the search, with the linear programs of the bound")
    for one in played:
        change = f"{one.took_us / finish - 1:+.1%} against the finish above"
        table.add(f"{one.engine}, {one.algorithm}", f"{one.took_us:,.4g} us", change)
    table.print()


def sends_csv(network: LinkNetwork, found: SynthesizedSchedule) -> str:
    """One row per send, in the order of their starts."""
    rows = ["start_us,arrive_us,source,destination,piece,bytes,reduce"]
    schedule = found.schedule
    for send in np.argsort(schedule.start_us, kind="stable").tolist():
        link = int(schedule.sends.link[send])
        rows.append(
            f"{schedule.start_us[send]:.6f},{schedule.arrive_us[send]:.6f},{network.source[link]},{network.target[link]},"
            f"{schedule.sends.piece[send]},{schedule.sends.piece_bytes:.6f},{int(schedule.sends.reduce[send])}"
        )
    return "\n".join(rows) + "\n"
