"""Specification of a hall: limits of racks, rows and zones, and widths of aisles."""

from __future__ import annotations

from dataclasses import dataclass, field

from railyard.kit.errors import InputError
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import LENGTH, LOSS, POWER, limits


@dataclass(frozen=True, kw_only=True)
class HallSpec:
    """The hall with its racks: limits of racks, rows and zones, aisles, trays.

    Sizes of racks and aisles follow ANSI/TIA-942 (front 1.2 m, rear 1 m preferred, 0.6 m minimum); limits of power are
    assumptions, explained with each.

    Attributes:
        rack_units: Height of a rack (EIA-310).
        air_w: Cooling per rack with air: four HGX H100 servers of 10.2 kW, as in NVIDIA's DGX SuperPOD H100 reference.
        liquid_w: Cooling per rack with liquid, if a scale-up domain spans servers: 132 kW for a GB200 NVL72 rack
            (vendor).
        network_units: Units of a switch rack for switches and panels; the rest is for fiber trays.
        row_racks: Maximum racks per row: 12 m, so that cables within a row and out of it are short.
        row_w: Maximum power per row: two busways of 1,600 A at 415 V, each at 80 % (0.92 MW), each redundant.
        zone_w: Maximum power of a zone: rows that share a block of UPS, generator and cooling; 3 MW, assumed.
        rack_width_m, rack_depth_m: Size of a rack.
        cold_aisle_m, hot_aisle_m: Distance between fronts and between backs of rows.
        patch_db: Loss at each patch panel connection: the TIA-568 maximum of a mated pair; 0.35 dB for low-loss
            connectors.
    """

    rack_units: int = field(default=42, metadata=f.count("rack_units", "Units of a rack", bounds=limits(1, 100)))
    air_w: float = field(
        default=44_000.0,
        metadata=f.power(
            "rack_power",
            "What is cooled in a rack with air: four HGX H100 servers",
            bounds=POWER.within(
                "100 W", "10 MW", usual=("5 kW", "600 kW"), source="racks of servers to NVIDIA Kyber, 600 kW"
            ),
        ),
    )
    liquid_w: float = field(
        default=140_000.0,
        metadata=f.power(
            "liquid_rack_power",
            "With liquid, where a scale-up domain spans servers: a GB200 NVL72",
            bounds=POWER.within(
                "100 W", "10 MW", usual=("5 kW", "600 kW"), source="racks of servers to NVIDIA Kyber, 600 kW"
            ),
        ),
    )
    network_units: int = field(
        default=36,
        metadata=f.count(
            "network_units", "Units that switches and panels take of a rack of switches", bounds=limits(1, 100)
        ),
    )
    row_racks: int = field(default=20, metadata=f.count("row_racks", "Most racks of a row", bounds=limits(1, 10_000)))
    row_w: float = field(
        default=1_840_000.0,
        metadata=f.power(
            "row_power",
            "Most power of a row: two busways of 1,600 A at 415 V to 80 %, assumed",
            bounds=POWER.within("100 W", "1 GW"),
        ),
    )
    zone_w: float = field(
        default=3_000_000.0,
        metadata=f.power(
            "zone_power",
            "Most power of the rows that share UPS, generator and cooling, assumed",
            bounds=POWER.within("100 W", "10 GW"),
        ),
    )
    rack_width_m: float = field(
        default=0.6, metadata=f.length("rack_width", "Of a rack", "0.8 m", bounds=LENGTH.within("10 cm", "10 m"))
    )
    rack_depth_m: float = field(
        default=1.2, metadata=f.length("rack_depth", "Of a rack", "1.2 m", bounds=LENGTH.within("10 cm", "10 m"))
    )
    cold_aisle_m: float = field(
        default=1.2,
        metadata=f.length(
            "cold_aisle", "Between the fronts of two rows: TIA-942", "1.8 m", bounds=LENGTH.within("0 m", "100 m")
        ),
    )
    hot_aisle_m: float = field(
        default=1.0,
        metadata=f.length(
            "hot_aisle", "Between the backs of two rows: TIA-942", "1.2 m", bounds=LENGTH.within("0 m", "100 m")
        ),
    )
    cross_aisle_m: float = field(
        default=1.8,
        metadata=f.length(
            "cross_aisle", "Between banks of rows, assumed", "2.4 m", bounds=LENGTH.within("0 m", "100 m")
        ),
    )
    banks: int | None = field(
        default=None,
        metadata=f.count(
            "banks",
            "Banks of rows side by side; else as many as make the cables shortest in total",
            bounds=limits(1, 1000),
        ),
    )
    tray_m: float = field(
        default=2.6,
        metadata=f.length("tray_height", "Of cable trays over the floor", "3 m", bounds=LENGTH.within("0 m", "100 m")),
    )
    slack_m: float = field(
        default=0.5,
        metadata=f.length("slack", "Left over at each end of a cable", "1 m", bounds=LENGTH.within("0 m", "1 km")),
    )

    patch_db: float = field(
        default=0.75,
        metadata=f.loss(
            "patch_loss",
            "Lost at each connection in a panel: at most by TIA-568; low-loss 0.35 dB",
            bounds=LOSS.within(
                "0 dB", "10 dB", usual=("0.1 dB", "0.75 dB"), source="TIA-568: at most 0.75 dB a mated pair"
            ),
        ),
    )

    def __post_init__(self) -> None:
        """Rejects impossible halls."""
        for name, key in (("rack_units", "rack_units"), ("network_units", "network_units"), ("row_racks", "row_racks")):
            if getattr(self, name) < 1:
                raise InputError("a hall needs at least one of these", key=f"hall.{key}", found=getattr(self, name))
        if self.banks is not None and self.banks < 1:
            raise InputError("a hall has at least one bank", key="hall.banks", found=self.banks)
        if self.network_units > self.rack_units:
            raise InputError(
                "more units for switches than a rack has",
                key="hall.network_units",
                found=self.network_units,
                allowed=f"up to {self.rack_units}",
            )
