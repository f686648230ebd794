"""Whether a request can be carried out, before it waits: what its verb takes, and files that are there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from railyard.face.verb import of_page
from railyard.face.web.shelf import Missing
from railyard.kit.errors import InputError, Problem, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from railyard.face.verb import Input, Verb
    from railyard.face.web.documents import NewJob
    from railyard.face.web.shelf import Shelf


def checked(request: NewJob, shelf: Shelf) -> NewJob:
    """The request, named after what it is about.

    Raises:
        InputError: With everything that is wrong with it: an unknown verb, what the verb does not take or lacks, files
            that are not below the folder.
    """
    verb, _page = of_page(request.verb)
    problems = [*_parts(request, verb), *_options(request, verb), *_files(request, verb, shelf)]
    if problems:
        raise InputError.many(problems)
    if "scenario" in verb.parts:
        return request
    first = next(iter(request.files[name][0] for name in (one.name for one in verb.inputs) if request.files.get(name)))
    return request.model_copy(update={"file": first})


def _parts(request: NewJob, verb: Verb) -> Iterator[Problem]:
    if "scenario" in verb.parts and not request.text.strip():
        yield Problem(f"`{request.verb}` takes a scenario", key="text", hint="send its text")
    given = {"scenario": request.text, "engine": request.engine, "vary": request.vary}
    keys = {"scenario": "text"}
    for part, value in given.items():
        if value and part not in verb.parts:
            yield Problem(f"`{request.verb}` takes no {part}", key=keys.get(part, part))


def _options(request: NewJob, verb: Verb) -> Iterator[Problem]:
    known = {option.name: option for option in verb.choices}
    yield from _unknown(request.options, known, request.verb, "options")
    for name, option in known.items():
        value, allowed = request.options.get(name, option.default), option.allowed()
        if value and not allowed:
            try:
                verb.typed(name, value)
            except InputError as error:
                yield from (replace(problem, key=f"options.{name}") for problem in error.problems)
        elif allowed and value not in allowed:
            hint = did_you_mean(value, allowed)
            yield Problem(
                f"this is not a choice of `{name}`",
                key=f"options.{name}",
                found=value,
                allowed=", ".join(allowed),
                hint=hint,
            )


def _files(request: NewJob, verb: Verb, shelf: Shelf) -> Iterator[Problem]:
    known = {one.name: one for one in verb.inputs}
    yield from _unknown(request.files, known, request.verb, "files")
    if verb.inputs and not any(request.files.get(name) for name in known):
        yield Problem(f"`{request.verb}` reads something", key="files", allowed=", ".join(known))
    for name, one in known.items():
        given = request.files.get(name, [])
        if one.needed and not given:
            yield Problem(f"`{request.verb}` needs it", key=f"files.{name}", allowed=one.about)
        if len(given) > 1 and not one.several:
            yield Problem("one is taken", key=f"files.{name}", found=str(len(given)))
        for file in given:
            yield from _there(file, one, shelf)


def _there(file: str, one: Input, shelf: Shelf) -> Iterator[Problem]:
    try:
        path = shelf.given(file)
    except (Missing, ValueError, OSError):
        yield Problem("there is no such file below your folder", key=f"files.{one.name}", found=file[:200])
        return
    if one.takes != "either" and path.is_dir() != (one.takes == "folder"):
        found = "a folder" if path.is_dir() else "a file"
        yield Problem(f"this is {found}, expected a {one.takes}", key=f"files.{one.name}", found=file[:200])


def _unknown(given: Mapping[str, Any], known: Collection[str], verb: str, what: str) -> Iterator[Problem]:
    for name in given:
        if name not in known:
            allowed = ", ".join(known) or "none"
            hint = did_you_mean(name, known)
            yield Problem(f"`{verb}` knows no `{name}`", key=what, found=name, allowed=allowed, hint=hint)
