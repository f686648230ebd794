"""The report of packet-level runs in a real browser: every section, nothing missing, nothing made up."""

import json
import re
import subprocess

import pytest
from tests.face.report import packet_sample

from railyard.face.reports import write_report
from railyard.measure.result.reading import result_from

from .browser import CHROMIUM, browse

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("packets") / "report.html"
    write_report(result_from(json.dumps(packet_sample.result())), path)
    return path


@pytest.fixture(scope="module")
def opened(report, tmp_path_factory) -> subprocess.CompletedProcess[str]:
    return browse(f"{report.as_uri()}#variant=incast", tmp_path_factory.mktemp("profile"), "--dump-dom")


def words(page: subprocess.CompletedProcess[str]) -> str:
    return re.sub(r"<script.*?</script>", "", page.stdout, flags=re.DOTALL)


@pytest.mark.parametrize(
    "heading",
    [
        "Flow completion times",
        "Queues over time",
        "Pauses: where they began, how far they spread, whom they hit",
        "What the senders did",
        "What became of the packets",
        "Where the numbers come from",
    ],
)
def test_every_section_is_there(opened, heading):
    assert f"<h2>{heading}</h2>" in opened.stdout


def test_it_is_drawn_to_its_end_in_silence(opened):
    assert 'data-ready="true"' in opened.stdout
    assert "CONSOLE" not in opened.stderr
    assert not re.search(r"NaN|undefined|Infinity|\[object", words(opened))


def test_names_stand_in_it(opened):
    section = packet_sample.incast()
    text = words(opened)
    assert section["tails"][0]["slowest"].replace("->", "→") in text
    assert section["storm"]["victims"][0]["flow"].replace("->", "→") in text
    assert f"{section['packets']['new']:,} packets carried data for the first time" in text


def test_what_was_not_probed_is_not_there(report, tmp_path):
    text = words(browse(f"{report.as_uri()}#variant=uec", tmp_path, "--dump-dom"))
    assert "Queues over time" not in text
    assert "Pauses:" not in text
    assert "Where the step goes" not in text


def test_a_run_in_which_nothing_finished_says_so(tmp_path):
    result = packet_sample.result()
    section = result["variants"][0]["packet"]
    section |= {
        "fct_us": dict.fromkeys(section["fct_us"]), "fct_cdf": [], "tails": [], "flows_finished": 0,
        "last_finish_us": None,
    }  # fmt: skip
    result["variants"] = result["variants"][:1]
    write_report(result_from(json.dumps(result)), tmp_path / "report.html")
    page = browse((tmp_path / "report.html").as_uri(), tmp_path / "profile", "--dump-dom")
    assert "No flow has finished." in words(page) or "0 of 128 flows" in words(page)
    assert not re.search(r"NaN|undefined|Infinity|\[object", words(page))
    assert "CONSOLE" not in page.stderr
