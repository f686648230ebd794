"""What files for libraries of collectives say, read as these read them, to be compared with what was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.collective.synthesis import msccl_run, mscclpp_run
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from railyard.ask.deploy.emit.collectives.intent import CollectivesIntent, Scheduled

Table = dict[tuple[str, str], str]

_AT = "/etc/nccl/"
_KINDS = ("all-reduce", "all-gather", "reduce-scatter")
_KNOWN = {
    "algorithm": ("ring", "tree", "pat", "nvls", "nvlstree", "collnetdirect", "collnetchain"),
    "protocol": ("ll", "ll128", "simple"),
}
_VARIABLES = {"algorithm": "NCCL_ALGO", "protocol": "NCCL_PROTO"}
_COLUMNS = 10
"""Of the example tuner's table."""


def variables(text: str) -> dict[str, str]:
    """Of a file of NAME=VALUE lines; comments say nothing."""
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
    """A name without what its spellings differ by."""
    return word.replace("-", "").replace("_", "").lower()


def differences(intent: CollectivesIntent, files: Mapping[str, str]) -> list[str]:
    """What files say otherwise than meant, in words.

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
        yield f"the tuner's table has a row that NCCL reads otherwise: {error}"
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
        program, wrong = msccl_run.parsed(files[name]), msccl_run.faults(files[name])
    except InputError as error:
        yield f"{name}: {error}"
        return
    yield from (f"{name}: {words}" for words in wrong)
    yield from _unlike(f"{name}: collective and ranks", (_plain(one.kind), one.ranks), _what(program))


def _what(program: msccl_run.Program) -> tuple[str, int]:
    return _plain(program.kind), program.ranks


def _plans(folder: str, files: Mapping[str, str]) -> dict[str, str]:
    """Texts of what is in a folder, by the name of the file without its ending."""
    start = folder.removeprefix(_AT) + "/"
    return {name.removeprefix(start).removesuffix(".json"): files[name] for name in files if name.startswith(start)}


def _mscclpp(one: Scheduled, text: str) -> Iterator[str]:
    try:
        kind, ranks, wrong = mscclpp_run.read(text)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        yield f"the plan of {one.kind} is none: {error!r}"
        return
    yield from (f"the plan of {one.kind}: {words}" for words in wrong)
    yield from _unlike("collective and ranks of a plan", (_plain(one.kind), one.ranks), (_plain(kind), ranks))


def _unlike(what: str, meant: Any, found: Any) -> Iterator[str]:
    if meant != found:
        yield f"{what}: intended {meant}, the files say {found}"
