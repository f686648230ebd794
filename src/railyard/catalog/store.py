"""The catalogue: names and aliases at once, entries when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from railyard.catalog.index import NameIndex, device_spellings, key_of
from railyard.catalog.model import Model
from railyard.catalog.parse import Parser
from railyard.catalog.show import Listing, Row, describe, listing
from railyard.catalog.types import (
    Accelerator,
    AccessLink,
    Appliance,
    Cable,
    Device,
    Drafter,
    Entry,
    MemoryPool,
    Nic,
    OpticalSwitch,
    Price,
    ScaleUpRack,
    Server,
    Storage,
    Switch,
)
from railyard.kit.errors import InputError, Problem, did_you_mean
from railyard.kit.schema import yaml
from railyard.kit.schema.quantity import Provenance

if TYPE_CHECKING:
    from railyard.kit.schema.yaml import Node

T = TypeVar("T", bound=Entry)

DATA = Path(__file__).parent / "data"
KINDS: dict[str, type[Entry]] = {
    "accelerators": Accelerator,
    "servers": Server,
    "racks": ScaleUpRack,
    "nics": Nic,
    "switches": Switch,
    "cables": Cable,
    "optical-switches": OpticalSwitch,
    "storage": Storage,
    "memory-pools": MemoryPool,
    "appliances": Appliance,
    "devices": Device,
    "access-links": AccessLink,
    "models": Model,
    "drafters": Drafter,
    "prices": Price,
}
SINGULAR = {kind: kind.removesuffix("es") if kind.endswith("switches") else kind.removesuffix("s") for kind in KINDS}
# What a server, a rack or a cable names, and the kind in which it must be found.
REFERENCES = {
    Server: {"accelerator": "accelerators", "nic": "nics", "front_end_nic": "nics"},
    ScaleUpRack: {"server": "servers"},
    Cable: {"fibre": "cables", "twin": "cables"},
}


@dataclass(frozen=True)
class Extra:
    """One entry of a user's file."""

    name: str
    node: Node


class Catalog:
    """Everything that the catalogue knows, with a user's own entries over it.

    Entries are read from their files when they are first asked for. Names are found in any case and with any of space,
    hyphen, underscore or nothing between their parts, and under every alias.

    Args:
        extra: A YAML file of entries by kind and name that extend or override those of the catalogue.

    Raises:
        InputError: The file cannot be read or an entry in it is wrong; says all that is.
    """

    def __init__(self, extra: Path | None = None) -> None:
        self.extra = extra
        self._indexes: dict[str, NameIndex] = {}
        self._entries: dict[tuple[str, str], Entry] = {}
        self._extras: dict[str, dict[str, Extra]] = {kind: {} for kind in KINDS}
        if extra is not None:
            self._read_extra(yaml.read(Path(extra)))

    def accelerator(self, name: str) -> Accelerator:
        """The accelerator of that name or alias; InputError with the nearest name when there is none."""
        return self._get(Accelerator, "accelerators", name)

    def server(self, name: str) -> Server:
        """The server of that name or alias; InputError with the nearest name when there is none."""
        return self._get(Server, "servers", name)

    def rack(self, name: str) -> ScaleUpRack:
        """The rack of that name or alias; InputError with the nearest name when there is none."""
        return self._get(ScaleUpRack, "racks", name)

    def nic(self, name: str) -> Nic:
        """The NIC of that name or alias; InputError with the nearest name when there is none."""
        return self._get(Nic, "nics", name)

    def switch(self, name: str) -> Switch:
        """The switch of that name or alias; InputError with the nearest name when there is none."""
        return self._get(Switch, "switches", name)

    def cable(self, name: str) -> Cable:
        """The cable or optical module of that name or alias; InputError with the nearest name when there is none."""
        return self._get(Cable, "cables", name)

    def optical_switch(self, name: str) -> OpticalSwitch:
        """The optical circuit switch of that name or alias; InputError with the nearest name when there is none."""
        return self._get(OpticalSwitch, "optical-switches", name)

    def storage(self, name: str) -> Storage:
        """The storage system of that name or alias; InputError with the nearest name when there is none."""
        return self._get(Storage, "storage", name)

    def memory_pool(self, name: str) -> MemoryPool:
        """The memory pool of that name or alias; InputError with the nearest name when there is none."""
        return self._get(MemoryPool, "memory-pools", name)

    def appliance(self, name: str) -> Appliance:
        """The appliance of that name or alias; InputError with the nearest name when there is none."""
        return self._get(Appliance, "appliances", name)

    def device(self, name: str) -> Device:
        """The device at the edge of that name or alias; InputError with the nearest name when there is none."""
        return self._get(Device, "devices", name)

    def access_link(self, name: str) -> AccessLink:
        """The access link of that name or alias; InputError with the nearest name when there is none."""
        return self._get(AccessLink, "access-links", name)

    def model(self, name: str) -> Model:
        """The model of that name or alias; InputError with the nearest name when there is none."""
        return self._get(Model, "models", name)

    def drafter(self, name: str) -> Drafter:
        """The drafter of that name or alias; InputError with the nearest name when there is none."""
        return self._get(Drafter, "drafters", name)

    def price(self, name: str) -> Price:
        """The price or other number of that name or alias; InputError with the nearest name when there is none."""
        return self._get(Price, "prices", name)

    def names(self, kind: str) -> list[str]:
        """The names of a kind, sorted.

        Args:
            kind: `accelerators`, `servers`, `racks`, `nics`, `switches`, `cables`, `optical-switches`, `storage`,
                `memory-pools`, `appliances`, `devices`, `access-links`, `models`, `drafters` or `prices`; the singular
                is understood too.

        Raises:
            InputError: No such kind.
        """
        return self._index(kind_of(kind)).names()

    def resolve(self, kind: str, name: str) -> str:
        """The name of the entry that a name or alias stands for.

        Raises:
            InputError: There is none; says which there are and the nearest spelling.
        """
        plural = kind_of(kind)
        index = self._index(plural)
        found = index.find(name)
        if found is None:
            raise InputError(
                f"the catalogue has no {SINGULAR[plural]} `{name}`",
                found=name,
                allowed=", ".join(index.names()),
                hint=index.suggestion(name),
                unknown=True,
            )
        return found

    def accelerator_called(self, device: str, memory_gib: float) -> str | None:
        """The accelerator that its driver calls so, by the name of its entry; None: the catalogue has none."""
        index = self._index("accelerators")
        return next((name for one in device_spellings(device, memory_gib) if (name := index.find(one))), None)

    def entry(self, kind: str, name: str) -> Entry:
        """The entry of that kind and name or alias.

        Raises:
            InputError: No such kind or name.
        """
        plural = kind_of(kind)
        return self._get(KINDS[plural], plural, name)

    def find(self, name: str) -> tuple[str, Entry]:
        """The first kind that knows the name, and its entry; `kind/name` asks in that kind only.

        Raises:
            InputError: No kind knows it.
        """
        if "/" in name and name.split("/", 1)[0] in (*KINDS, *SINGULAR.values()):
            kind, rest = name.split("/", 1)
            return kind_of(kind), self.entry(kind, rest)
        for kind in KINDS:
            found = self._index(kind).find(name)
            if found is not None:
                return kind, self.entry(kind, found)
        everything = [known for kind in KINDS for known in self._index(kind).spellings()]
        raise InputError(f"the catalogue has no `{name}`", found=name, hint=did_you_mean(name, everything))

    def rows(self, kind: str) -> Listing:
        """Entries of a kind as a table of texts.

        Raises:
            InputError: No such kind.
        """
        plural = kind_of(kind)
        return listing([self.entry(plural, name) for name in self.names(plural)])

    def describe(self, name: str) -> list[Row]:
        """Every field of the entry that `find` finds, with value, source, year and confidence.

        Raises:
            InputError: No kind knows the name.
        """
        return describe(self.find(name)[1])

    def _get(self, kind: type[T], plural: str, name: str) -> T:
        entry = self._load(plural, self.resolve(plural, name), ())
        if not isinstance(entry, kind):
            raise TypeError(f"{plural}/{entry.name} is a {type(entry).__name__}")
        return entry

    def _index(self, kind: str) -> NameIndex:
        if kind not in self._indexes:
            index = NameIndex(DATA / kind, loosely=kind == "models")
            for extra in self._extras[kind].values():
                index.add(extra.name, _aliases(extra.node))
            self._indexes[kind] = index
        return self._indexes[kind]

    def _load(self, kind: str, name: str, chain: tuple[str, ...]) -> Entry:
        key = (kind, name)
        if key not in self._entries:
            extra = self._extras[kind].get(name)
            if extra is not None and chain.count(name) == 0:
                self._entries[key] = self._parse(kind, name, extra.node, (*chain, name), user=True)
            else:
                return self._load_file(kind, name, chain)
        return self._entries[key]

    def _load_file(self, kind: str, name: str, chain: tuple[str, ...]) -> Entry:
        node = yaml.read(DATA / kind / f"{name}.yaml")
        entry = self._parse(kind, name, node, (*chain, name), user=False)
        if name not in self._extras[kind]:
            self._entries[kind, name] = entry
        return entry

    def _parse(self, kind: str, name: str, node: Node, chain: tuple[str, ...], *, user: bool) -> Entry:
        base = self._base(kind, name, node, chain, user=user)
        if kind == "models" and "config" in (node.mapping or {}):
            base = _published(node, user=user)
        return Parser(node, base=base, user=user).entry(KINDS[kind], name)

    def _base(self, kind: str, name: str, node: Node, chain: tuple[str, ...], *, user: bool) -> Entry | None:
        parent = (node.mapping or {}).get("extends")
        if parent is None:
            return self._load(kind, name, chain) if user and self._index(kind).has_file(name) else None
        found = self._index(kind).find(parent.text or "")
        if found is None:
            hint = self._index(kind).suggestion(parent.text or "")
            problem = parent.problem(f"there is no {SINGULAR[kind]} `{parent.text}`", key="extends", hint=hint)
            raise InputError.many([problem])
        if found in chain and not (found == name and chain.count(name) == 1 and self._index(kind).has_file(name)):
            raise InputError.many([parent.problem("dependency cycle: entries extend one another", key="extends")])
        return self._load(kind, found, chain)

    def _read_extra(self, root: Node) -> None:
        problems: list[Problem] = []
        for word, section in (root.mapping or {}).items():
            if word not in KINDS:
                hint = did_you_mean(word, KINDS)
                problems.append(
                    root.place_of(word).problem(f"unknown kind `{word}`", key=word, allowed=", ".join(KINDS), hint=hint)
                )
            elif section.mapping is None:
                problems.append(
                    section.problem(
                        "expected a mapping of entries by name", key=word, found=yaml.kind_of(section.value)
                    )
                )
            else:
                problems += self._collect(word, section)
        problems += self._check_extras()
        if problems:
            raise InputError.many(problems)

    def _collect(self, kind: str, section: Node) -> list[Problem]:
        problems = []
        files = NameIndex(DATA / kind)
        for word, node in (section.mapping or {}).items():
            if node.mapping is None:
                problems.append(
                    node.problem("expected a mapping of keys", key=f"{kind}.{word}", found=yaml.kind_of(node.value))
                )
                continue
            known = None if "extends" in node.mapping else files.find(word)
            name = known or key_of(word)
            if not name:
                problems.append(section.place_of(word).problem("a name needs letters or digits", key=f"{kind}.{word}"))
            elif name in self._extras[kind]:
                problems.append(
                    section.place_of(word).problem("appears twice under two spellings", key=f"{kind}.{word}")
                )
            else:
                self._extras[kind][name] = Extra(name, node)
        return problems

    def _check_extras(self) -> list[Problem]:
        problems: list[Problem] = []
        for kind, extras in self._extras.items():
            for name, extra in extras.items():
                try:
                    self._check_references(self._load(kind, name, ()), extra.node)
                except InputError as error:
                    problems += error.located(key=f"{kind}.{name}").problems
        return list(dict.fromkeys(problems))

    def _check_references(self, entry: Entry, node: Node) -> None:
        problems = []
        for attribute, kind in REFERENCES.get(type(entry), {}).items():
            name = getattr(entry, attribute)
            if name and self._index(kind).find(name) is None:
                place = (node.mapping or {}).get(attribute, node)
                hint = self._index(kind).suggestion(name)
                message = f"the catalogue has no {SINGULAR[kind]} `{name}`"
                problems.append(place.problem(message, key=attribute, hint=hint))
        if problems:
            raise InputError.many(problems)


def kind_of(word: str) -> str:
    """The kind that a word in the singular or plural names.

    Raises:
        InputError: None does.
    """
    for plural, singular in SINGULAR.items():
        if word.lower() in (plural, singular):
            return plural
    raise InputError(
        f"there is no kind `{word}` in the catalogue", found=word, allowed=list(KINDS), hint=did_you_mean(word, KINDS)
    )


def load(extra: Path | None = None) -> Catalog:
    """The catalogue.

    Args:
        extra: A YAML file of the user's own entries and overrides; see `docs/explanation/catalog.md`.

    Raises:
        InputError: The file cannot be read or an entry in it is wrong.
    """
    return _shared() if extra is None else Catalog(extra)


@cache
def _shared() -> Catalog:
    return Catalog()


def _published(node: Node, *, user: bool) -> Model:
    """The architecture by the keys of a publisher's `config.json` that stand under `config`."""
    from railyard.catalog.hugging_face.hf_config import model_of

    config = (node.mapping or {})["config"]
    if config.mapping is None:
        problem = config.problem("expected the keys of a config.json", key="config", found=yaml.kind_of(config.value))
        raise InputError.many([problem])
    origin = Parser(node, user=user).default
    return model_of(
        config, origin.of("") if origin else Provenance("", f"{node.mark.file}:{node.mark.line}", 0, "user")
    )


def _aliases(node: Node) -> list[str]:
    listed = (node.mapping or {}).get("aliases")
    return [item.text for item in (listed.items or [] if listed else []) if item.text]
