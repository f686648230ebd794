"""The page's views in a notebook: a page that carries its data, in a frame of the cell.

No widget runtime: what a cell holds is HTML, so it works in every front end that shows HTML of outputs (JupyterLab,
Notebook, VS Code, Colab), after the kernel is gone, and in what `nbconvert` makes of the notebook. Its price: 60 to 120
kB a view in the file of the notebook, and choices made in it do not reach the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

from railyard.kit.errors import InputError
from railyard.kit.files import read_text
from railyard.measure.result.answers.answer import NAMES, answer_from
from railyard.measure.result.reading import result_from

RESULT = "result.json"


@dataclass(frozen=True, repr=False)
class View:
    """A page in a frame.

    Attributes:
        page: The document.
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
    from railyard.face.report import answer_html, report_html

    file = _document(Path(path))
    if file.name == RESULT:
        return View(report_html(result_from(read_text(file))), height)
    return View(answer_html(answer_from(read_text(file))), height)


def _document(path: Path) -> Path:
    if path.is_file():
        return path
    names = [RESULT, *(f"{name}.json" for name in NAMES.values())]
    found = next((path / name for name in names if (path / name).is_file()), None)
    if found is None:
        raise InputError("this folder holds nothing that can be shown", file=path, allowed=names)
    return found
