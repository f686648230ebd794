"""Notebooks print what they show."""

import json
import sys

import pytest

from .test_answers import ROOT

NOTEBOOKS = sorted((ROOT / "examples").rglob("*.ipynb"))


@pytest.fixture
def notebook(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import notebook

    yield notebook
    sys.modules.pop("notebook", None)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_cells_print_what_they_show(notebook, file):
    assert notebook.run(file) == []


def test_a_cell_that_prints_something_else_is_named(notebook, tmp_path):
    def cell(source, shown):
        output = {"name": "stdout", "output_type": "stream", "text": [shown]}
        return {"cell_type": "code", "source": [source], "outputs": [output]}

    file = tmp_path / "small.ipynb"
    cells = [cell("step = 2.0\nprint('step', step)", "step 2.0\n"), cell("print('cost', 3 * step)", "cost 5.0\n")]
    file.write_text(json.dumps({"cells": cells}))
    assert notebook.run(file) == ["small.ipynb, cell 2: shows\ncost 5.0\nprints\ncost 6.0\n"]
    notebook.run(file, write=True)
    assert notebook.run(file) == []
