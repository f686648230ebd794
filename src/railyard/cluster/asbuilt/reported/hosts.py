"""Parts of hosts: `nvidia-smi --query-gpu --format=csv`, `lspci -vv`, `ibstat`, `ip -json link`, or a table of parts.

A table has a row per part, the columns `host`, `kind` and `name`, and any other known field of a `Part`.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from railyard.cluster.asbuilt.reported.reports import DeviceReport, HostPart, ReportReader, Reports, readers
from railyard.cluster.network_table import hardware_address
from railyard.kit.errors import Problem, did_you_mean
from railyard.kit.quantities import rate
from railyard.kit.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

GENERATION_GT_S = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0, 7: 128.0}
"""Transfers per second and lane by generation, 10^9 (PCI Express Base Specification)."""

KINDS = ("accelerator", "nic", "interface")

_CLASS = re.compile(
    r"^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] "
    r"(3D controller|VGA compatible controller|Processing accelerators|Display controller"
    r"|Infiniband controller|Ethernet controller|Network controller)(?: \[[0-9a-f]+\])?: (.*)$"
)
_LINK = re.compile(r"\bLnk(Cap|Sta):.*?Speed ([0-9.]+)GT/s.*?Width x(\d+)")
_ACCELERATOR = ("3D controller", "Processing accelerators", "Display controller")


def _is_smi(report: DeviceReport) -> bool:
    return "pcie.link.width.current" in report.text[:2000]


def _smi(report: DeviceReport, out: Reports) -> None:
    for number, row in enumerate(Table(report.text, report.file)):
        given = {key.partition(" [")[0]: value for key, value in row.items()}

        def count(name: str, given: dict[str, str] = given) -> int:
            return int(given[name]) if given.get(name, "").isdecimal() else 0

        speed, most = (GENERATION_GT_S.get(count(f"pcie.link.gen.{key}"), 0.0) for key in ("current", "max"))
        out.parts.append(
            HostPart(
                report.device,
                "accelerator",
                given.get("index", str(number)),
                given.get("name", ""),
                given.get("vbios_version", ""),
                pcie_gt_s=0.0
                if count("pcie.link.gen.current") < count("pcie.link.gen.max") and _idles(given)
                else speed,
                pcie_gt_s_possible=most,
                pcie_lanes=count("pcie.link.width.current"),
                pcie_lanes_possible=count("pcie.link.width.max"),
            )
        )


def _idles(given: dict[str, str]) -> bool:
    """An idle accelerator lowers its link speed; only a busy one shows the speed that it can reach."""
    return given.get("pstate", "P8") not in ("P0", "P1", "P2")


def _lspci(report: DeviceReport, out: Reports) -> None:
    part: dict[str, Any] = {}

    def done() -> None:
        if part and part["pcie_lanes"]:
            out.parts.append(HostPart(**part))

    for line in report.text.splitlines():
        found = _CLASS.match(line)
        if found:
            done()
            kind = "accelerator" if found[1] in _ACCELERATOR else "nic"
            part = {"host": report.device, "kind": kind, "name": line.split()[0], "model": found[2], "pcie_lanes": 0}
        elif line[:1] not in ("\t", " ", ""):
            done()
            part = {}
        elif part and (link := _LINK.search(line)):
            ending = "_possible" if link[1] == "Cap" else ""
            part |= {f"pcie_gt_s{ending}": float(link[2]), f"pcie_lanes{ending}": int(link[3])}
    done()


def _is_ibstat(report: DeviceReport) -> bool:
    return bool(re.search(r"^CA '[^']+'\s*$", report.text[:4000], re.MULTILINE))


def _ibstat(report: DeviceReport, out: Reports) -> None:
    for block in re.split(r"^CA '", report.text, flags=re.MULTILINE)[1:]:
        name = block.partition("'")[0]
        model, firmware = _after(block, "CA type"), _after(block, "Firmware version")
        for port in re.split(r"^\s+Port (?=\d)", block, flags=re.MULTILINE)[1:]:
            speed = _after(port, "Rate")
            up = _after(port, "State") == "Active"
            out.parts.append(
                HostPart(
                    report.device,
                    "nic",
                    name,
                    model,
                    firmware,
                    rate_bps=int(speed) * 10**9 if speed.isdecimal() and up else 0,
                    up=up,
                    address=hardware_address(_after(port, "Port GUID")),
                )
            )


def _after(text: str, key: str) -> str:
    found = re.search(rf"^\s*{key}:\s*(.*?)\s*$", text, re.MULTILINE)
    return found[1] if found else ""


def _is_links(report: DeviceReport) -> bool:
    rows = report.document
    return isinstance(rows, list) and bool(rows) and all(isinstance(one, dict) and "ifname" in one for one in rows)


def _links(report: DeviceReport, out: Reports) -> None:
    assert isinstance(report.document, list)
    for one in report.document:
        if one.get("link_type") in ("ether", "infiniband") and one.get("operstate") != "UNKNOWN":
            up = one.get("operstate") == "UP"
            address = hardware_address(str(one.get("address", "")))
            name, mtu = str(one["ifname"]), int(one.get("mtu", 0))
            out.parts.append(HostPart(report.device, "interface", name, mtu=mtu, up=up, address=address))


def _is_table(report: DeviceReport) -> bool:
    heads = [head.strip() for head in report.text.partition("\n")[0].split(",")]
    return {"host", "kind", "name"} <= set(heads)


def _table(report: DeviceReport, out: Reports) -> None:
    known = {one.name for one in fields(HostPart)}
    rows = Table(report.text, report.file)
    for head in rows.columns:
        if head not in known:
            out.problems.append(
                Problem(
                    "a table of parts has no such column",
                    file=report.file,
                    line=rows.line,
                    found=head,
                    allowed=", ".join(sorted(known)),
                    hint=did_you_mean(head, known),
                )
            )
    for row in rows:
        try:
            out.parts.append(HostPart(**dict(_values(row))))
        except (ValueError, TypeError) as error:
            out.problems.append(Problem(f"a part cannot be read: {error}", file=report.file, line=row.line))


def _values(row: dict[str, str]) -> Iterator[tuple[str, Any]]:
    for one in fields(HostPart):
        text = row.get(one.name, "")
        if not text:
            continue
        if one.name == "kind" and text not in KINDS:
            raise ValueError(f"its kind is `{text}`, which is none of {', '.join(KINDS)}")
        if one.name == "address":
            yield one.name, hardware_address(text)
        elif one.name == "rate_bps":
            yield one.name, int(text) if text.isdecimal() else int(rate(text))
        elif one.name == "up":
            yield one.name, text.lower() in ("1", "yes", "true", "up")
        elif one.name.startswith("pcie_gt"):
            yield one.name, float(text)
        elif one.name.startswith("pcie_lanes") or one.name == "mtu":
            yield one.name, int(text)
        else:
            yield one.name, text


readers.add("nvidia-smi", ReportReader("accelerators of nvidia-smi", _is_smi, _smi))
readers.add("lspci", ReportReader("lspci -vv", lambda report: bool(re.search(r"\bLnkSta:", report.text)), _lspci))
readers.add("ibstat", ReportReader("ibstat", _is_ibstat, _ibstat))
readers.add("ip-link", ReportReader("ip -json link", _is_links, _links))
readers.add("parts", ReportReader("a table of parts", _is_table, _table))
