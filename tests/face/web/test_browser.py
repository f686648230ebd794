"""The story of a user in a real browser: an error, its mend, runs, a stop, a comparison, a file to pass on."""

import os
import re
import zipfile
from pathlib import Path

import pytest
from tests.face.report.browser import CHROMIUM

from railyard.ask.deploy.cabling import dialects, drawn, plan_of
from railyard.ask.deploy.emit.labs import netlist
from railyard.face import api
from railyard.face.reports import keep_answer
from railyard.measure.result.answers import answer_from
from railyard.work.scenario import load
from railyard.work.study import compose

from .conftest import LONG, SMALL
from .server import running, until
from .test_api import SERVED
from .test_verbs import DESIGNS, EXAMPLES

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
if CHROMIUM is None:
    pytest.skip("no Chromium on this machine", allow_module_level=True)

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

WAIT_MS = 120_000
"""For anything that is to appear: machines may have a lot else to do."""
QUIET_MS = 150

COUNTED = """
window.asked = 0; window.answered = 0;
const ask = window.fetch;
window.fetch = async (...given) => {
  window.asked += 1;
  try { return await ask(...given); } finally { window.asked -= 1; window.answered = performance.now(); }
};
"""
"""Lets a page say whether it waits for answers."""

FLAGS = (
    "--disable-gpu", "--disable-quic", "--disable-background-networking", "--lang=en-US",
    "--process-per-site", "--disable-site-isolation-trials", "--in-process-gpu",
)  # fmt: skip
"""The last three: pages share a process, which otherwise begins anew for every page that is opened."""
WRONG = SMALL.replace("accelerators: 16", "acelerators: 16")


@pytest.fixture(scope="module")
def browser():
    flags = [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else list(FLAGS)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=flags, timeout=WAIT_MS)
        expect.set_options(timeout=WAIT_MS)
        yield browser
        browser.close()


def opened(browser, **look):
    """A page of its own, without what others stored."""
    page = browser.new_page(**look)
    page.set_default_timeout(WAIT_MS)
    page.add_init_script(COUNTED)
    return page


def settle(page):
    """Waits until the page waits for nothing."""
    while not page.evaluate(f"window.asked === 0 && performance.now() - window.answered > {QUIET_MS}"):
        page.wait_for_timeout(QUIET_MS / 3)


def address_has(page, words):
    """What is chosen stands in the address; the browser tells of that a moment later."""
    expect(page).to_have_url(re.compile(re.escape(words)))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folder")
    (folder / "small.yaml").write_text(SMALL)
    with running(folder) as server:
        yield server


ANSWERS = Path(__file__).parent / "data"
CABLED = """\
name: hall
cluster:
  accelerators: 128
  server: hgx-h100
  back_end:
    topology: {kind: leaf-spine, ports_per_leaf: 16, spines: 4, oversubscription: 2:1}
    fabric: infiniband
    cable_length: {nic: 3 m}
workload:
  training: {model: llama-3-8b, tokens: 1 B, global_batch: 128, sequence: 1024, parallelism: {tp: 1, zero: 3}}
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A server over what commands kept, apart from the one whose runs are counted."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "small.yaml").write_text(SMALL)
    with running(folder) as server:
        yield server


@pytest.fixture(scope="module")
def answers(other):
    """Answers as commands kept them, by what they are; the hall of each is that of `CABLED`."""
    kept = {}
    for file in sorted(ANSWERS.glob("*.json")):
        kept[file.stem] = keep_answer(answer_from(file.read_bytes()), other.folder / "runs", CABLED).name
    return kept


@pytest.fixture(scope="module")
def served(other):
    """The name of a serving run."""
    (other.folder / "served.yaml").write_text(SERVED)
    return api.run(other.folder / "served.yaml", out=other.folder / "runs").folder.name


@pytest.fixture
def page(browser):
    """A page that wants no console errors and asks nobody but the server."""
    page = opened(browser, viewport={"width": 1280, "height": 900})
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
    return ended(server, server.ask("POST", "/jobs", {"text": SMALL, "file": "small.yaml"}))


def ended(server, job):
    """The name of what a job gave."""
    found = until(lambda: ending(server.ask("GET", f"/jobs/{job['id']}")), 300)
    assert found["state"] == "done", found["faults"]
    return found["outcome"]["name"]


def ending(job):
    return None if job["state"] in {"queued", "running"} else job


@pytest.fixture
def fresh(tmp_path):
    """A server that nobody else asks: its runs are counted, its files changed."""
    folder = tmp_path / "fresh"
    folder.mkdir()
    (folder / "small.yaml").write_text(SMALL)
    (folder / "wrong.yaml").write_text(WRONG)
    with running(folder) as server:
        yield server


def test_from_an_error_to_a_comparison_that_is_passed_on(fresh, page, tmp_path):
    server = fresh
    page.goto(server.address)
    page.get_by_role("link", name="wrong.yaml").click()
    expect(page.get_by_text("did you mean accelerators?").first).to_be_visible()
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_disabled()
    page.get_by_role("button", name="line 3").first.click()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.type("c")
    page.keyboard.press("Escape")
    expect(page.get_by_text("no faults")).to_be_visible()
    expect(page.get_by_text("A rough answer: the first variant")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    settle(page)
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    assert server.ask("GET", "/file?file=wrong.yaml")["text"] == SMALL
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("heading", name="small").first).to_be_visible()  # the result opens by itself
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
    expect(page.get_by_role("link", name="Save as one file")).to_be_visible()
    page.get_by_role("link", name="Runs", exact=True).click()
    expect(page.get_by_role("checkbox")).to_have_count(2)
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("link", name="Compare 2 runs").click()
    expect(page.get_by_text("Side by side")).to_be_visible()
    address = page.url
    second = page.get_by_role("group", name="Details of").get_by_role("button").last
    second.click()
    expect(page).not_to_have_url(address)
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
    address_has(page, "from=")
    page.go_back()
    page.get_by_role("link", name="The hall, from rack to port").click()
    page.get_by_label("Find").fill("be-leaf0")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("heading", name="be-leaf0")).to_be_visible()
    page.get_by_role("link", name="Let it die and run again").click()
    expect(page.locator(".cm-content")).to_contain_text("kind: switch-down")  # of a long text it draws what is in sight
    expect(page.get_by_text("no faults")).to_be_visible()


def test_a_moment_of_the_step_is_played_and_stands_in_the_address(server, page):
    run = finished(server)
    page.goto(f"{server.address}/#/floor?run={run}")
    slider = page.get_by_role("slider", name="Moment of the step")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"links in use carry .* %, the busiest"))
    address_has(page, "window=3")
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    expect(slider).to_have_value("3")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    expect(slider).not_to_have_value("3")
    page.get_by_role("button", name="tiers").click()
    expect(page.get_by_role("img", name="Link load over the tiers")).to_be_visible()
    page.get_by_role("button", name="The step as a whole").click()
    expect(page).not_to_have_url(re.compile("window"))


def test_a_finding_is_chosen_lit_in_the_hall_and_passed_on(other, answers, page, tmp_path):
    page.goto(other.address)
    page.locator("main table").get_by_role("link", name="hall-7").click()
    expect(page.get_by_role("heading", name="Audit: hall-7")).to_be_visible()
    page.get_by_role("button", name="be-leaf1[18]").first.click()
    expect(page.get_by_text("Red: finding")).to_be_visible()
    address_has(page, "finding=")
    page.get_by_role("link", name="show", exact=True).first.click()
    expect(page.get_by_role("heading", name="The hall of")).to_be_visible()
    expect(page.locator("main")).to_contain_text("cable_length: {nic: 7 m}")
    expect(page.locator("main")).not_to_contain_text("`")
    first = page.locator("tbody").get_by_role("button").first
    expect(first).to_have_attribute("aria-pressed", "true")
    first.click()
    expect(first).to_have_attribute("aria-pressed", "false")
    page.get_by_role("link", name="What they are and what repairs bring").click()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save as one file").click()
    file = tmp_path / "audit.html"
    saved.value.save_as(file)
    page.goto(file.as_uri())
    expect(page.get_by_role("heading", name="Audit: hall-7")).to_be_visible()
    expect(page.get_by_role("heading", name="Savings by repair")).to_be_visible()


def test_a_design_is_chosen_on_the_front_by_keys(other, answers, page):
    page.goto(f"{other.address}/#/answer/{answers['plan']}")
    front = page.get_by_role("group", name=re.compile("designs$"))
    points = front.get_by_role("button")
    points.last.focus()
    page.keyboard.press("Enter")
    expect(points.last).to_have_attribute("aria-pressed", "true")
    address_has(page, "design=")
    page.get_by_role("group", name="X axis").get_by_role("button", name="step").click()
    address_has(page, "x=step")
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    expect(page.get_by_role("group", name="X axis").get_by_role("button", name="step")).to_have_attribute(
        "aria-pressed", "true"
    )


def test_a_network_is_uploaded_and_audited(other, page):
    (other.folder / "cabled.yaml").write_text(CABLED)
    plan = plan_of(compose.cluster_of(draft := load.load(other.folder / "cabled.yaml"), compose.catalog_of(draft)))
    found = drawn(plan, 0, next(one for one in dialects(plan, 0) if one.name == "infiniband"))
    text = netlist(found.without([11]))
    page.goto(other.address)
    page.get_by_role("link", name="Ask", exact=True).click()
    page.get_by_role("link", name="Audit").click()
    expect(page.get_by_role("button", name="Audit")).to_be_disabled()
    file = {"name": "found.txt", "mimeType": "text/plain", "buffer": text.encode()}
    page.get_by_role("combobox", name="What was planned").fill("cabeld.yaml")
    page.get_by_label("upload InfiniBand fabric").set_input_files(file)
    expect(page.get_by_role("combobox", name="InfiniBand fabric")).to_have_value("uploads/found.txt")
    # The upload has redrawn the form: what was typed beneath it, and not yet left, is still there.
    expect(page.get_by_role("combobox", name="What was planned")).to_have_value("cabeld.yaml")
    page.keyboard.press("Tab")
    expect(page.get_by_role("alert").filter(has_text="Nothing that is listed is called cabeld.yaml.")).to_be_visible()
    page.get_by_role("combobox", name="What was planned").fill("cabled.yaml")
    page.keyboard.press("Tab")
    expect(page.get_by_role("alert")).to_have_count(0)
    address_has(page, "ibnetdiscover=uploads")
    page.get_by_role("button", name="Audit").click()
    page.get_by_role("link", name="open the result").first.click()
    expect(page.get_by_role("heading", name="Audit: hall")).to_be_visible()
    expect(page.get_by_text("missing").first).to_be_visible()
    page.get_by_role("link", name="show", exact=True).first.click()
    expect(page.get_by_role("heading", name="The hall of")).to_be_visible()


def test_a_plan_is_mended_asked_for_and_read(other, page):
    (other.folder / "designs.yaml").write_text(DESIGNS.replace("draws", "drawz"))
    page.goto(f"{other.address}/#/scenario?file=designs.yaml")
    page.get_by_label("or another").select_option("plan")
    address_has(page, "verb=plan")
    expect(page.get_by_text("did you mean draws?").first).to_be_visible()
    expect(page.get_by_role("button", name="Plan", exact=True)).to_be_disabled()
    page.get_by_role("button", name="line 7").first.click()
    page.keyboard.press("End")
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Backspace")
    page.keyboard.type("s")
    page.keyboard.press("Escape")
    expect(page.get_by_text("no faults")).to_be_visible()
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.get_by_role("heading", name="Plan: which")).to_be_visible()


def test_a_check_and_a_placement_are_read(other, page):
    checked = other.ask("POST", "/jobs", {"verb": "check", "text": SMALL + "check: [step < 1 us, step < 1 h]\n"})
    (other.folder / "jobs.csv").write_text("job,nodes\nfirst,1\nsecond,2\n")
    given = {"jobs": ["jobs.csv"], "nodes": ["small.yaml"]}
    placed = other.ask("POST", "/jobs", {"verb": "place", "files": given})
    page.goto(f"{other.address}/#/answer/{ended(other, checked)}")
    expect(page.get_by_role("heading", name="1 of 2 assertions fails")).to_be_visible()
    page.goto(f"{other.address}/#/answer/{ended(other, placed)}")
    expect(page.get_by_role("heading", name="Policy slurm-tree places 1 of 2 jobs")).to_be_visible()


def test_a_trace_is_uploaded_and_scaled_to_a_pasted_cluster(other, page):
    page.goto(f"{other.address}/#/ask?verb=scale")
    page.get_by_label("upload Traces").set_input_files(EXAMPLES / "resnet-ddp.json.gz")
    page.get_by_text("or paste its text").click()
    page.get_by_label("text of The cluster").fill((EXAMPLES / "scale.yaml").read_text())
    expect(page.get_by_role("button", name="Scale a trace")).to_be_disabled()
    page.get_by_role("button", name="Take it").click()
    expect(page.get_by_role("combobox", name="The cluster")).to_have_value(re.compile("uploads/pasted-cluster"))
    page.get_by_label("Accelerators").fill("64")
    page.get_by_role("button", name="Scale a trace").click()
    page.get_by_role("link", name="open the result").first.click()
    expect(page.get_by_role("heading", name="on 64 accelerators")).to_be_visible()
    expect(page.get_by_text("Of 2 ranks 1 have a trace; missing: 1")).to_be_visible()


def test_requests_are_read_one_by_one(other, served, page):
    page.goto(f"{other.address}/#/run/{served}")
    page.get_by_role("link", name="Every request").click()
    expect(page.get_by_role("heading", name="Request by request")).to_be_visible()
    page.get_by_role("button", name="slowest first token").click()
    address_has(page, "order=ttft")
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("41 to 80 of 160")).to_be_visible()


def test_numbers_are_written_as_the_reader_does(other, answers, browser):
    page = opened(browser, locale="de-DE")
    page.goto(f"{other.address}/#/answer/{answers['audit']}")
    expect(page.get_by_role("cell", name=re.compile(r"^\d+,\d\d %$")).first).to_be_visible()
    expect(page.get_by_role("cell", name=re.compile(r"^\d+\.\d{3}\s\$$")).first).to_be_visible()
    page.close()


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
    settle(page)  # what comes later would be passed by
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("To the content")
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText") == "small.yaml":
            break
    else:
        pytest.fail("no number of tabs leads to small.yaml")
    page.keyboard.press("Enter")
    expect(page.locator(".cm-content")).to_be_visible()


def test_a_phone_needs_no_sideways_scrolling(other, answers, served, page):
    page.set_viewport_size({"width": 360, "height": 740})
    views = ["/", "/ask?verb=audit", "/ask?verb=place", "/scenario?file=small.yaml", f"/requests?runs={served}"]
    for view in [*views, *(f"/answer/{name}" for name in answers.values()), f"/floor?answer={answers['audit']}"]:
        page.goto("about:blank")
        page.goto(f"{other.address}/#{view}")
        expect(page.locator("section").first).to_be_visible()
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view


@pytest.mark.parametrize("scheme", ["dark", pytest.param("light", marks=pytest.mark.slow)])
def test_every_view_is_clean_for_those_who_cannot_see_it(other, answers, served, browser, scheme):
    """Axe's rules, best practices too, in light and dark."""
    run = finished(other)
    (written := other.folder / "deployments" / "hall").mkdir(parents=True, exist_ok=True)
    (written / "index.html").write_text("<!doctype html><title>hall</title><h1>hall</h1>")
    views = {
        "/": "Runs and scenarios", "/ask": "What can be asked", "/ask?verb=audit": "Audit", "/ask?verb=plan": "Plan",
        "/scenario?file=small.yaml": "Scenario", f"/run/{run}": "small",
        f"/timeline?runs={run}": "Timelines", f"/floor?run={run}&device=be-leaf0": "The hall",
        f"/floor?run={run}&window=20&drawn=tiers": "The hall",
        f"/floor?answer={answers['audit']}&finding=1": "The hall",
        f"/decide?runs={run}": "At other prices", f"/requests?runs={served}": "Requests",
        f"/answer/{answers['plan']}": "Plan", f"/answer/{answers['diagnosis']}": "Diagnosis",
        f"/answer/{answers['tune']}": "Tuning", f"/answer/{answers['scale']}": "Scaled trace",
        "/ask?verb=scale": "Scale a trace", f"/answer/{answers['audit']}?finding=2": "Audit",
        "/page?file=deployments/hall/index.html": "Page",
    }  # fmt: skip
    wrong = []
    page = opened(browser, color_scheme=scheme)
    for view, title in views.items():
        page.goto("about:blank")  # the heading of the last view is no sign of this one
        page.goto(f"{other.address}/#{view}")
        expect(page.get_by_role("heading", level=1, name=title)).to_be_attached()
        for files in page.get_by_text("Files", exact=True).all():
            files.click()
            expect(page.get_by_role("link", name="Save all as one archive")).to_be_visible()
        settle(page)
        found = Axe().run(page).response["violations"]
        wrong += [(view, row["id"], row["nodes"][0]["html"]) for row in found]
    page.close()
    assert wrong == []


def test_a_refresh_that_fails_leaves_what_is_typed(other, browser):
    page = opened(browser)
    page.goto(f"{other.address}/#/ask?verb=audit")
    planned = page.get_by_role("combobox", name="What was planned")
    planned.fill("small.yaml")
    page.keyboard.press("Tab")
    planned.fill("another.yaml")
    settle(page)
    page.route("**/api/v1/inputs", lambda route: route.fulfill(status=502, body="a proxy's words"))
    with page.expect_response("**/api/v1/inputs") as refused:
        other.ask("POST", "/jobs", {"verb": "check", "text": SMALL + "check: [step < 1 h]\n"})
    assert refused.value.status == 502
    settle(page)
    assert planned.input_value() == "another.yaml"
    page.close()


def test_the_queue_is_there_again_after_a_proxys_refusal(other, browser):
    page = opened(browser)
    page.route("**/api/v1/events*", lambda route: route.fulfill(status=502, body=""), times=2)
    page.goto(other.address)
    job = other.ask("POST", "/jobs", {"text": LONG, "file": "later.yaml"})
    expect(page.get_by_role("button", name="stop later.yaml")).to_be_visible()
    other.ask("POST", f"/jobs/{job['id']}/stop")
    expect(page.get_by_role("button", name="stop later.yaml")).to_have_count(0)
    page.close()


def test_two_clicks_ask_once_and_what_was_written_is_fetched(other, page, tmp_path):
    added = []
    page.on("request", lambda request: added.append(request.url) if request.method == "POST" else None)
    page.goto(f"{other.address}/#/ask?verb=deploy&file=small.yaml")
    page.get_by_role("button", name="Deploy").dblclick()
    expect(page.get_by_role("link", name="open the result").first).to_be_visible()
    page.get_by_role("button", name="Deploy").dispatch_event("click", {"detail": 2})  # the first was answered by then
    settle(page)
    page.get_by_role("link", name="open the result").first.click()
    assert added == [f"{other.address}/api/v1/jobs"]
    page.get_by_text("Files", exact=True).click()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save all as one archive").click()
    saved.value.save_as(tmp_path / "all.zip")
    with zipfile.ZipFile(tmp_path / "all.zip") as found:
        assert "small/index.html" in found.namelist()
    with page.expect_download() as saved:
        page.get_by_role("link", name="index.html", exact=True).click()
    assert saved.value.suggested_filename == "index.html"


def test_a_new_name_keeps_what_is_typed_after_it(server, page):
    page.goto(f"{server.address}/#/scenario?file=small.yaml")
    page.get_by_label("File").fill("named.yaml")
    page.keyboard.press("Enter")
    for word in ("# first", "# second"):
        page.locator(".cm-content").click()
        page.keyboard.press("Control+End")
        page.keyboard.type(word)
        page.get_by_role("button", name="Save").click()
        settle(page)
        expect(page.get_by_role("button", name="Save")).to_be_disabled()
    assert server.ask("GET", "/file?file=named.yaml")["text"] == f"{SMALL}# first# second"
    finished(server)  # what happens elsewhere draws the page anew
    page.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type("# third")
    expect(page.locator(".cm-content")).to_contain_text("# second# third")
    address_has(page, "file=named.yaml")
    page.reload()
    expect(page.locator(".cm-content")).to_contain_text("# second# third")
