"""Lists of node names in brackets, `node[001-004,007],head`, as Slurm, topograph and others write them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST = 1_000_000
"""Names that one list may stand for: a slip of the pen such as `n[0-99999999999]` would fill the memory."""

_PART = re.compile(r"[^,\[\]\s]*(?:\[[^\[\]]*\][^,\[\]\s]*)*")
_DIGITS = 18
"""Of a number in a name, at most: longer ones are no numbers of nodes."""

_SPAN = re.compile(rf"([0-9]{{1,{_DIGITS}}})(?:-([0-9]{{1,{_DIGITS}}}))?")


def expand(text: str) -> list[str]:
    """Names of a list, in order.

    Raises:
        InputError: A bracket is open, a range falls, or there are more than a million names.
    """
    names: list[str] = []
    for part in _parts(text):
        names += _names(part, text)
        if len(names) > MOST:
            raise InputError(
                "a list of nodes is too long", found=f"more than {MOST:,} names", allowed=f"{MOST:,} names"
            )
    return names


def _parts(text: str) -> Iterator[str]:
    place = 0
    while place < len(text):
        found = _PART.match(text, place)
        end = found.end() if found else place
        if end < len(text) and text[end] not in ", \t":
            raise InputError("brackets in a list of nodes do not match", found=text, allowed="such as n[001-004,007]")
        if end > place:
            yield text[place:end]
        place = end + 1


def _names(part: str, text: str) -> list[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        return [part]
    inside, _, tail = rest.partition("]")
    tails = _names(tail, text) if tail else [""]
    found: list[str] = []
    for span in inside.split(","):
        match = _SPAN.fullmatch(span.strip())
        first, last = (match[1], match[2] or match[1]) if match else ("1", "0")
        if (int(last) - int(first) + 1) * len(tails) > MOST:
            raise InputError("a list of nodes is too long", found=f"[{span}] in {text}", allowed=f"{MOST:,} names")
        if int(last) < int(first):
            raise InputError(
                "a range in a list of nodes is wrong", found=f"[{span}] in {text}", allowed="such as 001-004"
            )
        for number in range(int(first), int(last) + 1):
            found += [f"{head}{number:0{len(first)}d}{end}" for end in tails]
    return found


def compress(names: Iterable[str]) -> str:
    """The shortest list with one bracket a prefix; names keep their order of prefixes, numbers rise."""
    parts = [(name, re.fullmatch(rf"(.*?)([0-9]{{1,{_DIGITS}}})", name, re.DOTALL)) for name in names]
    padded = {(found[1], len(found[2])) for _, found in parts if found and found[2][0] == "0" != found[2]}
    groups: dict[tuple[str, int], list[int]] = {}
    plain: list[str] = []
    for name, found in parts:
        if not found:
            plain.append(name)
            continue
        key = (found[1], len(found[2]))
        groups.setdefault(key if key in padded else (found[1], 0), []).append(int(found[2]))
    return ",".join([*plain, *(_brackets(prefix, width, numbers) for (prefix, width), numbers in groups.items())])


def _brackets(prefix: str, width: int, numbers: list[int]) -> str:
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in spans]
    return f"{prefix}{texts[0]}" if texts[0].isdigit() and len(texts) == 1 else f"{prefix}[{','.join(texts)}]"
