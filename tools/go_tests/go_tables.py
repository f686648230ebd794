"""Reads tables of Go tests as data: literals, chains of builders, and the little code that makes some of them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tree_sitter_go
from tree_sitter import Language, Parser

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GO = Language(tree_sitter_go.language())
_SECONDS = {"time.Second": 1, "time.Minute": 60, "time.Hour": 3600}
_MAPS = {"corev1.ResourceList", "resources.MapRequests"}
"""Types that are maps under another name."""
_SAME = {"new", "ptr.To", "int64", "int32", "int", "string", "metav1.NewTime", "slices.Clone"}
"""Calls that give what they are given."""


@dataclass
class Chain:
    """A call of a builder and what is called on it: `pkg.Make(a).One(b).Two()`."""

    name: str
    args: list[Any]
    calls: list[tuple[str, list[Any]]] = field(default_factory=list)


@dataclass(frozen=True)
class Name:
    """A name of another package, such as `corev1.ResourceCPU`."""

    text: str


@dataclass
class Record:
    """A literal of a struct."""

    kind: str
    fields: dict[Any, Any]


@dataclass
class Func:
    """A function, and where it stands."""

    params: list[str]
    body: Any
    scope: Scope


class Scope:
    """Names and their values; types of structs by the names of their fields."""

    def __init__(self, above: Scope | None = None, names: dict[str, Any] | None = None) -> None:
        self.above, self.names = above, dict(names or {})

    def find(self, name: str) -> tuple[bool, Any]:
        """Whether there is one, and its value."""
        if name in self.names:
            return True, self.names[name]
        return self.above.find(name) if self.above else (False, None)


def tables(path: Path) -> dict[str, Scope]:
    """Of each test function of a file its names, the table of cases among them."""
    source = re.sub(rb"\bnew\(", b"ptr.To(", path.read_bytes())
    root, top, found = Parser(GO).parse(source).root_node, Scope(), {}
    for node in _parts(root):
        if node.type == "const_declaration":
            _statement(node, top)
        elif node.type == "function_declaration":
            name, function = _text(node.child_by_field_name("name")), _function(node, top)
            if name.startswith("Test"):
                found[name] = Scope(top)
                _run(function.body, found[name])
            else:
                top.names[name] = function
    return found


def _text(node: Any) -> str:
    return str(node.text.decode())


def _parts(node: Any) -> list[Any]:
    return [part for part in node.named_children if part.type != "comment"]


def _function(node: Any, scope: Scope) -> Func:
    params = _parts(node.child_by_field_name("parameters"))
    names = [_text(name) for param in params for name in param.children_by_field_name("name")]
    return Func(names, node.child_by_field_name("body"), scope)


def _run(block: Any, scope: Scope) -> Any:
    """Statements in order; what the first `return` gives, None: there is none."""
    for node in _parts(block):
        result = _run(node, scope) if node.type in ("statement_list", "block") else _statement(node, scope)
        if result is not None:
            return result
    return None


def _statement(node: Any, scope: Scope) -> Any:
    """Carries one out, as far as tables need it: what cannot be read stays a `Name` that says so."""
    if node.type == "return_statement":
        return value(_parts(_parts(node)[0])[0], scope)
    if node.type in ("const_declaration", "var_declaration"):
        for spec in (
            one for part in _parts(node) for one in (_parts(part) if part.type == "var_spec_list" else [part])
        ):
            names, given = spec.children_by_field_name("name"), spec.child_by_field_name("value")
            _bind([_text(name) for name in names], _parts(given) if given else [], scope)
    elif node.type in ("short_var_declaration", "assignment_statement"):
        names = [_text(name) for name in _parts(node.child_by_field_name("left"))]
        _bind(names, _parts(node.child_by_field_name("right")), scope)
    elif node.type == "type_declaration":
        _struct(node, scope)
    elif node.type == "for_statement" and any(part.type == "range_clause" for part in _parts(node)):
        _loop(node, scope)
    return None


def _bind(names: list[str], nodes: list[Any], scope: Scope) -> None:
    for place, name in enumerate(names):
        try:
            scope.names[name] = value(nodes[place], scope) if place < len(nodes) else []
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            scope.names[name] = Name(f"unreadable: {error}")


def _struct(node: Any, scope: Scope) -> None:
    spec = _parts(node)[0]
    kind = spec.child_by_field_name("type")
    if kind.type == "struct_type":
        fields = [name for part in _parts(_parts(kind)[0]) for name in part.children_by_field_name("name")]
        scope.names[f"type {_text(spec.child_by_field_name('name'))}"] = [_text(name) for name in fields]


def _loop(node: Any, scope: Scope) -> None:
    clause = next(part for part in _parts(node) if part.type == "range_clause")
    left = clause.child_by_field_name("left")
    names = [_text(name) for name in _parts(left)] if left else []
    if "tc" in names or "test" in names:
        return
    over = value(clause.child_by_field_name("right"), scope)
    if not isinstance(over, (int, list)):
        return
    for place, one in enumerate(range(over) if isinstance(over, int) else over):
        scope.names.update(zip(names, (place, one), strict=False))
        _run(node.child_by_field_name("body"), scope)


def value(node: Any, scope: Scope) -> Any:
    """What an expression stands for.

    Raises:
        ValueError: It is of a kind that tables do not have.
    """
    reader = _READERS.get(node.type)
    if reader is None:
        raise ValueError(f"{node.type} at {node.start_point}: {_text(node)[:80]}")
    return reader(node, scope)


def _identifier(node: Any, scope: Scope) -> Any:
    if _text(node) in ("true", "false", "nil"):
        return {"true": True, "false": False, "nil": None}[_text(node)]
    found, known = scope.find(_text(node))
    return known if found else Name(_text(node))


def _unary(node: Any, scope: Scope) -> Any:
    operand = value(node.child_by_field_name("operand"), scope)
    return -operand if _text(node.child_by_field_name("operator")) == "-" else operand


def _binary(node: Any, scope: Scope) -> Any:
    left, right = (value(node.child_by_field_name(side), scope) for side in ("left", "right"))
    return {"+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right}[
        _text(node.child_by_field_name("operator"))
    ]()


def _literal(node: Any, scope: Scope) -> Any:
    return _filled(_text(node.child_by_field_name("type")), node.child_by_field_name("body"), scope)


def _filled(kind: str, body: Any, scope: Scope) -> Any:
    """A list, a map or a struct, by the text of its type."""
    inner = kind[kind.index("]") + 1 :] if kind.startswith(("[", "map[")) else ""
    if kind.startswith("["):
        return [_element(inner, part, scope) for part in _parts(body)]
    if kind.startswith("map[") or kind in _MAPS:
        pairs = [_parts(part) for part in _parts(body)]
        key = kind[4 : kind.index("]")] if kind.startswith("map[") else ""
        return {_element(key, one, scope): _element(inner, other, scope) for one, other in pairs}
    fields: dict[Any, Any] = {}
    known = scope.find(f"type {kind}")[1] or []
    for place, part in enumerate(_parts(body)):
        if part.type == "keyed_element":
            one, other = _parts(part)
            fields[_text(one)] = _element("", other, scope)
        else:
            fields[known[place] if place < len(known) else place] = _element("", part, scope)
    return Record(kind, fields)


def _element(kind: str, node: Any, scope: Scope) -> Any:
    inner = _parts(node)[0] if node.type == "literal_element" else node
    if inner.type == "literal_value":
        return _filled(kind.lstrip("*"), inner, scope)
    return value(inner, scope)


def _selector(node: Any, scope: Scope) -> Any:
    operand, name = node.child_by_field_name("operand"), _text(node.child_by_field_name("field"))
    if operand.type == "identifier" and not scope.find(_text(operand))[0]:
        full = f"{_text(operand)}.{name}"
        return _SECONDS.get(full, Name(full))
    base = value(operand, scope)
    if isinstance(base, Record):
        return base.fields[name]
    return Chain(base.name, base.args, [*base.calls, ("." + name, [])])


def _call(node: Any, scope: Scope) -> Any:
    function = node.child_by_field_name("function")
    name, args = _text(function), _arguments(node, scope)
    if name in _BUILT_IN:
        return _BUILT_IN[name](args)
    if name.endswith("DomainID"):
        return ",".join(args[0]) if isinstance(args[0], list) else args[0]
    if name in _SAME or (len(args) == 1 and name.startswith(("kueue.", "corev1.", "workload.")) and _simple(args[0])):
        return args[0]
    if function.type == "selector_expression":
        return _method(function, args, scope)
    return args if name.startswith("sets.New[") else _called(function, args, scope)


def _called(function: Any, args: list[Any], scope: Scope) -> Any:
    target = value(function, scope)
    if isinstance(target, Func):
        return _run(target.body, Scope(target.scope, dict(zip(target.params, args, strict=False))))
    return Chain(_text(function), args)


def _conversion(node: Any, scope: Scope) -> Any:
    """Of a call with one argument and a type parameter, which is read as a conversion too."""
    given = value(node.child_by_field_name("operand"), scope)
    return [given] if _text(node).startswith("sets.New[") else given


def _simple(given: Any) -> bool:
    return not isinstance(given, (Chain, Record))


def _arguments(node: Any, scope: Scope) -> list[Any]:
    found = []
    for part in _parts(node.child_by_field_name("arguments")):
        if part.type == "variadic_argument":
            found += value(_parts(part)[0], scope)
        elif part.type.endswith("_type") and part.type != "qualified_type":
            found.append(Name(_text(part)))
        else:
            found.append(value(part, scope))
    return found


def _method(function: Any, args: list[Any], scope: Scope) -> Any:
    operand, name = function.child_by_field_name("operand"), _text(function.child_by_field_name("field"))
    if operand.type == "identifier" and not scope.find(_text(operand))[0]:
        return Chain(f"{_text(operand)}.{name}", args)
    base = value(operand, scope)
    if isinstance(base, int):
        return base + args[0] if name == "Add" else base
    if isinstance(base, Chain):
        return Chain(base.name, base.args, [*base.calls, (name, args)])
    return Chain("method", [base], [(name, args)])


_BUILT_IN: dict[str, Callable[[list[Any]], Any]] = {
    "append": lambda args: [*args[0], *args[1:]],
    "len": lambda args: len(args[0]),
    "time.Now": lambda _: 0,
    "fmt.Sprintf": lambda args: args[0] % tuple(args[1:]),
}
_READERS: dict[str, Callable[[Any, Scope], Any]] = {
    "interpreted_string_literal": lambda node, _: ast.literal_eval(_text(node)),
    "raw_string_literal": lambda node, _: _text(node)[1:-1],
    "int_literal": lambda node, _: int(_text(node).replace("_", ""), 0),
    "float_literal": lambda node, _: float(_text(node)),
    "true": _identifier,
    "false": _identifier,
    "nil": _identifier,
    "identifier": _identifier,
    "type_identifier": _identifier,
    "qualified_type": lambda node, _: Name(_text(node)),
    "parenthesized_expression": lambda node, scope: value(_parts(node)[0], scope),
    "unary_expression": _unary,
    "binary_expression": _binary,
    "composite_literal": _literal,
    "selector_expression": _selector,
    "index_expression": lambda node, scope: value(node.child_by_field_name("operand"), scope)[
        value(node.child_by_field_name("index"), scope)
    ],
    "func_literal": _function,
    "call_expression": _call,
    "type_conversion_expression": _conversion,
}
