"""Pictures of the page's views; needs Chromium.

    .venv/bin/python tools/pictures.py [NAME...]                 # docs/figures/page-*.png, for README and documentation
    .venv/bin/python tools/pictures.py --look FOLDER [NAME...]   # every view, three widths, light and dark, in full

Run it after a change of what a view shows. The folder that is shown is that of `tools/showcase.py`.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import showcase  # noqa: E402
from tests.face.report.browser import CHROMIUM  # noqa: E402
from tests.face.web.server import running  # noqa: E402

FIGURES = ROOT / "docs" / "figures"
COLOURS = 128
WIDTHS = (360, 820, 1280)
SCHEMES = ("light", "dark")
VIEWS = {
    "home": "/",
    "ask": "/ask?verb=audit",
    "scenario": "/scenario?file=template.yaml",
    "run": "/run/{run}",
    "timeline": "/timeline?runs={run}&from=1000000&to=1100000",
    "hall": "/floor?run={run}&device=be-leaf3",
    "load": "/floor?run={run}&window=194&drawn=tiers",
    "decide": "/decide?runs={run}&prices=network:0.4",
    "plan": "/answer/{plan}",
    "diagnosis": "/answer/{diagnosis}",
    "tune": "/answer/{tune}",
    "audit": "/answer/{audit}?finding=3",
    "findings": "/floor?answer={audit}&finding=3",
    "check": "/answer/{check}",
    "placement": "/answer/{placement}",
    "requests": "/requests?runs={served}",
}
"""Name of the picture, and the address of the view."""


def main(words: list[str]) -> int:
    if CHROMIUM is None:
        print("there is no Chromium on this machine", file=sys.stderr)
        return 1
    look = Path(words[1]) if words[:1] == ["--look"] else None
    names = words[2:] if look else words
    folder = Path(tempfile.mkdtemp())
    try:
        kept = showcase.fill(folder)
        with running(folder) as server, sync_playwright() as driver:
            flags = ["--disable-gpu", "--lang=en-US", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
            addresses = {name: f"{server.address}/#{VIEWS[name].format(**kept)}" for name in names or VIEWS}
            if look is None:
                page = browser.new_page(viewport={"width": 1280, "height": 800})
                for name, address in addresses.items():
                    print(shoot(page, address, FIGURES / f"page-{name}.png"))
            else:
                everywhere(browser, addresses, look)
    finally:
        shutil.rmtree(folder)
    return 0


def everywhere(browser: Browser, addresses: dict[str, str], folder: Path) -> None:
    """Every view at every width in both schemes, and which of them scroll sideways."""
    folder.mkdir(parents=True, exist_ok=True)
    for scheme in SCHEMES:
        for width in WIDTHS:
            page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
            for name, address in addresses.items():
                file = shoot(page, address, folder / f"{name}-{width}-{scheme}.png", full=True)
                wide = page.evaluate("document.documentElement.scrollWidth")
                print(file if wide <= width else f"{file}: {wide} pixels wide")
            page.close()


def shoot(page: Page, address: str, path: Path, *, full: bool = False) -> Path:
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("main h1", state="attached", timeout=60_000)
    page.get_by_text("computing", exact=True).wait_for(state="hidden", timeout=60_000)
    page.wait_for_timeout(1500)
    picture = Image.open(io.BytesIO(page.screenshot(full_page=full))).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
