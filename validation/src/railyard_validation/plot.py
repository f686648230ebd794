"""Charts of the pages as SVG by Matplotlib: lines, steps, dots and bars over linear or logarithmic axes.

The same chart is the same file: no date, no version, no identifiers drawn at random; text stays text.
"""

from __future__ import annotations

import io
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as MatplotlibAxis

WIDTH_PX, HEIGHT_PX = 760, 430
INK, MUTED, LINE = "#1d2126", "#52616b", "#dfe2e6"
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#52616b", "#000000")
"""Okabe and Ito's colours, told apart by every kind of colour vision; each has a marker of its own besides."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
# Decades of an axis up to which 2 and 5 have ticks too.
_DECADES = 2.2
# Pixels of a legend's sign and gap, of one of its letters, and of its widest row.
_SIGN_PX, _LETTER_PX, _LEGEND_PX = 50, 6.4, 700
_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.h_pad": 0.1,
    "figure.constrained_layout.w_pad": 0.12,
    "figure.dpi": 72.0,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
    "font.size": 12.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "railyard",
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
}


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

    def text(self, tick: float, _: object = None) -> str:
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
        """The picture, from `<svg` on: it can stand in a page as it is."""
        with mpl.rc_context(_STYLE):
            file = io.StringIO()
            figure = self._figure()
            figure.savefig(file, format="svg", metadata={"Title": self.title, "Date": None, "Creator": None})
        # A page gives the width: without one of its own the picture fills it.
        text = file.getvalue().replace(f' width="{WIDTH_PX}pt" height="{HEIGHT_PX}pt"', "", 1)
        return "\n".join(line.rstrip() for line in text[text.index("<svg") :].splitlines()) + "\n"

    def _figure(self) -> Figure:
        figure = Figure((WIDTH_PX / 72, HEIGHT_PX / 72), layout="constrained")
        figure.suptitle(self.title, x=0.012, ha="left", fontsize=15, fontweight="bold")
        axes = figure.add_subplot()
        for number, curve in enumerate(self.curves):
            _draw(axes, curve, COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)])
        axes.set(xlabel=self.x.title, ylabel=self.y.title, xscale=_kind(self.x), yscale=_kind(self.y))
        axes.grid(color=LINE, linewidth=0.8)
        _ticks(axes.xaxis, self.x)
        _ticks(axes.yaxis, self.y)
        axes.set_xlim(self.x.low, self.x.high)
        axes.set_ylim(self.y.low, self.y.high)
        if len(self.curves) > 1:
            self._legend(axes)
        return figure

    def _legend(self, axes: Axes) -> None:
        """Names between title and axes, in as many columns as fit."""
        names = [curve.name for curve in self.curves]
        fitting = (count for count in range(len(names), 1, -1) if _width_px(names, count) < _LEGEND_PX)
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.015, 1.0),
            ncols=next(fitting, 1),
            frameon=False,
            fontsize=11,
            labelspacing=0.3,
            columnspacing=1.5,
            borderpad=0.2,
        )


def _width_px(names: list[str], columns: int) -> float:
    """Width of a legend whose columns are filled one after another, each as wide as its longest name."""
    tall, taller = divmod(len(names), columns)
    ends = [number * tall + min(number, taller) for number in range(columns + 1)]
    longest = [max(map(len, names[low:high])) for low, high in itertools.pairwise(ends)]
    return sum(_SIGN_PX + _LETTER_PX * length for length in longest)


def _kind(axis: Axis) -> str:
    return "log" if axis.log else "linear"


def _ticks(drawn: MatplotlibAxis, axis: Axis) -> None:
    drawn.set_major_locator(_locator(drawn, axis))
    drawn.set_minor_locator(NullLocator())
    drawn.set_major_formatter(FuncFormatter(axis.text))


def _locator(drawn: MatplotlibAxis, axis: Axis) -> Any:
    if axis.marks:
        return FixedLocator(axis.marks)
    if not axis.log:
        return MaxNLocator(6, steps=[1, 2, 5, 10])
    low, high = drawn.get_data_interval()
    low, high = axis.low or low, axis.high or high
    return LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 10**_DECADES else (1.0,))


def _draw(axes: Axes, curve: Curve, color: str, marker: str) -> None:
    xs, ys = [x for x, _ in curve.points], [y for _, y in curve.points]
    style: dict[str, Any] = {"color": color, "label": curve.name}
    if not curve.joined:
        axes.plot(xs, ys, **style, linestyle="none", marker=marker, markersize=5.5, alpha=0.6, markeredgewidth=0)
    elif curve.points:
        axes.plot(
            xs,
            ys,
            **style,
            linewidth=2,
            linestyle=(0, (4, 2.5)) if curve.dashed else "-",
            drawstyle="steps-post" if curve.steps else "default",
            marker=marker if curve.dots else "",
            markersize=6,
        )
    if curve.ranges:
        alone = not curve.points
        at, low, high = zip(*curve.ranges, strict=True)
        name = curve.name if alone else ""
        axes.vlines(at, low, high, color=color, label=name, linewidth=curve.bar, alpha=0.85 if alone else 0.3)
