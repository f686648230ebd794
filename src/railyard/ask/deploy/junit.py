"""Verdicts as a JUnit report, for the test pages of build systems."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from collections.abc import Sequence

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to write (section 2.2)."""


@dataclass(frozen=True)
class Case:
    """One verdict.

    Attributes:
        name: Of what was judged.
        failure: Why it failed; None where it did not.
        words: What was found.
    """

    name: str
    failure: str | None
    words: str


def junit(suite: str, cases: Sequence[Case]) -> str:
    """The report: a case a verdict.

    Args:
        suite: Its name.
        cases: The verdicts.
    """
    failed = str(sum(one.failure is not None for one in cases))
    counts = {"tests": str(len(cases)), "failures": failed, "errors": "0"}
    root = ElementTree.Element("testsuites", counts)
    listed = ElementTree.SubElement(root, "testsuite", {"name": _clean(suite), **counts, "skipped": "0"})
    for one in cases:
        case = ElementTree.SubElement(listed, "testcase", {"classname": _clean(suite), "name": _clean(one.name)})
        if one.failure is not None:
            ElementTree.SubElement(case, "failure", {"message": _clean(one.failure), "type": "assertion"})
        ElementTree.SubElement(case, "system-out").text = _clean(one.words)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _clean(text: str) -> str:
    return _FORBIDDEN.sub(lambda found: repr(found[0])[1:-1], text)
