"""Inputs of `railyard place`: the nodes of a cluster from any file that describes it, and a table of jobs."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit import table
from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import read_text
from railyard.measure import numbers
from railyard.work.operate.formats.lists import nodes_of
from railyard.work.operate.free import PlacementRequest
from railyard.work.operate.topology_file import expand_hostlist, read_topology
from railyard.work.operate.tree import NodeTree

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.work.operate.discipline import NodePolicy
    from railyard.work.operate.free import FreeNodes


def read_nodes(path: Path, name: str | None = None, names: Path | None = None) -> NodeTree:
    """The nodes of a cluster.

    Args:
        path: A scenario, or a topology file.
        name: The format; None: detected.
        names: A list of node names in the order of a scenario's servers; None: as `railyard deploy` names them.

    Raises:
        InputError: A file cannot be read or is invalid.
    """
    tree = _of_scenario(path) if name is None and is_scenario(path) else read_topology(path, name)
    if names is None:
        return tree
    found = nodes_of(read_text(names), str(names))
    if len(found) != tree.nodes or len(set(found)) != len(found):
        raise InputError(
            "the list lacks names for some servers", file=str(names), found=len(set(found)), allowed=str(tree.nodes)
        )
    return replace(tree, names=tuple(found))


def is_scenario(path: Path) -> bool:
    """Whether a file is a scenario."""
    if path.suffix not in (".yaml", ".yml"):
        return False
    return bool(re.search(r"^cluster:", read_text(path), re.MULTILINE))


def _of_scenario(path: Path) -> NodeTree:
    from railyard.work.scenario.load import load
    from railyard.work.study.compose import catalog_of, cluster_of

    draft = load(path)
    # If the scenario scatters its job, its servers are in rank order; here they are in cabling order.
    as_cabled = draft.scenario.cluster.model_copy(update={"placement": "packed"})
    return NodeTree.of(cluster_of(draft, catalog_of(draft), as_cabled))


def numbers_of_nodes(tree: NodeTree, path: Path) -> NDArray[np.int32]:
    """Numbers of the nodes in a list.

    Raises:
        InputError: The cluster has no such node.
    """
    names = nodes_of(read_text(path), str(path))
    unknown = next((name for name in names if name not in tree.number), None)
    if unknown is not None:
        raise InputError(
            f"the cluster has no node `{unknown}`",
            file=str(path),
            found=unknown,
            hint=did_you_mean(unknown, tree.names),
        )
    return np.array(list(dict.fromkeys(tree.number[name] for name in names)), np.int32)


_COLUMN_WORDS = {
    "job": ("job", "job_id", "jobid", "id", "name"),
    "nodes": ("nodes", "num_nodes", "n", "n_nodes"),
    "accelerators": ("accelerators", "gpus", "num_gpus"),
    "each": ("each", "per_node", "gpus_per_node", "accelerators_per_node"),
    "segment": ("segment", "slice", "slice_size"),
    "segment_within": ("segment_within", "slice_within", "slice_level"),
    "switches": ("switches", "max_switches"),
    "within": ("within", "required"),
    "prefers": ("prefers", "preferred"),
    "event": ("event", "action", "op"),
    "exclusive": ("exclusive",),
    "given": ("given", "nodelist", "node_list", "allocated"),
}
"""Columns, and their names in traces and in schedulers' exports."""
_STARTS = ("", "submit", "start", "place", "run")
_ENDS = ("end", "ends", "complete", "completed", "cancel", "release", "free")
_YES_WORDS, _NO = ("1", "true", "yes", ""), ("0", "false", "no")


@dataclass(frozen=True)
class PlaceStep:
    """A row of the table.

    Attributes:
        request: The job's request; None: the job of that name ends.
        given: int32[nodes], allocation by the real scheduler; None: not in the table.
    """

    job: str
    request: PlacementRequest | None
    line: int
    given: NDArray[np.int32] | None = None


@dataclass(frozen=True)
class PlacedJob:
    """A job after placement.

    Attributes:
        nodes: int32[nodes] in rank order; None: it has to wait, or can never be placed.
        given: int32[nodes], allocation by the real scheduler, which replaces `nodes`; None: unknown.
    """

    job: str
    request: PlacementRequest
    nodes: NDArray[np.int32] | None
    line: int
    given: NDArray[np.int32] | None = None

    @property
    def has(self) -> NDArray[np.int32] | None:
        """int32[nodes], its allocation: the real scheduler's if known, otherwise the policy's."""
        return self.nodes if self.given is None else self.given


def read_stream(path: Path, tree: NodeTree) -> list[PlaceStep]:
    """Rows of a table of placements.

    Columns: `nodes` (or `accelerators`, with `each` per node), and optionally `job`, `segment`, `switches`, `within`,
    `prefers`, `exclusive`, `event` (submit, end), `given` (the scheduler's allocation, as a bracketed list).

    Raises:
        InputError: Names file, line and column of the error.
    """
    read = table.read(path)
    columns = _columns(read)
    steps: list[PlaceStep] = []
    live: set[str] = set()
    for row in read:
        steps.append(_step(_Row(row, columns), tree, live, len(steps)))
    return steps


def _columns(read: table.Table) -> dict[str, str]:
    known = {word: name for name, words in _COLUMN_WORDS.items() for word in words}
    found: dict[str, str] = {}
    for word in read.columns:
        name = known.get(word.lower())
        if name is None:
            raise InputError(
                f"there is no column `{word}`",
                file=read.file,
                line=read.line,
                found=word,
                allowed=list(_COLUMN_WORDS),
                hint=did_you_mean(word.lower(), known),
            )
        if name in found:
            raise InputError(f"two columns say `{name}`", file=read.file, line=read.line, found=word)
        found[name] = word
    if "nodes" not in found and "accelerators" not in found and "event" not in found:
        raise InputError("a table of jobs has a column `nodes` or `accelerators`", file=read.file, line=read.line)
    return found


@dataclass(frozen=True)
class _Row:
    cells: table.TableRow
    columns: dict[str, str]

    @property
    def line(self) -> int:
        return self.cells.line

    def text(self, name: str) -> str:
        return self.cells[self.columns[name]] if name in self.columns else ""

    def wrong(self, name: str, message: str, allowed: object, hint: str | None = None) -> InputError:
        return self.cells.wrong(self.columns.get(name, name), message, allowed=allowed, hint=hint)

    def count(self, name: str, default: int, least: int = 0) -> int:
        text = self.text(name)
        if not text:
            return default
        if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) < least:
            raise self.wrong(name, f"expected an integer, got `{text[:40]}`", f"{least} or more")
        return int(text)

    def level(self, name: str, tree: NodeTree) -> str:
        text = self.text(name)
        if text and text not in tree.levels:
            raise self.wrong(name, f"there is no level `{text}`", tree.levels, did_you_mean(text, tree.levels))
        return text


def _step(row: _Row, tree: NodeTree, live: set[str], number: int) -> PlaceStep:
    job, event = row.text("job") or str(number), row.text("event").lower()
    if event in _ENDS:
        if job not in live:
            raise row.wrong("job", f"the job `{job}` ends and was not submitted before", "a job of an earlier row")
        live.discard(job)
        return PlaceStep(job, None, row.line)
    if event not in _STARTS:
        allowed = [*_STARTS[1:], *_ENDS]
        raise row.wrong("event", f"there is no event `{event}`", allowed, did_you_mean(event, allowed))
    if job in live:
        raise row.wrong("job", f"the job `{job}` already exists", "one row for a job that has not ended")
    live.add(job)
    return PlaceStep(job, _request(row, tree, number), row.line, _given(row, tree))


def _given(row: _Row, tree: NodeTree) -> NDArray[np.int32] | None:
    if not row.text("given"):
        return None
    try:
        names = expand_hostlist(row.text("given"))
    except InputError as error:
        raise row.cells.located(error.located(key=row.columns["given"])) from None
    unknown = next((name for name in names if name not in tree.number), None)
    if unknown is not None:
        raise row.wrong("given", f"the cluster has no node `{unknown}`", "its nodes", did_you_mean(unknown, tree.names))
    return np.array(list(dict.fromkeys(tree.number[name] for name in names)), np.int32)


def _request(row: _Row, tree: NodeTree, number: int) -> PlacementRequest:
    full = int(tree.accelerators.max())
    exclusive = row.text("exclusive").lower()
    if exclusive not in _YES_WORDS + _NO:
        raise row.wrong("exclusive", f"expected yes or no, got `{exclusive}`", "yes, no")
    each = row.count("each", full, 1)
    if each > full:
        raise row.wrong("each", "no node has so many accelerators", f"at most {full}")
    wanted = row.count("accelerators", 0, 1)
    nodes = row.count("nodes", -(-wanted // each), 1)
    if not nodes:
        raise row.wrong("nodes", "the job asks for no nodes", "1 or more")
    if wanted and "nodes" not in row.columns and wanted < each:
        each = wanted
    if nodes > tree.nodes:
        raise row.wrong("nodes", "the job wants more nodes than there are", f"at most {tree.nodes}")
    return PlacementRequest(
        nodes,
        full if exclusive in _YES_WORDS[:3] else each,
        within=row.level("within", tree),
        prefers=row.level("prefers", tree),
        segment=row.count("segment", 0),
        segment_within=row.level("segment_within", tree),
        switches=row.count("switches", 0),
        job=number,
    )


def place_stream(steps: list[PlaceStep], free: FreeNodes, policy: NodePolicy) -> list[PlacedJob]:
    """Places every job in order; a job that cannot be placed at its turn gets nothing."""
    placed: list[PlacedJob] = []
    live: dict[str, PlacedJob] = {}
    for step in steps:
        if step.request is None:
            ended = live.pop(step.job)
            if ended.has is not None:
                free.give(ended.has, ended.request.each)
            continue
        found = PlacedJob(step.job, step.request, policy.place(step.request, free), step.line, step.given)
        if found.has is not None:
            free.take(found.has, step.request.each)
        placed.append(found)
        live[step.job] = found
    return placed


def broken_promises(job: PlacedJob, tree: NodeTree) -> list[str]:
    """Constraints of a job that its scheduler did not meet."""
    nodes, asked = job.given, job.request
    if nodes is None:
        return []
    found = []
    if len(nodes) != asked.nodes:
        found.append(f"it wants {asked.nodes} nodes and has {len(nodes)}")
    if asked.segment and tree.levels:
        level = tree.levels.index(asked.segment_within) if asked.segment_within else len(tree.levels) - 1
        found += _torn(job, tree, level)
    limits = [(asked.within, 1)] if asked.within else []
    limits += [(tree.levels[-1], asked.switches)] if asked.switches and tree.levels else []
    for name, most in limits:
        level = tree.levels.index(name)
        if len(np.unique(tree.group[level][nodes])) > most:
            found.append(f"it may use {numbers.counted(most, name)} but has nodes in {_parts(nodes, tree, level)}")
    return found


def _torn(job: PlacedJob, tree: NodeTree, level: int) -> list[str]:
    """Split segments: some group has a number of nodes that the segment size does not divide."""
    nodes, size = job.given, job.request.segment
    if nodes is None or not (np.bincount(tree.group[level][nodes]) % size).any():
        return []
    instead = "" if job.nodes is None else f"; they fit, as {_parts(job.nodes, tree, level)}"
    return [f"segments of {size} are not kept: {_parts(nodes, tree, level)}{instead}"]


def _parts(nodes: NDArray[np.int32], tree: NodeTree, level: int) -> str:
    """`17+17+2 (rack-0, rack-1, rack-2)`."""
    group, count = np.unique(tree.group[level][nodes], return_counts=True)
    order = np.argsort(-count, kind="stable")
    names = ", ".join(tree.group_names[level][one] for one in group[order].tolist())
    return f"{'+'.join(map(str, count[order].tolist()))} ({names})"
