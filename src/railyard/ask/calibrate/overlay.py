"""A calibration as a catalogue file: values with their origin, and what was measured as a comment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.ask.calibrate.calibration import SHARES
from railyard.kit.errors import InputError
from railyard.kit.files import write_text

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.ask.calibrate.calibration import Calibration


# A machine of one such device, so that a scenario can name it.
_SERVER = """servers:
  {name}-host: {{extends: hgx-h100, summary: A machine with one {name}, accelerator: {name}, accelerators: 1,
    scale_up_domain: 1, nics: 1, accelerator_numa: [0], nic_numa: [0], numa_nodes: 1}}"""


def overlay(found: Calibration, entry_text: str = "") -> str:
    """The text of a catalogue file that `catalog:` of a scenario takes.

    Args:
        found: What was measured.
        entry_text: Fields of a new entry, indented by four; "" lays the values over the catalogue's entry.
    """
    facts = found.facts
    # A quote or a line break in what a driver says must not end the text.
    source = f"railyard calibrate device, {found.date}: {facts}".replace('"', "'").replace("\\", "/")
    source = " ".join(source.split())
    lines = [
        f"# Measured by `railyard calibrate device` on {found.date}: {' '.join(str(facts).split())}",
        *(f"# {name}: {value}" for name, value in facts.readings.items()),
        "#",
        "# operator            shape                     operands    seconds  of peak",
        *(f"# {line}" for line in _table(found)),
        "#",
        "# For a software profile (`software:` of a scenario):",
        *(f"#   {line}" for line in _software(found)),
        "accelerators:",
        f"  {found.entry}:",
        "    sources:",
        f'      measured: {{source: "{source}", year: {found.date[:4]}, confidence: measured}}',
    ]
    if entry_text:
        peak = "cores x clock x FLOP of the registers' width a cycle; 32-bit, for NumPy has no 16-bit product"
        lines += [
            f'      peak: {{source: "{peak}", year: {found.date[:4]}, confidence: estimated}}',
            f'      guess: {{source: "not measurable from a program", year: {found.date[:4]}, confidence: estimated}}',
            *entry_text.rstrip("\n").splitlines(),
            f"    memory_bandwidth: {{value: {found.constants['copied_bytes_s'] / 1e9:.3f} GB/s, from: measured}}",
        ]
    server = [_SERVER.format(name=found.entry)] if entry_text else []
    return "\n".join([*lines, *_values(found, entry_text=bool(entry_text)), *server]) + "\n"


def _values(found: Calibration, *, entry_text: bool) -> list[str]:
    constants = dict(found.constants)
    if entry_text:
        # A processor's peak of memory is the best copy itself, and it has no 8-bit products.
        constants["memory_efficiency"] = 1.0
        constants.setdefault("gemm_efficiency_8bit", constants["gemm_efficiency"])
    lines = [
        f"    {name}: {{value: {100.0 * constants[name]:.2f} %, from: measured}}"
        for name in SHARES
        if name in constants
    ]
    return [*lines, f"    launch: {{value: {constants['launch_s'] * 1e9:.0f} ns, from: measured}}"]


def _table(found: Calibration) -> list[str]:
    return [
        f"{sample.kind:19s} {sample.shape:25s} {sample.datatype or '-':8s} {sample.seconds:10.3e} "
        + (f"{100.0 * sample.share:6.1f} %" if sample.share is not None else "")
        for sample in found.samples
    ]


def _software(found: Calibration) -> list[str]:
    return [
        f"launch: {found.software['launch_s'] * 1e6:.2f} us",
        *(f"{name}: {value:.3f}" for name, value in found.software.items() if name != "launch_s"),
    ]


def write(text: str, path: Path, *, force: bool = False) -> None:
    """Writes a file whole or not at all.

    Args:
        text: Of the file.
        path: Where it comes to lie.
        force: Whether it may take the place of another one.

    Raises:
        InputError: The file is there already, or cannot be written.
    """
    if path.exists() and not force:
        raise InputError("the file exists already and is left as it is", file=path, hint="`--force` replaces it")
    write_text(path, text)
