"""A plan as the tables that NetBox imports (its bulk import of CSV, `dcim` and `ipam`), in the order of their names.

Racks, devices, interfaces, cables with ends, medium, label and length, addresses with their DNS names. What NetBox asks
for before (site, manufacturer, roles, types) comes first. A plan has no patch panels.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from railyard.deploy.emit import tables
from railyard.deploy.plan.drawn import HOST_MTU, MTU

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from railyard.cluster.asbuilt.port_names import Dialect
    from railyard.deploy.plan.cabling import Plan

SITE, MAKER = "railyard", "planned"
"""NetBox asks for a site and a manufacturer; a plan has neither, and what is called so is easily renamed."""

MEDIA = {"dac": "dac-passive", "aec": "dac-active", "aoc": "aoc"}
"""NetBox's types of cables by the first word of a medium; with modules at its ends it is the fibre's."""

MULTI, SINGLE = "mmf-om4", "smf-os2"
"""NetBox's types of fibres; the catalogue's names of multi-mode ones end in `-mm`."""


def files(plan: Plan, ethernet: Dialect) -> Iterator[tuple[str, pl.DataFrame]]:
    """Names and tables, in the order in which they are imported."""
    import polars as pl

    devices, cables = tables.devices(plan), tables.cables(plan, ethernet)
    boxes = devices.unique(["box", "height_u"], maintain_order=True)
    roles = devices["role"].unique(maintain_order=True)
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
    racks = devices["rack"].unique(maintain_order=True)
    yield (
        "05-racks.csv",
        pl.DataFrame(
            {"site": SITE, "name": racks, "status": "planned", "width": 19, "u_height": plan.racks.spec.rack_units}
        ),
    )
    yield (
        "06-devices.csv",
        devices.select(
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
    yield "07-interfaces.csv", _interfaces(devices, cables)
    yield "08-cables.csv", _cables(cables)
    yield "09-ip-addresses.csv", _addresses(plan, devices)


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
        mtu=pl.when("server").then(HOST_MTU).otherwise(MTU["ethernet"]),
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


def _cables(cables: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    kind = _kind(cables)
    return cables.select(
        side_a_device="a_device",
        side_a_type=pl.lit("dcim.interface"),
        side_a_name="a_port",
        side_b_device="b_device",
        side_b_type=pl.lit("dcim.interface"),
        side_b_name="b_port",
        type=kind,
        status=pl.lit("planned"),
        label="label",
        length="length_m",
        length_unit=pl.lit("m"),
    )


def _kind(cables: pl.DataFrame) -> Any:
    """NetBox's type of each cable; empty where the medium says none."""
    import polars as pl

    known = {name: MEDIA[first] for name in cables["medium"].unique() if (first := name.split("-")[0]) in MEDIA}
    fibre = {name: MULTI if name.endswith("-mm") else SINGLE for name in cables["fibre"].unique() if name}
    medium = pl.col("medium").replace_strict(known, default=None, return_dtype=pl.String)
    return pl.coalesce(medium, pl.col("fibre").replace_strict(fibre, default="", return_dtype=pl.String))


def _addresses(plan: Plan, devices: pl.DataFrame) -> pl.DataFrame:
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
