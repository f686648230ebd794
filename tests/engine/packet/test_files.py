"""What `railyard packet` leaves behind: report, folder, trace."""

import base64
import csv
import gzip
import json
import re
from pathlib import Path

import polars as pl
import pytest

from railyard.face.cli.guard import run as railyard
from railyard.graph.parquet import read_record
from railyard.graph.perfetto.flows import lanes

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    root = tmp_path_factory.mktemp("kept")
    arguments = ("packet", "--traffic", str(DATA / "incast.cm"), "--set", "paths=32", "--quiet", "--json")
    assert railyard([*arguments, "--out", str(root / "runs"), "--report", str(root / "page.html")]) == 0
    (folder,) = [path for path in (root / "runs").iterdir() if path.name != ".unfinished"]
    return root, folder


def test_the_folder_holds_everything_under_a_name_of_its_own(kept):
    _, folder = kept
    assert re.fullmatch(r"incast-uec-[0-9a-f]{8}", folder.name)
    tables = [f"flows.{name}.parquet" for name in ("links", "queue_series", "sampled_links")]
    names = ["fct.csv", *tables[:1], "flows.parquet", *tables[1:], "report.html", "result.json", "trace.json.gz"]
    assert sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) == names


def test_table_parquet_and_result_agree(kept):
    _, folder = kept
    frame = pl.read_parquet(folder / "flows.parquet")
    section = json.loads((folder / "result.json").read_text())["variants"][0]["packet"]
    with (folder / "fct.csv").open() as handle:
        rows = list(csv.DictReader(handle))
    assert len(frame) == len(rows) == section["flows_total"] == section["flows_finished"] == 15
    assert frame["fct_ps"].max() / 1e6 == pytest.approx(section["fct_us"]["max"])
    assert [float(row["fct_us"]) for row in rows] == pytest.approx((frame["fct_ps"] / 1e6).to_list())
    assert section["fct_cdf"][-1] == [section["fct_us"]["max"], 1.0]
    slowest = frame.sort("fct_ps")[-1]
    assert section["tails"][0]["slowest"] == f"h{slowest['source'][0]}->h{slowest['target'][0]}"
    assert section["packets"]["new"] == 7335
    assert section["constants"]["base_rtt_ps"] > 0


def test_the_flows_are_a_record_with_what_was_sampled(kept):
    _, folder = kept
    record = read_record(folder / "flows.parquet")
    section = json.loads((folder / "result.json").read_text())["variants"][0]["packet"]
    assert (record.rows, len(record), record.meta["packets"]["new"]) == ("flows", 15, 7335)
    assert record.who.tolist() == record.column("source").tolist()
    assert (record.end_ps > record.column("receiver_finish_ps")).all()
    assert record.table("queue_series")["depth_bytes"][:, 0].tolist() == section["queues"]["rows"][0]["depth_bytes"]
    assert record.table("links")["bytes"].sum() > 15 * record.size_bytes[0]


def test_queues_and_senders_are_sampled(kept):
    _, folder = kept
    section = json.loads((folder / "result.json").read_text())["variants"][0]["packet"]
    queues, senders = section["queues"], section["flows"]
    hottest = queues["rows"][0]
    assert hottest["link"] == "leaf7->h15"
    assert hottest["tier"] == "nic"
    assert max(hottest["depth_bytes"]) == max(max(row["depth_bytes"]) for row in queues["rows"])
    assert max(hottest["depth_bytes"]) <= section["constants"]["queue_bytes"] * 1.1
    # The queue runs empty once, in sample 22, when the senders' windows adapt; from then on the link stays full.
    middle = hottest["utilization"][23:150]
    assert min(middle) > 0.9
    assert max(max(row["utilization"]) for row in queues["rows"]) <= 1
    assert len(queues["time_us"]) == len(middle) + 23 + len(hottest["utilization"]) - 150
    assert {row["flow"].split("->")[1] for row in senders["rows"]} == {"h15"}
    assert senders["rows"][-1]["flow"] == section["tails"][0]["slowest"]


def test_the_result_says_what_was_set(kept):
    _, folder = kept
    found = json.loads((folder / "result.json").read_text())
    assert found["variants"][0]["settings"] == {"fabric": "uec", "paths": 32}
    assert found["scenario"]["settings"]["paths"] == 32
    assert found["provenance"]["engine"] == "packet"
    assert len(found["provenance"]["sources"]) == 2


def test_the_page_alone_carries_the_same_result(kept):
    root, folder = kept
    match = re.search(r'id="railyard-result">([^<]*)<', (root / "page.html").read_text())
    assert match is not None
    assert json.loads(gzip.decompress(base64.b64decode(match[1]))) == json.loads((folder / "result.json").read_text())


def test_every_flow_is_a_slice_of_its_length(kept):
    _, folder = kept
    events = json.loads(gzip.decompress((folder / "trace.json.gz").read_bytes()))["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    frame = pl.read_parquet(folder / "flows.parquet")
    assert sorted(event["dur"] for event in slices) == pytest.approx(sorted(frame["fct_ps"] / 1e6), abs=2e-3)
    assert {event["pid"] for event in slices} == set(frame["source"])


def test_a_flow_that_waits_has_an_arrow_to_it(tmp_path):
    matrix = tmp_path / "after.cm"
    matrix.write_text(
        "Nodes 16\nConnections 2\nTriggers 1\n"
        "0->13 id 1 start 0 size 100000 send_done_trigger 1\n13->2 id 2 trigger 1 size 100000\ntrigger id 1 oneshot\n"
    )
    assert railyard(["packet", "--traffic", str(matrix), "--quiet", "--json", "--out", str(tmp_path / "runs")]) == 0
    (trace,) = (tmp_path / "runs").glob("*/trace.json.gz")
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    begin, end = (next(event for event in events if event["ph"] == phase) for phase in "sf")
    assert (begin["pid"], end["pid"]) == (0, 13)
    assert begin["ts"] < end["ts"]


def test_flows_at_once_lie_in_lanes():
    import numpy as np

    start, end = np.array([0, 1, 5, 6, 20]), np.array([10, 5, 8, 9, 21])
    assert lanes(start, end) == [0, 1, 1, 2, 1]


def test_a_report_that_cannot_be_written_is_refused(capsys, tmp_path):
    place = tmp_path / "no" / "such" / "place.html"
    code = railyard(["packet", "--traffic", str(DATA / "incast.cm"), "--quiet", "--json", "--report", str(place)])
    assert code == 2
    assert "--report" in capsys.readouterr().err


@pytest.fixture(scope="module")
def stormy(tmp_path_factory):
    """47 hosts fill the link of one; others, whose ways cross theirs, send to each other; switches pause."""
    root = tmp_path_factory.mktemp("stormy")
    rows = [(host, 0) for host in range(16, 48)] + [(host, (host + 17) % 64 + 64) for host in range(64, 112)]
    lines = [f"{source}->{target} start 0 size 500000" for source, target in rows if source != target]
    matrix = root / "storm.cm"
    matrix.write_text("\n".join([f"Nodes 128\nConnections {len(lines)}", *lines, ""]))
    changes = ("switching=pfc", "congestion_control=constant", "load_balancing=ecmp", "trim=false")
    sets = [word for change in changes for word in ("--set", change)]
    assert railyard(["packet", "--traffic", str(matrix), *sets, "--quiet", "--json", "--out", str(root / "runs")]) == 0
    (file,) = (root / "runs").glob("*/result.json")
    return json.loads(file.read_text())["variants"][0]["packet"]["storm"]


def test_a_storm_names_where_it_began(stormy):
    assert stormy["links"][0]["origin"] == "leaf0->h0"
    assert stormy["paused_us_total"] >= stormy["longest_us"] > 0
    times = [row["paused_us"] for row in stormy["links"]]
    assert times == sorted(times, reverse=True)


def test_victims_send_to_somebody_else_and_are_slower_for_it(stormy):
    assert stormy["victims"]
    for victim in stormy["victims"]:
        assert not victim["flow"].endswith("->h0")
        assert victim["slowdown"] == pytest.approx(victim["fct_us"] / victim["alone_us"])
        assert victim["slowdown"] > 1


def test_where_nothing_pauses_there_is_no_storm(kept):
    _, folder = kept
    assert "storm" not in json.loads((folder / "result.json").read_text())["variants"][0]["packet"]
