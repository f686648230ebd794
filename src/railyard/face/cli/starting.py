"""`railyard init` and `railyard schema`: what a user starts from."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard import catalog
from railyard.ask.observe.answer import cluster_of
from railyard.catalog.show import describe
from railyard.engine.lab.counters import Executed, execute
from railyard.face.cli.terminal import Table, emit, say
from railyard.kit.errors import InputError, SimulationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

    from railyard.catalog import Entry


def list_entries(kind: str | None, *, extra: Path | None, as_json: bool) -> None:
    """Names and summaries, of one kind or of all.

    Raises:
        InputError: There is no such kind, or the extra file is wrong.
    """
    shelf = catalog.load(extra)
    kinds = [kind] if kind else list(catalog.KINDS)
    rows = [(one, shelf.entry(one, name)) for one in kinds for name in shelf.names(one)]
    if as_json:
        emit(json.dumps([_head(one, entry) for one, entry in rows], indent=2, ensure_ascii=False))
        return
    if kind:
        listing = shelf.rows(kind)
        table = Table(listing.columns)
        for row in listing.rows:
            table.add(*row)
    else:
        table = Table(["kind", "name", "aliases", "what it is"])
        for one, entry in rows:
            table.add(one, entry.name, _few(entry.aliases), entry.summary)
    table.print()


def show_entry(name: str, *, extra: Path | None, as_json: bool) -> None:
    """Every value of an entry, or of the model of a `config.json`, with its origin.

    Raises:
        InputError: No entry has that name, or the file cannot be read.
    """
    shelf = catalog.load(extra)
    if not name.strip():
        raise InputError("the name of an entry is empty", hint="`railyard catalog list` shows the names")
    kind, entry = _found(shelf, name)
    if as_json:
        emit(json.dumps(as_plain(kind, entry), indent=2, ensure_ascii=False))
        return
    emit(f"{entry.name}  ({kind})")
    if entry.summary:
        emit(entry.summary)
    if entry.aliases:
        emit(f"aliases: {', '.join(entry.aliases)}")
    emit("")
    table = Table(["field", "value", "confidence", "year", "source"])
    for row in describe(entry):
        if row.field in {"summary", "aliases", "assumed"}:
            continue
        table.add(row.field, row.value, row.confidence, row.year, row.source)
    table.print()


def _found(shelf: catalog.Catalog, name: str) -> tuple[str, Entry]:
    """The entry of a name, or the model of a `config.json`."""
    from railyard.work.study.compose import model_file, model_of

    here = Path()
    return shelf.find(name) if model_file(here, name) is None else ("models", model_of(here, name, shelf))


def as_plain(kind: str, entry: Entry) -> dict[str, object]:
    """An entry as JSON values: base units under the field names, and the origin of each."""
    origins = {field: dataclasses.asdict(origin) for field, origin in entry.provenance.items()}
    return {
        **_head(kind, entry),
        "values": {key: _plain(value) for key, value in _values(entry).items()},
        "provenance": origins,
    }


def _head(kind: str, entry: Entry) -> dict[str, Any]:
    return {"kind": kind, "name": entry.name, "aliases": list(entry.aliases), "summary": entry.summary}


def _values(entry: Entry) -> dict[str, Any]:
    """The fields of an entry; tables are spread to one key a number, as the provenance has them."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(entry):
        if field.name in {"name", "aliases", "summary", "provenance"}:
            continue
        value = getattr(entry, field.name)
        if isinstance(value, Mapping):
            values.update({f"{field.name}.{key}": item for key, item in value.items()})
        elif value not in (None, "", ()):
            values[field.name] = value
    return values


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return list(value) if isinstance(value, tuple) else value


def _few(names: tuple[str, ...], most: int = 3) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def server_of(file: Path, *, accelerator: str, name: str, extra: Path | None) -> None:
    """Prints a server for a catalogue file, of NCCL's topology file of a machine.

    Raises:
        InputError: The file is none, or which accelerators it has is not known.
    """
    import yaml

    from railyard.cluster.nccl import machine
    from railyard.cluster.nccl.machines import entry_of
    from railyard.kit.files import read_text

    found = machine.parse(read_text(file), str(file))
    entry = entry_of(found, catalog.load(extra), file.name, accelerator)
    emit(yaml.safe_dump({"servers": {name: entry}}, sort_keys=False, default_flow_style=None, width=100).rstrip())


_SHOWN = 12


def run(file: Path, words: Sequence[str], *, dilation: float, routing: str, as_json: bool) -> None:
    """Runs it and says what the links did.

    Raises:
        InputError: There is no command, or this machine or cluster cannot be a lab.
        SimulationError: A rank failed.
    """
    if not words:
        raise InputError("there is no command", hint="railyard lab exec SCENARIO -- python train.py")
    if shutil.which(words[0]) is None:
        raise InputError("there is no such program", found=words[0])
    if routing not in ("static", "frr"):
        raise InputError("there is no such routing", key="--routing", found=routing, allowed="static, frr")
    done = execute(cluster_of(file), words, lambda: None, dilation=dilation, routing=routing)
    _show(done, as_json=as_json)
    failed = [rank for rank, status in enumerate(done.statuses) if status]
    if failed:
        raise SimulationError(f"rank {failed[0]} ended with status {done.statuses[failed[0]]}")


def _show(done: Executed, *, as_json: bool) -> None:
    if as_json:
        links = [
            {"link": link.name, "rate_bps": link.rate_bps, "bytes": link.bytes, "waited_s": link.waited_s}
            for link in done.links
        ]
        emit(json.dumps({"statuses": list(done.statuses), "links": links}, indent=2))
        return
    table = Table(["link", "Mb/s", "MB on the wire", "packets waited"], right=(1, 2, 3))
    for link in done.links[:_SHOWN]:
        table.add(link.name, f"{link.rate_bps / 1e6:g}", f"{link.bytes / 1e6:,.1f}", f"{link.waited_s:.2f} s")
    table.print()
    if len(done.links) > _SHOWN:
        say(f"{len(done.links) - _SHOWN} more links carried something; --json lists all")


def template() -> str:
    """The commented scenario."""
    from importlib.resources import files

    return files("railyard.work.scenario").joinpath("template.yaml").read_text(encoding="utf-8")


def init(file: Path | None) -> None:
    """Writes the commented scenario to a new file, or to stdout.

    Raises:
        InputError: The file exists already or cannot be written.
    """
    if file is None:
        emit(template().rstrip("\n"))
        return
    try:
        with file.open("x", encoding="utf-8") as handle:
            handle.write(template())
    except FileExistsError:
        raise InputError(
            "the file exists already and is left as it is", file=file, hint="choose another name"
        ) from None
    except OSError as error:
        raise InputError(f"the file cannot be written: {error.strerror}", file=file) from None
    say(f"wrote {file}\n\nhint: `railyard run {file}`")


def schema(document: str) -> None:
    """Prints the JSON schema of a document.

    Raises:
        InputError: There is no such document.
    """
    emit(json.dumps(_model(document).model_json_schema(), indent=2, ensure_ascii=False))


def _model(document: str) -> type[BaseModel]:
    if document == "scenario":
        from railyard.work.scenario.model import Scenario

        return Scenario
    if document == "result":
        from railyard.measure.result.reading import Result

        return Result
    raise InputError("there is no such document", found=document, allowed=["scenario", "result"])
