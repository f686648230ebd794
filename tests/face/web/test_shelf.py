"""Files of a folder, and nothing else."""

import hashlib
import json
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.face.web.guard import cookie_for
from railyard.face.web.settings import ServerSettings, checked, read_tokens
from railyard.face.web.shelf import Conflict, Missing, Shelf
from railyard.kit.errors import InputError

from .conftest import SMALL, serving


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


# Who is let in.

ANNA, BERT = "a" * 24, "b" * 24


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


@pytest.fixture
def shared(tmp_path: Path) -> ServerSettings:
    return ServerSettings(folder=tmp_path, people={"anna": digest(ANNA), "bert": digest(BERT)})


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_answers_carry_what_browsers_must_obey(house):
    headers = house.get("/api/v1/health").headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8421", "127.0.0.1.evil.example:8421", ""])
def test_another_name_for_this_machine_is_refused(house, host):
    answer = house.get("/api/v1/files", headers={"host": host})
    assert answer.status_code == 421
    assert "--name" in answer.json()["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_pages_of_other_sites_change_nothing(client, headers):
    answer = client.post("/api/v1/jobs", json={"text": SMALL}, headers=headers)
    assert answer.status_code == 403
    assert client.get("/api/v1/jobs").json() == []


def test_the_page_of_this_server_may_ask(house):
    headers = {"origin": "http://127.0.0.1:8421", "sec-fetch-site": "same-origin"}
    assert house.post("/api/v1/check", json={"text": SMALL}, headers=headers).status_code == 200


def test_tokens_are_wanted_where_there_are_people(shared):
    with serving(shared) as client:
        assert client.get("/api/v1/health").status_code == 200
        assert client.get("/api/v1/files").status_code == 401
        assert client.get("/api/v1/files", headers=bearer("c" * 24)).status_code == 401
        assert client.get("/api/v1/me", headers=bearer(ANNA)).json()["name"] == "anna"


def test_a_cookie_stands_for_a_token_until_logout(shared):
    with serving(shared) as client:
        assert client.post("/api/v1/login", json={"token": "wrong"}).status_code == 401
        assert client.post("/api/v1/login", json={"token": BERT}).status_code == 204
        assert client.get("/api/v1/me").json()["name"] == "bert"
        kept = dict(client.cookies)
        assert client.post("/api/v1/logout").status_code == 204
        client.cookies.update(kept)
        assert client.get("/api/v1/me").status_code == 401, "the session itself is gone, not only the cookie"


@pytest.mark.parametrize("people", [{}, {"bert": digest("n" * 24)}], ids=["left", "another-token"])
def test_a_cookie_ends_with_the_token_that_it_was_given_for(shared, people):
    """And the journal holds no secret that could be sent."""
    with serving(shared) as client:
        assert client.post("/api/v1/login", json={"token": BERT}).status_code == 204
        kept = dict(client.cookies)
    assert kept["railyard"].encode() not in (shared.state / "journal.sqlite").read_bytes()
    with serving(replace(shared, people={"anna": digest(ANNA), **people})) as client:
        client.cookies.update(kept)
        assert client.get("/api/v1/me").status_code == 401
    with serving(shared) as client:
        client.cookies.update(kept)
        assert client.get("/api/v1/me").json()["name"] == "bert"


def test_no_script_reads_the_cookie_and_no_other_site_sends_it(shared):
    assert "HttpOnly; SameSite=Strict" in cookie_for(shared, "x", 10)
    assert "Secure" not in cookie_for(shared, "x", 10)
    outside = ServerSettings(folder=shared.folder, host="0.0.0.0", people=shared.people, proxied=True)
    assert "Secure" in cookie_for(outside, "x", 10)


def test_people_do_not_see_each_other(shared):
    with serving(shared) as client:
        saved = {"text": SMALL}
        assert client.put("/api/v1/file?file=mine.yaml", json=saved, headers=bearer(ANNA)).status_code == 200
        job = client.post("/api/v1/jobs", json={"text": "name: broken"}, headers=bearer(ANNA)).json()["id"]
        assert client.get("/api/v1/files", headers=bearer(BERT)).json() == []
        assert client.get("/api/v1/file?file=mine.yaml", headers=bearer(BERT)).status_code == 404
        assert client.get(f"/api/v1/jobs/{job}", headers=bearer(BERT)).status_code == 404
        assert client.post(f"/api/v1/jobs/{job}/stop", headers=bearer(BERT)).status_code == 404
        across = "/api/v1/file?file=../anna/mine.yaml"
        assert client.get(across, headers=bearer(BERT)).status_code == 400


def test_large_and_many_requests_are_refused(limited):
    with serving(limited) as client:
        assert client.post("/api/v1/check", json={"text": "x" * 30_000}).status_code == 413

        def pieces():
            for _ in range(40):
                yield b"x" * 1000

        assert client.post("/api/v1/check", content=pieces()).status_code == 400, "one without a length too"
        codes = [client.post("/api/v1/login", json={"token": "x"}).status_code for _ in range(6)]
        assert codes[-1] == 429


def test_a_queue_has_an_end(limited):
    with serving(limited) as client:
        client.app.state.server.journal.take = lambda: None
        codes = [client.post("/api/v1/jobs", json={"text": SMALL}).status_code for _ in range(3)]
        assert codes == [201, 201, 429]


def test_every_change_is_logged(shared):
    with serving(shared) as client:
        client.post("/api/v1/login", json={"token": "wrong"})
        client.put("/api/v1/file?file=a.yaml", json={"text": SMALL}, headers=bearer(ANNA))
    rows = [json.loads(line) for line in (shared.state / "audit.log").read_text().splitlines()]
    assert [(row["person"], row["method"], row["path"], row["status"]) for row in rows] == [
        (None, "POST", "/api/v1/login", 401),
        ("anna", "PUT", "/api/v1/file", 200),
    ]
    assert ANNA not in (shared.state / "audit.log").read_text()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::", "example.org"])
def test_elsewhere_only_with_tokens_and_encryption(tmp_path, host):
    with pytest.raises(InputError, match="without a token"):
        checked(ServerSettings(folder=tmp_path, host=host))
    people = {"anna": digest(ANNA)}
    with pytest.raises(InputError, match="unencrypted"):
        checked(ServerSettings(folder=tmp_path, host=host, people=people))
    checked(ServerSettings(folder=tmp_path, host=host, people=people, proxied=True))


def test_tokens_are_kept_as_digests_only(tmp_path):
    (tmp_path / "tokens").write_text(f"anna {ANNA} # of the first floor\n\nbert {BERT}\n")
    people = read_tokens(tmp_path / "tokens")
    assert people == {"anna": digest(ANNA), "bert": digest(BERT)}
    assert ServerSettings(folder=tmp_path, people=people).person_of(BERT) == "bert"
