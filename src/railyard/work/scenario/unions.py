"""Sections of topologies, fabrics and faults, made from their registries: a new family is a choice here by itself."""

import functools
import operator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, create_model

from railyard.cluster.fabric import fabrics
from railyard.cluster.fabric.fabric import Fabric
from railyard.cluster.fault.fault import Fault, faults
from railyard.cluster.topology import topologies
from railyard.kit.schema.field import records
from railyard.work.scenario.section import Section, build, keys_of, section_of


def tagged(key: str) -> BeforeValidator:
    """Reads `roce` as `{name: roce}`."""
    return BeforeValidator(lambda value: {key: value} if isinstance(value, str) else value)


def _class(kind: str) -> str:
    return "".join(part.capitalize() for part in kind.replace("_", "-").split("-"))


def _title(kind: str) -> str:
    return _class(kind) + "Topology"


def _union(sections: list[type[Section]]) -> Any:
    return Annotated[functools.reduce(operator.or_, sections), Field(discriminator="kind"), tagged("kind")]


def _nesting(spec: type[Any]) -> bool:
    return any(field.shape == "topology" for field in records(spec).values())


_FLAT = {
    kind: section_of(spec, _title(kind), tag=("kind", kind)) for kind, spec in topologies.items() if not _nesting(spec)
}
_NESTED = {
    kind: section_of(spec, _title(kind), tag=("kind", kind), inner=_union(list(_FLAT.values())))
    for kind, spec in topologies.items()
    if _nesting(spec)
}

#: One of the topology families, told apart by `kind`; a family without further keys may be written as its name alone.
TopologySection = _union([*_FLAT.values(), *_NESTED.values()])


def topology_spec(section: Any) -> Any:
    """The record of a topology section.

    Raises:
        InputError: The record refuses the values.
    """
    record = topologies.get(section.kind)
    values: dict[str, Any] = {}
    for name, key in keys_of(record).items():
        value = getattr(section, key.name)
        if value is not None:
            values[name] = topology_spec(value) if isinstance(value, Section) else value
    return record(**values)


_FAULTS = [section_of(record, _class(kind) + "Fault", tag=("kind", kind)) for kind, record in faults.items()]

#: One of the kinds of faults, told apart by `kind`.
FaultSection: Any = Annotated[functools.reduce(operator.or_, _FAULTS), Field(discriminator="kind")]


def fault_of(section: Any) -> Fault:
    """The record of a fault's section.

    Raises:
        InputError: The record refuses the values.
    """
    fault: Fault = build(section, faults.get(section.kind))
    return fault


_FABRIC_KEYS = keys_of(Fabric)


class _FabricName(Section):
    name: Literal[tuple(fabrics.names())] = Field(description="The fabric.")  # type: ignore[valid-type]


if TYPE_CHECKING:
    FabricKeys = _FabricName
else:
    FabricKeys = create_model(
        "FabricSection",
        __base__=_FabricName,
        __doc__="A fabric by name; every further key replaces a constant of it.",
        **{key.name: key.field(optional=True) for key in _FABRIC_KEYS.values()},
    )

FabricSection = Annotated[FabricKeys, tagged("name")]


def fabric_overrides(section: Any) -> dict[str, object]:
    """The constants that a fabric section replaces, by attribute name of `Fabric`."""
    given = {name: getattr(section, key.name) for name, key in _FABRIC_KEYS.items()}
    return {name: value for name, value in given.items() if value is not None}
