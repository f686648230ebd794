"""The folder of an acceptance plan: tests, scripts, lists of servers, a page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from railyard.ask.accept.commands import counters_script, host_lists, scripts
from railyard.ask.accept.groups import groups
from railyard.ask.accept.tests import BURN, CABLE, COUNTERS, FILE, NCCL, WRITE, Test, read, written
from railyard.ask.deploy.plan.drawn import is_infiniband
from railyard.kit.errors import InputError
from railyard.kit.files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from railyard.ask.deploy.plan.cabling import Plan

_STYLE = """<style>body{font:14px sans-serif;margin:2em;max-width:80em}table{border-collapse:collapse}
td,th{padding:2px 12px 2px 0;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child,td:nth-child(2),th:nth-child(2){text-align:left}</style>"""


def members_of(plan: Plan) -> dict[str, Sequence[str]]:
    """Names of the servers of each group of more than two."""
    name = plan.devices.name
    return {
        one.name: [name[server] for server in one.servers]
        for one in groups(plan)
        if one.scope in ("all", "pod", "leaf")
    }


def files(plan: Plan, tests: Sequence[Test], title: str) -> Iterator[tuple[str, str]]:
    """Names and texts of all files."""
    yield FILE, written(tests)
    each = plan.cluster.ranks_per_server
    yield from scripts(tests, each, not is_infiniband(plan, plan.networks.index("back-end")))
    yield from counters_script(tests)
    yield from host_lists(tests, dict(members_of(plan)), each)
    yield "index.html", page(tests, title)


def folder_of(path: Path) -> tuple[list[Test], dict[str, Sequence[str]]]:
    """Tests and lists of servers of a folder that was written, perhaps with bounds that somebody moved.

    Raises:
        InputError: It is none.
    """
    if not (path / FILE).is_file():
        raise InputError("the folder holds no plan of acceptance", file=path, allowed=f"a folder with {FILE}")
    members: dict[str, Sequence[str]] = {}
    for file in sorted((path / "hosts").glob("*")) if (path / "hosts").is_dir() else ():
        members[file.stem] = [line.split()[0] for line in read_text(file).splitlines() if line.strip()]
    return read(path / FILE), members


_WHAT = {WRITE: "pairs of NICs", BURN: "servers", CABLE: "cables", COUNTERS: "cables between switches"}


def alike(tests: Sequence[Test]) -> dict[tuple[str, str, int, str], list[Test]]:
    """Tests by what they have in common: scope, what is run, ranks, and of what has no collective what is expected."""
    seen: dict[tuple[str, str, int, str], list[Test]] = {}
    for one in tests:
        rate = "" if one.method == NCCL else f"{one.marks[0].expected:g} to {one.marks[0].high:g} {one.unit}"
        seen.setdefault((one.scope, one.collective or one.method, one.ranks, rate), []).append(one)
    return seen


def page(tests: Sequence[Test], title: str) -> str:
    """What is tested, and what collectives should reach."""
    seen = alike(tests)
    sizes = sorted({mark.size_bytes for one in tests if one.method == NCCL for mark in one.marks})
    head = "".join(f"<th>{escape(text)}</th>" for text in ("scope", "test", "ranks", "how many", *map(_size, sizes)))
    rows = "".join(_row(those, sizes) for those in seen.values() if those[0].method == NCCL)
    others = "".join(
        f"<li>{escape(those[0].method)}: {len(those):,} {_WHAT[those[0].method]}, {_bounds(those[0])}</li>"
        for those in seen.values()
        if those[0].method != NCCL
    )
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{escape(title)}: acceptance</title>
{_STYLE}
<h1>{escape(title)}: acceptance</h1>
<ul>{others}</ul>
<h2>Collectives: busbw in GB/s, expected (least to most that passes)</h2>
<table><tr>{head}</tr>{rows}</table>
<p>Of groups that are alike the first is shown. Bounds are those within which eight of ten logs lay of systems that the
model had not seen; tests that are alike are compared with each other besides.</p>
</html>
"""


def _row(those: Sequence[Test], sizes: Sequence[int]) -> str:
    key = those[0].scope, those[0].collective, those[0].ranks
    marks = {mark.size_bytes: mark for mark in those[0].marks}
    cells = [
        f"{marks[size].expected:,.4g} ({marks[size].low:,.3g} to {marks[size].high:,.3g})" if size in marks else ""
        for size in sizes
    ]
    return "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in (*key, f"{len(those):,}", *cells)) + "</tr>"


def _bounds(test: Test) -> str:
    mark = test.marks[0]
    if test.method == COUNTERS:
        return f"at most {mark.high:.3g} {test.unit}"
    if mark.low == mark.high > 0:
        return f"{mark.high:,.4g} {test.unit}"
    return f"{mark.low:,.4g} to {mark.high:,.4g} {test.unit}" if mark.high else f"no {test.unit}"


def _size(size_bytes: int) -> str:
    power, unit = next(one for one in ((30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B")) if size_bytes >= 1 << one[0])
    return f"{size_bytes >> power} {unit}"
