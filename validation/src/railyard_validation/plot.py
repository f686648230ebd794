"""Small plots as plain SVG: lines, steps, dots and bars over linear or logarithmic axes. No packages."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 760, 430
LEFT, RIGHT, TOP, BOTTOM = 70, 24, 84, 52
INK, MUTED, LINE, PAPER = "#1d2126", "#646c76", "#dfe2e6", "#ffffff"
COLORS = ("#0b6bcb", "#d55e00", "#4d8f5b", "#b8387a", "#c08a00", "#7a56c2", "#52616b", "#8c6d46")


@dataclass(frozen=True)
class Axis:
    """An axis.

    Attributes:
        title: With the unit.
        low: Left or lower end; from the data when None.
        high: The other end.
        log: Logarithmic.
        suffix: Behind every tick's number.
        marks: Ticks, where round values do not suit.
        words: What stands at the marks in place of their numbers.
    """

    title: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    suffix: str = ""
    marks: tuple[float, ...] = ()
    words: tuple[str, ...] = ()

    def text(self, tick: float) -> str:
        """What stands at a tick."""
        return self.words[self.marks.index(tick)] if self.words else f"{tick:,g}{self.suffix}"


@dataclass(frozen=True)
class Curve:
    """Points joined by lines.

    Attributes:
        name: In the legend.
        points: (x, y) by ascending x.
        steps: A value holds until the next point.
        dashed: Drawn with dashes: what is expected.
        dots: Every point has a dot.
        ranges: (x, low, high), drawn as bars.
        joined: The points are joined by a line; without it they are dots alone.
        bar: Width of the bars in pixels.
    """

    name: str
    points: list[tuple[float, float]]
    steps: bool = False
    dashed: bool = False
    dots: bool = False
    ranges: list[tuple[float, float, float]] = field(default_factory=list)
    joined: bool = True
    bar: float = 6.0


@dataclass(frozen=True)
class Plot:
    """A chart with its curves."""

    title: str
    x: Axis
    y: Axis
    curves: list[Curve]

    def svg(self) -> str:
        """The whole picture."""
        xs = [x for curve in self.curves for x, _ in curve.points]
        ys = [y for curve in self.curves for _, y in curve.points]
        ys += [end for curve in self.curves for _, *ends in curve.ranges for end in ends]
        across, up = _Scale(self.x, xs, LEFT, WIDTH - RIGHT), _Scale(self.y, ys, HEIGHT - BOTTOM, TOP)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'font-family="system-ui, sans-serif" font-size="12.5" fill="{INK}" role="img" '
            f'aria-label="{escape(self.title)}">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{PAPER}" rx="8"/>',
            f'<text x="{LEFT}" y="22" font-size="15" font-weight="600">{escape(self.title)}</text>',
            *self._legend(),
            *_grid(across, up),
            f'<text x="{LEFT - 8}" y="{TOP - 8}" text-anchor="start" fill="{MUTED}">{escape(self.y.title)}</text>',
            f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 12}" text-anchor="end" fill="{MUTED}">'
            f"{escape(self.x.title)}</text>",
        ]
        for curve, color in zip(self.curves, COLORS, strict=False):
            parts += _drawn(curve, color, across, up)
        return "\n".join([*parts, "</svg>", ""])

    def _legend(self) -> list[str]:
        """Names under the title, from left to right."""
        parts, left, row = [], float(LEFT), 41
        for curve, color in zip(self.curves, COLORS, strict=False):
            if left > LEFT and left + 26 + 6.8 * len(curve.name) > WIDTH - RIGHT:
                left, row = float(LEFT), row + 17
            dash = ' stroke-dasharray="5 3"' if curve.dashed else ""
            parts.append(
                f'<line x1="{left:.0f}" x2="{left + 20:.0f}" y1="{row}" y2="{row}" stroke="{color}" '
                f'stroke-width="2.5"{dash}/>'
                if curve.joined
                else f'<circle cx="{left + 10:.0f}" cy="{row}" r="4" fill="{color}"/>'
            )
            parts.append(f'<text x="{left + 26:.0f}" y="{row + 4}">{escape(curve.name)}</text>')
            left += 52 + 6.8 * len(curve.name)
        return parts


class _Scale:
    def __init__(self, axis: Axis, values: list[float], start: float, end: float) -> None:
        self.axis = axis
        self.low = min(values) if axis.low is None else axis.low
        self.high = max(values) if axis.high is None else axis.high
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        """Pixels."""
        low, high, value = (math.log10(max(x, 1e-300)) if self.axis.log else x for x in (self.low, self.high, value))
        return self._start + (value - low) / (high - low or 1.0) * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Round values between the ends."""
        if self.axis.marks:
            return list(self.axis.marks)
        if self.axis.log:
            decades = math.log10(self.high / self.low)
            factors = (1, 2, 5) if decades < 2.2 else (1,)
            span = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            values = [factor * 10.0**power for power in span for factor in factors]
        else:
            raw = (self.high - self.low) / 6
            power = 10.0 ** math.floor(math.log10(raw))
            step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
            values = [step * number for number in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        return [value for value in values if self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)]


def _grid(across: _Scale, up: _Scale) -> list[str]:
    parts = []
    for tick in up.ticks():
        y = up.at(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{LINE}"/>')
        text = escape(up.axis.text(tick))
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="{MUTED}">{text}</text>')
    for tick in across.ticks():
        x = across.at(tick)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="{LINE}"/>')
        text = escape(across.axis.text(tick))
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="{MUTED}">{text}</text>')
    return parts


def _drawn(curve: Curve, color: str, across: _Scale, up: _Scale) -> list[str]:
    places = [(across.at(x), up.at(y)) for x, y in curve.points]
    parts = []
    if places and curve.joined:
        dash = ' stroke-dasharray="5 3"' if curve.dashed else ""
        line = _path(places, steps=curve.steps)
        parts = [f'<path d="{line}" fill="none" stroke="{color}" stroke-width="2" stroke-linejoin="round"{dash}/>']
    for x, low, high in curve.ranges:
        at = across.at(x)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{up.at(low):.1f}" y2="{up.at(high):.1f}" stroke="{color}" '
            f'stroke-width="{curve.bar:g}" stroke-opacity="{0.25 if places else 0.8}"/>'
        )
    if not curve.joined:
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}" fill-opacity="0.6"/>' for x, y in places]
    if curve.dots:
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{color}"/>' for x, y in places]
    return parts


def _path(places: list[tuple[float, float]], *, steps: bool) -> str:
    if not steps:
        return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    return f"M{places[0][0]:.1f} {places[0][1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in places[1:])
