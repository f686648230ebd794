"""Draws how much the constants of a scheduled fabric matter: `python validation/tools/scheduled_sensitivity.py`.

Writes `docs/explanation/packet-scheduled-sensitivity.svg` and `.csv`. Takes half a minute.
"""

from __future__ import annotations

import csv
from dataclasses import astuple, fields
from pathlib import Path

from railyard_validation.fabric.scheduled_sensitivity import CASES, RANGES, Sensitivity, sensitivity

OUT = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "packet-scheduled-sensitivity.svg"
COLOURS = {"packet": "#7a7a7a", "permutation": "#0072b2", "all to all": "#009e73", "incast": "#d55e00"}
WIDTH, HEIGHT, COLUMNS, TOP = 300, 210, 3, 62
LEFT, RIGHT, HEAD, FOOT = 44, 12, 26, 34


def main() -> int:
    rows = sensitivity(progress=lambda key, share: print(f"{share:4.0%} {key}"))
    OUT.write_text(figure(rows), encoding="utf-8")
    with OUT.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(entry.name for entry in fields(Sensitivity))
        out.writerows(astuple(row) for row in rows)
    print(OUT)
    return 0


def figure(rows: list[Sensitivity]) -> str:
    """A panel a constant: time over its bound against the constant's value."""
    lines = -(-len(RANGES) // COLUMNS)
    size = COLUMNS * WIDTH, TOP + lines * HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" font-size="11" '
        'font-family="system-ui, sans-serif">',
        f'<rect width="{size[0]}" height="{size[1]}" fill="#fff"/>',
        '<text x="12" y="20" font-size="14">Scheduled fabric: completion time over its bound, by constant</text>',
    ]
    for at, (case, colour) in enumerate(COLOURS.items()):
        x = 12 + 190 * at
        parts.append(f'<circle cx="{x + 4}" cy="40" r="4" fill="{colour}"/><text x="{x + 14}" y="44">{case}</text>')
    for at, key in enumerate(RANGES):
        x, y = at % COLUMNS * WIDTH, TOP + at // COLUMNS * HEIGHT
        parts += [f'<g transform="translate({x},{y})">', *_panel(key, [row for row in rows if row.key == key]), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _panel(key: str, rows: list[Sensitivity]) -> list[str]:
    values = list(dict.fromkeys(row.value for row in rows))
    most = max(2.0, *(row.time_us / row.bound_us for row in rows))
    right, low = WIDTH - RIGHT, HEIGHT - FOOT

    def across(value: float) -> float:
        return LEFT + (right - LEFT) * (values.index(value) + 0.5) / len(values)

    def up(ratio: float) -> float:
        return low - (low - HEAD) * (ratio - 1) / (most - 1)

    parts = [f'<text x="{LEFT}" y="16">{key}</text>']
    for step in range(5):
        ratio = 1 + (most - 1) * step / 4
        parts.append(f'<line x1="{LEFT}" x2="{right}" y1="{up(ratio):.1f}" y2="{up(ratio):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 4}" y="{up(ratio) + 4:.1f}" text-anchor="end">{ratio:.2f}</text>')
    for value in values:
        bold = ' font-weight="bold"' if any(row.default for row in rows if row.value == value) else ""
        parts.append(f'<text x="{across(value):.1f}" y="{low + 16}" text-anchor="middle"{bold}>{value:.4g}</text>')
    for case, colour in COLOURS.items():
        points = [(across(row.value), up(row.time_us / row.bound_us)) for row in rows if row.case == case]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in points]
    return parts


if __name__ == "__main__":
    assert set(COLOURS) == set(CASES)
    raise SystemExit(main())
