"""Eight people on one server, each of whom tries what the others have: by name, link, cookie, token, event and job.

Every operation of the API's own description is asked with every spelling of every thing of another person. What counts
is what comes back (a secret of each person stands in every file and job of theirs, in no name), and what lies in the
folders afterwards. `python -m tests.face.web.test_eight_people` tries all 56 pairs and prints what got through.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import socket
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
import uvicorn

import railyard
from railyard.face.web.application import ImpatientProtocol, application
from railyard.face.web.dispatch import refuse_outside
from railyard.face.web.settings import ServerSettings, WorkLimits, checked
from railyard.kit.errors import InputError
from railyard.kit.schema import yaml

from .conftest import SMALL
from .server import free_port, until

SEED = 26
NAMES = ("ada", "ben", "cyd", "dan", "eva", "fay", "gus", "hal")
TUNED = json.loads((Path(__file__).parent / "data" / "tune.json").read_text(encoding="utf-8"))
REFUSED = {400, 401, 403, 404, 405, 409, 413, 421, 422}

NUMBERS = {"variant": 0, "first": 0, "count": 1, "pixels": 10, "lane": 0, "at_us": 0, "from_us": 0, "to_us": 1000}
"""What operations want besides names."""

SCENARIOS = (
    f"catalog: THING\n{SMALL}",
    f"collectives: {{constants: THING}}\n{SMALL}",
    SMALL.replace("llama-3-8b", "./THING"),
    "name: r\ncluster: {accelerators: 16, server: hgx-h100}\nworkload: {trace: {file: THING}}\n",
    "name: j\ncluster: {accelerators: 16, server: hgx-h100}\nworkload: {operate: {jobs: {trace: THING}}}\n",
)


@dataclass
class Person:
    """Somebody, and what is theirs."""

    name: str
    number: int
    folder: Path
    token: str
    secret: str
    cookie: str = ""
    job: str = ""
    original: dict[str, bytes] = field(default_factory=dict)

    @property
    def things(self):
        """What they have, by the parameter of operations that asks for it; paths are below their folder."""
        end = self.number
        return {
            "file": [f"mine-{end}.yaml", f"uploads/up-{end}.csv", f"page-{end}.html", f"rec-{end}.parquet"],
            "run": [f"runs/run-{end}"],
            "answer": [f"runs/ans-{end}"],
            "folder": [f"runs/run-{end}", f"deployments/dep-{end}"],
            "name": ["result.json", "secret.txt"],
            "job": [self.job],
        }

    def furnish(self, result):
        text = f"# {self.secret}\n"
        files = {
            f"mine-{self.number}.yaml": f"{text}{SMALL}",
            f"uploads/up-{self.number}.csv": f"{self.secret},{self.secret}\n1,2,3\n",
            f"page-{self.number}.html": f"<title>{self.secret}</title>",
            f"rec-{self.number}.parquet": self.secret,
            f"deployments/dep-{self.number}/secret.txt": text,
        }
        for name in ("result.json", "scenario.yaml", "report.html", "timeline.parquet", "requests.parquet"):
            files[f"runs/run-{self.number}/{name}"] = text
        files[f"runs/run-{self.number}/result.json"] = json.dumps({**result, "name": self.secret})
        files[f"runs/ans-{self.number}/tune.json"] = json.dumps({**TUNED, "name": self.secret})
        files[f"runs/ans-{self.number}/tune.html"] = text
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        self.original = {name: content.encode() for name, content in files.items()}

    def plant(self, other):
        """Links from this folder into another's, as if an archive or a mistake of the house had left them."""
        for name, thing in links(other).items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(other.folder / thing)


def links(other):
    """Names in one's own folder that lead to what another has."""
    end = f"to-{other.number}"
    here = {
        end: ".",
        f"runs/{end}": f"runs/run-{other.number}",
        f"runs/ans-{end}": f"runs/ans-{other.number}",
        f"deployments/{end}": f"deployments/dep-{other.number}",
        f"uploads/{end}": "uploads",
        f"{end}.yaml": f"mine-{other.number}.yaml",
        f"{end}.html": f"page-{other.number}.html",
        f"{end}.parquet": f"rec-{other.number}.parquet",
        f"runs/inner-{end}/result.json": f"runs/run-{other.number}/result.json",
        f"runs/inner-{end}/tune.json": f"runs/ans-{other.number}/tune.json",
    }
    return {name: thing for name, thing in here.items() if (other.folder / thing).exists()}


def spellings(other, parameter, thing, draw):
    """Names that might lead to a thing of another person."""
    last = thing.rpartition("/")[2]
    up = f"{other.name}/{thing}"
    found = [
        *(thing, last, f"../{up}", f"../../people/{up}", f"x/../../{up}", f"./.././{up}", str(other.folder / thing)),
        *(f"..%2f{up.replace('/', '%2f')}", f"%2e%2e/{up}", f"..%252f{up.replace('/', '%252f')}", f"..\\{up}"),
        *(f"../{up}\0.yaml", f"../{up}\0", f"~{up}", f"file://{other.folder / thing}", f"\u2024\u2024/{up}"),
        *(f"..;/{up}", f"....//{up}", f"../{other.name.upper()}/{thing}", f"../../../../../..{other.folder / thing}"),
    ]
    if parameter == "job":
        letters = list(thing)
        letters[draw.randrange(len(letters))] = draw.choice("0123456789abcdef")
        found += ["".join(letters), thing.upper(), thing[:-1], f"{thing}%", "%", "' or 1=1 --", f"{other.name}/{thing}"]
    end = f"to-{other.number}"
    found += [end, f"{end}/{thing}", f"uploads/{end}/{last}", f"runs/{end}", f"deployments/{end}", f"inner-{end}"]
    return [*found, f"ans-{end}", f"{end}.yaml", f"{end}.html", f"{end}.parquet", f"runs/inner-{end}"]


class House:
    """A server in this process with eight people on it, none of whose jobs begins."""

    def __init__(self, root: Path) -> None:
        draw = random.Random(SEED)
        self.people = []
        for number, name in enumerate(NAMES):
            token, secret = (f"{word}{draw.getrandbits(128):032x}" for word in ("token", "secret"))
            self.people.append(Person(name, number, root / "served" / "people" / name, token, secret))
        tokens = {one.name: hashlib.sha256(one.token.encode()).hexdigest() for one in self.people}
        limits = WorkLimits(runs=0, writes_per_min=10**6, queued=10**6, preview_s=120.0)
        self.settings = checked(ServerSettings(folder=root / "served", port=free_port(), people=tokens, limits=limits))
        self.app = application(self.settings)
        self.counts: Counter[str] = Counter()
        self.through: list[str] = []
        config = uvicorn.Config(self.app, port=self.settings.port, http=ImpatientProtocol, log_level="critical")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        until(lambda: self.server.started)
        self.line = http.client.HTTPConnection("127.0.0.1", self.settings.port, timeout=120)
        result = railyard.run(yaml.parse(SMALL, "small").plain(), engine="analytic", out=None).result.plain()
        for one in self.people:
            one.furnish(result)
            body = json.dumps({"token": one.token})
            answer = self.ask(None, "POST", "/login", body=body)
            one.cookie = answer.headers["set-cookie"].split(";")[0].partition("=")[2]
            asked = {"text": SMALL, "file": f"{one.secret}.yaml"}
            one.job = json.loads(self.ask(one, "POST", "/jobs", body=json.dumps(asked)).body)["id"]
        for one in self.people:
            for other in self.people:
                if other is not one:
                    one.plant(other)
        return self

    def __exit__(self, *_):
        self.line.close()
        self.server.should_exit = True
        self.thread.join()

    def ask(self, who, method, path, *, body=None, headers=None):
        """What the server answers; the path is sent as it is."""
        given = {"authorization": f"Bearer {who.token}"} if who is not None and headers is None else dict(headers or {})
        if body is not None:
            given["content-type"] = "application/json"
        self.line.request(method, f"/api/v1{path}", body=body, headers=given)
        answer = self.line.getresponse()
        answer.body = answer.read()
        return answer

    def judge(self, kind, attacker, answer, about, *, wanted=None):
        """Counts an attempt; what shows another's secret, or is not answered as it has to be, got through."""
        self.counts[kind] += 1
        shown = [one.name for one in self.people if one is not attacker and one.secret.encode() in answer.body]
        odd = answer.status >= 500 or (wanted is not None and answer.status not in wanted)
        if shown or odd:
            self.through.append(f"{kind}: {attacker.name} {about}: {answer.status}, secrets of {shown or 'nobody'}")

    def operations(self):
        """Method, path and names of parameters of all operations, from the API's description."""
        for path, methods in self.app.openapi()["paths"].items():
            for method, operation in methods.items():
                names = [one["name"] for one in operation.get("parameters", ()) if one["in"] in ("query", "path")]
                yield method.upper(), path.removeprefix("/api/v1"), names, "requestBody" in operation


def attack_operations(house, attacker, other, draw):
    """Every operation that takes a name, with every spelling of every thing of the other."""
    for method, path, names, has_body in house.operations():
        attacked = [name for name in names if name in other.things]
        if path in ("/login", "/logout", "/events"):
            continue
        body = json.dumps({"text": f"# {attacker.secret}\n{SMALL}"}) if has_body else None
        for name in attacked:
            for thing in other.things[name]:
                for spelt in spellings(other, name, thing, draw):
                    own = {each: other.things[each][0] for each in attacked if each != name}
                    answer = house.ask(attacker, method, filled(path, names, {**own, name: spelt}), body=body)
                    house.judge("operations with names of another", attacker, answer, f"{method} {path} {spelt!r}")
        if not attacked and method == "GET":
            answer = house.ask(attacker, method, filled(path, names, {}))
            house.judge("lists", attacker, answer, f"{method} {path}", wanted={200})


def filled(path, names, values):
    """The path with its parameters."""
    query = {}
    for name in names:
        value = values.get(name, NUMBERS.get(name))
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
        elif value is not None:
            query[name] = [value, value] if name == "run" else value
    return f"{path}?{urlencode(query, doseq=True)}" if query else path


def attack_cookies(house, attacker, other, draw):
    """Cookies and tokens that are nearly another's, or are made of what might be known of them."""
    place = draw.randrange(len(other.cookie))
    changed = other.cookie[:place] + ("x" if other.cookie[place] != "x" else "y") + other.cookie[place + 1 :]
    digest = hashlib.sha256(other.token.encode()).hexdigest()
    wrong = [changed, other.cookie[:-1], f"{other.cookie}a", other.cookie.swapcase(), other.cookie[::-1], other.token]
    wrong += [other.name, digest, hashlib.sha256(other.cookie.encode()).hexdigest(), "' or '1'='1", "%", "*", "null"]
    for secret in wrong:
        sent = [{"cookie": f"railyard={secret}"}, {"cookie": f"railyard={attacker.cookie}; railyard={secret}"}]
        sent += [{"cookie": f"RAILYARD={other.cookie}"}, {"cookie": f"x={other.cookie}"}]
        for headers in sent:
            answer = house.ask(attacker, "GET", "/me", headers=headers)
            named = other.name.encode() in answer.body
            house.judge("cookies", attacker, answer, headers, wanted={401} if named else {200, 401})
    tokens = [other.token[:-1], other.token.upper(), f"{other.token}\u00e9", digest, other.cookie, other.name, ""]
    for token in tokens:
        headers = {"authorization": f"Bearer {token}".encode("latin-1"), "cookie": f"railyard={attacker.cookie}"}
        answer = house.ask(attacker, "GET", "/files", headers=headers)
        house.judge("tokens", attacker, answer, token, wanted={401})


def attack_scenarios(house, attacker, other, draw):
    """Drafts that name files of another, looked at by the attacker's own process."""
    for text in SCENARIOS:
        things = [f"../{other.name}/uploads/up-{other.number}.csv", f"to-{other.number}.yaml"]
        spelt = draw.choice([*things, str(other.folder / f"mine-{other.number}.yaml")])
        for file in ("", f"../{other.name}/mine-{other.number}.yaml"):
            body = json.dumps({"text": text.replace("THING", spelt), "file": file})
            answer = house.ask(attacker, "POST", "/check", body=body)
            house.judge("drafts", attacker, answer, f"{text[:40]!r} {spelt} {file}", wanted={200, 400, 422})
            if answer.status == 200 and not json.loads(answer.body)["faults"]:
                house.through.append(f"drafts: {attacker.name} may name {spelt}")


def attack_jobs(house, attacker, other, draw):
    """Jobs that are to read files of another."""
    for verb, given in (("diagnose", "inputs"), ("audit", "lldp"), ("place", "jobs")):
        for spelt in spellings(other, "file", f"uploads/up-{other.number}.csv", draw):
            body = json.dumps({"verb": verb, "files": {given: [spelt]}})
            answer = house.ask(attacker, "POST", "/jobs", body=body)
            inner = spelt.startswith("runs/inner-")  # a folder of the attacker's own, whose links a job refuses
            house.judge(
                "jobs that read", attacker, answer, f"{verb} {spelt!r}", wanted=REFUSED | ({201} if inner else set())
            )
            if inner:
                with pytest.raises(InputError, match="outside of your folder"):
                    refuse_outside(attacker.folder / spelt, attacker.folder)


def attack_events(house, attacker, other):
    """A stream of events from the first on, and what is no stream of this server."""
    with socket.create_connection(("127.0.0.1", house.settings.port)) as line:
        line.settimeout(60)
        head = f"GET /api/v1/events?since=0 HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {attacker.token}\r\n"
        line.sendall(f"{head}last-event-id: 0\r\n\r\n".encode())
        found = b""
        while attacker.secret.encode() not in found:
            found += line.recv(1 << 16)
        house.ask(other, "POST", "/jobs", body=json.dumps({"text": SMALL, "file": f"{other.secret}.yaml"}))
        house.ask(attacker, "POST", "/jobs", body=json.dumps({"text": SMALL, "file": f"again-{attacker.secret}.yaml"}))
        while f"again-{attacker.secret}".encode() not in found:
            found += line.recv(1 << 16)
    house.counts["event streams"] += 1
    if any(one.secret.encode() in found for one in house.people if one is not attacker):
        house.through.append(f"event streams: {attacker.name} saw another's job")
    for path in ("/events", "/jobs", "/ws"):
        upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
        upgrade |= {"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==", "cookie": f"railyard={other.cookie[:-1]}x"}
        answer = house.ask(attacker, "GET", path, headers=upgrade)
        house.judge("websockets", attacker, answer, path, wanted={401})


def attacked(house, pairs):
    """All attacks of these pairs, and what they changed."""
    draw = random.Random(SEED)
    for attacker, other in pairs:
        attack_operations(house, attacker, other, draw)
        attack_cookies(house, attacker, other, draw)
        attack_scenarios(house, attacker, other, draw)
        attack_jobs(house, attacker, other, draw)
        attack_events(house, attacker, other)
    for one in house.people:
        found = {
            path.relative_to(one.folder).as_posix(): path.read_bytes()
            for path in one.folder.rglob("*")
            if path.is_file() and not path.is_symlink() and path.resolve().is_relative_to(one.folder.resolve())
        }
        lost = [name for name, content in one.original.items() if found.get(name) != content]
        others = [each.secret.encode() for each in house.people if each is not one]
        strange = [name for name, content in found.items() if any(secret in content for secret in others)]
        state = json.loads(house.ask(one, "GET", f"/jobs/{one.job}").body)["state"]
        if lost or strange or state != "queued":
            house.through.append(f"{one.name}: lost or changed {lost}, written by others {strange}, job {state}")
    return house


@pytest.fixture
def house(tmp_path, monkeypatch):
    """Served from a folder that is no temporary one for the processes that look at drafts: these they may read."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    with House(tmp_path) as house:
        yield house


def test_people_reach_what_is_theirs(house):
    """So that the attacks below ask for what is there."""
    one = house.people[3]
    run, answer = f"runs/run-{one.number}", f"ans-{one.number}"
    for path in (
        f"/file?file=mine-{one.number}.yaml",
        f"/page?file=page-{one.number}.html",
        *(f"/{run}/{name}" for name in ("result", "scenario", "report")),
        *(f"/answers/{answer}{end}" for end in ("", "/page")),
        f"/outputs/file?folder={run}&name=result.json",
        f"/outputs/file?folder=deployments/dep-{one.number}&name=secret.txt",
        f"/jobs/{one.job}",
        "/jobs",
    ):
        found = house.ask(one, "GET", path)
        assert (path, found.status, one.secret.encode() in found.body) == (path, 200, True)
    me = house.ask(one, "GET", "/me", headers={"cookie": f"railyard={one.cookie}"})
    assert json.loads(me.body)["name"] == one.name


@pytest.mark.parametrize("attackers", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_nobody_reaches_what_is_another_s(house, attackers):
    """Each of them attacks the next; all pairs are tried by hand, see the page on robustness."""
    people = house.people
    attacked(house, [(one, people[(one.number + 1) % len(people)]) for one in people[:attackers]])
    assert house.through == []
    assert house.counts.total() > 625 * attackers


def main():
    with tempfile.TemporaryDirectory() as folder, House(Path(folder)) as house:
        people = house.people
        attacked(house, [(one, other) for one in people for other in people if one is not other])
    lines = [f"{count:7,}  {kind}" for kind, count in house.counts.items()]
    lines += [f"{house.counts.total():7,}  in all; got through: {len(house.through)}", *house.through[:40]]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
