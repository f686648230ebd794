"""The record of a verb: a question with its arguments, declared once.

The command, the form of the page, the HTTP API, `railyard.command` and the reference pages come from it. A verb is
added by one file in `verbs/`, whose function takes a `Request` and the arguments; its docstring is the help of the
command.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from typer.models import ParameterInfo

from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from railyard.measure.result.answers import Answer
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.model import Scenario
    from railyard.work.study.tasks import Workers

RUNS = Path("runs")
"""Folder of runs and of answers below the user's own."""

F = TypeVar("F", bound="Callable[..., Any]")
CALIBRATION = "uploads/calibration"
"""Folder of fitted constants below the user's own, on the page: a file for each kind of measurements."""
DEPLOYMENTS = "deployments"
"""Folder of deployments below the user's own, on the page."""

Takes = Literal["file", "folder", "either"]
Part = Literal["scenario", "engine", "vary", "ray"]
Group = Literal["simulate", "decide", "operate", "observe", "build"]
"""Headings of commands by what they are for."""


@dataclass(frozen=True)
class FormField:
    """Puts an argument on the page's form, as one of its annotations: a path as a file, another one as a choice.

    Attributes:
        title: Label of the field.
        takes: Whether a path is of a file or a folder.
        about: A sentence that replaces the argument's help.
        needed: Whether the form requires it although the command does not.
        allowed: The choices of a text; none: it is typed.
    """

    title: str
    takes: Takes = "file"
    about: str = ""
    needed: bool = False
    allowed: Callable[[], Sequence[str]] = tuple


@dataclass(frozen=True)
class Request:
    """Context of a call to a verb.

    Attributes:
        draft: Loads the scenario.
        progress: Called with the current activity and the share done, from 0 to 1.
        pool: Makes worker processes for a search.
        runs: Parent of the run's folder; None: nothing is written.
        engine: Replaces the scenario's engine.
        vary: Strings `key=a,b,c`.
        cluster: Makes workers on a Ray cluster; None if none was given.
        quiet: Whether to suppress text other than data and errors.
        details: Whether to print every table and column.
    """

    draft: Callable[[], Draft]
    progress: Callable[[str, float], None]
    pool: Callable[[], Workers]
    runs: Path | None = None
    engine: str | None = None
    vary: Sequence[str] = ()
    cluster: Callable[[], Workers] | None = None
    quiet: bool = False
    details: bool = False


@dataclass(frozen=True)
class Reply:
    """Answer of a verb.

    Attributes:
        answer: The typed answer.
        show: Prints it for people, below the headline.
        plain: What `--json` prints, as plain values or as text; None: the answer itself.
        headline: The answer in one sentence, the first line; empty: that of `keep`, where there is one.
        keep: The document that `--out` stores with its page.
        cluster: Scenario file of the cluster that the document is about.
        folder: Folder of an answer that is already written.
        page: File in the folder that the page opens; empty: the folder itself, as for a run or an answer.
        notes: Remarks for stderr, before the answer.
        stopped: Description of partial results, if a signal ended the work early.
        failed: What could not be answered, shown as an error after the answer.
        code: Exit code.
    """

    answer: Any
    show: Callable[[], None]
    plain: Callable[[], Any] | None = None
    headline: str = ""
    keep: Answer | None = None
    cluster: Path | None = None
    folder: Path | None = None
    page: str = ""
    notes: Sequence[str] = ()
    stopped: str = ""
    failed: str = ""
    code: int = 0

    def first_line(self) -> str:
        """The answer in one sentence; empty if it has none."""
        return self.headline or ("" if self.keep is None else self.keep.sentence())

    def text(self) -> str:
        """The answer as `--json` prints it."""
        plain = self.answer.text() if self.plain is None else self.plain()
        return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, allow_nan=False)


def _nothing(_request: Request) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Page:
    """Presentation of a verb on the page.

    Attributes:
        about: A sentence on what it answers.
        order: Position among the buttons.
        view: View that opens the answer.
        name: Name in the API, if different from the verb's.
        given: Arguments that the server sets.
    """

    title: str
    about: str
    order: int
    view: Literal["run", "answer", "page"] = "answer"
    name: str = ""
    given: Callable[[Request], Mapping[str, Any]] = _nothing


@dataclass(frozen=True)
class Input:
    """A file input of the form, see `InputSpec`."""

    name: str
    title: str
    about: str
    takes: Takes
    needed: bool
    several: bool
    parameter: str = field(compare=False)


@dataclass(frozen=True)
class VerbOption:
    """A choice on the form, see `OptionSpec`."""

    name: str
    title: str
    about: str
    default: str
    allowed: Callable[[], Sequence[str]]


@dataclass(frozen=True)
class Verb:
    """A question.

    Attributes:
        name: Words of the command, such as `plan growth`.
        short: Its line in the list of commands; empty: the first sentence of the docstring.
        example: A command that runs in a clone of the project; the first line of its help.
        group: Its heading in `railyard --help`.
        first: Position among the commands that a newcomer needs first; 0: it is none of them.
        ask: Takes a `Request`, where it has a parameter of that name, and the arguments; gives a `Reply`, or prints
            by itself and gives an exit code.
        parts: Inputs in addition to its arguments: a scenario with `--set`, `--engine`, `--vary`, `--ray`.
        hidden: Parts that only the page and Python give.
        json, quiet, details: Whether `--json`, `--quiet` and `--details` exist.
        out: `runs`: `--out` is the parent of the run's folder; `keep`: it stores the answer with its page.
        page: Presentation on the page; None: it is not on the page.
        patient: Whether it still answers when a signal stops it.
        every_s: Interval of progress lines if stderr is not a terminal; None: never.
        shorter: How to shorten its work, in words; empty: it has no such setting.
        kind: The kind of work that its scenario must have; empty: any.
    """

    name: str
    short: str
    ask: Callable[..., Any]
    order: int = 50
    example: str = ""
    group: Group = "build"
    first: int = 0
    parts: frozenset[Part] = frozenset()
    hidden: frozenset[Part] = frozenset()
    json: bool = False
    quiet: bool = False
    details: bool = False
    out: Literal["", "runs", "keep"] = ""
    page: Page | None = None
    patient: bool = False
    every_s: float | None = 30.0
    shorter: str = ""
    kind: str = ""

    @cached_property
    def arguments(self) -> dict[str, tuple[inspect.Parameter, Any]]:
        """The arguments of `ask` and their annotations, without the request."""
        hints = get_type_hints(self.ask, include_extras=True)
        found = inspect.signature(self.ask).parameters
        return {name: (one, hints[name]) for name, one in found.items() if name != "request"}

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """Files that the form needs in addition to a scenario."""
        return tuple(
            Input(
                name.rstrip("_"), form.title, form.about or info.help, form.takes,
                form.needed or one.default is inspect.Parameter.empty, list in _kinds(kind), name,
            )
            for name, one, kind, info, form in self._fields()
            if Path in _kinds(kind)
        )  # fmt: skip

    @cached_property
    def choices(self) -> tuple[VerbOption, ...]:
        """Choices that the form offers."""
        return tuple(
            VerbOption(name.rstrip("_"), form.title, form.about or info.help, one.default or "", form.allowed)
            for name, one, kind, info, form in self._fields()
            if Path not in _kinds(kind)
        )

    def _fields(self) -> list[tuple[str, inspect.Parameter, Any, Any, FormField]]:
        found = []
        for name, (one, hint) in self.arguments.items():
            kind, *about = get_args(hint)
            form = next((each for each in about if isinstance(each, FormField)), None)
            info = next((each for each in about if isinstance(each, ParameterInfo)), None)
            if form is not None:
                found.append((name, one, kind, info, form))
        return found

    def __call__(self, request: Request, **arguments: Any) -> Any:
        """Calls the verb; omitted arguments have their defaults, and texts become paths and numbers.

        Raises:
            InputError: An argument is no number or too small, the scenario has other work, or the verb refuses.
        """
        if self.kind and request.draft().kind != self.kind:
            raise InputError(
                f"the scenario has no `workload.{self.kind}`",
                key="workload",
                found=request.draft().kind,
                allowed=self.kind,
                hint="`railyard run` runs it",
            )
        given = {name: self.typed(name, value) for name, value in arguments.items()}
        if "request" in inspect.signature(self.ask).parameters:
            return self.ask(request, **given)
        return self.ask(**given)

    def typed(self, name: str, value: Any) -> Any:
        """The value of an argument, a text as the path or number that is due.

        Raises:
            InputError: It is no number, or too small.
        """
        if isinstance(value, list | tuple):
            return [self.typed(name, one) for one in value]
        hint = self.arguments[name][1] if name in self.arguments else str
        kinds = _kinds(hint)
        if isinstance(value, str) and str not in kinds and Path in kinds:
            return Path(value)
        if value is None or int not in kinds or str in kinds:
            return value
        infos = (one for one in get_args(hint) if isinstance(one, ParameterInfo))
        least = next((one.min for one in infos if one.min is not None), None)
        try:
            number = int(value)
        except ValueError:
            raise InputError("this is not a whole number", key=name, found=value) from None
        if least is not None and number < least:
            raise InputError("the number is too small", key=name, found=number, allowed=f"at least {least:g}")
        return number


def _kinds(hint: Any) -> frozenset[Any]:
    """Types that an annotation names, its own and those inside."""
    inside = get_args(hint)[:1] if get_origin(hint) is Annotated else get_args(hint)
    return frozenset({get_origin(hint) or hint}).union(*map(_kinds, inside))


verbs: Registry[Verb] = Registry("verb", package="railyard.face.verbs")


def verb(
    name: str, short: str = "", *, parts: Sequence[Part] = (), hidden: Sequence[Part] = (), **how: Any
) -> Callable[[F], F]:
    """Registers a function as a verb; the arguments are those of `Verb`."""

    def register(ask: F) -> F:
        verbs.add(name, Verb(name, short, ask, parts=frozenset(parts), hidden=frozenset(hidden), **how))
        return ask

    return register


def on_page() -> dict[str, tuple[Verb, Page]]:
    """The verbs of the page by their names in the API, in its order."""
    found = [(one, one.page) for _, one in verbs.items() if one.page is not None]
    return {page.name or one.name: (one, page) for one, page in sorted(found, key=lambda row: row[1].order)}


def of_page(name: str) -> tuple[Verb, Page]:
    """The verb of that name in the API.

    Raises:
        InputError: The name is unknown; lists the names and the nearest spelling.
    """
    known = on_page()
    if name not in known:
        raise InputError(f"there is no verb `{name}`", found=name, allowed=list(known), hint=did_you_mean(name, known))
    return known[name]


def command(
    name: str,
    scenario: str | Path | Mapping[str, Any] | Scenario | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    engine: str | None = None,
    out: str | Path | None = None,
    progress: Callable[[str, float], None] | None = None,
    **arguments: Any,
) -> Any:
    """Asks what a command asks, from Python: `railyard.command("check", "scenario.yaml")`.

    Args:
        name: A command that answers in a document, such as `check`, `tune`, `audit`, `diagnose`, `place` or `scale`.
        scenario: A file, a mapping as in a file, or a `Scenario`, for questions about one.
        overrides: Other values of the scenario by dotted key.
        engine: In place of the scenario's.
        out: Folder in which the answer is stored with its page; None writes nothing.
        progress: Called with the current activity and the share done, from 0 to 1.
        arguments: As the options of the command, with `_` in place of `-`; a path may be a text, and so may a number.

    Returns:
        The typed answer: what `--json` prints, as attributes.

    Raises:
        InputError: There is no such question, or the scenario or an argument is wrong.
        SimulationError: The run cannot finish.
    """
    from railyard.face import api
    from railyard.work.study.workers import workers

    found = verbs.get(name)
    unknown = next((one for one in arguments if one not in found.arguments), None)
    if unknown is not None:
        allowed = list(found.arguments)
        raise InputError(
            f"`{name}` has no argument `{unknown}`", found=unknown, allowed=allowed, hint=did_you_mean(unknown, allowed)
        )
    if "scenario" in found.parts and scenario is None:
        raise InputError(f"`{name}` needs a scenario", key="scenario")
    request = Request(
        draft=partial(api.draft_of, scenario or {}, overrides),
        progress=progress or (lambda _stage, _share: None),
        pool=partial(workers, None),
        runs=None if out is None else Path(out),
        engine=engine,
        quiet=True,
    )
    reply = found(request, **arguments)
    if not isinstance(reply, Reply):
        raise InputError(f"`{name}` runs on the command line only", found=name)
    if out is not None and reply.keep is not None and reply.folder is None:
        keep(reply, Path(out))
    return reply.answer


def keep(reply: Reply, out: Path) -> Path:
    """Writes the document of a reply and its page into a folder below `out`, and gives the folder.

    Raises:
        InputError: It cannot be written.
    """
    from railyard.face.reports import keep_answer
    from railyard.kit.files import read_text

    assert reply.keep is not None, "only documents are kept"
    return keep_answer(reply.keep, out, None if reply.cluster is None else read_text(reply.cluster))
