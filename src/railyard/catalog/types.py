"""The records of the catalogue: what a piece of hardware, a price or a model is, with the origin of every number.

Everywhere, bandwidths are in bit/s and ONE WAY, FLOP/s are DENSE, and what is uncertain is a `Range`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import LINK_RATE, PORTS, RATE, SIZE, limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.kit.schema.quantity import Provenance

CONFIDENCES = ("vendor", "measured", "estimated", "user")
DATATYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp6", "fp4")
SCALE_UP_KINDS = ("switched", "mesh", "torus", "none")
SWITCH_FAMILIES = ("ethernet", "infiniband", "scheduled-leaf", "scheduled-fabric")
APPLIANCE_ROLES = ("fabric-manager", "management-server", "pdu", "rack")
POOL_ATTACHMENTS = ("cxl", "network")
SWITCH_TABLES = ("routes", "neighbours", "vrfs", "vnis", "rules", "partition_keys")
CIPHERED = ("macsec", "ipsec", "psp", "tls")
QUANTILES = ("p5", "p25", "p50", "p75", "p95")
OPTICS = ("dsp", "lro", "lpo", "cpo")
CABLE_KINDS = (
    "dac",
    "acc",
    "aec",
    "aoc",
    "laser",
    "optic",
    "fibre",
    "trunk",
    "panel",
    "amplifier",
    "terminal",
    "route",
)


@dataclass(frozen=True)
class Range:
    """An uncertain quantity; `low <= typical <= high`."""

    low: float
    typical: float
    high: float

    def scaled(self, factor: float) -> Range:
        """The range times a factor of zero or more."""
        return Range(self.low * factor, self.typical * factor, self.high * factor)

    def __add__(self, other: Range) -> Range:
        """The range of a sum whose parts are low, typical or high together."""
        return Range(self.low + other.low, self.typical + other.typical, self.high + other.high)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Common fields of all entries.

    Attributes:
        provenance: Origin of each sourced attribute, by attribute name (`flops.bf16` for one number of a table).
    """

    name: str
    aliases: tuple[str, ...] = field(
        default=(), metadata=f.texts("aliases", "Other names under which the entry is found")
    )
    summary: str = field(default="", metadata=f.text("summary", "What it is, in one line"))
    provenance: Mapping[str, Provenance] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Part(Entry):
    """Common fields of entries that are ordered and delivered."""

    lead_s: float | None = field(
        default=None,
        metadata=f.span("lead_time", "From its order until it is there; left out where nobody said", "180 d"),
    )


@dataclass(frozen=True, kw_only=True)
class Accelerator(Part):
    """A GPU, TPU or other accelerator: one package that a framework sees as one device."""

    vendor: str = field(metadata=f.text("vendor", "Maker"))
    architecture: str = field(
        metadata=f.text("architecture", "Family, by which collective libraries choose their constants")
    )
    year: int = field(metadata=f.count("year", "Year of first delivery", bounds=limits(1980, 2100)))
    flops: Mapping[str, float] = field(
        hash=False, metadata=f.flops_table("flops", "Peak DENSE matrix FLOP/s by datatype", DATATYPES)
    )
    memory_bytes: int = field(
        metadata=f.size("memory", "Device memory that a program can use", bounds=SIZE.within("1 B", "1 PB"))
    )
    memory_bps: float = field(
        metadata=f.rate(
            "memory_bandwidth", "Peak bandwidth of the device memory", bounds=RATE.within("1 kb/s", "10 Pb/s")
        )
    )
    l2_bytes: int = field(metadata=f.size("l2", "Last-level cache on the device"))
    sm_count: int = field(
        metadata=f.count(
            "sm_count", "Streaming multiprocessors, compute units or tensor cores", bounds=limits(0, 1_000_000)
        )
    )
    clock_hz: float = field(metadata=f.frequency("clock", "Boost clock to which the peak FLOP/s belong"))
    scale_up_kind: str = field(
        metadata=f.choice("scale_up_kind", "How accelerators of one domain are joined", SCALE_UP_KINDS, sourced=True)
    )
    scale_up_domain: int = field(
        metadata=f.count("scale_up_domain", "Largest scale-up domain in accelerators", bounds=limits(1, 1_000_000))
    )
    scale_up_bps: float = field(
        metadata=f.rate(
            "scale_up_bandwidth", "Scale-up bandwidth of one accelerator over all its links, ONE WAY, as specified"
        )
    )
    scale_up_collective_bps: float = field(
        metadata=f.rate(
            "scale_up_collective_bandwidth",
            "The same as a collective library plans with it: what its links really carry",
        )
    )
    scale_up_links: int = field(
        metadata=f.count(
            "scale_up_links", "Scale-up links of one accelerator; in a mesh, its peers", bounds=limits(0, 4096)
        )
    )
    scale_up_latency_ps: int = field(
        metadata=f.time(
            "scale_up_latency", "One way, from a store on one accelerator to its arrival on another, small message"
        )
    )
    nvls: bool = field(metadata=f.flag("nvls", "Whether the scale-up switch can multicast and reduce (NVLink SHARP)"))
    tdp_w: float = field(metadata=f.power("tdp", "Power limit of the package"))
    power_w: Range = field(metadata=f.power_range("power", "Drawn while training a large model"))
    idle_power_w: Range = field(metadata=f.power_range("idle_power", "Drawn while waiting"))
    price_usd: Range = field(metadata=f.money_range("price", "Purchase price of one accelerator"))
    rental_usd_per_h: Range = field(metadata=f.money_rate_range("rental", "Rented on demand, one accelerator"))
    gemm_efficiency: float = field(
        metadata=f.fraction("gemm_efficiency", "Share of the peak that the best large BF16 matrix product reaches")
    )
    gemm_efficiency_8bit: float = field(
        metadata=f.fraction("gemm_efficiency_8bit", "The same for FP8 (INT8 without FP8)")
    )
    attention_efficiency: float = field(
        metadata=f.fraction(
            "attention_efficiency", "Share of the BF16 peak of a fused attention kernel, long sequences, forward"
        )
    )
    memory_efficiency: float = field(
        metadata=f.fraction("memory_efficiency", "Share of the memory bandwidth that a streaming kernel reaches")
    )
    launch_ps: int = field(
        metadata=f.time("launch", "From one kernel's end to the next one's start in a stream kept busy")
    )
    server: str = field(default="", metadata=f.text("server", "Name of the server in which it commonly comes"))
    scale_up_fabric: str = field(
        default="none", metadata=f.text("scale_up_fabric", "Fabric of its own links; `none` where no record has it")
    )
    contract_usd_per_h: Range | None = field(
        default=None, metadata=f.money_rate_range("contract", "Rented for three years, one accelerator")
    )
    provisioned_power_w: float | None = field(
        default=None,
        metadata=f.power("provisioned_power", "Utility power planned per accelerator, all of the cluster's parts in"),
    )
    bounce_bps: float | None = field(
        default=None,
        metadata=f.rate(
            "bounce_bandwidth",
            "Confidential computing: between host and accelerator through an encrypted bounce buffer, ONE WAY; left out"
            " where none is published",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Server(Part):
    """A chassis under one operating system: accelerators, scale-up switches, processors, memory, NICs."""

    accelerator: str = field(metadata=f.text("accelerator", "Name of the accelerator"))
    accelerators: int = field(metadata=f.count("accelerators", "Accelerators in one server", bounds=limits(1, 1024)))
    scale_up_domain: int = field(
        metadata=f.count(
            "scale_up_domain",
            "Accelerators joined by scale-up; more than in one server where it spans servers",
            bounds=limits(1, 1_000_000),
        )
    )
    nic: str = field(metadata=f.text("nic", "Name of the back-end NIC"))
    nics: int = field(metadata=f.count("nics", "Back-end NICs in one server", bounds=limits(1, 1024)))
    front_end_nic: str = field(metadata=f.text("front_end_nic", "Name of the NIC to storage and users"))
    front_end_nics: int = field(
        metadata=f.count("front_end_nics", "Front-end NICs in one server", bounds=limits(0, 1024))
    )
    pcie_bps: float = field(metadata=f.rate("pcie_bandwidth", "Host to accelerator, per accelerator, ONE WAY"))
    host_memory_bytes: int = field(metadata=f.size("host_memory", "Memory of the processors"))
    numa_nodes: int = field(metadata=f.count("numa_nodes", "Memory domains of the host", bounds=limits(1, 1024)))
    accelerator_numa: tuple[int, ...] = field(
        metadata=f.numbers("accelerator_numa", "Memory domain of each accelerator")
    )
    nic_numa: tuple[int, ...] = field(metadata=f.numbers("nic_numa", "Memory domain of each back-end NIC"))
    host_power_w: Range = field(
        metadata=f.power_range(
            "host_power", "Drawn by the server without its accelerators and NICs, its fans and losses in"
        )
    )
    price_usd: Range = field(metadata=f.money_range("price", "Price of the server without its accelerators and NICs"))
    host_memory_bps: float = field(
        default=4.9152e12,
        metadata=f.rate(
            "host_memory_bandwidth",
            "All processors' memory together; when not given, DDR5-4800 on 8 channels of two sockets",
        ),
    )
    socket_bps: float = field(
        default=960e9,
        metadata=f.rate(
            "socket_bandwidth",
            "Between two memory domains of the host, ONE WAY; when not given, three UPI 2.0 links of 48 GB/s at 83 %",
        ),
    )
    nic_cages: int = field(
        default=0,
        metadata=f.count(
            "nic_cages", "Cages that the back-end NICs share; 0 where each has one", bounds=limits(0, 1024)
        ),
    )
    host_cores: int = field(
        default=0,
        metadata=f.count(
            "host_cores", "Cores of the processors, without their threads; 0 where not known", bounds=limits(0, 100_000)
        ),
    )

    @property
    def nics_per_accelerator(self) -> float:
        """Back-end NICs for one accelerator."""
        return self.nics / self.accelerators


@dataclass(frozen=True, kw_only=True)
class ScaleUpRack(Part):
    """One scale-up domain as it is sold: servers, a scale-up fabric and its switches, in one rack or several."""

    server: str = field(metadata=f.text("server", "Name of the server"))
    servers: int = field(metadata=f.count("servers", "Servers of the domain", bounds=limits(1, 100_000)))
    accelerators: int = field(
        metadata=f.count("accelerators", "Accelerators of the domain", bounds=limits(1, 1_000_000))
    )
    fabric: str = field(metadata=f.text("fabric", "Scale-up fabric"))
    links: int = field(metadata=f.count("links", "Scale-up links of one accelerator", bounds=limits(1, 4096)))
    switches: int = field(metadata=f.count("switches", "Scale-up switches, chips counted; 0 without switches"))
    racks: int = field(metadata=f.count("racks", "Racks that it fills", bounds=limits(1, 100_000)))
    power_w: Range = field(metadata=f.power_range("power", "Drawn by all of it under load"))
    price_usd: Range = field(metadata=f.money_range("price", "Price of all of it"))


@dataclass(frozen=True, kw_only=True)
class Nic(Part):
    """A network interface: one PCIe device with one or more ports."""

    vendor: str = field(metadata=f.text("vendor", "Maker"))
    year: int = field(metadata=f.count("year", "Year of first delivery", bounds=limits(1980, 2100)))
    rate_bps: float = field(metadata=f.rate("rate", "All ports together, ONE WAY, on the wire", bounds=LINK_RATE))
    ports: int = field(metadata=f.count("ports", "Ports into which the rate is divided", bounds=limits(1, 64)))
    send_latency_ps: int = field(metadata=f.time("send_latency", "From the doorbell to the first bit on the wire"))
    receive_latency_ps: int = field(
        metadata=f.time("receive_latency", "From the last bit on the wire to data in memory")
    )
    out_of_order: str = field(
        metadata=f.choice(
            "out_of_order",
            "Networks on which the receiver places packets that arrive out of order (needed for spraying)",
            ("none", "infiniband", "any"),
            sourced=True,
        )
    )
    power_w: Range = field(metadata=f.power_range("power", "Drawn by the card without its optics"))
    price_usd: Range = field(metadata=f.money_range("price", "Price of one card"))
    encryption_bps: Mapping[str, float] = field(
        default_factory=dict,
        hash=False,
        metadata=f.rate_table(
            "encryption",
            "What it encrypts inline, ONE WAY, and decrypts as much, by protocol; left out where none is published",
            CIPHERED,
        ),
    )

    @property
    def port_rate_bps(self) -> float:
        """Rate of one port in bit/s, one way."""
        return self.rate_bps / self.ports


@dataclass(frozen=True, kw_only=True)
class Switch(Part):
    """A switch box with its chip or chips, or one chip of a scheduled fabric."""

    vendor: str = field(metadata=f.text("vendor", "Maker"))
    chip: str = field(metadata=f.text("chip", "Switch chip"))
    year: int = field(metadata=f.count("year", "Year of first delivery", bounds=limits(1980, 2100)))
    family: str = field(metadata=f.choice("family", "What it switches", SWITCH_FAMILIES, sourced=True))
    capacity_bps: float = field(metadata=f.rate("capacity", "All network ports together, ONE WAY"))
    port_rate_bps: float = field(metadata=f.rate("port_rate", "Rate of one port at its highest speed, one way"))
    ports: int = field(metadata=f.count("ports", "Ports at that speed", bounds=PORTS))
    max_ports: int = field(metadata=f.count("max_ports", "Ports when all are broken out to lower speeds", bounds=PORTS))
    latency_ps: int = field(
        metadata=f.time("latency", "First bit in to first bit out, no queue, forward error correction in")
    )
    buffer_bytes: int = field(
        metadata=f.size("buffer", "Packet buffer; for deep-buffer chassis the off-chip memory in use")
    )
    power_w: Range = field(metadata=f.power_range("power", "Drawn by the box without its optics"))
    price_usd: Range = field(metadata=f.money_range("price", "Price of one box without its optics"))
    fabric_bps: float = field(
        default=0.0, metadata=f.rate("fabric_rate", "Cell-fabric side of a scheduled leaf, ONE WAY")
    )
    fabric_ports: int = field(
        default=0, metadata=f.count("fabric_ports", "Cell-fabric lanes of a scheduled leaf", bounds=limits(0, 100_000))
    )
    cage_ports: int = field(
        default=1, metadata=f.count("cage_ports", "Ports at the highest speed that share a cage", bounds=limits(1, 64))
    )
    co_packaged: bool = field(
        default=False,
        metadata=f.flag("co_packaged", "Whether its optics are in the package of its chip and it has no cages"),
    )
    reduces: bool = field(default=False, metadata=f.flag("reduces", "Whether it can reduce in the network (SHARP)"))
    long_haul_m: float = field(
        default=0.0,
        metadata=f.length("long_haul", "Distance for which ports hold credits; 0: as any switch", "40 km"),
    )
    height_u: int = field(
        default=0,
        metadata=f.count("height_units", "Rack units of the box; 0 where only its ports tell", bounds=limits(0, 1000)),
    )
    encryption_bps: Mapping[str, float] = field(
        default_factory=dict,
        hash=False,
        metadata=f.rate_table(
            "encryption",
            "What all its ports together encrypt, ONE WAY, and decrypt as much; left out where none is published",
            CIPHERED[:1],
        ),
    )

    tables: Mapping[str, int] = field(
        default_factory=dict,
        hash=False,
        metadata=f.count_table(
            "tables",
            "Rows of its tables at most, IPv4 (`rules`: of access lists; `partition_keys`: a port); left out where none"
            " is published",
            SWITCH_TABLES,
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Cable(Part):
    """A cable, one optical module, or a part of a line between sites.

    Copper and active optical cables are priced a cable. An optic is priced a module: a link takes one at each end, with
    a `fibre` between; two links of one cage share its `twin` there. A line has a `terminal` at each end of a fibre
    pair, an `amplifier` after every span, and a `route` for every kilometre.
    """

    kind: str = field(
        metadata=f.choice(
            "kind",
            "Copper, active copper, active optical, optic, its lasers, fibre, trunk, panel, part of a line",
            CABLE_KINDS,
            sourced=True,
        )
    )
    rate_bps: float = field(
        metadata=f.rate(
            "rate",
            "Highest rate, ONE WAY; of fibre, of the modules it serves",
            bounds=LINK_RATE,
        )
    )
    reach_m: float = field(metadata=f.length("reach", "Longest length that works"))
    delay_s_per_m: float = field(metadata=f.delay_per_length("delay", "Propagation, one way"))
    latency_ps: int = field(metadata=f.time("latency", "Added by the electronics of one end, one way"))
    power_w: Range = field(metadata=f.power_range("power", "Drawn at one end"))
    price_usd: Range = field(metadata=f.money_range("price", "Of one module, or of one whole cable of copper or fibre"))
    fibre: str = field(default="", metadata=f.text("fibre", "Name of the fibre that an optical module takes"))
    twin: str = field(
        default="", metadata=f.text("twin", "Name of the module that serves two such links from one cage")
    )
    budget_db: float = field(
        default=0.0,
        metadata=f.loss("budget", "Loss of light that a link between two of these modules may have; 0 dB: not known"),
    )
    ports: int = field(
        default=0,
        metadata=f.count(
            "ports", "Of a patch panel, connectors on its front; of a trunk, its legs; links that lasers feed"
        ),
    )
    optics: str = field(
        default="dsp",
        metadata=f.choice(
            "optics", "Of an optic: retimed (dsp), retimed one way (lro), linear (lpo), in the switch (cpo)", OPTICS
        ),
    )
    laser: str = field(default="", metadata=f.text("laser", "Name of the external laser module that feeds such ports"))
    failures: Range | None = field(
        default=None, metadata=f.failure_rate_range("failures", "One part breaks and is replaced; left out: not known")
    )
    dirt: Range = field(
        default=Range(0.0, 0.0, 0.0),
        metadata=f.failure_rate_range("dirt", "A link fails at one end until the connector is cleaned or reseated"),
    )
    flaps: Range = field(
        default=Range(0.0, 0.0, 0.0),
        metadata=f.failure_rate_range("flaps", "A link goes down at one end for moments and comes back by itself"),
    )
    flap_s: Range = field(
        default=Range(0.0, 0.0, 0.0),
        metadata=f.span_range(
            "flap_length", "How long it is down then; typical is the median, high the 90th percentile"
        ),
    )
    drift: float = field(
        default=0.0, metadata=f.fraction("drift", "Failures that rising bit errors announce hours ahead")
    )
    failed_ports: int = field(
        default=1, metadata=f.count("failed_ports", "Ports that go down when one part breaks", bounds=PORTS)
    )
    repaired_ports: int = field(
        default=1,
        metadata=f.count("repaired_ports", "Ports that go down while it is replaced; 0: all of the switch"),
    )
    repair_s: Range = field(
        default=Range(0.0, 0.0, 0.0),
        metadata=f.span_range(
            "repair", "From the alarm until it works; typical is the median, high the 90th percentile"
        ),
    )
    hands_s: float = field(
        default=0.0, metadata=f.span("hands_on", "Work of a technician for one repair, the walk in", "30 min")
    )


@dataclass(frozen=True, kw_only=True)
class OpticalSwitch(Part):
    """An optical circuit switch: it joins any two of its fibres, and knows neither packets nor rates."""

    vendor: str = field(metadata=f.text("vendor", "Maker"))
    year: int = field(metadata=f.count("year", "Year of first delivery", bounds=limits(1980, 2100)))
    technology: str = field(metadata=f.text("technology", "What steers the light"))
    ports: int = field(metadata=f.count("ports", "Fibres on each side", bounds=PORTS))
    loss_db: float = field(metadata=f.loss("loss", "Loss of light from fibre to fibre"))
    switching_ps: int = field(
        metadata=f.time("switching", "From the command until the new path carries light, slowest of many", "10 ms")
    )
    power_w: Range = field(metadata=f.power_range("power", "Drawn by the box, at any rate of its fibres"))
    price_usd: Range = field(metadata=f.money_range("price", "Price of one box"))
    spare_ports: int = field(
        default=0, metadata=f.count("spare_ports", "Ports kept for repairs and tests", bounds=limits(0, 1024))
    )

    @property
    def usable_ports(self) -> int:
        """Ports without the spare ones."""
        return self.ports - self.spare_ports


@dataclass(frozen=True, kw_only=True)
class Storage(Part):
    """One node of a storage system, as a client of the network sees it."""

    read_bps: float = field(metadata=f.rate("read_bandwidth", "Sequential reads from one node"))
    write_bps: float = field(metadata=f.rate("write_bandwidth", "Sequential writes to one node"))
    capacity_bytes: int = field(metadata=f.size("capacity", "Usable capacity of one node"))
    latency_ps: int = field(metadata=f.time("latency", "From a request to its first byte, no queue"))
    network_bps: float = field(
        metadata=f.rate("network_rate", "NICs of one node together, ONE WAY; 0 b/s where it is local")
    )
    power_w: Range = field(metadata=f.power_range("power", "Drawn by one node"))
    price_usd_per_tb: Range = field(metadata=f.money_per_terabyte_range("price", "Price of usable capacity"))
    iops: int = field(
        default=0,
        metadata=f.count("iops", "Random reads of 4 KiB that one node serves a second; 0 where only bandwidth limits"),
    )


@dataclass(frozen=True, kw_only=True)
class MemoryPool(Part):
    """One unit of a memory pool: a CXL expander, expanders behind a CXL switch, or a host that lends its memory."""

    attachment: str = field(
        metadata=f.choice(
            "attachment", "How servers reach it: by CXL, or by RDMA over a network", POOL_ATTACHMENTS, sourced=True
        )
    )
    read_bps: float = field(metadata=f.rate("read_bandwidth", "Reads from one unit, of all servers together"))
    write_bps: float = field(metadata=f.rate("write_bandwidth", "Writes to one unit, of all servers together"))
    capacity_bytes: int = field(metadata=f.size("capacity", "Memory of one unit that others can use"))
    latency_ps: int = field(metadata=f.time("latency", "Of a read, no queue; of a host without the network"))
    port_bps: float = field(
        metadata=f.rate("port_rate", "ONE WAY: CXL port of one server to the unit; NICs of a host together")
    )
    servers: int = field(
        metadata=f.count("servers", "Servers that one unit has CXL ports for; 0 where a network leads to it")
    )
    power_w: Range = field(metadata=f.power_range("power", "Drawn by one unit"))
    price_usd_per_tb: Range = field(metadata=f.money_per_terabyte_range("price", "Price of its capacity, all parts in"))


@dataclass(frozen=True, kw_only=True)
class Drafter(Entry):
    """What guesses tokens ahead for one model or family; its name is its method and the model's."""

    tokens: int = field(
        metadata=f.count("tokens", "Guessed ahead in a chain where its length was measured", bounds=limits(1, 1024))
    )
    length: float = field(
        metadata=f.spread(
            "length", "Tokens of a pass of the model in the mean, its own included", bounds=limits(1.0, 1025.0)
        )
    )
    first: float = field(
        default=0.0,
        metadata=f.fraction("first", "Chance that the first guess is right; 0: that of each later one"),
    )
    parameters: int = field(
        default=0,
        metadata=f.count("parameters", "Weights of its own, in 16 bits; 0: it is a layer of the model's checkpoint"),
    )


@dataclass(frozen=True, kw_only=True)
class Appliance(Part):
    """A box that a cluster needs and no job runs on: fabric manager, management server, power distribution, rack."""

    role: str = field(metadata=f.choice("role", "What it is for", APPLIANCE_ROLES, sourced=True))
    height_u: int = field(
        metadata=f.count(
            "height_units", "Rack units that it takes; of a rack, those that it has", bounds=limits(0, 1000)
        )
    )
    power_w: Range = field(metadata=f.power_range("power", "Drawn by one, or lost in it"))
    price_usd: Range = field(metadata=f.money_range("price", "Price of one"))
    fabric_ports: int = field(
        default=0,
        metadata=f.count(
            "fabric_ports",
            "Links of a fabric manager to leafs of the network that it manages",
            bounds=limits(0, 100_000),
        ),
    )
    rating_w: float = field(
        default=0.0, metadata=f.power("rating", "What a power distribution unit delivers; 0 W of other boxes")
    )


@dataclass(frozen=True, kw_only=True)
class Device(Entry):
    """A machine at the edge that trains or answers by itself: a phone, a board, a laptop, a home computer."""

    vendor: str = field(metadata=f.text("vendor", "Maker of its processor"))
    year: int = field(metadata=f.count("year", "Year of first delivery", bounds=limits(1980, 2100)))
    flops: Mapping[str, float] = field(
        hash=False, metadata=f.flops_table("flops", "Peak DENSE FLOP/s of its fastest part by datatype", DATATYPES)
    )
    memory_bytes: int = field(
        metadata=f.size("memory", "Memory that a job in the background may use", bounds=SIZE.within("1 B", "1 PB"))
    )
    memory_bps: float = field(
        metadata=f.rate("memory_bandwidth", "Peak bandwidth of that memory", bounds=RATE.within("1 kb/s", "10 Pb/s"))
    )
    training_efficiency: float = field(
        metadata=f.fraction("training_efficiency", "Share of the peak that training reaches")
    )
    spread: float = field(
        metadata=f.spread("spread", "Standard deviation of the logarithm of speed between devices of the class")
    )
    power_w: Range = field(metadata=f.power_range("power", "Drawn while it computes, beyond what it draws at rest"))
    price_usd: Range = field(metadata=f.money_range("price", "Purchase price"))


@dataclass(frozen=True, kw_only=True)
class AccessLink(Entry):
    """The last mile of a client: quantiles over clients and time of what one connection gets."""

    down_bps: Mapping[str, float] = field(
        hash=False, metadata=f.rate_table("down", "To the client, ONE WAY, by quantile", QUANTILES)
    )
    up_bps: Mapping[str, float] = field(
        hash=False, metadata=f.rate_table("up", "From the client, ONE WAY, by quantile", QUANTILES)
    )
    rtt_ps: Mapping[str, float] = field(
        hash=False, metadata=f.time_quantiles("rtt", "ROUND TRIP to a server near by, no load, by quantile", QUANTILES)
    )
    loss: float = field(metadata=f.fraction("loss", "Packets lost at random, not to full buffers"))
    steady: float = field(
        metadata=f.fraction("steady", "Share of the variance of log rate that stays with a client; the rest passes")
    )
    correlation_ps: int = field(metadata=f.time("correlation", "Correlation time of the part that passes", "10 min"))
    nat: float = field(metadata=f.fraction("nat", "Clients that two peers cannot reach without a relay"))
    power_w: Range = field(metadata=f.power_range("power", "Drawn by the client's radio or modem while it sends"))


@dataclass(frozen=True, kw_only=True)
class Price(Entry):
    """A number of the world around the cluster: electricity, cooling, capital, life, operation."""

    quantity: str = field(metadata=f.choice("quantity", "What kind of number it is", tuple(f.PRICE_READERS)))
    range: Range = field(metadata=f.price_range("range", "The number"))

    @property
    def unit(self) -> str:
        """Unit of the numbers of the range."""
        return f.PRICE_UNITS[self.quantity]
