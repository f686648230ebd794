"""Reads two other forms in which measured collectives are published: Markdown tables of busbw, plain tables of ms."""

from __future__ import annotations

import re

from railyard.ask.calibrate.nccl.log import Block, Malformed, Measurement, NcclLog, bus_factor, collective_of

_SIZE = re.compile(r"^\s*([\d.,]+)\s*(B|KiB|KB|MiB|MB|GiB|GB)\s*$", re.IGNORECASE)
_SCALE = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SECTION = re.compile(r"^#{2,6}\s+(.*)$")
_RANKS = re.compile(r"(\d{1,6})\s*(?:GPUs|ranks)\b", re.IGNORECASE)
_ACTIVE = re.compile(r"^\s*(\d{1,6}) active ranks", re.IGNORECASE)
_PLAIN = re.compile(r"^\s*([\d.]+ (?:B|KB|MB|GB)) \|\s+([\d.]+)\s+([\d.]+)\s+[\d.]+x\s*$")
_KINDS = re.compile(r"\b(all-?reduce|all-?gather|reduce-?scatter|all-?to-?all|broadcast)\b", re.IGNORECASE)
_ALGORITHMS = {"ctring": "ring", "ring": "ring", "ctsrd": "halving-doubling"}


def size_bytes(text: str) -> int | None:
    """A size such as `4 KiB` or `4.5 MB`; benchmarks mean powers of two by both spellings. None when it is none."""
    found = _SIZE.match(text)
    if found is None:
        return None
    number = found.group(1).replace(",", "")
    if number.count(".") > 1 or not re.search(r"\d", number) or len(number) > 12:
        return None
    return round(float(number) * _SCALE[found.group(2)[0].lower()])


def markdown_tables(log: NcclLog) -> list[Block]:
    """Tables whose rows are `| size | busbw in GB/s of one algorithm | of another |`, under headings that say so.

    A heading with `busbw` opens the section and names the collective; one with `(8 GPUs)` gives the ranks.
    """
    blocks: list[Block] = []
    collective, ranks, columns = "", 0, []  # type: str, int, list[Block | None]
    for number, line in enumerate(log.text.split("\n"), start=1):
        heading = _SECTION.match(line)
        if heading:
            collective, ranks = _heading(heading.group(1), collective, ranks)
            columns = []
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.strip().startswith("|") else []
        if not cells or not collective or ranks < 2:
            continue
        if cells[0].lower() == "size":
            columns = [_column(cell, collective, ranks, number) for cell in cells[1:]]
            blocks += [block for block in columns if block is not None]
        elif columns:
            _markdown_row(number, cells, columns)
    return blocks


def _heading(text: str, collective: str, ranks: int) -> tuple[str, int]:
    kind, count = _KINDS.search(text), _RANKS.search(text)
    if kind and "busbw" in text.lower():
        return collective_of(kind.group(1)), 0
    if count:
        return collective, int(count.group(1))
    return "", ranks


def _column(title: str, collective: str, ranks: int, line: int) -> Block | None:
    """The table of one column; None for a comparison of others."""
    if not re.match(r"[a-z]", title, re.IGNORECASE):
        return None
    algorithm = _ALGORITHMS.get(title.split(maxsplit=1)[0].lower(), "")
    return Block(line=line, title=f"{title}, {ranks} ranks", collective=collective, ranks=ranks, algorithm=algorithm)


def _markdown_row(number: int, cells: list[str], columns: list[Block | None]) -> None:
    size = size_bytes(cells[0])
    if size is None:
        return
    for cell, block in zip(cells[1:], columns, strict=False):
        if block is None:
            continue
        busbw = _positive(cell)
        if busbw is None:
            block.malformed.append(Malformed(number, f"`{cell}` is no bandwidth", " | ".join(cells)))
            continue
        algbw = busbw / bus_factor(block.collective, block.ranks)
        block.rows.append(Measurement(number, size, "out-of-place", size / algbw / 1e3, algbw, busbw))


def _positive(text: str) -> float | None:
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) or float(text) == 0:
        return None
    return float(text)


def plain_tables(log: NcclLog) -> list[Block]:
    """Tables `size | ms of the stock library, ms of another, speed-up` of a few active ranks of a server.

    The message of an all-gather is one rank's part there: only so do its times fit the links (two ranks of an MI350X
    server take 19.75 ms for 1 GB, one link's time for 1 GB, as the all-reduce does).
    """
    blocks: list[Block] = []
    collective, ranks = "", 0
    for number, line in enumerate(log.text.split("\n"), start=1):
        kind, active, row = _KINDS.search(line), _ACTIVE.match(line), _PLAIN.match(line)
        if kind and not line.startswith("#"):
            collective, ranks = collective_of(kind.group(1)), 0
        elif active:
            ranks = int(active.group(1))
            blocks.append(
                Block(line=number, title=f"{collective}, {ranks} active ranks", collective=collective, ranks=ranks)
            )
        elif row and collective and ranks > 1:
            _plain_row(number, line, row, blocks[-1])
    return [block for block in blocks if block.rows or block.malformed]


def _plain_row(number: int, line: str, row: re.Match[str], block: Block) -> None:
    size, milliseconds = size_bytes(row.group(1)), _positive(row.group(2))
    if size is None or milliseconds is None:
        block.malformed.append(Malformed(number, f"`{row.group(2)}` is no time", line.strip()))
        return
    size *= block.ranks if block.collective == "all-gather" else 1
    algbw = size / milliseconds / 1e6
    busbw = algbw * bus_factor(block.collective, block.ranks)
    block.rows.append(Measurement(number, size, "out-of-place", milliseconds * 1e3, algbw, busbw))
