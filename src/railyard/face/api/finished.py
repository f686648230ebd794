"""A finished run: its result as tables, words and a card for notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import read_frame, read_text
from railyard.work.study.presentation import MOST_VARIANTS, comparison, html_head, presentation_of

if TYPE_CHECKING:
    import polars as pl

    from railyard.measure.result.answers import Answer
    from railyard.measure.result.reading import Result
    from railyard.work.study.presentation import Sheet


RESULT = "result.json"


@dataclass(frozen=True, repr=False)
class View:
    """A page in a frame.

    Attributes:
        height: Of the frame, pixels.
    """

    page: str
    height: int = 800

    def __repr__(self) -> str:
        return f"a view of {len(self.page):,} bytes of HTML, for notebooks"

    def _repr_html_(self) -> str:
        style = "width:100%;border:1px solid #8884;border-radius:8px"
        # It may draw, and nothing else: no origin, no network of its own, no way into the notebook.
        return (
            f'<iframe sandbox="allow-scripts" title="Railyard" style="{style}" height="{self.height}"'
            f' srcdoc="{escape(self.page)}"></iframe>'
        )


def view(path: str | Path, *, height: int = 800) -> View:
    """The view of what a command kept: a run, a plan, a diagnosis, a tuning, an audit.

    Args:
        path: Its folder, or the JSON file in it.
        height: Of the frame, pixels.

    Raises:
        InputError: There is none.
    """
    from railyard.face.reports import answer_html, report_html
    from railyard.measure.result.reading import Result

    _, found = document_of(Path(path))
    return View(report_html(found) if isinstance(found, Result) else answer_html(found), height)


def document_of(path: Path) -> tuple[Path, Result | Answer]:
    """The document of a result or an answer, and its file: the path itself, or that in its folder.

    Raises:
        InputError: There is none.
    """
    from railyard.measure.result.answers import answer_from
    from railyard.measure.result.reading import result_from

    file = path if path.is_file() else _document_in(path)
    text = read_text(file)
    try:
        return file, result_from(text) if file.name == RESULT else answer_from(text)
    except InputError as error:
        raise error.located(file=file) from None


def _document_in(path: Path) -> Path:
    from railyard.measure.result.answers import NAMES

    names = [RESULT, *(f"{name}.json" for name in NAMES.values())]
    found = next((path / name for name in names if (path / name).is_file()), None)
    if found is None:
        raise InputError("this folder holds nothing that can be shown", file=path, allowed=names)
    return found


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run.

    Attributes:
        result: Everything measured, typed: `result.text()` is what `result.json` holds.
        folder: The folder of the run, None when nothing was written.
    """

    name: str
    result: Result
    folder: Path | None = None

    @property
    def variants(self) -> list[str]:
        """The names of the variants, in the order of the comparison."""
        return [variant.name for variant in self.result.variants]

    @property
    def report_path(self) -> Path | None:
        """The report, None when no folder was written."""
        return None if self.folder is None else self.folder / "report.html"

    @property
    def tables(self) -> dict[str, str]:
        """Tables of `table`, by name, with their contents."""
        found = {name: one.about for name, one in presentation_of(self.result).tables.items()}
        return {**found, "sources": "where the numbers come from"}

    def table(self, name: str) -> pl.DataFrame:
        """A table of the result, all variants below each other.

        Args:
            name: One of `tables`, which depend on the kind of work.

        Raises:
            InputError: There is no such table, or the folder of the run is gone.
        """
        import polars as pl

        if name == "sources":
            return pl.DataFrame([row.plain() for row in self.result.provenance.sources], infer_schema_length=None)
        known = presentation_of(self.result).tables
        if name not in known:
            hint = did_you_mean(name, self.tables)
            raise InputError(f"there is no table `{name}`", found=name, allowed=list(self.tables), hint=hint)
        if known[name].file:
            path = None if self.folder is None else self.folder / known[name].file
            if path is None or not path.is_file():
                raise InputError(f"the {name} are in the folder of the run, which is not there", file=path)
            return read_frame(path)
        rows = [{"variant": one.name, **row} for one in self.result.variants for row in known[name].rows(one)]
        return pl.DataFrame(rows, infer_schema_length=None)

    def __getattr__(self, name: str) -> pl.DataFrame:
        """A table of the result as an attribute: `run.time`, `run.links`."""
        if name.startswith("_") or name not in self.tables:
            known = "" if name.startswith("_") else f"; tables: {', '.join(self.tables)}"
            raise AttributeError(f"a run has no table or attribute `{name}`{known}")
        return self.table(name)

    def __dir__(self) -> list[str]:
        """Attributes and tables."""
        return sorted([*super().__dir__(), *(self.tables.keys() - {"variants"})])

    def explain(self) -> str:
        """Explains for each variant, as text, where the time of the step goes and what would help."""
        return presentation_of(self.result).explanation(self.result)

    def __repr__(self) -> str:
        return presentation_of(self.result).card(self.result, self.report_path)

    def view(self, *, height: int = 800) -> View:
        """The report as a widget of a notebook: the same pictures, in a frame that needs no server and no network.

        Args:
            height: Of the frame, pixels.
        """
        from railyard.face.reports import report_html

        return View(report_html(self.result), height)

    def _repr_html_(self) -> str:
        return card(self.result, self.report_path)


_STYLE = """
.railyard{--ink:#1d2330;--soft:#667085;--line:#d9dde5;--bar:#3b6fd4;--wait:#d4803b;font:13px/1.45 system-ui,sans-serif;
color:var(--ink);max-width:960px}
@media (prefers-color-scheme:dark){.railyard{--ink:#e6e9ef;--soft:#98a2b3;--line:#3a4150;--bar:#6f9bf0;--wait:#e59d5c}}
.railyard table{border-collapse:collapse;width:100%}.railyard th,.railyard td{padding:4px 10px;text-align:right;
border-bottom:1px solid var(--line);background:none}.railyard th:first-child,.railyard td:first-child{text-align:left}
.railyard th{font-weight:600;color:var(--soft)}
.railyard .track{display:inline-flex;width:120px;height:8px;background:var(--line)}
.railyard .track i{background:var(--bar)}.railyard .track b{background:var(--wait)}.railyard p{margin:6px 0}
.railyard summary{cursor:pointer;color:var(--soft)}.railyard h4{margin:0 0 4px;font-size:15px}
"""


def card(result: Result, report: Path | None) -> str:
    """The card."""
    shown = presentation_of(result)
    place = f"<p>report: <code>{escape(str(report))}</code></p>" if report is not None else ""
    title = f"<h4>{escape(result.name)}</h4><p>{escape(shown.conclusion(result))}</p>"
    body = _table(comparison(result)) if shown.html is None else shown.html(result)
    return f"<div class='railyard'><style>{_STYLE}</style>{title}{body}{place}</div>"


def _table(sheet: Sheet) -> str:
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in sheet.rows[:MOST_VARIANTS]
    )
    return f"<table>{html_head(*map(escape, sheet.headings))}{rows}</table>"
