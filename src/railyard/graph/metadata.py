"""What is no row of a Parquet file lies in its metadata as JSON; here it is read against the shape it must have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from railyard.graph.task_graph import Label
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Characters of what was found that an error shows.
_LONGEST = 80
_Rank = Annotated[int, Field(ge=0, lt=1 << 31)]


def _rectangle(rows: list[list[float]]) -> list[list[float]]:
    if len({len(row) for row in rows}) > 1:
        raise ValueError("rows of different lengths")
    return rows


class GroupsAbout(BaseModel):
    """Communicators, as `task_graph.Communicators` says."""

    model_config = ConfigDict(strict=True)

    ptr: list[Annotated[int, Field(ge=0, lt=1 << 63)]]
    ranks: list[_Rank]
    group: list[str]


class GraphAbout(BaseModel):
    """Of a task graph, as `task_graph.TaskGraph` says."""

    model_config = ConfigDict(strict=True)

    ranks: _Rank
    labels: list[Label]
    communicators: GroupsAbout
    dep_at: list[Literal[0, 1]] | None = None
    loss: Annotated[list[list[float]], AfterValidator(_rectangle)] | None = None


_Names = list[Annotated[str, Field(pattern=r"^\w{1,64}$")]]

_SHAPES: dict[str, Any] = {
    "graph": GraphAbout,
    "labels": list[Label],
    "columns": list[str],
    "tables": _Names,
    "parts": _Names,
    "meta": dict[str, JsonValue],
}
"""Of each entry that is JSON. Side tables and parts lie in files of their names."""


def entry(metadata: Mapping[str, str], key: str, path: Path) -> Any:
    """One entry that is JSON: "graph" is a `GraphAbout`, "labels" are `Label`s, the others JSON values.

    Raises:
        InputError: It is not there or of another shape.
    """
    try:
        return TypeAdapter(_SHAPES[key]).validate_json(text_of(metadata, key, path), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(str(part) for part in (key, *first["loc"]))
        raise InputError(
            f"the file's metadata cannot be used: {first['msg'].lower()}",
            file=path,
            key=at,
            found=repr(first["input"])[:_LONGEST],
        ) from error


def text_of(metadata: Mapping[str, str], key: str, path: Path) -> str:
    """One entry as it stands.

    Raises:
        InputError: It is not there.
    """
    if key not in metadata:
        raise InputError("the file's metadata lack an entry", file=path, key=key)
    return metadata[key]
