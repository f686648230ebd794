"""Faults in C++: one token becomes another. Comments, strings, directives and templates' brackets are left alone."""

from __future__ import annotations

import re

from mutation.fault import Fault

_SILENT = re.compile(
    rb'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#[^\n]*', re.S | re.M
)
_NO_CODE = re.compile(rb"\s*(static_assert|using|template|namespace|struct|class|enum|case|throw)\b")
# Binary operators have blanks around them (clang-format), which tells them from brackets, references and signs.
_TOKENS = re.compile(
    rb"(?<= )(?P<operator>[-+*/%]|[-+*/]=|<<|>>)(?= )"
    rb"|(?<= )(?P<comparison><=|>=|==|!=|[<>])(?= )"
    rb"|(?<= )(?P<logic>&&|\|\|)(?= )"
    rb"|(?P<sign>!)(?=[\w(])"
    rb"|\bstd::(?P<swap>min|max)\b"
    rb"|(?<![\w.'])(?P<real>\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+)(?![\w.])"
    rb"|(?<![\w.'])(?P<constant>\d+(?:'\d+)*|true|false)(?![\w.'])"
)
_CHANGES = {
    "+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "<<": ">>",
    ">>": "<<", "&&": "||", "||": "&&", "==": "!=", "!=": "==", "min": "max", "max": "min", "true": "false",
    "false": "true", "!": "",
}  # fmt: skip
_BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def cpp_faults(path: str, text: bytes) -> list[Fault]:
    """All faults that a file can have; some do not compile.

    Args:
        path: From the root of the tree.
        text: The file.
    """
    code = _SILENT.sub(lambda match: re.sub(rb"[^\n]", b" ", match.group()), text)
    found = []
    for match in _TOKENS.finditer(code):
        line = code.rfind(b"\n", 0, match.start()) + 1
        if _NO_CODE.match(code, line):
            continue
        kind = str(match.lastgroup)
        start, stop = match.span(kind)
        old = code[start:stop].decode()
        for name, new in _changed(kind, old):
            found.append(Fault(path, code.count(b"\n", 0, start) + 1, start, stop, name, old, new))
    return found


def _changed(kind: str, old: str) -> list[tuple[str, str]]:
    if old in _BOUNDARY:
        return [("boundary", _BOUNDARY[old]), (kind, _OPPOSITE[old])]
    if old in _CHANGES:
        return [(kind, _CHANGES[old])]
    number = old.replace("'", "")
    more = float(number) * 1.1 or 1.0 if kind == "real" else int(number) + max(1, int(number) // 10)
    return [("constant", str(more))]
