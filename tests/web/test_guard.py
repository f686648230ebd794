"""Who is let in."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from railyard.face.web.guard import cookie_for
from railyard.face.web.settings import ServerSettings, checked, read_tokens
from railyard.kit.errors import InputError

from .conftest import SMALL, serving

ANNA, BERT = "a" * 24, "b" * 24


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


@pytest.fixture
def shared(tmp_path: Path) -> ServerSettings:
    return ServerSettings(folder=tmp_path, people={"anna": digest(ANNA), "bert": digest(BERT)})


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_answers_carry_what_browsers_must_obey(client):
    headers = client.get("/api/v1/health").headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8421", "127.0.0.1.evil.example:8421", ""])
def test_another_name_for_this_machine_is_refused(client, host):
    answer = client.get("/api/v1/files", headers={"host": host})
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


def test_the_page_of_this_server_may_ask(client):
    headers = {"origin": "http://127.0.0.1:8421", "sec-fetch-site": "same-origin"}
    assert client.post("/api/v1/check", json={"text": SMALL}, headers=headers).status_code == 200


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
        client.app.state.house.journal.take = lambda: None
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
    with pytest.raises(InputError, match="nobody needs a token"):
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
