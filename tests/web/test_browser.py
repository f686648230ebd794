"""The story of a user in a real browser: an error, its mend, runs, a stop, a comparison, a file to pass on."""

import os
import time

import pytest
from tests.report.browser import CHROMIUM

from .conftest import LONG, SMALL
from .server import running

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
if CHROMIUM is None:
    pytest.skip("no Chromium on this machine", allow_module_level=True)

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

FLAGS = ("--disable-gpu", "--disable-quic", "--disable-background-networking", "--lang=en-US")
WRONG = SMALL.replace("accelerators: 16", "acelerators: 16")


@pytest.fixture(scope="module")
def browser():
    flags = [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else list(FLAGS)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folder")
    (folder / "small.yaml").write_text(SMALL)
    (folder / "wrong.yaml").write_text(WRONG)
    with running(folder) as server:
        yield server


@pytest.fixture
def page(browser):
    """A page that wants no console errors and asks nobody but the server."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(60_000)
    expect.set_options(timeout=60_000)
    trouble, asked = [], []
    page.on("console", lambda message: trouble.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    page.close()
    assert trouble == []
    assert all(url.startswith(("http://127.0.0.1", "data:", "blob:", "file:")) for url in asked)


def finished(server):
    """The name of a run of `SMALL` that is done."""
    job = server.ask("POST", "/jobs", {"text": SMALL, "file": "small.yaml"})["id"]
    while (found := server.ask("GET", f"/jobs/{job}"))["state"] in {"queued", "running"}:
        time.sleep(0.1)
    return found["run"]


def test_from_an_error_to_a_comparison_that_is_passed_on(server, page, tmp_path):
    page.goto(server.address)
    page.get_by_role("link", name="wrong.yaml").click()
    expect(page.get_by_text("did you mean `accelerators`?").first).to_be_visible()
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_disabled()
    page.get_by_role("button", name="line 3").first.click()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.type("c")
    page.keyboard.press("Escape")
    expect(page.get_by_text("no faults")).to_be_visible()
    expect(page.get_by_text("A rough answer: the first variant")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    assert server.ask("GET", "/file?file=wrong.yaml")["text"] == SMALL
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("link", name="open the result").first.click()
    expect(page.get_by_role("heading", name="small").first).to_be_visible()
    expect(page.get_by_text("GPU utilization").first).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save as one file").click()
    file = tmp_path / "report.html"
    saved.value.save_as(file)
    page.goto(file.as_uri())
    expect(page.get_by_text("GPU utilization").first).to_be_visible()

    page.goto(f"{server.address}/#/scenario?file=small.yaml")
    page.get_by_label("Fabric").fill("ideal")
    page.get_by_label("Fabric").press("Enter")
    expect(page.locator(".cm-content")).to_contain_text("fabric: ideal")
    expect(page.get_by_text("A rough answer: the first variant")).to_be_visible()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("link", name="open the result").first).to_be_visible()
    page.get_by_role("link", name="Runs", exact=True).click()
    expect(page.get_by_role("checkbox")).to_have_count(2)
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("link", name="Compare 2 runs").click()
    expect(page.get_by_text("Side by side")).to_be_visible()
    address = page.url
    second = page.get_by_role("group", name="Details of").get_by_role("button").last
    second.click()
    assert page.url != address, "what is chosen stands in the address"
    page.reload()
    expect(second).to_have_attribute("aria-pressed", "true")


def test_from_a_run_to_its_ranks_its_hall_and_a_fault(server, page):
    finished(server)
    page.goto(server.address)
    page.locator("main table").get_by_role("link", name="small").first.click()
    page.get_by_role("link", name="Every rank at any zoom").click()
    timeline = page.get_by_label("Timeline of small")
    timeline.focus()
    page.keyboard.press("w")
    expect(page.get_by_text(" to ").last).to_be_visible()
    assert "from=" in page.url, "the zoom stands in the address"
    page.go_back()
    page.get_by_role("link", name="The hall, from rack to port").click()
    page.get_by_label("Find").fill("be-leaf0")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("heading", name="be-leaf0")).to_be_visible()
    page.get_by_role("link", name="Let it die and run again").click()
    expect(page.locator(".cm-content")).to_contain_text("kind: switch-down")
    expect(page.get_by_text("no faults")).to_be_visible()


def test_the_form_writes_what_the_text_leaves_out(server, page):
    text = SMALL.replace("topology: {kind: leaf-spine, oversubscription: 1:1}", "topology: leaf-spine  # as bought")
    (server.folder / "short.yaml").write_text(
        text.replace(", fabric: roce", "").replace("{topology", "\n    topology").replace("bought}", "bought")
    )
    page.goto(f"{server.address}/#/scenario?file=short.yaml")
    expect(page.get_by_label("Topology")).to_have_value("leaf-spine")
    page.get_by_label("Oversubscription").fill("2:1")
    page.get_by_label("Oversubscription").press("Enter")
    expect(page.locator(".cm-content")).to_contain_text(
        "topology: {kind: leaf-spine, oversubscription: 2:1} # as bought"
    )
    expect(page.get_by_text("no faults")).to_be_visible()


def test_a_run_is_stopped_from_the_page(server, page):
    page.goto(server.address)
    server.ask("POST", "/jobs", {"text": LONG, "file": "long.yaml"})
    page.get_by_role("button", name="stop long.yaml").click()
    expect(page.get_by_text("stopped", exact=False).first).to_be_visible()


def test_typed_text_outlives_a_reload(server, page):
    page.goto(f"{server.address}/#/scenario?file=small.yaml")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type("# a thought")
    expect(page.locator(".cm-content")).to_contain_text("# a thought")
    page.reload()
    expect(page.locator(".cm-content")).to_contain_text("# a thought")
    page.get_by_role("button", name="Undo all changes").click()
    expect(page.locator(".cm-content")).not_to_contain_text("# a thought")


def test_keys_alone_lead_from_the_list_to_a_scenario(server, page):
    page.goto(server.address)
    expect(page.get_by_role("link", name="small.yaml")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("To the content")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.locator(":focus").inner_text() == "small.yaml":
            break
    page.keyboard.press("Enter")
    expect(page.locator(".cm-content")).to_be_visible()


@pytest.mark.parametrize("where", ["/", "/#/scenario?file=small.yaml"])
def test_a_phone_needs_no_sideways_scrolling(server, page, where):
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(server.address + where)
    expect(page.locator("section").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_every_view_is_clean_for_those_who_cannot_see_it(server, browser):
    """Axe's rules, best practices too, in light and dark."""
    run = finished(server)
    views = {
        "/": "Runs and scenarios", "/scenario?file=small.yaml": "Scenario", f"/run/{run}": "small",
        f"/timeline?runs={run}": "Timelines", f"/floor?run={run}&device=be-leaf0": "The hall",
        f"/decide?runs={run}": "At other prices",
    }  # fmt: skip
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        for view, title in views.items():
            page.goto(f"{server.address}/#{view}")
            expect(page.get_by_role("heading", level=1, name=title)).to_be_attached()
            page.wait_for_timeout(500)
            found = Axe().run(page).response["violations"]
            assert [(view, row["id"], row["nodes"][0]["html"]) for row in found] == []
        page.close()
