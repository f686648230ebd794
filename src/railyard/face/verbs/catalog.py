"""`railyard catalog`: entries listed and shown, and a server written for an accelerator."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railyard.face.terminal import Extra, Json, Table, emit, wrapped
from railyard.face.verb import Request, verb
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    import railyard.catalog as catalog
    from railyard.catalog import Entry


@verb("catalog list", example="railyard catalog list", group="build", details=True, order=55)
def catalog_list(
    request: Request,
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help="One kind only, such as accelerators.")] = None,
    json: Json = False,
    extra: Extra = None,
) -> None:
    """List the entries of the catalogue."""
    import railyard.catalog as catalog

    shelf = catalog.load(extra)
    kinds = [kind] if kind else list(catalog.KINDS)
    rows = [(one, shelf.entry(one, name)) for one in kinds for name in shelf.names(one)]
    if json:
        emit(dumps([_head(one, entry) for one, entry in rows], indent=2, ensure_ascii=False))
        return
    what = kind or f"entries of {len(kinds)} kinds"
    emit(f"The catalogue has {len(rows):,} {what}; `railyard catalog show NAME` prints one with its sources.\n")
    if kind:
        listing = shelf.rows(kind)
        heads, cells = listing.columns, listing.rows
    else:
        heads = ("kind", "name", "aliases", "description")
        cells = tuple((one, entry.name, _few(entry.aliases), entry.summary) for one, entry in rows)
    chosen = [at for at, head in enumerate(heads) if request.details or head not in _DETAILS]
    table = Table([heads[at] for at in chosen])
    for row in cells:
        table.add(*(row[at] for at in chosen))
    table.print()


_DETAILS = frozenset({"year", "domain", "aliases"})
"""Columns of lists that `--details` adds."""


def _names(incomplete: str) -> list[str]:
    """Completions of names of the catalogue."""
    import railyard.catalog as catalog

    shelf = catalog.load(None)
    return sorted({name for kind in catalog.KINDS for name in shelf.names(kind) if name.startswith(incomplete)})


@verb("catalog show", example="railyard catalog show h100-sxm", group="build", order=56)
def catalog_show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Name or alias of an entry, or a model's config.json.", autocompletion=_names
        ),
    ],
    json: Json = False,
    extra: Extra = None,
) -> None:
    """Show an entry: every value with its unit, source, year and confidence."""
    import railyard.catalog as catalog
    from railyard.catalog.show import describe

    shelf = catalog.load(extra)
    if not name.strip():
        raise InputError("the name of an entry is empty", hint="`railyard catalog list` shows the names")
    kind, entry = _found(shelf, name)
    if json:
        emit(dumps(as_plain(kind, entry), indent=2, ensure_ascii=False))
        return
    emit(wrapped(_sentence(kind, entry)))
    if entry.aliases:
        emit(wrapped(f"Aliases: {', '.join(entry.aliases)}."))
    emit("")
    table, numbers = Table(["field", "value", "confidence", "source"]), dict[tuple[str, str], int]()
    for row in describe(entry):
        if row.field not in {"summary", "aliases", "assumed"}:
            origin = (row.source, row.year)
            reference = f"[{numbers.setdefault(origin, len(numbers) + 1)}]" if row.source else ""
            table.add(row.field, row.value, row.confidence, reference)
    table.print()
    emit("")
    for (source, year), number in numbers.items():
        emit(wrapped(f"[{number}] {source}{f' ({year})' if year else ''}"))


def _sentence(kind: str, entry: Entry) -> str:
    """What it is, and how many of its values come from where."""
    counts = Counter(origin.confidence for origin in entry.provenance.values() if origin.confidence)
    origins = ", ".join(f"{count} {confidence}" for confidence, count in counts.most_common())
    about = f": {entry.summary}" if entry.summary else ""
    return f"{entry.name} ({kind}){about}; {sum(counts.values())} values: {origins}."


def _found(shelf: catalog.Catalog, name: str) -> tuple[str, Entry]:
    """The entry of a name, or the model of a `config.json`."""
    if ".json" not in name and "/" not in name:  # reading a file needs what a scenario needs
        return shelf.find(name)
    from railyard.work.study.compose import model_of

    return "models", model_of(Path(), name, shelf)


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


@verb(
    "catalog server",
    "Make a server for a catalogue of your own from NCCL's topology file.",
    example="railyard catalog server examples/network/topology.xml --accelerator h100-sxm",
    group="build",
    order=57,
)
def catalog_server(
    file: Annotated[Path, typer.Argument(metavar="FILE.xml", help="Written by NCCL or RCCL: NCCL_TOPO_DUMP_FILE.")],
    *,
    accelerator: Annotated[
        str, typer.Option("--accelerator", metavar="NAME", help="The accelerator, if the file does not name it.")
    ] = "",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Of the new entry.")] = "my-server",
    extra: Extra = None,
) -> None:
    """Make a server from NCCL's topology file: accelerators, NICs, domains, PCIe; the rest from a similar one."""
    import yaml

    import railyard.catalog as catalog
    from railyard.cluster.nccl import machine
    from railyard.cluster.nccl.machines import entry_of
    from railyard.kit.files import read_text

    found = machine.parse(read_text(file), str(file))
    entry = entry_of(found, catalog.load(extra), file.name, accelerator)
    emit(yaml.safe_dump({"servers": {name: entry}}, sort_keys=False, default_flow_style=None, width=100).rstrip())
