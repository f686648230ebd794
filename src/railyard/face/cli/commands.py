"""The command line made of verbs, and commands of other packages.

Commands of other packages are entry points of the group `railyard.commands`, imported when one of them runs: a
`typer.Typer` or a command of Typer. The summary of the package is its line of `railyard --help`.
"""

from __future__ import annotations

import inspect
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from railyard.face import signals, terminal
from railyard.face.terminal import (
    Details,
    Engine,
    Json,
    Keep,
    Out,
    Progress,
    Quiet,
    Ray,
    Scenario,
    Set,
    Vary,
    emit,
    say,
)
from railyard.face.verb import RUNS, Reply, Request, keep, verbs
from railyard.kit.errors import InputError, RailyardError, SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.metadata import EntryPoint

    from railyard.face.verb import Group, Verb

GROUPS = {
    "catalog": "Show hardware, models and prices, with sources.",
    "calibrate": "Measure hardware and fit the model to your own runs.",
    "plan": "Find the cluster to build: designs ranked by cost.",
    "lab": "Run programs over shaped links on this machine.",
    "operate": "Simulate months of jobs: queue, failures, goodput.",
}
"""Commands with further commands below them."""
HEADINGS: dict[Group, str] = {
    "simulate": "Simulate",
    "decide": "Decide",
    "operate": "Operate",
    "observe": "Observe",
    "build": "Build",
}
"""Headings of `railyard --help`, in order."""
_DEFAULTS = {"plan": "designs", "operate": "scenario"}
"""Commands of groups that a file's name stands for."""
_PARTS: dict[str, tuple[str, Any, Any]] = {
    "engine": ("engine", Engine, None),
    "vary": ("vary", Vary, None),
    "set": ("set_", Set, None),
    "ray": ("ray", Ray, None),
}
ENTRY_POINTS = "railyard.commands"
EXTRAS = {"validate": "validation"}
"""Commands of Railyard that come with an extra."""


def command_of(verb: Verb, *, whole: bool = True) -> Callable[..., None]:
    """The function of a command, with the options of the verb in its signature where it is to be `whole`."""
    rows = _options(verb) if whole else []

    def command(**given: Any) -> None:
        raise typer.Exit(_carry_out(verb, given))

    about = inspect.cleandoc(verb.ask.__doc__ or "").partition("\n\nRaises:")[0]
    command.__doc__ = f"\b\nExample: {verb.example}\n\n{about}" if verb.example else about
    named = inspect.Parameter.KEYWORD_ONLY
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, named, default=default, annotation=hint) for name, hint, default in rows]
    )
    command.__annotations__ = {name: hint for name, hint, _ in rows}
    return command


def _options(verb: Verb) -> list[tuple[str, Any, Any]]:
    """Name, annotation and default of each option and argument."""
    rows: list[tuple[str, Any, Any]] = []
    if "scenario" in verb.parts:
        rows.append(("scenario", Scenario, inspect.Parameter.empty))
    rows += [(name, hint, one.default) for name, (one, hint) in verb.arguments.items()]
    for part, row in _PARTS.items():
        if part in verb.parts - verb.hidden or (part == "set" and "scenario" in verb.parts):
            rows.append(row)
    if verb.out:
        rows.append(("out", Out, RUNS) if verb.out == "runs" else ("out", Keep, None))
    rows += [("json", Json, False)] if verb.json else []
    rows += [("details", Details, False)] if verb.details else []
    rows += [("quiet", Quiet, False)] if verb.quiet else []
    return rows


def _carry_out(verb: Verb, given: dict[str, Any]) -> int:
    """Asks, prints the answer and keeps it; gives the exit code."""
    if verb.patient:
        signals.ready(once=True)
    quiet = given.pop("quiet") if verb.quiet else False
    details = given.pop("details") if verb.details else False
    as_json = given.pop("json") if verb.json else False
    out = given.pop("out") if verb.out else None
    ray = given.pop("ray") if "ray" in verb.parts else None
    draft: Any = None
    if "scenario" in verb.parts:
        draft = partial(terminal.scenario, given.pop("scenario"), given.pop("set_") or [])
    engine = given.pop("engine") if "engine" in verb.parts else None
    vary = given.pop("vary") if "vary" in verb.parts - verb.hidden else None
    with Progress(
        wanted=not (quiet or (as_json and not verb.quiet)), every_s=verb.every_s, shorter=verb.shorter
    ) as progress:
        request = Request(
            draft=draft,
            progress=progress,
            pool=partial(_workers, ray),
            runs=out,
            engine=engine,
            vary=vary or (),
            cluster=None if ray is None else partial(_workers, ray),
            quiet=quiet,
            details=details,
        )
        reply = verb(request, **given)
    if not isinstance(reply, Reply):
        return reply or 0
    for line in reply.notes:
        say(line)
    if as_json:
        emit(reply.text())
    else:
        if not quiet and (headline := reply.first_line()):
            emit(f"{terminal.wrapped(terminal.visible(headline))}\n")
        reply.show()
    if verb.out == "keep" and out is not None and reply.keep is not None:
        from railyard.measure.result.answers import NAMES

        say(f"report: {keep(reply, out)}/{NAMES[type(reply.keep)]}.html")
    if reply.stopped:
        terminal.so_far(reply.stopped)
    if reply.failed:
        raise SimulationError(reply.failed)
    return reply.code


def _workers(ray: str | None) -> Any:
    from railyard.work.study.workers import workers

    return workers(ray)


class _Group(TyperGroup):
    """Commands, or the name of a file in the place of the group's default one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        default = _DEFAULTS.get(self.name or "", "")
        if default and args and args[0] not in self.commands:
            args = [default, *args]
        if self.name == "plan" and args and args[0] != default:
            signals.ready()  # a plan of designs says itself when it is ready to be stopped
        return super().resolve_command(ctx, args)


class _Commands(TyperGroup):
    """The built-in commands under their headings, then those of installed packages by name."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """`format_commands` of Click: commands that a newcomer needs first, then the others by what they are for."""
        rows = {name: (name, self.get_command(ctx, name).get_short_help_str(100)) for name in self.list_commands(ctx)}
        for title, names in _sections().items():
            with formatter.section(title):
                formatter.write_dl([rows.pop(name) for name in names if name in rows])
        if rows:
            with formatter.section("Installed"):
                formatter.write_dl(list(rows.values()))

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *sorted(installed().keys() - self.commands.keys())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A built-in command, or the name and the line of an installed one, without importing it."""
        entry = None if cmd_name in self.commands else installed().get(cmd_name)
        return super().get_command(ctx, cmd_name) if entry is None else TyperCommand(cmd_name, help=summary(entry))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is going to run: one of an installed package or of a user's file is imported here.

        Raises:
            InputError: It comes with an extra that is not installed.
            RailyardError: The package that has it cannot be imported.
        """
        name = args[0]
        if name in self.commands:
            return super().resolve_command(ctx, args)
        if name in installed():
            return name, load(installed()[name]), args[1:]
        if name in EXTRAS:
            raise InputError(f"`railyard {name}` is not installed: `pip install railyard[{EXTRAS[name]}]` adds it")
        if name in verbs:
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            _add(alone, verbs.get(name), name)
            return name, typer.main.get_command(alone), args[1:]
        return super().resolve_command(ctx, args)


def _sections() -> dict[str, list[str]]:
    """Names of commands by heading."""
    shipped = [verb for _, verb in sorted(verbs.shipped(), key=lambda row: row[1].order)]
    first = [verb.name.split()[0] for verb in sorted(shipped, key=lambda verb: verb.first) if verb.first]
    found = {"Start here": first} | {title: list[str]() for title in HEADINGS.values()}
    for verb in shipped:
        name = verb.name.split()[0]
        if not any(name in names for names in found.values()):
            found[HEADINGS[verb.group]].append(name)
    return found


@cache
def installed() -> Mapping[str, EntryPoint]:
    """Commands of installed packages by name."""
    from importlib import metadata

    return {entry.name: entry for entry in metadata.entry_points(group=ENTRY_POINTS)}


def summary(entry: EntryPoint) -> str:
    """One line about the package, from its metadata."""
    return str(entry.dist.metadata["Summary"]) if entry.dist else ""


def load(entry: EntryPoint) -> Any:
    """The command of an entry point.

    Raises:
        RailyardError: It cannot be imported.
    """
    try:
        found = entry.load()
    except (ImportError, AttributeError) as error:
        raise RailyardError(f"the command `{entry.name}` cannot be imported from {entry.value}: {error}") from error
    return typer.main.get_command(found) if isinstance(found, typer.Typer) else found


def _version(asked: bool) -> None:
    if asked:
        from railyard import __version__

        typer.echo(__version__)
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


def _add(to: typer.Typer, verb: Verb, name: str, *, whole: bool = True) -> None:
    short = verb.short or inspect.cleandoc(verb.ask.__doc__ or "").partition("\n\n")[0]
    to.command(name, short_help=short)(command_of(verb, whole=whole))


def applications(words: Sequence[str] | None = None) -> dict[str, typer.Typer]:
    """The command line, under "", and its groups by name.

    Args:
        words: Of the command that runs; commands with other names get no options, which takes a fifth of
            `railyard --help`. None: all commands are complete.
    """
    app = typer.Typer(
        name="railyard",
        cls=_Commands,
        help="How long do the GPUs of a cluster wait on the network, why, and what does it cost?",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    groups = {
        name: typer.Typer(cls=_Group, help=about, no_args_is_help=True, rich_markup_mode=None)
        for name, about in GROUPS.items()
    }
    found = {"": app, **groups}
    for _, verb in sorted(verbs.shipped(), key=lambda row: row[1].order):
        group, _, name = verb.name.rpartition(" ")
        _add(found[group], verb, name, whole=words is None or not {*verb.name.split()}.isdisjoint(words))
    for name, group_app in groups.items():
        app.add_typer(group_app, name=name)
    return found


def command(words: Sequence[str] | None = None) -> Any:
    """The whole command line as one command; `words` as in `applications`."""
    return typer.main.get_command(applications(words)[""])
