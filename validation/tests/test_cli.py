"""`railyard validate` as a user meets it: an installed command of the product's own command line."""

import pytest

from railyard.face.cli import guard


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("training", {"--table", "--leave-out", "--page", "--json", "--help"}),
        ("memory", {"--table", "--page", "--json", "--help"}),
        ("faults", {"--only", "--page", "--json", "--help"}),
        ("collectives", {"--logs", "--page", "--json", "--help"}),
        ("serving", {"--table", "--metric", "--runs", "--profiles", "--page", "--json", "--help"}),
    ],
)
def test_options_are_few_and_frozen(capsys, command, options):
    assert guard.run(["validate", command, "--help"]) == 0
    words = capsys.readouterr().out.split()
    assert {word.rstrip(",.") for word in words if word.startswith("--")} == options


def test_help_lists_it_with_one_line(capsys):
    assert guard.run(["--help"]) == 0
    assert "Predicted against measured, row by row." in capsys.readouterr().out


def test_a_table_and_runs_exclude_one_another(capsys):
    assert guard.run(["validate", "serving"]) == 2
    assert "--table FILE.csv" in capsys.readouterr().err
