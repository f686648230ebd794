"""Pictures of the page's views for README and documentation, in `docs/figures/page-*.png`; needs Chromium.

    .venv/bin/python tools/pictures.py [NAME...]

Run it after a change of what a view shows. The run is the commented scenario that `railyard init` gives.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.report.browser import CHROMIUM  # noqa: E402
from tests.web.server import running  # noqa: E402

from railyard import api  # noqa: E402
from railyard.cli.starting import template  # noqa: E402

FIGURES = ROOT / "docs" / "figures"
COLOURS = 128
VIEWS = {
    "scenario": "/scenario?file=template.yaml",
    "run": "/run/{run}",
    "timeline": "/timeline?runs={run}&from=1000000&to=1100000",
    "hall": "/floor?run={run}&device=be-leaf3",
    "decide": "/decide?runs={run}&prices=network:0.4",
}
"""Name of the picture, and the address of the view."""


def main(names: list[str]) -> int:
    if CHROMIUM is None:
        print("there is no Chromium on this machine", file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp())
    try:
        file = folder / "template.yaml"
        file.write_text(template(), encoding="utf-8")
        run = api.run(file, out=folder / "runs").folder
        with running(folder) as server, sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            for name in names or VIEWS:
                print(shoot(page, name, server.address + "/#" + VIEWS[name].format(run=run.name)))
    finally:
        shutil.rmtree(folder)
    return 0


def shoot(page: Page, name: str, address: str) -> Path:
    page.goto(address)
    page.wait_for_selector("main h1", state="attached", timeout=60_000)
    page.wait_for_timeout(2000)
    page.get_by_text("computing", exact=True).wait_for(state="hidden", timeout=60_000)
    page.wait_for_timeout(2000)
    path = FIGURES / f"page-{name}.png"
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
