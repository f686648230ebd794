"""What the devices of a network report about themselves, independent of the tool."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, Problem
from railyard.kit.files import parse_json, read_text
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class PortCount:
    """A counter of a port.

    Attributes:
        device: Name that the tool uses, or an address of `NetworkTable.addresses`.
    """

    device: str
    port: str
    name: str
    value: float


@dataclass(frozen=True, slots=True)
class ReportedSession:
    """A routing session.

    Attributes:
        port: Interface that it runs over, or the neighbor's address if the interface is not given.
        state: `Established`, or another state.
    """

    device: str
    port: str
    state: str
    neighbour: str = ""


@dataclass(frozen=True, slots=True)
class InstalledRoute:
    """A route as installed on a device."""

    device: str
    prefix: str
    ports: tuple[str, ...]
    connected: bool = False


@dataclass(frozen=True, slots=True)
class HostPart:
    """An accelerator, a NIC or an interface of a host.

    Attributes:
        kind: `accelerator`, `nic` or `interface`.
        name: `mlx5_0`, a bus address, an index.
        firmware: Its version; empty: unknown.
        rate_bps: Current rate of its network port; 0: unknown.
        pcie_gt_s, pcie_gt_s_possible: PCIe transfers per second and lane, current and maximum, 10^9; 0: unknown.
        pcie_lanes, pcie_lanes_possible: PCIe lanes, current and maximum; 0: unknown.
        mtu: Bytes; 0: not said.
        up: Whether its port has a link; None: unknown, or no port.
        address: GUID or MAC address of its port, in hexadecimal digits; empty: unknown.
    """

    host: str
    kind: str
    name: str
    model: str = ""
    firmware: str = ""
    rate_bps: int = 0
    pcie_gt_s: float = 0.0
    pcie_gt_s_possible: float = 0.0
    pcie_lanes: int = 0
    pcie_lanes_possible: int = 0
    mtu: int = 0
    up: bool | None = None
    address: str = ""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration of a switch as text, in the dialect of its operating system."""

    device: str
    dialect: str
    text: str
    file: str


@dataclass
class Reports:
    """Reports that were read.

    Attributes:
        forwarding: For each switch by its GUID: port by the destination's GUID, 255 if there is no path.
    """

    counts: list[PortCount] = field(default_factory=list)
    forwarding: dict[str, dict[str, int]] = field(default_factory=dict)
    sessions: list[ReportedSession] = field(default_factory=list)
    routes: list[InstalledRoute] = field(default_factory=list)
    parts: list[HostPart] = field(default_factory=list)
    configurations: list[Configuration] = field(default_factory=list)
    read: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True)
class DeviceReport:
    """A file."""

    text: str
    file: str
    device: str
    document: object = None


@dataclass(frozen=True)
class ReportReader:
    """A format."""

    what: str
    recognises: Callable[[DeviceReport], bool]
    read: Callable[[DeviceReport, Reports], None]


readers: Registry[ReportReader] = Registry("kind of report", package="railyard.cluster.asbuilt.reported")


def gather(paths: Sequence[Path], devices: Collection[str]) -> Reports:
    """Reads everything that devices report, in files and in all files of folders.

    Args:
        paths: Files and folders.
        devices: Names of the network's devices: `leaf1.bgp.json`, or a file in a folder `leaf1`, belongs to leaf1.

    Raises:
        InputError: A path does not exist, or a folder is empty.
    """
    out = Reports()
    known = {name.lower(): name for name in devices}
    for name in devices:
        known.setdefault(name.split(".")[0].lower(), name)
    for path in paths:
        if not path.exists():
            raise InputError("there is no such file or folder", key="--with", file=path)
        files = list(_files(path))
        if not files:
            raise InputError("there is no file in the folder", key="--with", file=path)
        for file in files:
            _read(file, _owner(file, known), out)
    return out


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    yield from sorted(one for one in path.rglob("*") if one.is_file() and not one.name.startswith("."))


def _owner(path: Path, known: dict[str, str]) -> str:
    """The device named by the longest part of the file's name, else by the folder, else by the name's first part."""
    parts = path.name.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count]).lower()
        if name in known:
            return known[name]
    return known.get(path.parent.name.lower(), parts[0])


def _read(path: Path, device: str, out: Reports) -> None:
    try:
        text = read_text(path)
        document = parse_json(text, path) if text.lstrip()[:1] in ("{", "[") else None
    except InputError as error:
        out.problems += error.problems
        return
    report = DeviceReport(text, str(path), device, document)
    kinds = [reader for _, reader in readers.items()]
    for reader in kinds:
        if reader.recognises(report):
            try:
                reader.read(report, out)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                words = f"not as any known program writes {reader.what}"
                out.problems.append(Problem(words, file=str(path), found=repr(error)[:80]))
            out.read[str(path)] = reader.what
            return
    known = ", ".join(reader.what for reader in kinds)
    out.problems.append(Problem("no known kind of report", file=str(path), found=repr(text[:40]), allowed=known))
