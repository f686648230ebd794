"""What a scenario fixes about collectives, as files of servers: for NCCL, MSCCL and MSCCL++."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.collective.policy import KINDS
from railyard.collective.synthesis import msccl_run, of_cluster, written
from railyard.collective.synthesis.msccl import msccl_xml
from railyard.collective.synthesis.msccl_run import parse_program
from railyard.collective.synthesis.mscclpp import mscclpp_json, read_plan
from railyard.collective.tuner import FixedChoices, tuner_table
from railyard.kit.errors import InputError, SimulationError
from railyard.kit.files import read_text
from railyard.work.scenario.load import blaming
from railyard.work.training.prepare import faults_of, keeps_of, policy_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from railyard.cluster import Cluster
    from railyard.work.scenario.load import Draft


@dataclass(frozen=True)
class Scheduled:
    """A schedule of one collective.

    Attributes:
        kind: Of the collective: `all-gather`.
        mscclpp: Text of its MSCCL++ plan; None where only MSCCL's is known.
    """

    kind: str
    ranks: int
    msccl: str
    mscclpp: str | None = None


@dataclass(frozen=True)
class CollectivesIntent:
    """Fixed choices of collectives."""

    fixed: FixedChoices = field(default_factory=FixedChoices)
    schedules: tuple[Scheduled, ...] = ()
    left_out: tuple[str, ...] = ()


NOTHING = CollectivesIntent()


def collectives_of(draft: Draft, cluster: Cluster, progress: Callable[[str, float], None]) -> CollectivesIntent:
    """Collectives of a scenario; schedules that a run would search are searched.

    Raises:
        InputError: The section is wrong, or a file in it.
    """
    section, schedules = draft.scenario.collectives, []
    with blaming(draft, "collectives"):
        policy_of(section, draft.folder, cluster, faults_of(draft))
    plain, left_out = {}, []
    for number, (key, word) in enumerate(section.algorithm.items()):
        if not word.startswith((written.FILE, of_cluster.NAME)):
            plain[key] = word
            continue
        progress(f"the schedule of {key}", number / len(section.algorithm))
        found = _scheduled(draft, cluster, key, word)
        if isinstance(found, str):
            left_out.append(f"collectives.algorithm {key}: {word}: {found}")
        else:
            schedules.append(found)
    nics = cluster.hardware.nics
    fixed = FixedChoices(plain, dict(section.protocol), section.connections, section.pxn, nics)
    left_out += [f"collectives.{table} {key}: {name}: not NCCL's to set" for table, key, name in fixed.untold()]
    if section.selector != "library":
        left_out.append(f"collectives.selector: {section.selector}: not NCCL's to set")
    return CollectivesIntent(fixed, tuple(schedules), tuple(left_out))


def _scheduled(draft: Draft, cluster: Cluster, key: str, word: str) -> Scheduled | str:
    """A schedule, or why there is none: libraries know a communicator by its ranks, not by its name."""
    if key not in KINDS:
        return "libraries cannot be given a schedule for one group"
    if word.startswith(written.FILE):
        text = read_text(draft.folder / word.removeprefix(written.FILE).strip())
        return Scheduled(key, parse_program(text).ranks, text)
    if cluster.ranks > of_cluster.MOST_RANKS_IN_RUN:
        return f"schedules are searched for up to {of_cluster.MOST_RANKS_IN_RUN} ranks"
    keeps = keeps_of(cluster, faults_of(draft))
    found = of_cluster.found_for(cluster, np.arange(cluster.ranks), KINDS[key], of_cluster.size_of(word), keeps)
    each = (found.network, found.schedule, key, found.cut)
    return Scheduled(key, cluster.ranks, msccl_xml(*each), mscclpp_json(*each))


Table = dict[tuple[str, str], str]

_AT = "/etc/nccl/"
_KINDS = ("all-reduce", "all-gather", "reduce-scatter")
_KNOWN = {
    "algorithm": ("ring", "tree", "pat", "nvls", "nvlstree", "collnetdirect", "collnetchain"),
    "protocol": ("ll", "ll128", "simple"),
}
_VARIABLES = {"algorithm": "NCCL_ALGO", "protocol": "NCCL_PROTO"}
_COLUMNS = 10
"""Columns of the example tuner's table."""


def variables(text: str) -> dict[str, str]:
    """Variables of a file of NAME=VALUE lines, without comments."""
    lines = [line.strip() for line in text.splitlines()]
    return dict(line.split("=", 1) for line in lines if line[:1] not in ("", "#") and "=" in line)


def tuner_rows(text: str) -> dict[str, tuple[str, str, int]]:
    """Algorithm, protocol and channels by kind, of rows for every size and every communicator.

    Raises:
        ValueError: A row has not the columns, or is for some sizes or communicators only.
    """
    found = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        cells = line.split(",")
        if len(cells) != _COLUMNS or cells[1] != "0" or int(cells[2]) < 1 << 60 or cells[6:] != ["-1"] * 4:
            raise ValueError(line)
        found[_plain(cells[0])] = _plain(cells[3]), _plain(cells[4]), int(cells[5])
    return found


def _plain(word: str) -> str:
    return word.replace("-", "").replace("_", "").lower()


def differences(intent: CollectivesIntent, files: Mapping[str, str]) -> list[str]:
    """Differences of files from the intent, in words.

    Args:
        intent: What was meant.
        files: Texts by name below `servers/`.
    """
    return [*_settings(intent, files), *_schedules(intent, files)]


def _settings(intent: CollectivesIntent, files: Mapping[str, str]) -> Iterator[str]:
    said, fixed = variables(files.get("nccl.conf", "")), intent.fixed
    meant: dict[str, dict[str, str]] = {}
    for name, values in (("algorithm", fixed.algorithm), ("protocol", fixed.protocol)):
        words = {_plain(kind): _plain(word) for kind, word in values.items() if kind in _KINDS}
        meant[name] = {kind: word for kind, word in words.items() if word in _KNOWN[name]}
        text = said.get(_VARIABLES[name], "")
        found = dict(part.split(":", 1) for part in text.split(";") if ":" in part)
        yield from _unlike(_VARIABLES[name], meant[name], found)
    each = fixed.connections
    channels = None if each is None else str(min(64, each * max(fixed.nics, 1)))
    for name in ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"):
        yield from _unlike(name, channels, said.get(name))
    yield from _unlike("NCCL_PXN_DISABLE", None if fixed.pxn else "1", said.get("NCCL_PXN_DISABLE"))
    yield from _tuner(meant, int(channels or -1), said, files)


def _tuner(
    meant: Mapping[str, Mapping[str, str]], channels: int, said: Mapping[str, str], files: Mapping[str, str]
) -> Iterator[str]:
    both = meant["algorithm"].keys() & meant["protocol"].keys()
    due = {kind: (meant["algorithm"][kind], meant["protocol"][kind], channels) for kind in both}
    path = said.get("NCCL_TUNER_CONFIG_FILE")
    if path is None:
        yield from _unlike("the tuner's table", due, {})
        return
    yield from _unlike("NCCL_TUNER_PLUGIN", "libnccl-tuner-example.so", said.get("NCCL_TUNER_PLUGIN"))
    try:
        found = tuner_rows(files[path.removeprefix(_AT)])
    except KeyError:
        yield f"NCCL_TUNER_CONFIG_FILE names {path}, which is not there"
    except ValueError as error:
        yield f"the tuner's table has a row that NCCL reads differently: {error}"
    else:
        yield from _unlike("the tuner's table", due, found)


def _schedules(intent: CollectivesIntent, files: Mapping[str, str]) -> Iterator[str]:
    said = variables(files.get("msccl.env", ""))
    paths = [path for path in said.get("MSCCL_XML_FILES", "").split(":") if path]
    yield from _unlike("MSCCL_XML_FILES", len(intent.schedules), len(paths))
    if paths:
        yield from _unlike("NCCL_ALGO of MSCCL", "MSCCL", said.get("NCCL_ALGO", "").split(",")[0])
    for one, path in zip(intent.schedules, paths, strict=False):
        yield from _msccl(one, path, files)
    plans = {one.kind: one for one in intent.schedules if one.mscclpp is not None}
    folder = variables(files.get("mscclpp.env", "")).get("MSCCLPP_EXECUTION_PLAN_DIR")
    found = {} if folder is None else _plans(folder, files)
    yield from _unlike("plans of MSCCL++", sorted(plans), sorted(found))
    for kind in sorted(plans.keys() & found.keys()):
        yield from _mscclpp(plans[kind], found[kind])


def _msccl(one: Scheduled, path: str, files: Mapping[str, str]) -> Iterator[str]:
    name = path.removeprefix(_AT)
    if name not in files:
        yield f"MSCCL_XML_FILES names {path}, which is not there"
        return
    try:
        program, wrong = msccl_run.parse_program(files[name]), msccl_run.faults(files[name])
    except InputError as error:
        yield f"{name}: {error}"
        return
    yield from (f"{name}: {words}" for words in wrong)
    yield from _unlike(
        f"{name}: collective and ranks", (_plain(one.kind), one.ranks), (_plain(program.kind), program.ranks)
    )


def _plans(folder: str, files: Mapping[str, str]) -> dict[str, str]:
    """Texts of what is in a folder, by the name of the file without its ending."""
    start = folder.removeprefix(_AT) + "/"
    return {name.removeprefix(start).removesuffix(".json"): files[name] for name in files if name.startswith(start)}


def _mscclpp(one: Scheduled, text: str) -> Iterator[str]:
    try:
        kind, ranks, wrong = read_plan(text)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        yield f"the plan of {one.kind} is none: {error!r}"
        return
    yield from (f"the plan of {one.kind}: {words}" for words in wrong)
    yield from _unlike("collective and ranks of a plan", (_plain(one.kind), one.ranks), (_plain(kind), ranks))


def _unlike(what: str, meant: Any, found: Any) -> Iterator[str]:
    if meant != found:
        yield f"{what}: intended {meant}, the files say {found}"


FOLDER = "/etc/nccl"
"""Folder of the files on servers; those of a plan lie in `servers/`."""

TUNER, MSCCL, MSCCLPP = "nccl-tuner.csv", "msccl", "mscclpp"


def files(intent: CollectivesIntent, shared: str) -> dict[str, str]:
    """Texts by name, read back and compared with what was meant.

    Args:
        intent: What is fixed.
        shared: Lines of `nccl.conf` that do not depend on it.

    Raises:
        SimulationError: A file says otherwise: an internal error.
    """
    rows = intent.fixed.tuner_rows()
    lines = [f"{name}={value}" for name, value in intent.fixed.variables()]
    out = {}
    if rows:
        out[TUNER] = tuner_table(rows)
        lines += ["NCCL_TUNER_PLUGIN=libnccl-tuner-example.so", f"NCCL_TUNER_CONFIG_FILE={FOLDER}/{TUNER}"]
    out["nccl.conf"] = shared + "".join(f"{line}\n" for line in lines)
    for one in intent.schedules:
        out[f"{MSCCL}/{one.kind}.xml"] = one.msccl
        if one.mscclpp is not None:
            out[f"{MSCCLPP}/{one.kind}.json"] = one.mscclpp
    plans = [name for name in out if name.startswith(f"{MSCCL}/")]
    if plans:
        named = ":".join(f"{FOLDER}/{name}" for name in plans)
        out["msccl.env"] = f"MSCCL_XML_FILES={named}\nNCCL_ALGO=MSCCL,RING,TREE\n"
    if any(name.startswith(f"{MSCCLPP}/") for name in out):
        out["mscclpp.env"] = f"MSCCLPP_EXECUTION_PLAN_DIR={FOLDER}/{MSCCLPP}\n"
    wrong = differences(intent, out)
    if wrong:
        raise SimulationError(f"servers: the written file does not match the intent: {wrong[0]}")
    return out
