"""Writes `docs/validation/synthesis.md`: synthesized collectives beside TE-CCL's published finishes.

python validation/tools/synthesis_board.py    # half a minute of CPU
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from railyard_validation.synthesis import compared, published

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railyard_validation.synthesis import Row

PAGE = Path(__file__).resolve().parents[2] / "docs" / "validation" / "synthesis.md"
HEAD = """# Synthesized collectives against TE-CCL

Written by `validation/tools/synthesis_board.py`; `railyard validate synthesis` prints the same. Published are the best
finishes that TE-CCL (SIGCOMM 2024, Gurobi) gives for each network, collective and size, over its ways to choose epochs
(99 answers, `teccl_finish.csv`). A size is that of a rank, as `railyard synthesize --size` takes it: the whole output
of an all-gather, what a rank sends in an all-to-all; both sides have the same bytes a pair of ranks, 1/N of it. Times
are microseconds; the bound is what no schedule beats. All of ours were run symbolically without a fault.

## Finishes that a schedule can have

Ours is as good or better in **{better} of {compared}**.
"""
ROUNDED = """
## Below the bound by rounding

Finishes that are whole epochs of at least twice the latency: the last byte's latency was rounded away. No schedule can
reach them; ours is within 1 %.
"""
UNEXPLAINED = """
## Not explained

Published below what the links carry. The two chassis are joined by one link of 12.5 GB/s each way, which 64 pairs of
ranks cross with 1/16 of the size each: at 1 MB of a rank that takes 320 us, and the latency of 1.3 us. The published
290 us have room for 7/8 of these bytes, as if 56 pairs crossed it; why is not known. These rows are in no mean and no
count above.
"""


def main() -> None:
    rows = compared(published())
    groups = {name: [one for one in rows if one.group == name] for name in ("compared", "rounded", "unexplained")}
    fair = groups["compared"]
    better = sum(one.finish_us <= one.published_us * (1 + 1e-9) for one in fair)
    lines = [HEAD.format(better=better, compared=len(fair)), *_table(fair)]
    lines += [ROUNDED, *_table(groups["rounded"]), UNEXPLAINED, *_table(groups["unexplained"])]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(PAGE)


def _table(rows: Iterable[Row]) -> list[str]:
    out = ["| network | collective | size of a rank | bytes a pair | published | ours | bound | ours over published |"]
    out.append("|---|---|---|---|---|---|---|---|")
    for one in rows:
        times = " | ".join(f"{time:,.4g}" for time in (one.published_us, one.finish_us, one.lower_bound_us))
        over = f"{one.finish_us / one.published_us - 1:+.1%}"
        name = f"{one.topology} x{one.chassis}"
        out.append(f"| {name} | {one.collective} | {one.size} | {one.pair_bytes:,.0f} | {times} | {over} |")
    return out


if __name__ == "__main__":
    main()
