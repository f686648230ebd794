"""Lines of prose."""

import pytest

from railyard.kit.prose import prose_lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a step 25.5 % longer", ["a step", "25.5 %", "longer"]),
        ("up to 781.6 ms", ["up to", "781.6 ms"]),
        ("", [""]),
    ],
)
def test_no_figure_is_parted_from_its_unit(text, lines):
    """In twelve columns `a step 25.5` and `up to 781.6` are eleven, and leave no room for the unit."""
    assert prose_lines(text, 12) == lines
