"""`railyard catalog`: what is known, and where each number comes from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from railyard import catalog
from railyard.catalog import Range
from railyard.cli.tables import Table, emit

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.catalog import Catalog, Entry


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
    table = Table(["kind", "name", "aliases", "what it is"])
    for one, entry in rows:
        table.add(one, entry.name, _few(entry.aliases), entry.summary)
    table.print()


def show_entry(name: str, *, extra: Path | None, as_json: bool) -> None:
    """Every value of an entry with its origin.

    Raises:
        InputError: No entry has that name.
    """
    shelf = catalog.load(extra)
    kind, entry = shelf.find(name)
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
    for field, value in _values(entry).items():
        origin = entry.provenance.get(field)
        if origin is None:
            table.add(field, _short(value), "", "", "")
        else:
            table.add(field, origin.value_text, origin.confidence, str(origin.year), origin.source)
    table.print()
    _derived(shelf, kind, name)


def as_plain(kind: str, entry: Entry) -> dict[str, Any]:
    """An entry as JSON values: base units under the field names, and the origin of each."""
    origins = {field: dataclasses.asdict(origin) for field, origin in entry.provenance.items()}
    return {
        **_head(kind, entry),
        "values": {key: _plain(value) for key, value in _values(entry).items()},
        "provenance": origins,
    }


def _derived(shelf: Catalog, kind: str, name: str) -> None:
    if kind == "models":
        model = shelf.model(name)
        emit("")
        emit(f"parameters: {model.parameters() / 1e9:.4g} B, active per token: {model.active_parameters() / 1e9:.4g} B")


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


def _short(value: Any) -> str:
    if isinstance(value, Range):
        return f"{value.low:.6g} to {value.high:.6g}, typically {value.typical:.6g}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _few(names: tuple[str, ...], most: int = 3) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
