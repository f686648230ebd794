"""Views for notebooks: pages in frames that need nothing."""

import html
import re
from pathlib import Path

import pytest
from tests.report.browser import CHROMIUM, browse
from tests.report.test_answers import SUSPECT, diagnosis
from tests.report.test_html import embedded, named

from railyard.face import api
from railyard.face.report import keep_answer
from railyard.kit.errors import InputError


def inside(view):
    """The document in the frame."""
    found = re.search(r'srcdoc="([^"]*)"', view._repr_html_())
    return html.unescape(found[1])


def test_a_run_and_an_answer_are_shown_in_frames_without_rights(tmp_path):
    result = named("</iframe><b>")
    view = api.Run(result.name, result).view(height=321)
    assert embedded(inside(view)) == result.plain()
    assert 'sandbox="allow-scripts"' in view._repr_html_()
    assert 'height="321"' in view._repr_html_()
    assert view._repr_html_().count("<iframe") == 1
    folder = keep_answer(diagnosis(SUSPECT), tmp_path)
    assert embedded(inside(api.view(folder))) == diagnosis(SUSPECT).plain()
    assert api.view(folder / "diagnosis.json") == api.view(folder)
    run = tmp_path / "run"
    run.mkdir()
    (run / "result.json").write_text(result.text())
    assert embedded(inside(api.view(str(run)))) == result.plain()
    with pytest.raises(InputError, match="nothing that can be shown"):
        api.view(tmp_path)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_choice_in_a_frame_needs_no_address(tmp_path: Path):
    """The frame has no origin, so that the browser lets nothing into its address."""
    page = keep_answer(diagnosis(SUSPECT, SUSPECT), tmp_path / "runs")
    click = "setInterval(() => document.querySelector('button.line[aria-pressed=false]')?.click(), 100)"
    document = inside(api.view(page)).replace("</body>", f"<script>{click}</script></body>")
    outer = f'<iframe sandbox="allow-scripts" width="900" height="700" srcdoc="{html.escape(document)}"></iframe>'
    (tmp_path / "cell.html").write_text(f"<!doctype html><title>x</title>{outer}")
    found = browse((tmp_path / "cell.html").as_uri(), tmp_path / "profile", "--dump-dom")
    assert "CONSOLE" not in found.stderr
