"""Which nodes will do for a pod: taints, node selectors, required and preferred affinity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from railyard.work.operate.kueue.objects import Labels, Node, Selection, Toleration

_STOPS = {"NoSchedule", "NoExecute"}
"""Effects of taints that keep pods away; PreferNoSchedule does not."""


def barred(node: Node, selection: Selection, tolerations: tuple[Toleration, ...]) -> str:
    """What keeps the pods away from a node: a taint, `nodeSelector` or `affinity`; empty: nothing.

    Args:
        node: The node.
        selection: Of the pods.
        tolerations: Of the flavor, beside those of the pods.
    """
    taint = unborne(node.taints, (*selection.tolerations, *tolerations))
    if taint:
        return taint
    if any(node.labels.get(key) != value for key, value in selection.labels.items()):
        return "nodeSelector"
    if selection.terms and not any(_term(term, node.labels, node.name) for term in selection.terms):
        return "affinity"
    return ""


def unborne(taints: tuple[tuple[str, str, str], ...], tolerations: tuple[Toleration, ...]) -> str:
    """The first taint that keeps pods away and that none of the tolerations bears, as `key=value:effect`."""
    for taint in taints:
        if taint[2] in _STOPS and not any(one.bears(taint) for one in tolerations):
            key, value, effect = taint
            return f"{key}={value}:{effect}" if value else f"{key}:{effect}"
    return ""


def score(node: Node, selection: Selection) -> int:
    """Sum of the weights of preferred terms that a node matches."""
    return sum(weight for weight, term in selection.preferred if weight and _term(term, node.labels, node.name))


def matches(labels: Labels, terms: tuple[dict[str, Any], ...], keys: set[str]) -> bool:
    """Whether labels match one of the terms, of which only expressions on these keys count."""
    kept = [
        {"matchExpressions": [one for one in term.get("matchExpressions", ()) if one["key"] in keys]} for term in terms
    ]
    return any(not term["matchExpressions"] or _term(term, labels, "") for term in kept)


def matches_labels(selector: dict[str, Any], labels: Labels) -> bool:
    """Whether labels match a label selector: `matchLabels` and `matchExpressions`."""
    wanted = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _expression(one, labels) for one in expressions
    )


def _term(term: dict[str, Any], labels: Labels, name: str) -> bool:
    expressions = [(one, labels) for one in term.get("matchExpressions") or ()]
    expressions += [(one, {"metadata.name": name}) for one in term.get("matchFields") or ()]
    return bool(expressions) and all(_expression(one, found) for one, found in expressions)


def _expression(one: dict[str, Any], labels: Labels) -> bool:
    values, found = [str(value) for value in one.get("values") or ()], labels.get(one["key"])
    operator = str(one["operator"])
    if operator in ("Exists", "DoesNotExist"):
        return (found is not None) == (operator == "Exists")
    if operator in ("In", "NotIn"):
        return (found in values) == (operator == "In")
    if found is None or not found.lstrip("-").isdigit():
        return False
    return int(found) > int(values[0]) if operator == "Gt" else int(found) < int(values[0])
