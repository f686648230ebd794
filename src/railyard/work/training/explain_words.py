"""The explanation of a step in words: its tree, by what its leaves were computed, and what each remedy would give."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from typing import TYPE_CHECKING

from railyard.kit.prose import prose_lines, quoted
from railyard.measure import numbers
from railyard.work.study.presentation import WIDTH, Sheet
from railyard.work.training.explain_leaf import TimeNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.study.presentation import ExplainDepth
    from railyard.work.training.explain import Explanation, TriedRemedy
    from railyard.work.training.explain_leaf import Law, TimeTree

_BAR, _LABEL = 10, 47
_SMALL = 0.0005
"""Share of the step below which nodes of one parent are shown as one line."""

_MOST = 0.5
"""Share of the step from which on a part is named by its own largest part."""
_NOTES = 2
_TRACED = 4
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def lines_of_step(found: Explanation, sentence: str, depth: ExplainDepth) -> Iterator[str | Sheet]:
    """The answer in one sentence, then lines and tables."""
    tree = found.tree
    others = [name for name in found.variants if name != tree.variant]
    yield _headline(found)
    yield sentence
    yield from _bubble(found)
    if others:
        yield _wrapped(f"Other variants: {', '.join(others)} (--variant NAME).")
    yield ""
    yield from tree_lines(tree, depth.levels)
    if found.remedies:
        yield from _remedies(found, details=depth.details)
    if depth.details:
        yield ""
        yield f"mean over {tree.ranks:,} ranks, engine {found.engine}"
        yield from _traced(tree)
    if not depth.quiet and tree.notes:
        yield ""
        yield from map(_wrapped, tree.notes if depth.details else tree.notes[:_NOTES])


def _bubble(found: Explanation) -> Iterator[str]:
    """Why the bubble is not the figure that `run` and the memo have, where the two differ."""
    left = found.variant.tax.rest.get("bubble", 0.0)
    ran = sum(found.tree.share(node) for node in found.tree.root.children if node.name == "pipeline bubble")
    if numbers.percent(left) != numbers.percent(ran):
        yield _wrapped(
            f"The pipeline bubble is {numbers.percent(ran)} of the step as it ran; {numbers.percent(left)}, the figure"
            " of `run` and `memo`, is the bubble that remains if networks cost nothing."
        )


def _headline(found: Explanation) -> str:
    """The largest part of the step, and what shortens it most."""
    tree = found.tree
    within, part = "", tree.root
    while part.children and (within == "" or tree.share(part.children[0]) > _MOST):
        within, part = part.name, max(part.children, key=lambda child: child.amount_ps)
    of = f" of {quoted(tree.variant)}" if found.variants[1:] else ""
    name = part.name if within in {"", tree.root.name} else f"{part.name} ({within})"
    said = f"{name[:1].upper()}{name[1:]} takes {numbers.percent(tree.share(part))} of the step{of},"
    said += f" {numbers.seconds(tree.seconds(part))} of {numbers.seconds(tree.step_ps * 1e-12)}"
    best = next((tried for tried in found.remedies if tried.gain is not None and tried.gain >= _SMALL), None)
    if best is not None and best.gain is not None:
        return f"{said}; {best.name} helps most: a step {numbers.percent(best.gain)} shorter."
    return f"{said}; none of the remedies tried shortens it." if found.remedies else f"{said}."


def tree_lines(tree: TimeTree, depth: int) -> list[str]:
    """The tree as lines: name, bar, share, seconds, times a step."""
    heading = f"{'':<{_LABEL}}{'':<{_BAR}}  {'share':>7} {'time':>9}"
    return [heading, *_lines(tree, tree.root, "", "", depth)]


def _lines(tree: TimeTree, node: TimeNode, first: str, rest: str, depth: int) -> Iterator[str]:
    yield _line(tree, node, first)
    if depth <= 0 or abs(tree.share(node)) < _SMALL:
        return
    children = _folded(tree, node)
    for number, child in enumerate(children):
        last = number == len(children) - 1
        yield from _lines(tree, child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), depth - 1)


def _folded(tree: TimeTree, node: TimeNode) -> list[TimeNode]:
    """The children, with those too small to show merged into one."""
    small = [child for child in node.children if abs(tree.share(child)) < _SMALL]
    if len(small) < 2:
        return list(node.children)
    large = [child for child in node.children if abs(tree.share(child)) >= _SMALL]
    amount = sum(child.amount_ps for child in small)
    return [*large, TimeNode(f"{len(small)} smaller ones", amount)]


def _line(tree: TimeTree, node: TimeNode, indent: str) -> str:
    width = _LABEL
    times = f" x {numbers.short(node.count)}" if node.count else ""
    name = f"{indent}{node.name}"
    label = f"{name}{times}"
    if len(label) > width:
        label = name if len(name) <= width else f"{name[: width - 1]}…"
    share = tree.share(node)
    seconds = numbers.seconds(tree.seconds(node))
    return f"{label:<{width}}{_bar(share):<{_BAR}}  {100 * share:>5.1f} % {seconds:>9}".rstrip()


def _bar(share: float) -> str:
    eighths = round(min(max(share, 0.0), 1.0) * _BAR * 8)
    full, part = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[part] if part else "")


def _traced(tree: TimeTree) -> Iterator[str]:
    """The laws by which most of the step was computed, each once, with its constants."""
    shares: dict[Law, float] = defaultdict(float)
    for leaf in tree.root.leaves():
        if leaf.by is not None:
            shares[leaf.by] += tree.share(leaf)
    yield "Formulas behind most of the step:"
    for law, share in sorted(shares.items(), key=lambda found: -found[1])[:_TRACED]:
        yield _wrapped(f"{100 * share:>5.1f} %  {law.formula}", indent="  ", further="         ")
        for constant in law.constants:
            yield _wrapped(f"{constant.name} {constant.value}: {constant.source}", indent="           ")


def _remedies(found: Explanation, *, details: bool) -> Iterator[str | Sheet]:
    yield ""
    possible = [tried for tried in found.remedies if tried.step_s is not None]
    if possible:
        heads = ("remedy, simulated", "step", "gain", "$/Mtoken", "shortens")
        yield Sheet(heads, [_row(tried, found) for tried in possible], right=(1, 2, 3))
    if any(tried.cpmt_usd is not None for tried in found.remedies):
        yield f"unchanged: ${numbers.short(found.variant.cpmt.typical)} per million tokens; -: no known price"
    for tried in possible if details else possible[:1]:
        if tried.assumes:
            yield _wrapped(f"{tried.name} assumes: {tried.assumes}")
    if not details:
        return
    for tried in found.remedies:
        if tried.step_s is None:
            yield _wrapped(f"not possible: {tried.name}: {tried.reason}")
    yield ""
    rows = [
        (name, step, gain, removes) for name, step, gain, _, removes in (_row(one, found) for one in found.sensitivity)
    ]
    yield Sheet(("sensitivity, simulated", "step", "gain", "shortens"), rows, right=(1, 2))


def _row(tried: TriedRemedy, found: Explanation) -> tuple[str, str, str, str, str]:
    gain = 0.0 if tried.gain is None else tried.gain
    money = "-"
    if tried.cpmt_usd is not None:
        money = f"{100 * (tried.cpmt_usd / found.variant.cpmt.typical - 1):+.1f} %"
    return (
        textwrap.shorten(tried.name, 30, placeholder="…"),
        numbers.seconds(tried.step_s),
        f"{100 * gain:.1f} %",
        money,
        textwrap.shorten(tried.removes, 21, placeholder="…"),
    )


def _wrapped(text: str, indent: str = "", further: str = "  ") -> str:
    how = {"initial_indent": indent, "subsequent_indent": f"{indent}{further}", "break_on_hyphens": False}
    return "\n".join(prose_lines(text, WIDTH, **how))
