"""The reader of published logs, and what the predictions say about them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard import catalog
from railyard.ask.calibrate.nccl import log as nccl_log
from railyard.ask.calibrate.nccl import log as nccl_tables
from railyard.ask.calibrate.nccl.log import bus_factor, collective_of, parse
from railyard.ask.calibrate.nccl.machine import stated_nics
from railyard.ask.calibrate.nccl.rows import validate_log
from railyard.kit.errors import InputError
from railyard_validation.collectives.compare import spread, validate_collectives

LOGS = Path(__file__).parents[2] / "data" / "nccl"
TOP = """## name: test
## collective: {collective}
## ranks: 8
## config: 1x DGX H100
"""
COLUMNS = "#  size   count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong"


@pytest.fixture(scope="module")
def known():
    return catalog.load()


@pytest.fixture(scope="module")
def report(known):
    return validate_collectives(LOGS, known)


def _log(name):
    return nccl_log.read(next(LOGS.glob(f"{name}_*")))


def _parsed(*rows, collective="all_reduce", columns=COLUMNS):
    return parse("\n".join([TOP.format(collective=collective), columns, *rows]))


# the reader


def test_reads_both_halves_of_a_row():
    log = _log("01")
    rows = log.blocks[0].rows
    assert len(rows) == 64
    assert (rows[0].size_bytes, rows[0].placement, rows[0].time_us) == (8, "out-of-place", 13.67)
    assert (rows[-1].size_bytes, rows[-1].placement, rows[-1].busbw_gbs) == (17179869184, "in-place", 479.99)
    assert log.devices == ["NVIDIA H100 80GB HBM3"] * 8
    assert log.blocks[0].gpus_per_process == 1


def test_reads_rows_without_reduction_or_root():
    log = _log("06")
    assert len(log.blocks[0].rows) == 68
    assert not log.blocks[0].malformed
    assert log.blocks[0].reduces is None
    assert log.blocks[0].gpus_per_process == 8


def test_reads_column_names_without_a_hash():
    assert len(_log("16").blocks[0].rows) == 62


def test_reads_several_tables():
    blocks = _log("43").blocks
    assert [len(block.rows) for block in blocks] == [4] * 9
    assert [block.reduces for block in blocks] == [True] * 4 + [False] * 5


def test_reads_titles_of_tables():
    assert [block.title.split(" ")[0] for block in _log("64").blocks] == ["RDMA", "IPoIB"]


def test_reads_markdown_tables_of_bus_bandwidths():
    blocks = nccl_tables.markdown_tables(_log("67"))
    assert [block.ranks for block in blocks] == [4, 4, 8, 8, 16, 16, 32, 32]
    first = blocks[0].rows[0]
    assert (first.size_bytes, first.busbw_gbs) == (4096, 0.05)
    assert first.time_us == pytest.approx(4096 * 1.5 / 0.05e3)


def test_reads_plain_tables_of_milliseconds():
    text = "\n".join(
        [
            "Relay ALL-GATHER sweep",
            "  2 active ranks/group; times",
            "  Msg Size |   NCCL(ms)  Relay(ms)   Speedup",
            "      4 KB |      0.042      0.042     0.99x",
            "      1 GB |     19.751      6.184     3.19x",
        ]
    )
    (block,) = nccl_tables.plain_tables(parse(text))
    assert (block.collective, block.ranks) == ("all-gather", 2)
    assert block.rows[1].size_bytes == 2 << 30
    assert block.rows[1].time_us == pytest.approx(19751)


def test_reads_tables_with_units_in_their_names_and_one_half():
    log = _parsed(
        "  1048576  float  27.37  38.31  67.04",
        columns="#       size         type   time(us)   algbw(GB/s)  busbw(GB/s)",
    )
    (row,) = log.blocks[0].rows
    assert (row.size_bytes, row.placement, row.time_us, row.busbw_gbs) == (1 << 20, "out-of-place", 27.37, 67.04)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("  1024  256  float  sum  -1  16.94  0.06", "the row has 3 numbers where its table has 9"),
        ("  1024  256  float  sum  -1  1x94  0.06  0.11  0  16.17  0.06  0.11  0", "`1x94` is not a number"),
        ("  1024  x  float  sum  -1  16.94  0.06  0.11  0  16.17  0.06  0.11  0", "`x` is no count"),
        ("  1024  256  float  sum  -1  -6.9  0.06  0.11  0  16.17  0.06  0.11  0", "`-6.9` is negative"),
        (f"  {10**17}  256  float  sum  -1  6.9  0.06  0.11  0  16.17  0.06  0.11  0", "more than any machine holds"),
    ],
)
def test_a_malformed_row_is_skipped_with_its_place(row, message, known):
    good = "  2048  512  float  sum  -1  17.14  0.12  0.21  0  16.43  0.12  0.22  0"
    rows = validate_log(_parsed(row, good), known)
    assert [result.status for result in rows] == ["skipped", "ok", "ok"]
    assert rows[0].reason.startswith("log:7: ")
    assert message in rows[0].reason


def test_times_that_are_missing_are_skipped(known):
    rows = validate_log(_parsed("  2048  512  float  sum  -1  N/A  N/A  N/A  N/A  16.43  0.12  0.22  0"), known)
    assert [(row.placement, row.status) for row in rows] == [("out-of-place", "skipped"), ("in-place", "ok")]
    assert rows[0].reason == "no time was published"


LINES = st.one_of(
    st.text(max_size=80),
    st.sampled_from(
        [COLUMNS, "# size time algbw busbw", "## ranks: 99999999999", "## ranks: x", "## collective: alltoall"]
    ),
    st.sampled_from(["| Size | ring |", "| 4 KiB | 0.1 |", "### AllReduce busbw", "#### n=2 (4 GPUs)", "== x =="]),
    st.sampled_from(["# nThread 9999999999 nGpus 8", "#  Rank  0 Pid 1 on a device  0 [0x0f] NVIDIA H100 80GB HBM3"]),
    st.lists(
        st.one_of(
            st.integers(0, 10**20).map(str),
            st.floats(allow_nan=True).map(str),
            st.sampled_from(["float", "sum", "N/A", "-1", "1e400", "--", "٣", "|"]),
        ),
        max_size=16,
    ).map("  ".join),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, max_size=12).map("\n".join))
def test_any_text_is_read_without_an_exception(text):
    log = parse(text)
    for block in [*log.blocks, *nccl_tables.markdown_tables(log), *nccl_tables.plain_tables(log)]:
        assert all(row.size_bytes >= 0 for row in block.rows)
        assert all(1 <= row.line <= text.count("\n") + 1 for row in [*block.rows, *block.malformed])


@settings(max_examples=40, deadline=None)
@given(text=st.lists(LINES, max_size=8).map("\n".join))
def test_any_log_is_predicted_or_skipped(text, known):
    rows = validate_log(parse(TOP.format(collective="all_reduce") + COLUMNS + "\n" + text), known)
    assert rows
    for row in rows:
        assert (row.status == "skipped") == bool(row.reason)
        assert row.status == "skipped" or (row.predicted_us > 0 and math.isfinite(row.error))


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("all_reduce_perf", "all-reduce"),
        ("AllGather", "all-gather"),
        ("reduce_scatter", "reduce-scatter"),
        ("alltoall", "all-to-all"),
        ("all_to_all", "all-to-all"),
        ("sendrecv", "send-receive"),
        ("ib_write_bw", ""),
    ],
)
def test_names_of_collectives(word, name):
    assert collective_of(word) == name


def test_bus_factors_of_nccl_tests():
    assert bus_factor("all-reduce", 8) == 1.75
    assert bus_factor("all-to-all", 4) == 0.75
    assert bus_factor("broadcast", 4) == 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2x Nebius 8x H100, 8x NDR400 InfiniBand (Quantum-2)", (8, 400)),
        ("2x OCI BM.GPU.H100.8 (8x H100; 16x 200G RoCEv2 = 3.2 Tb/s per node, CX-7)", (16, 200)),
        ("2x AWS p5.48xlarge on EKS (32x100G EFA per node)", (32, 100)),
        ("2x Azure ND A100 v4 (8x A100-40, 8x HDR200 InfiniBand) on AKS", (8, 200)),
        ("2x DGX-1 (8x V100), 2x 100G ConnectX-5 RoCE per node", (2, 100)),
        ("OCI B300; 800 Gb/s RoCE per GPU, NCCL 2.28.9", (8, 800)),
        ("2 nodes x 8 A100, HDR200 IB x8 per node, Kubernetes", (8, 200)),
        ("Meta GB200, 2 x 400G RDMA NICs per GPU (100 GB/s/GPU)", (16, 400)),
        ("8x 400G CX-7 RoCE rail-aligned", (8, 400)),
        ("1x DGX H100 (8x H100 SXM5 80GB, NVLink4 450 GB/s/dir)", None),
    ],
)
def test_nics_that_a_description_states(text, expected):
    assert stated_nics(text, 8) == expected


# the report


def test_every_row_is_predicted_or_says_why(report):
    assert report.logs == 51
    for row in report.rows:
        assert row.status in ("ok", "skipped")
        assert (row.reason == "") == (row.status == "ok")
        if row.status == "ok":
            assert row.error_of == ("busbw" if row.bytes >= 1 << 20 else "time")
            assert row.predicted_us > 0
            assert row.algorithm


def test_every_log_but_one_says_when_it_was_published(report):
    """Of number 58, a user's log, no date is known."""
    found = {row.log[:2]: row.published for row in report.rows}
    assert [number for number, month in found.items() if not month] == ["58"]
    assert (found["05"], found["47"], found["62"]) == ("2021-07", "2026-01", "2026-08")


def test_errors_are_of_bus_bandwidth_from_one_mebibyte(report):
    row = next(row for row in report.rows if row.log.startswith("01") and row.bytes == 1 << 30)
    assert row.error == pytest.approx(row.predicted_busbw_gbs / row.measured_busbw_gbs - 1)
    small = next(row for row in report.rows if row.log.startswith("01") and row.bytes == 8)
    assert small.error == pytest.approx(small.predicted_us / small.measured_us - 1)


def test_machines_are_recognised(report):
    ranks = {row.log[:2]: row.ranks for row in report.rows}
    assert (ranks["01"], ranks["16"], ranks["28"], ranks["47"]) == (8, 16, 16, 128)
    assert [row.ranks for row in report.rows if row.log.startswith("43")][::4] == [4, 64, 128, 192, 4, 8, 64, 128, 192]


def test_what_is_assumed_is_said(report):
    odd = next(row for row in report.rows if row.log.startswith("30"))
    assert odd.ranks == 96
    assert any("header says 64" in text for text in odd.defaults)
    assert any("server dgx-a100" in text for text in next(r for r in report.rows if r.log.startswith("64")).defaults)


def test_what_is_no_collective_is_skipped_with_that_reason(report):
    reasons = {row.log[:2]: row.reason for row in report.rows if row.status == "skipped"}
    assert "not a collective" in reasons["65"]
    assert "IP over InfiniBand" in reasons["64"]
    assert "size 0" in reasons["06"]


@pytest.mark.parametrize(
    ("log", "busbw"),
    [("01", 479.9), ("28", 189.6), ("16", 467.5), ("47", 683.6), ("06", 223.4)],
)
def test_plateaus(report, log, busbw):
    """The largest size of a healthy log, within 10 %: bandwidths of machine and library are right."""
    row = max((row for row in report.rows if row.log.startswith(log) and row.status == "ok"), key=lambda row: row.bytes)
    assert row.measured_busbw_gbs == pytest.approx(busbw, rel=0.04)
    assert row.predicted_busbw_gbs == pytest.approx(row.measured_busbw_gbs, rel=0.1)


def test_predictions_beat_the_bare_tuner(report):
    """NCCL's own estimate misses the middle of its curves by 11 to 57 % and floors by up to four times."""
    assert report.of(error_of="busbw", healthy=True).median_abs_error < 0.15
    assert report.of(error_of="time", healthy=True).median_abs_error < 0.25


def test_the_report_is_json(report):
    written = json.loads(json.dumps(report.to_json()))
    assert set(written) == {"rows", "summary"}
    assert {"log", "ranks", "collective", "bytes", "measured_us", "predicted_us", "error", "status", "reason"} <= set(
        written["rows"][0]
    )
    assert written["summary"]["n"] == sum(row["status"] == "ok" for row in written["rows"])
    assert written["summary"]["by_log"]["01_h100x8_1node_allreduce_dgx"]["busbw_from_1_mib"]["n"] == 30


def test_quantiles_are_those_of_every_other_table():
    found = spread([0.1, -0.2, 0.3, -0.4])
    assert found.median_abs_error == pytest.approx(np.percentile([0.1, 0.2, 0.3, 0.4], 50))
    assert found.p90_abs_error == pytest.approx(np.percentile([0.1, 0.2, 0.3, 0.4], 90))
    assert found.mean_error == pytest.approx(-0.05)
    assert spread([]).n == 0


def test_a_missing_folder_is_named(tmp_path, known):
    with pytest.raises(InputError, match="no such folder"):
        validate_collectives(tmp_path / "nowhere", known)
    with pytest.raises(InputError, match="no logs"):
        validate_collectives(tmp_path, known)


def test_a_log_that_names_no_machine_is_skipped(known):
    text = "## collective: all_reduce\n## ranks: 8\n" + COLUMNS + "\n  8 2 float sum -1 13.6 0.0 0.0 0 13.0 0.0 0.0 0"
    rows = validate_log(parse(text), known)
    assert {row.status for row in rows} == {"skipped"}
    assert "names no server or accelerator" in rows[0].reason
