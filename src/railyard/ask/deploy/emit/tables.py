"""A plan as tables: cables, devices, racks, bill of materials, addresses."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.deploy.cabling import HOSTS6, addresses_of, interface, ipv4, ipv6, port_names
from railyard.cluster.bill import bill_of
from railyard.cluster.hall.devices import NETWORKS
from railyard.cluster.hall.patching import trunk_of
from railyard.cluster.hall.racks import purchased, trunks
from railyard.cluster.modules import modules

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.cluster.network_table import Dialect


@lru_cache(1)
def cables(plan: CablingPlan, ethernet: Dialect) -> pl.DataFrame:
    """One row per cable in pull order: both ends with rack, unit, port, lane and module, length, medium."""
    import polars as pl

    rows, racks, devices = plan.cables, plan.racks, plan.devices
    name, rack = np.array(devices.name, object), np.array(racks.names(), object)
    tier = rows.tier.astype(int)
    stems = [f"{NETWORKS[one.network]}-{one.name}-" for one in plan.tiers]
    data: dict[str, Any] = {"pull": plan.order, "stem": _pick(stems, tier), "number": rows.number}
    ports = port_names(plan, np.arange(len(rows)), ethernet)
    plugged = np.concatenate([modules(one).reshape(2, -1).T for one in purchased(plan.cluster).values()])
    for at, side in enumerate("ab"):
        device = rows.ends[:, at]
        data[f"{side}_device"] = name[device]
        data[f"{side}_port"] = [ends[at] for ends in ports]
        data[f"{side}_lane"] = np.where(rows.lanes > 1, rows.lane, -1)[:, at]
        data[f"{side}_rack"] = rack[racks.rack[device]]
        data[f"{side}_unit"] = racks.unit[device]
        data[f"{side}_module"] = [name or None for name in plugged[:, at].tolist()]
    data |= {
        "network": _pick(list(plan.networks), rows.network.astype(int)),
        "tier": _pick([one.name for one in plan.tiers], tier),
        "rate_gbps": rows.rate_bps / 1e9,
        "length_m": plan.length_m,
        "medium": _pick([one.medium for one in plan.tiers], tier),
        "fibre": _pick([one.fibre for one in plan.tiers], tier),
        "loss_db": np.round(plan.loss_db, 3),
        "budget_db": np.array([one.budget_db for one in plan.tiers])[tier],
        **_patched(plan),
    }
    frame = pl.DataFrame({key: _column(value) for key, value in data.items()})
    label = (pl.col("stem") + pl.col("number").cast(pl.String).str.zfill(6)).alias("label")
    lane = [pl.when(pl.col(f"{side}_lane") >= 0).then(pl.col(f"{side}_lane")).alias(f"{side}_lane") for side in "ab"]
    unknown = pl.when(pl.col("budget_db") > 0).then(pl.col("budget_db")).alias("budget_db")
    frame = frame.with_columns(label, *lane, unknown).sort("pull")
    order = ["pull", "label", *(key for key in data if key not in ("pull", "stem", "number"))]
    return frame.select(order)


def _patched(plan: CablingPlan) -> dict[str, Any]:
    """Panel and port at each end of every cable, trunk and leg between; empty where it goes straight."""
    one = plan.racks.patching
    if one is None:
        nothing = [None] * len(plan.cables)
        return dict.fromkeys(("a_panel", "trunk", "leg", "b_panel"), nothing)
    names, labels = panel_names(plan), trunk_labels(plan)
    found: dict[str, Any] = {}
    for side, panel, port in zip("ab", one.panel.T.tolist(), one.port.T.tolist(), strict=True):
        found[f"{side}_panel"] = [
            f"{names[at]}:{number:02d}" if at >= 0 else None for at, number in zip(panel, port, strict=True)
        ]
    trunk, leg = one.trunk.tolist(), one.leg.tolist()
    found["trunk"] = [labels[at] if at >= 0 else None for at in trunk]
    found["leg"] = [number + 1 if number >= 0 else None for number in leg]
    return {key: found[key] for key in ("a_panel", "trunk", "leg", "b_panel")}


def panel_names(plan: CablingPlan) -> list[str]:
    """`A09-P1`: the rack, and the number of the panel in it."""
    one, racks = plan.racks.patching, plan.racks.names()
    if one is None:
        return []
    places = zip(one.panel_rack.tolist(), one.panel_number.tolist(), strict=True)
    return [f"{racks[rack]}-P{number}" for rack, number in places]


def trunk_labels(plan: CablingPlan) -> list[str]:
    """`be-leaf-spine-T0001`: network, tier and number of a trunk."""
    one = plan.racks.patching
    if one is None:
        return []
    stems = [f"{NETWORKS[tier.network]}-{tier.name}-T" for tier in plan.tiers]
    count = [0] * len(stems)
    labels = []
    for tier in one.trunk_tier.tolist():
        labels.append(f"{stems[tier]}{count[tier]:04d}")
        count[tier] += 1
    return labels


def trunk_table(plan: CablingPlan) -> pl.DataFrame | None:
    """A row a trunk: label, panel and first port at both ends, legs that are used, length, kind; None without any."""
    import polars as pl

    one = plan.racks.patching
    if one is None:
        return None
    names = panel_names(plan)
    used = one.trunk >= 0
    legs = np.unique(np.stack([one.trunk[used], one.leg[used]]), axis=1)[0]
    kinds = [trunk_of(tier.fibre) if tier.fibre else "" for tier in plan.tiers]
    data: dict[str, Any] = {"trunk": trunk_labels(plan)}
    for at, side in enumerate("ab"):
        data[f"{side}_panel"] = [names[panel] for panel in one.trunk_panels[:, at].tolist()]
        data[f"{side}_first_port"] = one.trunk_first[:, at]
    data["legs"] = np.full(len(one.trunk_tier), one.legs, np.int32)
    data["used"] = np.bincount(legs, minlength=len(one.trunk_tier)).astype(np.int32)
    data["length_m"] = trunks(plan.racks, one)
    data["kind"] = [kinds[tier] for tier in one.trunk_tier.tolist()]
    return pl.DataFrame(data)


def panel_table(plan: CablingPlan, ethernet: Dialect) -> pl.DataFrame | None:
    """A row a port of a panel that has a cord: the port map, with the device that it leads to; None without any."""
    import polars as pl

    one = plan.racks.patching
    if one is None:
        return None
    names, racks = panel_names(plan), plan.racks.names()
    frame = cables(plan, ethernet)
    unit = dict(
        zip(names, zip([racks[at] for at in one.panel_rack], one.panel_unit.tolist(), strict=True), strict=True)
    )
    sides = []
    for side, far in (("a", "b"), ("b", "a")):
        mine = frame.filter(pl.col(f"{side}_panel").is_not_null())
        place = mine[f"{side}_panel"].str.split_exact(":", 1).struct
        sides.append(
            mine.select(
                panel=place.field("field_0"),
                port=place.field("field_1").cast(pl.Int32),
                device=f"{side}_device",
                device_port=f"{side}_port",
                cord=pl.col("label") + f"-{side.upper()}",
                trunk="trunk",
                leg="leg",
                far_panel=f"{far}_panel",
                far_device=f"{far}_device",
                far_port=f"{far}_port",
            )
        )
    both = pl.concat(sides).unique(["panel", "port"], maintain_order=True)
    rack = {name: place for name, (place, _) in unit.items()}
    units = {name: number for name, (_, number) in unit.items()}
    both = both.with_columns(
        rack=pl.col("panel").replace_strict(rack), unit=pl.col("panel").replace_strict(units, return_dtype=pl.Int32)
    )
    return both.select("rack", "unit", *both.columns[:-2]).sort("rack", "unit", "port", descending=[False, True, False])


def _column(values: Any) -> Any:
    return values.tolist() if isinstance(values, np.ndarray) and values.dtype == object else values


def _pick(words: list[str], index: NDArray[Any]) -> NDArray[Any]:
    picked: NDArray[Any] = np.array(words, object)[index]
    return picked


@lru_cache(1)
def devices(plan: CablingPlan) -> pl.DataFrame:
    """One row per device: name, role, box, rack and lowest unit, height, power, management, loopback, AS."""
    import polars as pl

    rows, numbers = plan.devices, addresses_of(plan)
    return pl.DataFrame(
        {
            "device": rows.name,
            "role": rows.role.tolist(),
            "network": rows.network.tolist(),
            "box": rows.box.tolist(),
            "rack": np.array(plan.racks.names(), object)[plan.racks.rack].tolist(),
            "unit": plan.racks.unit,
            "height_u": rows.height_u,
            "power_w": rows.power_w,
            "management": [ipv4(one) if one else None for one in numbers.management.tolist()],
            "loopback": [ipv4(one) if one else None for one in numbers.loopback.tolist()],
            "asn": [one or None for one in numbers.asn.tolist()],
        }
    )


def racks(plan: CablingPlan) -> pl.DataFrame:
    """A row a rack: place in its row and on the floor, zone of power and cooling, power, units that are taken."""
    import polars as pl

    floor, devices = plan.racks.floor, plan.devices
    units = np.bincount(plan.racks.rack, weights=devices.height_u, minlength=len(plan.racks))
    frame = pl.DataFrame(
        {
            "rack": plan.racks.names(),
            "row": floor.row + 1,
            "column": floor.column + 1,
            "zone": floor.zone + 1,
            "x_m": np.round(floor.x_m, 3),
            "y_m": np.round(floor.y_m, 3),
            "power_w": plan.racks.power_w,
            "units": units.astype(np.int32),
        }
    )
    return frame.sort("row", "column")


@lru_cache(1)
def addresses(plan: CablingPlan) -> pl.DataFrame:
    """One row per cable of a server: names, addresses of both ends in both families."""
    import polars as pl

    numbers = addresses_of(plan)
    own = np.flatnonzero(numbers.access)
    rows, name = plan.cables, plan.devices.name
    listed = []
    for row, first in zip(own.tolist(), numbers.access[own].tolist(), strict=True):
        port = interface(plan.networks[int(rows.network[row])], int(rows.port[row, 0]))
        host, switch = name[int(rows.a[row])], name[int(rows.b[row])]
        ends = ipv4(first + 1), ipv4(first), ipv6(HOSTS6, first + 1), ipv6(HOSTS6, first)
        listed.append((host, port, f"{host}-{port}", switch, *ends))
    heads = ["device", "interface", "name", "switch", "ipv4", "switch_ipv4", "ipv6", "switch_ipv6"]
    return pl.DataFrame(listed, schema=heads, orient="row")


def bill(plan: CablingPlan, installation_usd: float = 0.0) -> pl.DataFrame:
    """The bill of materials, as the economics have it, with a row for the installation if it has a price, USD."""
    import polars as pl

    installation = {"kind": "installation", "item": "installation", "count": 1, "network": "", "tier": ""}
    prices = dict.fromkeys(("price_usd", "total_usd"), round(installation_usd, 2))
    return pl.DataFrame(
        [
            {
                "kind": row.kind,
                "item": row.name,
                "count": row.count,
                "network": row.network,
                "tier": row.tier,
                "price_usd": round(row.price_usd.typical, 2),
                "total_usd": round(row.total_usd.typical, 2),
            }
            for row in bill_of(plan.cluster)
        ]
        + [installation | prices] * (installation_usd > 0)
    )
