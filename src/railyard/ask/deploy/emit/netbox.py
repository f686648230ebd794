"""A plan as the tables that NetBox imports (its bulk import of CSV, `dcim` and `ipam`), in the order of their names.

Racks, devices, interfaces, patch panels with a rear port a trunk and a front port a leg, cables, cords and trunks with
ends, medium, label and length, addresses with their DNS names. What NetBox asks for before (site, manufacturer, roles,
types) comes first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.deploy.cabling import HOST_MTU, SWITCH_MTU
from railyard.ask.deploy.emit import tables
from railyard.cluster.hall.patching import PANEL, trunk_of
from railyard.cluster.hall.racks import cords

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.cluster.network_table import Dialect

SITE, MAKER = "railyard", "planned"
"""NetBox asks for a site and a manufacturer; a plan has neither, and what is called so is easily renamed."""

MEDIA = {"dac": "dac-passive", "aec": "dac-active", "acc": "dac-active", "aoc": "aoc"}
"""NetBox's types of cables by the first word of a medium; with modules at its ends it is the fibre's."""

PANEL_ROLE = "patch-panel"

MULTI, SINGLE = "mmf-om4", "smf-os2"
"""NetBox's types of fibres; the catalogue's names of multi-mode ones end in `-mm`."""


def files(plan: CablingPlan, ethernet: Dialect) -> Iterator[tuple[str, pl.DataFrame]]:
    """Names and tables, in the order in which they are imported."""
    import polars as pl

    cables = tables.cables(plan, ethernet)
    stands = _stands(plan)
    boxes = stands.unique(["box", "height_u"], maintain_order=True)
    roles = stands["role"].unique(maintain_order=True)
    yield "01-sites.csv", pl.DataFrame({"name": [SITE], "slug": [SITE], "status": ["active"]})
    yield "02-manufacturers.csv", pl.DataFrame({"name": [MAKER], "slug": [MAKER]})
    yield "03-device-roles.csv", pl.DataFrame({"name": roles, "slug": roles, "color": ["9e9e9e"] * len(roles)})
    yield (
        "04-device-types.csv",
        pl.DataFrame(
            {
                "manufacturer": [MAKER] * len(boxes),
                "model": boxes["box"],
                "slug": [_slug(name) for name in boxes["box"].to_list()],
                "u_height": boxes["height_u"],
            }
        ),
    )
    racks = stands["rack"].unique(maintain_order=True)
    yield (
        "05-racks.csv",
        pl.DataFrame(
            {"site": SITE, "name": racks, "status": "planned", "width": 19, "u_height": plan.racks.spec.rack_units}
        ),
    )
    yield (
        "06-devices.csv",
        stands.select(
            name="device",
            role="role",
            manufacturer=pl.lit(MAKER),
            device_type="box",
            status=pl.lit("planned"),
            site=pl.lit(SITE),
            rack="rack",
            position="unit",
            face=pl.lit("front"),
        ),
    )
    devices = tables.devices(plan)
    yield "07-interfaces.csv", _interfaces(devices, cables)
    trunks = tables.trunk_table(plan)
    if trunks is not None and len(trunks):
        rear = _rear(trunks)
        yield "08-rear-ports.csv", rear
        yield "09-front-ports.csv", _front(rear)
    yield "10-cables.csv", _cables(plan, cables, trunks)
    yield "11-ip-addresses.csv", _addresses(plan, devices)


def _stands(plan: CablingPlan) -> pl.DataFrame:
    import polars as pl

    devices = tables.devices(plan).select("device", "role", "box", "rack", "unit", "height_u")
    one = plan.racks.patching
    if one is None:
        return devices
    racks = plan.racks.names()
    panels = pl.DataFrame(
        {
            "device": tables.panel_names(plan),
            "role": PANEL_ROLE,
            "box": PANEL,
            "rack": [racks[rack] for rack in one.panel_rack.tolist()],
            "unit": one.panel_unit,
            "height_u": 1,
        },
        schema=devices.schema,
    )
    return pl.concat([devices, panels])


def _rear(trunks: pl.DataFrame) -> pl.DataFrame:
    """A port a trunk at each end, with as many positions as the trunk has legs."""
    import polars as pl

    ends = pl.concat(
        trunks.select(device=f"{side}_panel", first=f"{side}_first_port", positions="legs") for side in "ab"
    )
    return ends.sort("device", "first").select(
        "device", name=_rear_name("first", "positions"), type=pl.lit("mpo"), positions="positions"
    )


def _rear_name(first: str, legs: str) -> Any:
    """`R1`: the trunks of a panel are counted from 1."""
    import polars as pl

    return pl.lit("R") + ((pl.col(first) - 1) // pl.col(legs) + 1).cast(pl.String)


def _front(rear: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    legs = rear.with_columns(rear_port_position=pl.int_ranges(1, pl.col("positions") + 1)).explode("rear_port_position")
    slot = pl.col("name").str.slice(1).cast(pl.Int32) - 1
    number = slot * pl.col("positions") + pl.col("rear_port_position")
    return legs.select(
        "device",
        name=number.cast(pl.String).str.zfill(2),
        type=pl.lit("mpo"),
        positions=pl.lit(1),
        rear_port="name",
        rear_port_position="rear_port_position",
    )


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower())


def _interfaces(devices: pl.DataFrame, cables: pl.DataFrame) -> pl.DataFrame:
    """A row a port with a cable, and the loopbacks; speeds in kbit/s as NetBox counts them."""
    import polars as pl

    ends = pl.concat(
        cables.select(device=f"{side}_device", name=f"{side}_port", rate_gbps="rate_gbps") for side in "ab"
    ).unique(["device", "name"], maintain_order=True)
    ports = ends.join(devices.select("device", server=pl.col("loopback").is_null()), on="device", how="left").select(
        "device",
        "name",
        type=pl.lit("other"),
        enabled=pl.lit("true"),
        mtu=pl.when("server").then(HOST_MTU).otherwise(SWITCH_MTU),
        speed=(pl.col("rate_gbps") * 1e6).cast(pl.Int64),
    )
    loopbacks = devices.filter(pl.col("loopback").is_not_null()).select(
        "device",
        name=pl.lit("Loopback0"),
        type=pl.lit("virtual"),
        enabled=pl.lit("true"),
        mtu=pl.lit(None, pl.Int32),
        speed=pl.lit(None, pl.Int64),
    )
    return pl.concat([ports, loopbacks])


def _cables(plan: CablingPlan, cables: pl.DataFrame, trunks: pl.DataFrame | None) -> pl.DataFrame:
    """One row per cable; of those through panels a row a cord, and a row a trunk."""
    import polars as pl

    interface, front, rear = (pl.lit(f"dcim.{kind}") for kind in ("interface", "frontport", "rearport"))
    plain = cables.with_columns(kind=_kind(cables))
    straight = plain.filter(pl.col("trunk").is_null())
    parts = [_rows(straight, ("a_device", interface, "a_port"), ("b_device", interface, "b_port"), "label", "length_m")]
    if trunks is not None and len(trunks):
        metres = _cord_metres(plan)
        for side in "ab":
            mine = plain.filter(pl.col("trunk").is_not_null()).with_columns(
                panel=pl.col(f"{side}_panel").str.split(":").list.first(),
                panel_port=pl.col(f"{side}_panel").str.split(":").list.last(),
                cord=pl.col("label") + f"-{side.upper()}",
                cord_m=metres[side],
            )
            ends = (f"{side}_device", interface, f"{side}_port"), ("panel", front, "panel_port")
            parts.append(_rows(mine, *ends, "cord", "cord_m"))
        names = {f"{side}_rear": _rear_name(f"{side}_first_port", "legs") for side in "ab"}
        named = trunks.with_columns(**names, kind=pl.col("kind").replace_strict(_fibres(plan)))
        ends = ("a_panel", rear, "a_rear"), ("b_panel", rear, "b_rear")
        parts.append(_rows(named, *ends, "trunk", "length_m"))
    return pl.concat(parts)


def _cord_metres(plan: CablingPlan) -> dict[str, pl.Series]:
    """Lengths of the cords at both ends of the cables that go through panels, in the order of the table."""
    import polars as pl

    one = plan.racks.patching
    if one is None:
        return {}
    order = np.argsort(plan.order)
    mine = order[one.trunk[order] >= 0]
    metres = cords(plan.racks, one, plan.cables.ends[mine], one.panel[mine])
    return {"a": pl.Series(metres[:, 0]), "b": pl.Series(metres[:, 1])}


def _fibres(plan: CablingPlan) -> dict[str, str]:
    return {trunk_of(tier.fibre): _fibre(tier.fibre) for tier in plan.tiers if tier.fibre}


def _fibre(name: str) -> str:
    return MULTI if name.endswith("-mm") else SINGLE


def _rows(
    frame: pl.DataFrame, a: tuple[str, Any, str], b: tuple[str, Any, str], label: str, length: str
) -> pl.DataFrame:
    """Rows of NetBox's table of cables; ends are device, type and name, by columns."""
    import polars as pl

    return frame.select(
        side_a_device=a[0],
        side_a_type=a[1],
        side_a_name=a[2],
        side_b_device=b[0],
        side_b_type=b[1],
        side_b_name=b[2],
        type="kind",
        status=pl.lit("planned"),
        label=label,
        length=pl.col(length).cast(pl.Float64),
        length_unit=pl.lit("m"),
    )


def _kind(cables: pl.DataFrame) -> Any:
    """NetBox's type of each cable; empty where the medium says none."""
    import polars as pl

    known = {name: MEDIA[first] for name in cables["medium"].unique() if (first := name.split("-")[0]) in MEDIA}
    fibre = {name: _fibre(name) for name in cables["fibre"].unique() if name}
    medium = pl.col("medium").replace_strict(known, default=None, return_dtype=pl.String)
    return pl.coalesce(medium, pl.col("fibre").replace_strict(fibre, default="", return_dtype=pl.String))


def _addresses(plan: CablingPlan, devices: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    hosts = tables.addresses(plan)
    server = hosts.select(
        address=pl.col("ipv4") + "/31",
        status=pl.lit("active"),
        dns_name="name",
        device="device",
        interface="interface",
    )
    loopback = devices.filter(pl.col("loopback").is_not_null()).select(
        address=pl.col("loopback") + "/32",
        status=pl.lit("active"),
        dns_name="device",
        device="device",
        interface=pl.lit("Loopback0"),
    )
    return pl.concat([server, loopback])
