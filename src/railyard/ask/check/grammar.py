"""From the words of a scenario's `check` to assertions: the first word says of which kind."""

from __future__ import annotations

import re

from railyard.ask.check import spellings
from railyard.ask.check.assertion import Assertion, assertions
from railyard.kit.errors import InputError, did_you_mean, suggest

FIGURE = "figure"
"""The kind of everything that begins with no word of another: `NAME < VALUE`."""

_WORD = re.compile(r"[A-Za-z_]\w*")


def read(text: str) -> Assertion:
    """One assertion.

    Raises:
        InputError: It is none; says what is allowed, and the nearest right spelling.
    """
    plain = spellings.plain(text)
    found = _WORD.match(plain)
    first = found[0].lower() if found else ""
    if first != FIGURE and first in assertions:
        return assertions.get(first).read(plain)
    if not re.search("[<>=]", plain):
        words = [name for name in assertions.names() if name != FIGURE]
        near = suggest(first, words)
        hint = (
            did_you_mean(plain, forms_of(words)) if near is None else f"did you mean `{assertions.get(near).forms[0]}`?"
        )
        raise InputError(f"`{plain}` is no assertion", found=plain, allowed=forms(), hint=hint)
    return assertions.get(FIGURE).read(plain)


def forms_of(kinds: list[str]) -> list[str]:
    """Forms of some kinds."""
    return [form for kind in kinds for form in assertions.get(kind).forms]


def forms() -> list[str]:
    """How assertions are written."""
    return [f"`{form}`" for _, kind in assertions.items() for form in kind.forms]
