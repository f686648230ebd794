"""A server (`railyard ui`) from Python: ask for a run, follow it, fetch what it gave, stop it.

    client = Client("https://railyard.example", token=os.environ["RAILYARD_TOKEN"])
    job = client.submit(Path("scenario.yaml"))
    for job in client.follow(job.id):
        print(job.stage, job.share)
    result = client.result(job)

`client.submit(verb="audit", files={"ibnetdiscover": Path("found.txt")})` asks for something else than a run, with files
of this machine; `client.verbs()` says what there is.

Written by hand against version 1 of the published description (`/api/v1/openapi.json`), which a test compares it with:
it needs nothing but Python's own library, and what it gives are Railyard's records. Fields that a later server adds
are passed over.
"""

from __future__ import annotations

import http.client
import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from railyard.kit.errors import InputError, Problem, RailyardError
from railyard.kit.files import appearing, read_bytes, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from http.client import HTTPResponse

    from railyard.measure.result.answers import Answer
    from railyard.measure.result.reading import Result

PREFIX = "/api/v1"

CALLS = {
    "submit": ("POST", "/jobs"),
    "verbs": ("GET", "/verbs"),
    "upload": ("PUT", "/uploads"),
    "jobs": ("GET", "/jobs"),
    "job": ("GET", "/jobs/{job}"),
    "stop": ("POST", "/jobs/{job}/stop"),
    "events": ("GET", "/events"),
    "runs": ("GET", "/runs"),
    "result": ("GET", "/runs/{run}/result"),
    "files": ("GET", "/outputs"),
    "file": ("GET", "/outputs/file"),
    "archive": ("GET", "/outputs/archive"),
    "answer": ("GET", "/answers/{answer}"),
}
"""Method and path of each call, as the description has them."""

ENDED = ("done", "failed", "stopped")
_TRIES = 8
"""Connections in a row without news after which `follow` gives up."""


class ServerError(RailyardError):
    """The server cannot be reached, or refuses; what is wrong with a scenario is an `InputError`.

    Attributes:
        status: Of HTTP; 0 where nothing answered.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Outcome:
    """Result of a job.

    Attributes:
        view: A run, an answer of another verb, or a page.
        name: Of its folder in `runs`; of a page its file.
    """

    view: Literal["run", "answer", "page"]
    name: str


@dataclass(frozen=True)
class Job:
    """Something that was asked for.

    Attributes:
        file: The scenario's file, or the first that the verb reads.
        created: Unix time in seconds, as `started` and `ended`.
        vary: What varies, `key=a,b,c` each.
        engine: In place of the scenario's.
        files: What was given for each input of the verb.
        options: What was chosen.
        stage: What is being done.
        share: Done, from 0 to 1.
        eta_s: Seconds to go, guessed from the share.
        outcome: What it gave, once it is there.
        faults: Why it failed: `message`, and where known `line`, `column`, `key`, `found`, `allowed`, `hint`.
        change: Grows with every change of any job.
    """

    id: str
    file: str
    state: Literal["queued", "running", "done", "failed", "stopped"]
    created: float
    change: int
    verb: str = "run"
    vary: tuple[str, ...] = ()
    engine: str | None = None
    files: dict[str, list[str]] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    started: float | None = None
    ended: float | None = None
    stage: str = ""
    share: float = 0.0
    eta_s: float | None = None
    outcome: Outcome | None = None
    faults: tuple[dict[str, Any], ...] = field(default=())

    @classmethod
    def of(cls, body: dict[str, Any]) -> Job:
        """Builds it from the server's document."""
        known = {one.name: body[one.name] for one in fields(cls) if one.name in body}
        given = known.get("outcome")
        known["outcome"] = None if given is None else Outcome(given["view"], given["name"])
        return cls(**{**known, "vary": tuple(known.get("vary", ())), "faults": tuple(known.get("faults", ()))})


class Client:
    """A server.

    Args:
        address: Scheme, host and port.
        token: Of the person who asks; none for a server of this machine alone.
        timeout_s: For an answer to begin.
    """

    def __init__(
        self, address: str = "http://127.0.0.1:8421", token: str | None = None, timeout_s: float = 30.0
    ) -> None:
        if not address.startswith(("http://", "https://")):
            raise InputError("this is not a server address", key="address", found=address, allowed="https://HOST")
        self.address = address.rstrip("/")
        self.timeout_s = timeout_s
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}

    def submit(
        self,
        scenario: Path | str | None = None,
        *,
        verb: str = "run",
        engine: str | None = None,
        vary: Sequence[str] = (),
        files: Mapping[str, Sequence[Path | str] | Path | str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Job:
        """Asks for a run, or for another verb of `verbs`.

        Args:
            scenario: A file, or its text, where the verb takes one.
            verb: What is done.
            engine: In place of the scenario's.
            vary: Each `key=a,b,c`.
            files: What is given for each input: names below the server's folder; a `Path` of this machine is uploaded.
            options: What is chosen.

        Raises:
            InputError: The scenario is wrong, or the verb takes something else.
            ServerError: The server refuses, or does not answer.
        """
        text = read_text(scenario) if isinstance(scenario, Path) else scenario or ""
        given = {name: [self._below(verb, one) for one in _several(value)] for name, value in (files or {}).items()}
        body: dict[str, Any] = {"verb": verb, "text": text, "engine": engine, "vary": list(vary), "files": given}
        body["options"] = dict(options or {})
        if isinstance(scenario, Path):
            body["file"] = scenario.name
        return Job.of(self._json("submit", body=body))

    def verbs(self) -> list[dict[str, Any]]:
        """The verbs of the server: `name`, `about`, `inputs`, `options` and others."""
        found: list[dict[str, Any]] = self._json("verbs")
        return found

    def upload(self, path: Path, name: str | None = None) -> str:
        """Puts a file, or the files of a folder, into the server's folder.

        Args:
            path: Of this machine.
            name: Its name there; by default the same as here.

        Returns:
            Its name below the server's folder.

        Raises:
            InputError: It cannot be read, or is nothing that a server takes.
            ServerError: The server refuses, or does not answer.
        """
        name = name or path.name
        if path.is_dir():
            for one in sorted(each for each in path.iterdir() if each.is_file()):
                self.upload(one, f"{name}/{one.name}")
            return f"uploads/{name}"
        body: dict[str, Any] = self._json("upload", raw=read_bytes(path), file=name)
        return str(body["file"])

    def _below(self, verb: str, one: Path | str) -> str:
        return self.upload(one, f"{verb}-{one.name}") if isinstance(one, Path) else one

    def jobs(self, since: int = 0) -> list[Job]:
        """Jobs that changed after the change `since`, latest first."""
        return [Job.of(body) for body in self._json("jobs", since=since)]

    def job(self, job: str) -> Job:
        """The state of a job."""
        return Job.of(self._json("job", job=job))

    def stop(self, job: str) -> Job:
        """Ends a job; one that runs leaves nothing half-written."""
        return Job.of(self._json("stop", job=job))

    def follow(self, job: str) -> Iterator[Job]:
        """Every change of a job until it has ended, as the server sends it; a connection that breaks is made again.

        Raises:
            InputError: The run failed because of the scenario.
            ServerError: The server is gone.
        """
        last, tries = self.job(job), 0
        yield last
        while last.state not in ENDED:
            try:
                for found in self._changes(last.change):
                    tries = 0
                    if found.id == job:
                        last = found
                        yield last
                    if last.state in ENDED:
                        break
            except (OSError, ServerError) as error:
                tries += 1
                if tries == _TRIES or (isinstance(error, ServerError) and error.status):
                    raise
        if last.state == "failed":
            raise _failed(last.faults)

    def runs(self) -> list[dict[str, Any]]:
        """Runs, latest first: `run`, `name`, `engine`, `created`, `sentence` and others."""
        found: list[dict[str, Any]] = self._json("runs")
        return found

    def result(self, of: Job | Outcome | str) -> Result | Answer:
        """Result of a job: the result of a run, or the answer of another verb.

        Args:
            of: The job, what it gave, or the name of a run.

        Raises:
            InputError: The job has given nothing that can be read here: a deployment is a folder of `files`.
            ServerError: The server refuses, or does not answer.
        """
        from railyard.measure.result.answers import answer_from
        from railyard.measure.result.reading import result_from

        given = of.outcome if isinstance(of, Job) else Outcome("run", of) if isinstance(of, str) else of
        if given is None or given.view == "page":
            raise InputError("there is no result to read", found="nothing" if given is None else given.name)
        if given.view == "run":
            with self._open("result", run=given.name) as answer:
                return result_from(answer.read().decode())
        with self._open("answer", answer=given.name) as answer:
            return answer_from(answer.read())

    def files(self, of: Job | Outcome | str) -> list[dict[str, Any]]:
        """Files that a job wrote: `name` relative to their folder, `bytes`, `changed` in Unix time.

        Args:
            of: The job, what it gave, or its folder: the name of a run, or `deployments/NAME`.

        Raises:
            InputError: The job has given nothing yet, or a page outside of runs and deployments.
            ServerError: The server refuses, or does not answer.
        """
        found: list[dict[str, Any]] = self._json("files", folder=_folder(of))
        return found

    def save(self, of: Job | Outcome | str, name: str, into: Path) -> Path:
        """Puts one of `files`, such as `timeline.parquet`, into a folder; it appears complete or not at all."""
        with self._open("file", folder=_folder(of), name=name) as answer:
            return _saved(answer, into / Path(name).name)

    def save_all(self, of: Job | Outcome | str, into: Path) -> Path:
        """Puts all of `files` into a folder as one ZIP archive, complete or not at all; its path."""
        folder = _folder(of)
        with self._open("archive", folder=folder) as answer:
            return _saved(answer, into / f"{Path(folder).name}.zip")

    def _changes(self, since: int) -> Iterator[Job]:
        """Server-sent events."""
        with self._open("events", since=since) as answer:
            for line in answer:
                if line.startswith(b"data:"):
                    yield Job.of(json.loads(line[5:]))

    def _json(self, call: str, *, body: Any = None, raw: bytes | None = None, **named: object) -> Any:
        with self._open(call, body=body, raw=raw, **named) as answer:
            return json.load(answer)

    def _open(
        self, call: str, *, body: Any = None, raw: bytes | None = None, **named: object
    ) -> AbstractContextManager[HTTPResponse]:
        """Response of the server; arguments that the path does not name are its query."""
        method, path = CALLS[call]
        query = {name: value for name, value in named.items() if f"{{{name}}}" not in path}
        place = path.format(**{name: urllib.parse.quote(str(value), safe="") for name, value in named.items()})
        request = urllib.request.Request(
            f"{self.address}{PREFIX}{place}{'?' if query else ''}{urllib.parse.urlencode(query)}",
            method=method,
            data=raw if body is None else json.dumps(body).encode(),
            headers={**self._headers, **_kind(body, raw)},
        )
        try:
            answer: AbstractContextManager[HTTPResponse] = urllib.request.urlopen(request, timeout=self.timeout_s)
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None
        except OSError as error:
            raise ServerError(f"{self.address} does not answer: {getattr(error, 'reason', error)}", 0) from None
        return answer


def _folder(of: Job | Outcome | str) -> str:
    """Folder of a job's files: `runs/NAME` or `deployments/NAME`."""
    given = of.outcome if isinstance(of, Job) else of
    if given is None:
        raise InputError("the job has no result yet", found="no folder")
    if isinstance(given, str):
        return given if "/" in given else f"runs/{given}"
    return "/".join(given.name.split("/")[:2]) if given.view == "page" else f"runs/{given.name}"


def _saved(answer: HTTPResponse, path: Path) -> Path:
    """Saves a download once all of it has arrived.

    Raises:
        ServerError: It broke off.
    """
    try:
        with appearing(path) as unfinished, unfinished.open("wb") as out:
            shutil.copyfileobj(answer, out)
    except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
        raise ServerError(f"`{path.name}` arrived incomplete: {error or type(error).__name__}", 0) from None
    return path


def _several(value: Sequence[Path | str] | Path | str) -> Sequence[Path | str]:
    return [value] if isinstance(value, Path | str) else value


def _kind(body: Any, raw: bytes | None) -> dict[str, str]:
    """The header that names what is sent."""
    kind = "application/json" if body is not None else None if raw is None else "application/octet-stream"
    return {} if kind is None else {"content-type": kind}


def _refusal(error: urllib.error.HTTPError) -> RailyardError:
    """The error of the server's answer: 400 and 422 are the input's fault."""
    try:
        body = json.loads(error.read())
        message, faults = str(body["error"]), body["faults"]
    except (ValueError, KeyError, TypeError):
        message, faults = f"the server answers {error.code} {error.reason}", []
    if error.code in (400, 422) and faults:
        return _failed(faults)
    return ServerError(message, error.code)


def _failed(faults: Sequence[dict[str, Any]]) -> InputError:
    known = [one.name for one in fields(Problem)]
    listed = [Problem(**{key: value for key, value in fault.items() if key in known}) for fault in faults]
    return InputError.many(listed or [Problem("the run failed; the server gives no reason")])
