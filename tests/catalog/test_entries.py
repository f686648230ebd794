"""One suite over every entry: adding a file is adding a test subject."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from railyard import catalog
from railyard.catalog.types import CONFIDENCES, Accelerator, Entry, Range, Server
from railyard.kit.schema.field import records

CATALOG = catalog.load()


def entries(kind: str) -> list[Entry]:
    return [CATALOG.entry(kind, name) for name in CATALOG.names(kind)]


@pytest.mark.parametrize("name", ["rubin", "rubin-ultra", "mi455x"])
def test_what_a_predecessor_measured_is_an_estimate_of_its_successor(name):
    rows = {row.field: row.confidence for row in CATALOG.describe(f"accelerators/{name}")}
    own = {field for field in rows if field.endswith("efficiency")} | {"l2", "nvls", "sm_count", "clock", "launch"}
    assert {rows[field] for field in own} == {"estimated"}
    assert "measured" not in rows.values()


def test_the_catalogue_is_as_wide_as_promised():
    wanted = {
        "accelerators": [
            "A100",
            "H100",
            "H200",
            "H800",
            "B200",
            "GB200",
            "MI300X",
            "MI325X",
            "MI355X",
            "Gaudi 3",
            "TPU v5p",
        ],
        "switches": [
            "Tomahawk 4",
            "Tomahawk 5",
            "Tomahawk 6",
            "Jericho3-AI",
            "Ramon3",
            "Quantum-2",
            "Quantum-X800",
            "Spectrum-4",
        ],
        "models": [
            "GPT-3 175B",
            "Llama-3-8B",
            "Llama-3-70B",
            "Llama-3-405B",
            "Mixtral-8x7B",
            "DeepSeek-V3",
            "Megatron-22B",
        ],
        "cables": [
            "DAC 400G",
            "AEC 800G",
            "400G DR4",
            "800G SR8",
            "800G DR8",
            "800G 2xFR4",
            "LPO",
            "1.6T",
            "fibre trunk",
        ],
        "prices": ["electricity", "PUE", "cost-of-capital", "server-life", "operations"],
    }
    for kind, names in wanted.items():
        for name in names:
            assert CATALOG.resolve(kind, name)
    rates = {entry.rate_bps for entry in entries("nics")}
    assert {100e9, 200e9, 400e9, 800e9} <= rates


def stated(entry: Entry) -> list[str]:
    """Fields of an entry that were given a value which needs a source."""
    known, found = records(type(entry)), []
    for field in fields(entry):
        record = known.get(field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if record is not None and record.sourced and getattr(entry, field.name) != default:
            found.append(field.name)
    return found


@pytest.mark.parametrize("kind", list(catalog.KINDS))
def test_every_number_says_where_it_comes_from(kind):
    for entry in entries(kind):
        for name in stated(entry):
            said = [one for key, one in entry.provenance.items() if key.split(".")[0] == name]
            assert said, f"{entry.name}: {name} has no source"
            for one in said:
                assert one.source and one.value_text, (entry.name, name)  # noqa: PT018
                assert 1990 <= one.year <= 2026, (entry.name, name)
                assert one.confidence in CONFIDENCES[:3], (entry.name, name)


@pytest.mark.parametrize("kind", list(catalog.KINDS))
def test_ranges_are_ranges_and_money_is_never_a_bare_figure(kind):
    for entry in entries(kind):
        for field in fields(entry):
            value = getattr(entry, field.name)
            if field.name.endswith(("_usd", "_usd_per_h", "_usd_per_tb")) and value is not None:
                assert isinstance(value, Range), (entry.name, field.name)
            if isinstance(value, Range):
                assert 0 <= value.low <= value.typical <= value.high, (entry.name, field.name)


@pytest.mark.parametrize("kind", list(catalog.KINDS))
def test_no_two_entries_of_a_kind_share_a_name_or_alias(kind):
    owners: dict[str, str] = {}
    for entry in entries(kind):
        for word in (entry.name, *entry.aliases):
            assert CATALOG.resolve(kind, word) == entry.name
            owner = owners.setdefault(word, entry.name)
            assert owner == entry.name


@pytest.mark.parametrize("accelerator", entries("accelerators"), ids=lambda entry: entry.name)
def test_accelerators_are_physically_possible(accelerator: Accelerator):
    peak = accelerator.flops
    sixteen = max(peak.get("bf16", 0.0), peak.get("fp16", 0.0))
    assert peak.get("fp8", sixteen) >= sixteen * 0.999
    assert peak.get("fp4", peak.get("fp8", sixteen)) >= peak.get("fp8", sixteen)
    assert peak.get("tf32", 0.0) <= sixteen
    assert accelerator.scale_up_bps <= 14.4e12, "one way: nothing announced exceeds 1.8 TB/s"
    assert accelerator.scale_up_collective_bps <= accelerator.scale_up_bps
    assert (
        accelerator.idle_power_w.typical < accelerator.power_w.typical <= accelerator.power_w.high <= accelerator.tdp_w
    )
    most = 6e12 if accelerator.architecture.startswith("x86") else 1e12  # sockets have DIMMs
    assert 8e9 <= accelerator.memory_bytes <= most
    assert 100e9 <= accelerator.memory_bps / 8 <= 32e12
    assert 20 < sixteen / (accelerator.memory_bps / 8) < 900, "FLOP a byte of memory"
    assert 0 < accelerator.gemm_efficiency <= 1
    assert accelerator.launch_ps >= 500_000
    if accelerator.contract_usd_per_h:
        assert accelerator.contract_usd_per_h.low <= accelerator.rental_usd_per_h.high


@pytest.mark.parametrize("accelerator", entries("accelerators"), ids=lambda entry: entry.name)
def test_every_accelerator_names_a_server_that_holds_it(accelerator: Accelerator):
    assert CATALOG.server(accelerator.server).accelerator == accelerator.name


@pytest.mark.parametrize("server", entries("servers"), ids=lambda entry: entry.name)
def test_servers_are_built_of_entries_that_exist(server: Server):
    accelerator = CATALOG.accelerator(server.accelerator)
    nic = CATALOG.nic(server.nic)
    assert CATALOG.nic(server.front_end_nic)
    assert server.scale_up_domain <= accelerator.scale_up_domain
    assert server.scale_up_domain % server.accelerators == 0 or server.accelerators % server.scale_up_domain == 0
    assert nic.rate_bps * server.nics / server.accelerators <= 2.4e12, "three of 800 Gb/s, announced for Helios"
    own = accelerator.memory_bps if accelerator.architecture.startswith("x86") else 0  # a processor is its own host
    assert server.pcie_bps <= max(8 * 450e9, own), "one way"


def test_switches_and_optics_fit_together():
    for switch in entries("switches"):
        assert switch.ports * switch.port_rate_bps == pytest.approx(switch.capacity_bps)
        assert (switch.fabric_bps > 0) == (switch.family == "scheduled-leaf")
    for cable in entries("cables"):
        assert 3e-9 < cable.delay_s_per_m < 6e-9
        if cable.kind == "optic":
            fibre = CATALOG.cable(cable.fibre)
            assert fibre.kind == "fibre"
            assert fibre.rate_bps >= cable.rate_bps
            assert fibre.reach_m >= cable.reach_m


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("h100-sxm", "memory_bps", 3.35e12 * 8),
        ("h100-sxm", "scale_up_bps", 450e9 * 8),
        ("h100-sxm", "scale_up_collective_bps", 370.8e9 * 8),
        ("b200-sxm", "scale_up_bps", 900e9 * 8),
        ("b200-sxm", "scale_up_collective_bps", 721.8e9 * 8),
        ("mi300x", "scale_up_bps", 7 * 64e9 * 8),
        ("h800-sxm", "scale_up_bps", 200e9 * 8),
        ("gaudi3", "scale_up_bps", 21 * 200e9),
        ("gb200", "scale_up_domain", 72),
        ("a100-sxm-80gb", "memory_bytes", 80 * 2**30),
    ],
)
def test_numbers_that_everyone_knows(name, field, value):
    assert getattr(CATALOG.accelerator(name), field) == pytest.approx(value)


def test_peak_flops_are_dense_and_follow_from_clock_and_units():
    """Two figures of one datasheet against each other: FLOP a clock and SM is a power of two."""
    for name, per_clock in {"a100-sxm-80gb": 2048, "h100-sxm": 4096}.items():
        device = CATALOG.accelerator(name)
        assert device.flops["bf16"] == pytest.approx(device.sm_count * device.clock_hz * per_clock, rel=2e-3)
    for name, per_clock in {"mi300x": 2048, "mi355x": 4096}.items():
        device = CATALOG.accelerator(name)
        assert device.flops["bf16"] == pytest.approx(device.sm_count * device.clock_hz * per_clock, rel=2e-3)
    assert CATALOG.accelerator("h100").flops["bf16"] == pytest.approx(989e12)


@pytest.mark.parametrize(
    ("name", "servers", "low", "typical", "high"),
    [
        # 8xH100 node with NICs, quotes of 2024-08 (tech-talk-cto sheet; SemiAnalysis, 2023-05)
        ("hgx-h100", 1, 270e3, 310e3, 317e3),
        # racks of 72, 2025-26 (awesomeagents.ai, fetchlogic.net)
        ("gb200-nvl72", 18, 2.0e6, 3.1e6, 3.4e6),
        ("gb300-nvl72", 18, 3.0e6, 3.5e6, 4.0e6),
    ],
)
def test_the_parts_of_a_server_cost_what_whole_servers_are_quoted_at(name, servers, low, typical, high):
    parts = whole_price(CATALOG.server(name)).scaled(servers)
    assert parts.low <= low * 1.1
    assert parts.typical == pytest.approx(typical, rel=0.06)
    assert parts.high >= high


@pytest.mark.parametrize(("name", "measured_w"), [("hgx-b200", 10_401), ("dgx-h100", 10_200), ("dgx-a100", 6_500)])
def test_the_parts_of_a_server_draw_what_whole_servers_draw(name, measured_w):
    """8xB200 at the wall under full load (MLPerf v5.1 power 5.1-0061); the makers' maxima of the other two."""
    server = CATALOG.server(name)
    accelerator, nic = CATALOG.accelerator(server.accelerator), CATALOG.nic(server.nic)
    front = CATALOG.nic(server.front_end_nic).power_w.scaled(server.front_end_nics)
    parts = (
        server.host_power_w + accelerator.power_w.scaled(server.accelerators) + nic.power_w.scaled(server.nics) + front
    )
    assert parts.typical < measured_w < parts.high * 1.03


def whole_price(server: Server) -> Range:
    """A server with all that is in it."""
    accelerators = CATALOG.accelerator(server.accelerator).price_usd.scaled(server.accelerators)
    nics = CATALOG.nic(server.nic).price_usd.scaled(server.nics)
    front = CATALOG.nic(server.front_end_nic).price_usd.scaled(server.front_end_nics)
    return server.price_usd + accelerators + nics + front


def test_four_gh200_share_a_node():
    """18 links of 25 GB/s: six to each of three neighbours, 150 GB/s each way a pair."""
    server = CATALOG.server("gh200-quad")
    accelerator = CATALOG.accelerator(server.accelerator)
    assert (server.accelerators, server.scale_up_domain, server.nics) == (4, 4, 4)
    assert accelerator.scale_up_kind == "mesh"
    assert accelerator.scale_up_bps / 8e9 / 3 == 150


# The catalogue as text.


def test_every_field_is_described_with_its_origin():
    rows = {row.field: row for row in CATALOG.describe("H100")}
    assert rows["memory_bandwidth"].value == "3.35 TB/s"
    assert rows["memory_bandwidth"].confidence == "vendor"
    assert rows["flops.fp8"].value == "1979 TFLOP/s"
    assert rows["price"].value == "$25k .. $30k .. $36k"
    assert rows["price"].year == "2025"
    assert rows["scale_up_collective_bandwidth"].confidence == "measured"
    assert rows["vendor"] == catalog.Row("vendor", "NVIDIA", "", "", "")


def test_a_models_parameters_are_counted():
    rows = {row.field: row.value for row in CATALOG.describe("deepseek-v3")}
    assert rows["parameters"] == "671,026,419,200"
    assert rows["mla.kv_lora"] == "512"
    assert "mtp_parameters" in rows
    assert "mtp_parameters" not in {row.field for row in CATALOG.describe("llama-3-8b")}


@pytest.mark.parametrize("kind", list(catalog.KINDS))
def test_every_kind_lists_all_its_entries(kind):
    listing = CATALOG.rows(kind)
    assert [row[0] for row in listing.rows] == CATALOG.names(kind)
    assert all(len(row) == len(listing.columns) for row in listing.rows)
    assert all(cell for row in listing.rows for cell in row)


def test_sizes_are_shown_as_their_source_writes_them():
    listing = CATALOG.rows("accelerator")
    memory = {row[0]: row[listing.columns.index("memory")] for row in listing.rows}
    assert memory["h100-sxm"] == "80 GiB"
    assert memory["tpu-v5p"] == "95 GB"
    assert memory["h200-sxm"] == "140.4 GiB"


@pytest.mark.parametrize(
    ("name", "mib"),
    [("h200-sxm", 143771), ("b200-sxm", 183359), ("gb200", 189471), ("b300-sxm", 275040), ("gb300", 284208)],
)
def test_memory_is_what_a_device_reports(name, mib):
    """`nvidia-smi`: what data sheets call GB of HBM are GiB, 7 % more; a job of 195 GB does run on a GB200."""
    assert CATALOG.accelerator(name).memory_bytes == pytest.approx(mib * 2**20, rel=2e-3)


# The reference page of the catalogue.

ROOT = Path(__file__).parent.parent.parent


def test_the_page_shows_every_entry():
    from railyard import catalog

    text = (ROOT / "docs" / "reference" / "catalog.md").read_text("utf-8")
    known = catalog.load()
    for kind in catalog.KINDS:
        for name in known.names(kind):
            assert f"`{name}`" in text


# Server processors and encoders of the catalogue.


@pytest.mark.parametrize(("name", "millions"), [("bge-m3", 568), ("bge-large-en", 335)])
def test_encoders_have_their_published_size(name: str, millions: float) -> None:
    assert CATALOG.model(name).parameters() == pytest.approx(1e6 * millions, rel=0.005)


@pytest.mark.parametrize(
    ("name", "cores", "flops_per_cycle", "channels", "transfers_per_s"),
    [("xeon-8592", 64, 2048, 8, 5.6e9), ("epyc-9755", 128, 128, 12, 6.0e9)],
)
def test_processors_have_the_peaks_of_their_cores_and_channels(
    name: str, cores: int, flops_per_cycle: int, channels: int, transfers_per_s: float
) -> None:
    device = CATALOG.accelerator(name)
    assert device.sm_count == cores
    assert device.flops["bf16"] == pytest.approx(cores * flops_per_cycle * device.clock_hz, rel=0.01)
    assert device.memory_bps == pytest.approx(channels * 64 * transfers_per_s)
