"""Files of a folder, and nothing else."""

import json
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.face.web.shelf import Conflict, Missing, Shelf
from railyard.kit.errors import InputError

from .conftest import SMALL


@pytest.fixture
def shelf(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "secret.yaml").write_text("token: x")
    return Shelf(tmp_path / "folder")


OUTSIDE = [
    "../secret.yaml", "a/../../secret.yaml", "/etc/passwd", "/etc/passwd.yaml", "./../secret.yaml", ".hidden.yaml",
    ".railyard/x.yaml", "a\\..\\secret.yaml", "x.py", "x.yaml\0.yaml", "a/b/c/d/e.yaml", "x" * 300 + ".yaml",
    "new\nline.yaml",
]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_name_leads_out(shelf, name):
    with pytest.raises((InputError, Missing)):
        shelf.read(name)
    with pytest.raises((InputError, Missing)):
        shelf.write(name, "x: 1", None)


def test_no_link_leads_out(shelf, tmp_path):
    (shelf.folder / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    (shelf.folder / "up").symlink_to(tmp_path)
    for name in ("link.yaml", "up/secret.yaml"):
        with pytest.raises(InputError):
            shelf.read(name)


@settings(max_examples=200)
@given(st.text(alphabet="ab./\\~%\0-", min_size=1, max_size=20))
def test_random_names_stay_inside(tmp_path_factory, name):
    root = tmp_path_factory.mktemp("shelf")
    (root / "in").mkdir()
    with suppress(InputError):
        Shelf(root / "in").write(f"{name}.yaml", "x: 1", None)
    assert [path.name for path in root.iterdir()] == ["in"]


def test_a_file_is_replaced_only_by_who_knows_it(shelf):
    first = shelf.write("a/b.yaml", "x: 1", None)
    with pytest.raises(Conflict):
        shelf.write("a/b.yaml", "x: 2", None)
    second = shelf.write("a/b.yaml", "x: 2", first.version)
    with pytest.raises(Conflict):
        shelf.write("a/b.yaml", "x: 3", first.version)
    assert shelf.read("a/b.yaml") == second
    assert [row.file for row in shelf.files()] == ["a/b.yaml"]


def save(folder, number, version):
    try:
        Shelf(folder).write("a.yaml", f"x: {number}", version)
    except Conflict:
        return None
    return number


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_of_forty_saves_of_one_version_one_is_accepted_and_kept(shelf, pool):
    """A new file, and the next version of it, by threads of one server and by several servers."""
    version = None
    with pool(8) as workers:
        for first in (0, 40, 80):
            saved = [workers.submit(save, shelf.folder, first + number, version) for number in range(40)]
            accepted = [one.result() for one in saved if one.result() is not None]
            assert len(accepted) == 1
            present = shelf.read("a.yaml")
            assert present.text == f"x: {accepted[0]}"
            version = present.version


def test_files_of_runs_and_hidden_ones_are_no_scenarios(shelf):
    for name in ("runs/x/scenario.yaml", ".railyard/y.yaml", "node_modules/z.yaml"):
        (shelf.folder / name).parent.mkdir(parents=True)
        (shelf.folder / name).write_text(SMALL)
    assert shelf.files() == []


@pytest.mark.parametrize("name", ["..", ".", "", "../folder", "a/b", ".unfinished", "none"])
def test_only_runs_are_runs(shelf, name):
    (shelf.folder / "runs" / ".unfinished").mkdir(parents=True)
    (shelf.folder / "runs" / ".unfinished" / "result.json").write_text("{}")
    with pytest.raises(Missing):
        shelf.run(name)


def test_a_run_gives_its_files_only(shelf):
    run = shelf.folder / "runs" / "x-1"
    run.mkdir(parents=True)
    (run / "result.json").write_text("{}")
    (shelf.folder / "other.yaml").write_text("x: 1")
    assert shelf.file_of_run("x-1", "result.json").name == "result.json"
    for name in ("../../other.yaml", "/etc/passwd", "none", "", "a\0b"):
        with pytest.raises((Missing, ValueError)):
            shelf.file_of_run("x-1", name)


def test_folders_that_hold_no_result_are_left_out(shelf):
    for name, text in (("a", "{"), ("b", "[]"), ("c", json.dumps({"format": "other/1"})), ("d", "")):
        (shelf.folder / "runs" / name).mkdir(parents=True)
        (shelf.folder / "runs" / name / "result.json").write_text(text)
    assert shelf.runs() == []


def test_pages_that_commands_wrote_are_listed_and_can_only_draw(client, settings):
    inside = settings.folder / "runs" / "plan-1"
    inside.mkdir(parents=True)
    (inside / "plan.html").write_text("<!doctype html><title>Which &amp; why</title><script>1</script>")
    (settings.folder.parent / "outside.html").write_text("<title>no</title>")
    (settings.folder / "link.html").symlink_to(settings.folder.parent / "outside.html")
    run = settings.folder / "runs" / "one"
    run.mkdir()
    (run / "result.json").write_text("{}")
    (run / "report.html").write_text("<title>a report</title>")
    rows = {row["file"]: row["title"] for row in client.get("/api/v1/pages").json()}
    assert rows == {"runs/plan-1/plan.html": "Which & why"}
    found = client.get("/api/v1/page?file=runs/plan-1/plan.html")
    assert found.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'")
    assert len(found.headers.get_list("content-security-policy")) == 1
    for name in ("../outside.html", "link.html", "runs/one/result.json", "none.html", "%00.html", ".railyard/x.html"):
        assert client.get(f"/api/v1/page?file={name}").status_code == 404
