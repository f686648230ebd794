"""Faults in Python: one node of the syntax tree becomes another; the rest of the file stays byte for byte.

Left alone: docstrings and other strings, annotations, decorators, what is imported for types only, messages of errors.
"""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING

from mutation.fault import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Change = tuple[str, ast.AST]

_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}  # fmt: skip
_PAIRS = (("min", "max"), ("minimum", "maximum"), ("floor", "ceil"), ("any", "all"), ("argmin", "argmax"))
_SWAPS = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_TEXT = (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.Set)


def python_faults(path: str, text: bytes) -> list[Fault]:
    """All faults that a file can have.

    Args:
        path: From the root of the tree.
        text: The file.
    """
    lines = text.splitlines(keepends=True)
    begin = [0]
    for line in lines:
        begin.append(begin[-1] + len(line))
    found = []
    for node in _nodes(ast.parse(text)):
        start = begin[node.lineno - 1] + node.col_offset
        stop = begin[node.end_lineno - 1] + node.end_col_offset
        for kind, changed in _changes(node):
            new = ast.unparse(ast.fix_missing_locations(changed))
            new = f"({new})" if isinstance(changed, ast.expr) and not isinstance(changed, ast.Constant) else new
            found.append(Fault(path, node.lineno, start, stop, kind, text[start:stop].decode(), new))
    return found


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Expressions and statements that can be at fault, from the outside in."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params", "format_spec"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST) and not _left_alone(node):
                if hasattr(node, "lineno") and not isinstance(node, ast.keyword):
                    yield node
                yield from _nodes(node)


def _left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert)


def _changes(node: ast.AST) -> Iterator[Change]:
    for kind, change in _KINDS:
        if isinstance(node, kind):
            yield from change(node)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _operator(node: ast.BinOp | ast.AugAssign) -> Iterator[Change]:
    sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
    textual = any(isinstance(one, _TEXT) or isinstance(getattr(one, "value", None), str) for one in sides)
    if type(node.op) in _OPERATORS and not textual:
        yield "operator", _with(node, op=_OPERATORS[type(node.op)]())


def _comparison(node: ast.Compare) -> Iterator[Change]:
    for at, operator in enumerate(node.ops):
        for other in _COMPARISONS[type(operator)]:
            kind = (
                "boundary" if other in (ast.Lt, ast.LtE, ast.Gt, ast.GtE) and _near(operator, other) else "comparison"
            )
            yield kind, _with(node, ops=[*node.ops[:at], other(), *node.ops[at + 1 :]])


def _near(operator: ast.cmpop, other: type[ast.cmpop]) -> bool:
    return {type(operator), other} in ({ast.Lt, ast.LtE}, {ast.Gt, ast.GtE})


def _constant(node: ast.Constant) -> Iterator[Change]:
    value = node.value
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int):
        yield "constant", ast.Constant(value + max(1, abs(value) // 10))
    elif isinstance(value, float):
        yield "constant", ast.Constant(value * 1.1 if value else 1.0)


def _call(node: ast.Call) -> Iterator[Change]:
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name in _SWAPS:
        field = "id" if isinstance(node.func, ast.Name) else "attr"
        yield "swap", _with(node, func=_with(node.func, **{field: _SWAPS[name]}))
    for at, word in enumerate(node.keywords):
        if word.arg is not None:
            yield "argument left out", _with(node, keywords=[*node.keywords[:at], *node.keywords[at + 1 :]])


def _logic(node: ast.BoolOp) -> Iterator[Change]:
    yield "logic", _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())


def _sign(node: ast.UnaryOp) -> Iterator[Change]:
    if isinstance(node.op, ast.Not | ast.USub):
        yield "sign", node.operand


def _condition(node: ast.If | ast.IfExp | ast.While) -> Iterator[Change]:
    if isinstance(node, ast.IfExp):
        yield "condition", _with(node, body=node.orelse, orelse=node.body)


def _returned(node: ast.Return) -> Iterator[Change]:
    if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
        yield "return", _with(node, value=ast.Constant(None))


_KINDS: tuple[tuple[type | tuple[type, ...], Callable[..., Iterator[Change]]], ...] = (
    ((ast.BinOp, ast.AugAssign), _operator),
    (ast.Compare, _comparison),
    (ast.Constant, _constant),
    (ast.Call, _call),
    (ast.BoolOp, _logic),
    (ast.UnaryOp, _sign),
    (ast.IfExp, _condition),
    (ast.Return, _returned),
)
