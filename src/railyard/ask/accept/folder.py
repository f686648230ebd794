"""The folder of an acceptance plan: tests, scripts, lists of servers, a page."""

from __future__ import annotations

from collections import defaultdict
from math import ceil
from typing import TYPE_CHECKING

from railyard.ask.accept.planned import FACTOR, FIRST_BYTES, LAST_BYTES, WRITE_BYTES, seconds_needed
from railyard.ask.accept.tests import (
    BURN,
    CABLE,
    COUNTERS,
    FILE,
    NCCL,
    SYMBOLS,
    WRITE,
    Test,
    groups,
    read,
    size_words,
    written,
)
from railyard.ask.deploy.cabling import is_infiniband
from railyard.kit.errors import InputError
from railyard.kit.files import read_text
from railyard.work.study import page as pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from railyard.ask.deploy.cabling import CablingPlan


BURN_HOURS = 72
"""Hours of burn-in: sites report 72 to 168."""

SECONDS = 10
"""Seconds of one ib_write_bw."""

FIRST_PORT = 18515
"""TCP port at which ib_write_bw's two ends meet where nobody says otherwise; the NIC's number is added."""

_TESTS = {
    "all_reduce": "all_reduce_perf",
    "all_gather": "all_gather_perf",
    "reduce_scatter": "reduce_scatter_perf",
    "all_to_all": "alltoall_perf",
}

_HEAD = """#!/bin/sh
# {what}. Results go into results/, a file a test; `railyard accept FOLDER --results FOLDER/results` reads them.
cd "$(dirname "$0")" && mkdir -p results || exit 1
"""


def scripts(tests: Sequence[Test], each: int, ethernet: bool) -> Iterator[tuple[str, str]]:
    """Names and texts of the scripts, in the order in which they are run."""
    by_scope: dict[str, list[Test]] = defaultdict(list)
    for one in tests:
        if one.method not in (CABLE, COUNTERS):
            by_scope[one.scope].append(one)
    for number, scope in enumerate(("server", "pair", "node", "leaf", "rail", "pod", "all"), 1):
        if by_scope[scope]:
            yield (
                f"{number}-{scope}.sh",
                "\n".join([_HEAD.format(what=_COMMANDS_WHAT[scope]), *_body(by_scope[scope], each, ethernet), ""]),
            )


_COMMANDS_WHAT = {
    "server": "Burn-in of every server",
    "pair": "Every NIC against another",
    "node": "Collectives in every server",
    "leaf": "Collectives below each leaf",
    "rail": "Collectives along each rail",
    "pod": "Collectives in each pod",
    "all": "Collectives over everything",
}


def _body(tests: Sequence[Test], each: int, ethernet: bool) -> Iterator[str]:
    if tests[0].method == BURN:
        yield from _burn(tests)
    elif tests[0].method == WRITE:
        yield from _write(tests, ethernet)
    else:
        yield from _nccl(tests, each)


def _burn(tests: Iterable[Test]) -> Iterator[str]:
    """Faults that are counted: of the diagnosis, and what the kernel said of accelerators (Xid) meanwhile."""
    yield f"hours={BURN_HOURS}"
    yield "rm -f results/burn-in.csv; echo test,value > results/burn-in.csv"
    for one in tests:
        yield (
            f'(ssh {one.hosts} "gpu_burn $((hours * 3600)) > /tmp/burn.log 2>&1; f=\\$(grep -c FAULTY /tmp/burn.log);'
            " d=0; dcgmi diag -r 4 > /tmp/diag.log 2>&1 || d=1; x=\\$(dmesg | grep -c 'NVRM: Xid');"
            f' echo {one.name},\\$((f + d + x))" >> results/burn-in.csv) &'
        )
    yield "wait"


def _write(tests: Iterable[Test], ethernet: bool) -> Iterator[str]:
    rounds: list[tuple[set[str], list[str]]] = []
    for one in tests:
        (near, near_nic), (far, far_nic) = (part.split(":") for part in one.parts)
        port = FIRST_PORT + int(far_nic.rpartition("_")[2])
        words = f"-p {port} --report_gbits -F -q 2 -s {WRITE_BYTES} -D {SECONDS}" + (" -x 3" if ethernet else "")
        line = (
            f"(ssh {far} ib_write_bw -d {far_nic} {words} > /dev/null & sleep 2;"
            f" ssh {near} ib_write_bw -d {near_nic} {words} {far} > results/{one.name}.txt) &"
        )
        free = next((found for found in rounds if not found[0] & {near, far}), None)
        if free is None:
            free = set(), []
            rounds.append(free)
        free[0].update((near, far))
        free[1].append(line)
    for _, lines in rounds:
        yield from (*lines, "wait")


def _nccl(tests: Sequence[Test], each: int) -> Iterator[str]:
    """One collective of all groups at once where these share no server."""
    alone = tests[0].scope in ("rail", "all")
    by_kind: dict[str, list[Test]] = defaultdict(list)
    for one in tests:
        by_kind[one.collective].append(one)
    for kind, listed in by_kind.items():
        for one in listed:
            slots = 1 if one.scope == "rail" else each
            hosts = (
                "--host " + ",".join(f"{host}:{slots}" for host in one.hosts.split())
                if one.servers <= 2
                else f"--hostfile hosts/{one.hosts}.{slots}"
            )
            pinned = (
                f" -x CUDA_VISIBLE_DEVICES={one.name.split('-')[0].removeprefix('rail')}" if one.scope == "rail" else ""
            )
            yield (
                f"mpirun -np {one.ranks} --map-by ppr:{slots}:node {hosts}{pinned} {_TESTS[kind]}"
                f" -b {FIRST_BYTES} -e {LAST_BYTES} -f {FACTOR} -g 1 > results/{one.name}.txt" + ("" if alone else " &")
            )
        if not alone:
            yield "wait"


FABRIC = "ibqueryerrors --threshold-file /dev/null"
"""Names every port with an error: thresholds of the tool would hide the first ten."""

_SWITCH = (
    "if command -v show > /dev/null; then show interfaces counters fec-stats;"
    " else for p in /sys/class/net/swp*; do ethtool -I --show-fec \\${p##*/}; done; fi"
)


def counters_script(tests: Sequence[Test]) -> Iterator[tuple[str, str]]:
    """Reads error counters of switches twice; in between a link without errors has time to show its limits."""
    listed = [one for one in tests if one.method == COUNTERS]
    if not listed:
        return
    rates = {one.name.removeprefix(f"{CABLE}-"): one.marks[0].expected * 1e9 for one in tests if one.method == CABLE}
    wait = max(seconds_needed({one.unit: one.marks[0].high}, rates[one.name.partition("-")[2]]) for one in listed)
    switches = sorted({host for one in listed if one.unit != SYMBOLS for host in one.hosts.split()})
    body = [
        _HEAD.format(what="Error counters of switches, as SONiC or Linux prints them"),
        f"hours={ceil(wait / 3600)}",
        "reading() {",
    ]
    if any(one.unit == SYMBOLS for one in listed):
        body.append(f'  (echo "# seconds $1"; {FABRIC}) >> results/counters-fabric.txt')
    body += [f'  (echo "# seconds $1"; ssh {one} "{_SWITCH}") >> results/counters-{one}.txt &' for one in switches]
    body += [
        "  wait",
        "}",
        "rm -f results/counters-*.txt; reading 0; start=$(date +%s)",
        "sleep $((hours * 3600)); reading $(($(date +%s) - start))",
        "",
    ]
    yield "8-counters.sh", "\n".join(body)


def host_lists(tests: Iterable[Test], members: dict[str, Sequence[str]], each: int) -> Iterator[tuple[str, str]]:
    """Files for mpirun, named by the group and the processes a server."""
    done: set[str] = set()
    for one in tests:
        slots = 1 if one.scope == "rail" else each
        name = f"{one.hosts}.{slots}"
        if one.method == NCCL and one.servers > 2 and name not in done:
            done.add(name)
            yield f"hosts/{name}", "".join(f"{host} slots={slots}\n" for host in members[one.hosts])


def members_of(plan: CablingPlan) -> dict[str, Sequence[str]]:
    """Names of the servers of each group of more than two."""
    name = plan.devices.name
    return {
        one.name: [name[server] for server in one.servers]
        for one in groups(plan)
        if one.scope in ("all", "pod", "leaf")
    }


def files(plan: CablingPlan, tests: Sequence[Test], title: str) -> Iterator[tuple[str, str]]:
    """Names and texts of all files."""
    yield FILE, written(tests)
    each = plan.cluster.ranks_per_server
    yield from scripts(tests, each, not is_infiniband(plan, plan.networks.index("back-end")))
    yield from counters_script(tests)
    yield from host_lists(tests, dict(members_of(plan)), each)
    yield "index.html", page(tests, title)


def folder_of(path: Path) -> tuple[list[Test], dict[str, Sequence[str]]]:
    """Tests and lists of servers of a folder that was written, perhaps with bounds that were changed by hand.

    Raises:
        InputError: It is none.
    """
    if not (path / FILE).is_file():
        raise InputError("the folder has no acceptance plan", file=path, allowed=f"a folder with {FILE}")
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


def acceptance_sentence(tests: Sequence[Test]) -> str:
    """What to do, in one sentence."""
    servers = max(one.servers for one in tests)
    results = sum(len(one.marks) for one in tests)
    count = f"{len(tests):,} acceptance tests ({results:,} results)"
    return f"Run {count} on {servers:,} servers: cables first, the whole cluster last."


def page(tests: Sequence[Test], title: str) -> str:
    """Page of the tests, and of what collectives should reach."""
    seen = alike(tests)
    sizes = sorted({mark.size_bytes for one in tests if one.method == NCCL for mark in one.marks})
    collectives = [_row(those, sizes) for those in seen.values() if those[0].method == NCCL]
    others = [
        (those[0].method, f"{len(those):,} {_WHAT[those[0].method]}", _bounds(those[0]))
        for those in seen.values()
        if those[0].method != NCCL
    ]
    headings = ("scope", "test", "ranks", "how many", *map(size_words, sizes))
    note = (
        "<p>Of groups that are alike the first is shown. Eight of ten logs of systems that the model had not seen lay"
        " within these bounds. Similar tests are also compared with each other.</p>"
    )
    measured = pages.html_table(headings, collectives, range(2, len(headings)))
    parts = [
        pages.folding("Tests of parts", pages.html_table(("test", "how many", "passes"), others)),
        pages.folding("Collectives: busbw in GB/s, expected (least to most that passes)", note + measured),
    ]
    return pages.document(f"{title}: acceptance", acceptance_sentence(tests), (), parts)


def _row(those: Sequence[Test], sizes: Sequence[int]) -> list[object]:
    key = those[0].scope, those[0].collective, those[0].ranks
    marks = {mark.size_bytes: mark for mark in those[0].marks}
    cells = [
        f"{marks[size].expected:,.4g} ({marks[size].low:,.3g} to {marks[size].high:,.3g})" if size in marks else ""
        for size in sizes
    ]
    return [*key, f"{len(those):,}", *cells]


def _bounds(test: Test) -> str:
    mark = test.marks[0]
    if test.method == COUNTERS:
        return f"at most {mark.high:.3g} {test.unit}"
    if mark.low == mark.high > 0:
        return f"{mark.high:,.4g} {test.unit}"
    return f"{mark.low:,.4g} to {mark.high:,.4g} {test.unit}" if mark.high else f"no {test.unit}"
