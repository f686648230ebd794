"""The page of a validation: what was predicted against what was measured, drawn, counted, and its worst rows named.

A page is Markdown with its two figures beside it, or one HTML file with the figures inside, as its name says.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError
from railyard_validation.plot import Axis, Curve, Plot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from railyard_validation.collectives.compare import CollectivesReport
    from railyard_validation.serving.compare import ServingReport
    from railyard_validation.training.compare import TrainingReport

# Sources that have a colour of their own in the scatter plot; the smaller ones share one.
_COLOURED = 5
# Bins of the histogram, signed error; what lies outside is counted in the last ones.
_BIN, _EDGE = 0.025, 0.3
_WORST = 8
_MIB = 1 << 20
_SERVING = {"tpot": "time per token", "ttft": "time to the first token"}


@dataclass(frozen=True)
class Point:
    """One row that was predicted.

    Attributes:
        name: Of the row.
        group: Of which its error is summed up.
        measured, predicted: In the page's unit.
        error: (predicted - measured) / measured.
        about: What the row is silent about, or why it is off.
        scored: Whether it counts.
    """

    name: str
    group: str
    measured: float
    predicted: float
    error: float
    about: str = ""
    scored: bool = True


@dataclass(frozen=True)
class Validation:
    """What a page shows.

    Attributes:
        title: Of the page.
        lead: Sentences under the title.
        quantity: What was predicted, with its unit.
        points: Rows.
        skipped: Reasons of the rows that were not predicted.
        columns: Further columns of the table by group: heading, then a figure for each group.
        sections: Further text in Markdown, below.
        figures: SVG by name, in the place of the scatter plot and the histogram.
    """

    title: str
    lead: str
    quantity: str
    points: Sequence[Point]
    skipped: Sequence[str] = ()
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sections: str = ""
    figures: Mapping[str, str] = field(default_factory=dict)

    def drawn(self) -> dict[str, str]:
        """SVG of each figure by name."""
        return dict(self.figures) or {"scatter": scatter(self), "errors": histogram(self)}


_CAPTIONS = {"scatter": "Predicted against measured", "errors": "Signed errors"}


def of_training(report: TrainingReport, why: Mapping[str, str] | None = None) -> Validation:
    """The page of `railyard validate training`, or of `memory`.

    Args:
        report: All rows.
        why: Known causes of errors by row id; elsewhere what the row is silent about stands in their place.
    """
    from railyard_validation.training.cases import family

    memory = report.engine == "memory"
    known = why or {}
    points = [
        Point(
            row.id,
            row.kind or family(row.source),
            row.measured,
            row.predicted,
            row.error,
            known.get(row.id) or "; ".join(row.defaults),
            row.judged,
        )
        for row in report.rows
        if row.error is not None and row.measured is not None and row.predicted is not None
    ]
    return Validation(
        title="Peak memory against what was published" if memory else "Training steps against what was measured",
        lead="",
        quantity="peak memory, GiB" if memory else "step, seconds",
        points=points,
        skipped=[row.reason for row in report.rows if row.status == "skipped"],
    )


def of_collectives(report: CollectivesReport) -> Validation:
    """The page of `railyard validate collectives`: times of every size, grouped by class of size and health."""
    points = []
    for row in report.rows:
        if row.error is None or row.measured_us is None or row.predicted_us is None:
            continue
        size = "from 1 MiB" if row.bytes >= _MIB else "below 1 MiB"
        group = "logs set aside as odd" if row.odd else f"{row.collective}, {size}"
        about = "; ".join(part for part in (row.odd, f"{row.algorithm} {row.protocol}".strip()) if part)
        name = f"{row.log}, {row.bytes:,} B"
        points.append(Point(name, group, row.measured_us, row.predicted_us, row.error, about, not row.odd))
    return Validation(
        title="Collectives against published logs",
        lead="",
        quantity="time of one collective, us",
        points=points,
        skipped=[row.reason for row in report.rows if row.status == "skipped"],
    )


def of_serving(report: ServingReport) -> Validation:
    """The page of `railyard validate serving`: one metric, by source, how much of each is covered beside its error.

    Silicon samples, which make up most of a table, stand apart by engine.
    """
    from railyard_validation.serving.compare import family

    points, covered = [], {"all": _covered(report.summary())}
    shares = {name: _covered(found) for name, found in report.sources().items()}
    for row in report.rows:
        if row.error is None or row.measured is None or row.predicted is None:
            continue
        source = family(row.source)
        group = f"{source}, {row.profile.split('/')[0]}" if "silicon samples" in source else source
        covered[group] = shares[source]
        points.append(Point(row.id, group, row.measured, row.predicted, row.error, "; ".join(row.defaults)))
    unit = next((row.metric for row in report.rows if row.metric), report.metric)
    return Validation(
        title=f"Serving against what was measured: {_SERVING.get(report.metric, report.metric)}",
        lead="",
        quantity=unit.replace("_s", ", seconds"),
        points=points,
        skipped=[row.reason for row in report.rows if row.status == "skipped"],
        columns={"of the source covered": covered},
    )


def _covered(summary: Mapping[str, float | int | None]) -> str:
    return "" if summary["coverage"] is None else f"{100 * summary['coverage']:.0f} %"


def check(path: Path) -> None:
    """Whether a page can be written there, before the work is done.

    Args:
        path: `.md` or `.html`, in a folder that exists.

    Raises:
        InputError: The name has another ending, or there is no such folder.
    """
    if path.suffix not in (".md", ".html"):
        raise InputError(
            f"a page is written as Markdown or HTML, not `{path.suffix}`",
            key="page",
            found=path.name,
            allowed=("FILE.md", "FILE.html"),
        )
    if not path.parent.is_dir():
        raise InputError("there is no such folder for the page", key="page", found=str(path.parent))


def write(page: Validation, path: Path) -> None:
    """Writes the page; every file appears whole or not at all.

    Args:
        page: What it shows.
        path: `.md` (figures are put beside it) or `.html`.

    Raises:
        InputError: The page cannot be written there.
    """
    check(path)
    figures = page.drawn()
    try:
        if path.suffix == ".html":
            _whole(path, _html(page, figures))
            return
        for name, figure in figures.items():
            _whole(path.with_name(f"{path.stem}-{name}.svg"), figure)
        _whole(path, markdown(page, path.stem))
    except OSError as error:
        raise InputError(f"the page cannot be written: {error.strerror}", key="page", found=str(path)) from error


def markdown(page: Validation, stem: str) -> str:
    """The page as Markdown; its figures are `STEM-NAME.svg` beside it, `scatter` and `errors` unless it has others."""
    parts = [f"# {_plain(page.title)}\n\n"]
    if page.lead:
        parts.append(page.lead + "\n\n")
    names = page.figures or _CAPTIONS
    parts += [f"![{_CAPTIONS.get(name, name)}]({stem}-{name}.svg)\n\n" for name in names]
    parts += [
        _table(*_by_group(page)),
        "\n## The worst rows\n\n",
        _table(*_worst(page)),
    ]
    if page.skipped:
        parts += ["\n## Rows that were not predicted\n\n", _table(*_skipped(page))]
    if page.sections:
        parts.append("\n" + page.sections.strip() + "\n")
    return "".join(parts)


def scatter(page: Validation) -> str:
    """Predicted against measured on logarithmic axes, as SVG."""
    values = [value for point in page.points for value in (point.measured, point.predicted) if value > 0]
    low, high = (10.0 ** math.floor(math.log10(min(values))), max(values) * 1.3) if values else (1.0, 10.0)

    def axis(kind: str) -> Axis:
        return Axis(f"{kind} {page.quantity}", low=low, high=high, log=True)

    sizes = Counter(point.group for point in page.points)
    named = [name for name, _ in sizes.most_common(_COLOURED)]
    curves = [Curve("equal", [(low, low), (high, high)], dashed=True)]
    curves += [
        Curve(name, _places(point for point in page.points if point.group == name), joined=False) for name in named
    ]
    rest = _places(point for point in page.points if point.group not in named)
    if rest:
        curves.append(Curve("others", rest, joined=False))
    title = f"{len(page.points)} rows, predicted against measured"
    return Plot(title, axis("measured"), axis("predicted"), curves).svg()


def _places(points: Iterable[Point]) -> list[tuple[float, float]]:
    return [(point.measured, point.predicted) for point in points]


def histogram(page: Validation) -> str:
    """Signed errors of the scored rows, as SVG."""
    errors = [point.error for point in page.points if point.scored]
    bins = Counter(math.floor(max(-_EDGE, min(_EDGE - 1e-9, error)) / _BIN) for error in errors)
    bars = [(100 * (number + 0.5) * _BIN, 0.0, float(count)) for number, count in sorted(bins.items())]
    within = sum(abs(error) <= 0.1 for error in errors)
    title = f"Signed error of {len(errors)} scored rows; {within} within 10 %"
    edge = 100 * _EDGE
    marks = tuple(range(-int(edge), int(edge) + 1, 10))
    x = Axis("error, % (the last bars hold all beyond)", low=-edge, high=edge, suffix=" %", marks=marks)
    return Plot(title, x, Axis("rows", low=0.0), [Curve("rows", [], ranges=bars, bar=22.0)]).svg()


def _by_group(page: Validation) -> tuple[list[str], list[list[str]]]:
    headings = ["", "rows", "scored", "mean error", "median", "90th percentile", "worst", *page.columns]
    rows = []
    groups = list(dict.fromkeys(point.group for point in page.points))
    for name in [*groups, "all"]:
        points = [point for point in page.points if name in (point.group, "all")]
        own = sorted(abs(point.error) for point in points if point.scored) or sorted(abs(p.error) for p in points)
        figures = (sum(own) / len(own), *np.quantile(own, (0.5, 0.9)), own[-1]) if own else ()
        more = [column.get(name, "") for column in page.columns.values()]
        scored = sum(point.scored for point in points)
        rows.append([name, str(len(points)), str(scored), *(f"{100 * figure:.1f} %" for figure in figures), *more])
    return headings, rows


def _worst(page: Validation) -> tuple[list[str], list[list[str]]]:
    worst = sorted((point for point in page.points if point.scored), key=lambda point: -abs(point.error))[:_WORST]
    rows = [
        [p.name, p.group, f"{p.measured:.4g}", f"{p.predicted:.4g}", f"{100 * p.error:+.1f} %", p.about] for p in worst
    ]
    return ["row", "of", f"measured {page.quantity}", "predicted", "error", "possible cause"], rows


def _skipped(page: Validation) -> tuple[list[str], list[list[str]]]:
    counted = Counter(reason.split(": ", 1)[1] if reason.startswith("line ") else reason for reason in page.skipped)
    return ["rows", "reason"], [[str(count), reason] for reason, count in counted.most_common(12)]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(map(_plain, cells)) + " |\n"

    return line(headings) + "|" + "---|" * len(headings) + "\n" + "".join(line(row) for row in rows)


def _plain(text: str) -> str:
    """Text of tables that strangers wrote, as Markdown that shows it: no HTML, no links, no cell of its own."""
    return escape(" ".join(text.split()), quote=False).replace("|", "\\|").replace("[", "\\[")


def _html_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1d2126}
svg{max-width:100%;height:auto}table{border-collapse:collapse;display:block;overflow-x:auto}
td,th{padding:.3rem .7rem;border-bottom:1px solid #dfe2e6;text-align:left;vertical-align:top}
@media (prefers-color-scheme:dark){body{background:#14171a;color:#e7eaee}td,th{border-color:#333a42}}"""


def _html(page: Validation, figures: Mapping[str, str]) -> str:
    parts = [f"<h1>{escape(page.title)}</h1>", f"<p>{escape(page.lead)}</p>" if page.lead else "", *figures.values()]
    parts += [_html_table(*_by_group(page)), "<h2>The worst rows</h2>", _html_table(*_worst(page))]
    if page.skipped:
        parts += ["<h2>Rows that were not predicted</h2>", _html_table(*_skipped(page))]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    title = escape(page.title)
    top = f"<!doctype html><html lang=en><head>{head}<title>{title}</title><style>{_STYLE}</style></head>"
    return f"{top}<body>{''.join(parts)}</body></html>\n"


def _whole(path: Path, text: str) -> None:
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
