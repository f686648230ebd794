"""The report in a real browser: it draws everything, logs no error, asks for nothing."""

import html
import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.face.api import claims

import railyard

from .browser import CHROMIUM, browse

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    run = railyard.run(ROOT / "examples" / "first.yaml", out=tmp_path_factory.mktemp("run"))
    assert run.report_path is not None
    return run.report_path


@pytest.fixture(scope="module")
def opened(report, tmp_path_factory) -> subprocess.CompletedProcess[str]:
    return browse(report.as_uri(), tmp_path_factory.mktemp("profile"), "--dump-dom")


def test_it_is_drawn_to_its_end(opened) -> None:
    assert 'data-ready="true"' in opened.stdout


@pytest.mark.parametrize(
    "heading",
    [
        "Side by side",
        "Where the step goes",
        "What you can change",
        "The step of rank 0",
        "Network",
        "Cost per million tokens",
        "Power",
        "Collectives",
        "Memory of one accelerator, GiB by pipeline stage",
        "Where the numbers come from",
    ],
)
def test_every_section_is_there(opened, heading) -> None:
    assert f"<h2>{heading}</h2>" in opened.stdout


def test_no_number_is_missing(opened) -> None:
    text = re.sub(r"<script.*?</script>", "", opened.stdout, flags=re.DOTALL)
    assert not re.search(r"NaN|undefined|Infinity|\[object", text)


def test_the_console_is_silent(opened) -> None:
    assert "CONSOLE" not in opened.stderr


def test_a_variant_is_opened_by_its_address(report, tmp_path) -> None:
    page = browse(report.as_uri(), tmp_path, "--dump-dom")
    names = re.findall(r'<button aria-pressed="(?:true|false)">([^<]+)</button>', page.stdout)
    assert len(names) > 1
    again = browse(f"{report.as_uri()}#variant={names[-1]}", tmp_path / "other", "--dump-dom")
    assert f'<button aria-pressed="true">{names[-1]}</button>' in again.stdout


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_a_picture_is_not_blank(report, tmp_path, width, height) -> None:
    picture = tmp_path / "page.png"
    browse(report.as_uri(), tmp_path / "profile", f"--screenshot={picture}", f"--window-size={width},{height}")
    assert picture.stat().st_size > 20_000  # an empty page of this size packs to a few kilobytes


def sentences(page: str) -> list[str]:
    """Text of paragraphs, lists, headings and captions, a string each; what a picture draws is left out."""
    body = re.sub(r"<(script|style|svg).*?</\1>", "", page, flags=re.DOTALL)
    found = re.findall(r"<(p|li|h1|h2|h3|figcaption|dd)\b[^>]*>(.*?)</\1>", body, flags=re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]+>", "", inside)).strip() for _, inside in found]


def test_sentences_agree_with_the_numbers_beside_them(report, opened) -> None:
    text = "\n".join(sentences(opened.stdout))
    assert claims.of_text(text) == []
    variants = {one["name"]: one for one in json.loads((report.parent / "result.json").read_text())["variants"]}
    name = re.search(r'<button aria-pressed="true">([^<]+)</button>', opened.stdout).group(1)
    step_s, compute = re.search(
        r"add up to the step of ([\d.]+) s\. GPU utilization is the compute part, ([\d.]+) %", text
    ).groups()
    assert float(step_s) == pytest.approx(variants[name]["step"]["seconds"], rel=1e-3)
    assert float(compute) / 100 == pytest.approx(variants[name]["utilization"]["gpu"], abs=6e-4)
    headline = variants[name]["bottleneck"]["headline"]
    assert headline in text
    assert claims.of_headline(variants[name]) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_pages_of_all_examples_say_nothing_broken(path, tmp_path) -> None:
    if path.stem in ("plan", "llama3-70b-1024-h100", "moe-deepseek-v3"):
        pytest.skip("a plan, or a thousand GPUs")
    run = railyard.run(path, out=tmp_path / "run")
    page = browse(run.report_path.as_uri(), tmp_path / "profile", "--dump-dom").stdout
    assert claims.of_text("\n".join(sentences(page))) == []
