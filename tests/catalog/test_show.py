"""The catalogue as text."""

from __future__ import annotations

import pytest

from railyard import catalog

CATALOG = catalog.load()


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
