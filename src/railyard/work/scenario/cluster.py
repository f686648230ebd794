"""The machine: its servers, its networks, its storage, and what others take of it."""

import dataclasses
import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Strict, StringConstraints, Tag, create_model
from pydantic_core import PydanticCustomError

from railyard.catalog.types import Accelerator, Nic, Server, Switch
from railyard.cluster.fabric.encryption import Encryption
from railyard.cluster.fabric.fabric import Fabric, FabricSpec
from railyard.cluster.hall.spec import HallSpec
from railyard.cluster.host_path import HostSpec
from railyard.cluster.placement import policies
from railyard.cluster.scale_up import ScaleUpFabric, ScaleUpSpec, scale_ups
from railyard.cluster.spec import (
    Background,
    ClusterSpec,
    ManagementSpec,
    MemoryPoolSpec,
    NetworkSpec,
    OcsSpec,
    Placement,
    StorageSpec,
)
from railyard.cluster.tenancy import MECHANISMS, TenancySpec, TenantSpec
from railyard.kit import quantities
from railyard.kit.schema.field import FieldRecord, records
from railyard.kit.schema.quantity import LENGTH, Bounds, limits, more_than
from railyard.work.scenario.quantity import Length, LinkRate, Natural, Positive, Ratio, Text, Whole
from railyard.work.scenario.section import (
    FabricSection,
    Key,
    Section,
    TopologySection,
    build,
    fields_given,
    keys_of,
    section_of,
    tagged,
    topology_spec,
)

_CABLE = LENGTH.within(
    "1 cm", "40_000 km", usual=("10 cm", "120 km"), source="copper from 0.5 m, coherent optics to 120 km"
)
EncryptionSection = section_of(Encryption, "EncryptionSection")
HallSection = section_of(HallSpec, "HallSection")
OcsSection = section_of(OcsSpec, "OcsSection")
ManagementSection = section_of(ManagementSpec, "ManagementSection")


class NetworkSection(Section):
    """One network: how it is wired, and with what."""

    topology: TopologySection = Field(
        default={"kind": "rail-optimized"}, validate_default=True, description="Topology family and its parameters."
    )
    fabric: FabricSection = Field(
        default={"name": "roce"}, validate_default=True, description="Fabric technology and what differs from it."
    )
    link_rate: LinkRate | None = Field(
        default=None,
        description="Rate of a NIC's link, one way; the NIC's own when left out. One that no port has is a limit.",
    )
    switch: Text | None = Field(
        default=None, description="Switch of the lowest tier, from the catalogue; else the fabric's usual one."
    )
    spine_switch: Text | None = Field(
        default=None, description="Switch of the tiers above; else the usual partner of `switch`."
    )
    border_switch: Text | None = Field(
        default=None,
        description="Switch at the ends of long links between sites, such as one for long distances; else a usual one.",
    )
    cable_length: dict[Text, Annotated[Length, _CABLE]] = Field(
        default_factory=dict,
        description="Cable lengths by tier; others as usual for the family, of cables that reach their longest route.",
        examples=[{"nic": "3 m"}],
    )
    seed: Natural = Field(default=0, description="Seed of the switches' hash functions; the seed of the run is added.")
    transport: Literal["rdma", "tcp"] = Field(
        default="rdma", description="RDMA, or TCP through the kernel and host memory; of the back-end."
    )
    gpudirect: Literal["auto", "on", "off", "bounce"] = Field(
        default="auto",
        description="From accelerator to NIC without host memory: `auto` where both are in one memory domain, as NCCL"
        " does; `on` always; `off` never; `bounce` never, and encrypted (confidential computing). Of the back-end.",
    )
    bounce_rate: LinkRate | None = Field(
        default=None,
        description="With `gpudirect: bounce`, what an accelerator moves through its bounce buffer, one way; else as"
        " the catalogue has it.",
        examples=["4 GB/s"],
    )
    tcp_cores: Annotated[Whole, limits(1, 1024)] = Field(
        default=4, description="Cores that serve a NIC under TCP, half of them for each direction."
    )
    encryption: Annotated[EncryptionSection, tagged("protocol")] = Field(  # type: ignore[valid-type]
        default={"protocol": "none"},
        validate_default=True,
        description="What encrypts its packets, and what differs from the protocol's usual options.",
    )
    optics: Literal["dsp", "lro", "lpo", "cpo"] | None = Field(
        default=None,
        description="Its optical modules: retimed (`dsp`), retimed one way (`lro`), linear (`lpo`), or in"
        " switches of the same chip (`cpo`; NICs keep `dsp`). Links longer than a kind reaches have `dsp`. Left out:"
        " `dsp`, or as the named switches have.",
    )
    patch_panels: Literal["none", "switches", "all"] = Field(
        default="none",
        description="Which optical cables go through patch panels and trunks: none, those between switches, or all.",
    )

    def spec(self) -> NetworkSpec:
        """The record that the cluster room takes."""
        return NetworkSpec(
            topology=topology_spec(self.topology),
            fabric=FabricSpec(self.fabric.name, fields_given(self.fabric, Fabric)),
            link_rate_bps=self.link_rate,
            switch=self.switch,
            spine_switch=self.spine_switch,
            border_switch=self.border_switch,
            lengths_m=dict(self.cable_length),
            seed=self.seed,
            host=HostSpec(self.gpudirect, self.transport, self.tcp_cores, self.bounce_rate),
            encryption=build(self.encryption, Encryption),
            patch_panels=self.patch_panels,
            optics=self.optics,
        )


def _network_tag(value: object) -> str:
    return "shared" if isinstance(value, str) else "own"


class StorageSection(Section):
    """A storage system that training data comes from and checkpoints go to."""

    name: Text = Field(description="A storage node of the catalogue.")
    servers: Positive = Field(description="Number of storage nodes.")
    network: Annotated[
        Annotated[Literal["back_end", "front_end"], Tag("shared")] | Annotated[NetworkSection, Tag("own")],
        Discriminator(_network_tag),
    ] = Field(default="front_end", description="The network that it shares (`back_end`: converged), or one of its own.")

    nic: Text | None = Field(
        default=None, description="NIC of the servers on a network of its own; that of the front-end when left out."
    )
    nics: Annotated[Whole, limits(1, 1024)] = Field(
        default=1, description="NICs of each server on a network of its own."
    )

    def spec(self) -> StorageSpec:
        """The record that the cluster room takes."""
        network = self.network if isinstance(self.network, str) else self.network.spec()
        return StorageSpec(self.name, self.servers, network, self.nic, self.nics)


class MemoryPoolSection(Section):
    """Memory beyond the accelerators' own: optimizer state or keys and values are kept there (a tier)."""

    name: Text | None = Field(
        default=None,
        description="A memory pool of the catalogue; left out with `network: host`.",
        examples=["cxl-pool"],
    )
    units: Positive = Field(
        default=1, description="Expanders, boxes or lending hosts; the hosts' own memory has one a server."
    )
    network: Literal["host", "cxl", "back_end", "front_end"] = Field(
        default="cxl",
        description="How it is reached: `host`: each server's own memory; `cxl`: ports of the servers; by RDMA over the"
        " `back_end` or the `front_end`, which it shares with their traffic.",
    )

    def spec(self) -> MemoryPoolSpec:
        """The record that the cluster room takes."""
        return MemoryPoolSpec(self.name or "", self.units, self.network)


class BackgroundSection(Section):
    """Traffic of others: part of the capacity of a network is taken."""

    network: Literal["back_end", "front_end", "storage"] = Field(default="back_end", description="The network.")
    tier: Text | None = Field(default=None, description="One tier of it; every tier between switches when left out.")
    load: Annotated[Ratio, Bounds(below=1.0, low=0.0)] = Field(
        description="Share of the capacity that is taken.", examples=["30 %"]
    )


def _spans(value: object) -> str:
    """`0-7, 12` as it is written; a number alone too."""
    text = str(value).replace(" ", "")
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text):
        raise PydanticCustomError("spans", "numbers are written as `0-7` or `0-7,12`")
    return text


def _pairs(text: str) -> tuple[tuple[int, int], ...]:
    ends = [part.split("-") for part in text.split(",")]
    return tuple((int(one[0]), int(one[-1])) for one in ends)


Spans = Annotated[str, BeforeValidator(_spans)]


class TenantSection(Section):
    """One of those who share the back-end."""

    name: Annotated[str, Strict(), StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,10}$")] = Field(
        description="Its name, also of its tables in switches: at most 11 of a-z, 0-9 and hyphens, a letter first.",
        examples=["blue"],
    )
    servers: Spans = Field(description="Its servers, from 0 in the order of the racks.", examples=["0-7", "0-3,12"])
    nics: Spans | None = Field(
        default=None, description="Those NICs of these servers that are its (dedicated rails); all.", examples=["0-3"]
    )
    share: Annotated[Ratio, more_than(0, 1)] = Field(
        default=1.0, description="Of the rate of each of its ports, both ways: what it is limited to."
    )
    traffic_class: Annotated[Whole, limits(0, 6)] | None = Field(
        default=None, description="Class of its packets, with queues of its own on fabrics that have classes."
    )

    def spec(self) -> TenantSpec:
        """The record that the cluster room takes."""
        nics = None if self.nics is None else _pairs(self.nics)
        return TenantSpec(self.name, _pairs(self.servers), nics, self.share, self.traffic_class)


class TenancySection(Section):
    """Tenants of the back-end, and how they are isolated."""

    by: Literal[tuple(MECHANISMS)] = Field(  # type: ignore[valid-type]
        description="How tenants are isolated: "
        + "; ".join(f"`{o.name}`: {o.summary}" for o in MECHANISMS.values())
        + ".",
    )
    tenants: Annotated[tuple[TenantSection, ...], Field(min_length=1)] = Field(description="Those who share it.")

    def spec(self) -> TenancySpec:
        """The record that the cluster room takes."""
        return TenancySpec(self.by, tuple(one.spec() for one in self.tenants))


def _overrides(record: type, title: str) -> Any:
    """A section of the single figures of a catalogue entry."""
    keys = {name: key for name, key in keys_of(record).items() if key.annotation is not None}
    fields: Any = {key.name: _figure(key, records(record)[name]) for name, key in keys.items()}
    words = f"Figures of the {title.removesuffix('Figures').lower()} that differ from the catalogue."
    return create_model(title, __base__=Section, __doc__=words, **fields)


def _figure(key: Key, record: FieldRecord) -> tuple[Any, Any]:
    """The field of a figure; only times may be zero, for what is divided by the others has to stay finite."""
    positive = record.shape == "value" and record.read is not None and record.read is not quantities.time
    annotation = Annotated[key.annotation, Field(gt=0)] if positive else key.annotation
    return dataclasses.replace(key, annotation=annotation).field(optional=True)


_RECORDS = {"accelerator": Accelerator, "server": Server, "nic": Nic, "switch": Switch}
_Figures: Any = create_model(
    "OverridesSection",
    __base__=Section,
    __doc__="Figures of the catalogue that differ here. Ranges (prices, powers) are set in a catalogue file.",
    **{  # type: ignore[call-overload]
        name: (
            _overrides(record, f"{name.capitalize()}Figures") | None,
            Field(default=None, description=f"Figures of the {name}."),
        )
        for name, record in _RECORDS.items()
    },
)


class _ScaleUpChoice(Section):
    fabric: Literal[tuple(scale_ups.names())] | None = Field(  # type: ignore[valid-type]
        default=None, description="The fabric; the rack's when left out, and without a rack the accelerator's own."
    )
    rack: Text | None = Field(
        default=None,
        description="A rack of the catalogue: its fabric, its links of an accelerator, its domain.",
        examples=["helios"],
    )
    domain: Annotated[Whole, limits(2, 1_000_000)] | None = Field(
        default=None, description="Accelerators of a domain; the rack's when left out, and without a rack the server's."
    )

    def spec(self) -> ScaleUpSpec:
        """The record that the cluster room takes."""
        return ScaleUpSpec(self.fabric or "", self.rack or "", self.domain, fields_given(self, ScaleUpFabric))


_FIGURES: Any = {
    key.name: key.field(optional=True) for key in keys_of(ScaleUpFabric).values() if key.annotation is not None
}
ScaleUpSection: Any = create_model(
    "ScaleUpSection",
    __base__=_ScaleUpChoice,
    __doc__="What joins the accelerators of a domain; every further key replaces a figure of the fabric.",
    **_FIGURES,
)


_KEEPS_DOMAINS = tuple(name for name, policy in policies.items() if policy.keeps_domains)


class ClusterSection(Section):
    """A cluster of accelerators."""

    accelerators: Annotated[Whole, limits(1, 1 << 20)] = Field(
        description="Number of accelerators, one rank each.", examples=[1024]
    )
    server: Text = Field(description="The server, from the catalogue.", examples=["dgx-h100"])
    scale_up: Annotated[ScaleUpSection, tagged("fabric")] | None = Field(
        default=None, description="What joins the accelerators of a domain; the server's own fabric when left out."
    )
    back_end: NetworkSection = Field(default_factory=NetworkSection, description="The network between accelerators.")
    front_end: NetworkSection | None = Field(
        default=None, description="The network between hosts; left out when missing."
    )
    storage: StorageSection | None = Field(default=None, description="The storage system; left out when missing.")
    memory_pool: MemoryPoolSection | None = Field(
        default=None, description="Memory beyond the accelerators' own; left out when missing."
    )
    management: ManagementSection | None = Field(  # type: ignore[valid-type]
        default=None, description="What manages and powers the cluster; not bought when left out."
    )
    overrides: _Figures = Field(default_factory=_Figures, description="Figures that differ from the catalogue.")
    background: tuple[BackgroundSection, ...] = Field(default=(), description="Traffic of others.")
    hall: HallSection = Field(  # type: ignore[valid-type]
        default_factory=HallSection, description="Where it stands: limits of racks, rows and zones, aisles, trays."
    )
    placement: Literal[_KEEPS_DOMAINS] = Field(  # type: ignore[valid-type]
        default="packed", description="Ranks fill server after server, or servers in a shuffled order."
    )
    placement_seed: Natural = Field(default=0, description="Seed of the shuffle.")
    tenancy: TenancySection | None = Field(
        default=None, description="Tenants of the back-end, and how they are isolated; left out: no tenants."
    )
    ocs: OcsSection | None = Field(  # type: ignore[valid-type]
        default=None, description="How cubes of a scale-up torus are joined; left out: the torus is one piece."
    )
    ranks_per_domain: Positive | None = Field(
        default=None,
        description=(
            "Accelerators that the job uses of each scale-up domain, such as 64 of 72; the others idle. "
            "As many as tensor and expert groups divide when left out."
        ),
    )

    def spec(self) -> ClusterSpec:
        """The record that the cluster room takes.

        Raises:
            InputError: A record refuses its values; the key is relative to the cluster.
        """
        return ClusterSpec(
            accelerators=self.accelerators,
            server=self.server,
            back_end=self.back_end.spec(),
            front_end=None if self.front_end is None else self.front_end.spec(),
            storage=None if self.storage is None else self.storage.spec(),
            memory_pool=None if self.memory_pool is None else self.memory_pool.spec(),
            management=None if self.management is None else build(self.management, ManagementSpec),
            overrides=self._overrides(),
            background=tuple(Background(item.network, item.load, item.tier) for item in self.background),
            ranks_per_domain=self.ranks_per_domain,
            hall=build(self.hall, HallSpec),
            tenancy=None if self.tenancy is None else self.tenancy.spec(),
            ocs=None if self.ocs is None else build(self.ocs, OcsSpec),
            scale_up=None if self.scale_up is None else self.scale_up.spec(),
        )

    def arrangement(self) -> Placement:
        """Placement of the ranks of a job that has the whole cluster."""
        return Placement(self.placement, self.placement_seed)

    def _overrides(self) -> dict[str, dict[str, Any]]:
        given: dict[str, dict[str, Any]] = {}
        for name, record in _RECORDS.items():
            section = getattr(self.overrides, name)
            if section is not None:
                given[name] = fields_given(section, record)
        return given
