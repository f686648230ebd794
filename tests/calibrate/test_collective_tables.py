"""Constants from a log of nccl-tests: found again, written, read by a scenario; wrong logs are refused."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from railyard import catalog as catalogue
from railyard.ask.calibrate import measurements
from railyard.ask.calibrate.kinds.collectives import Predicted, named, shipped
from railyard.ask.calibrate.nccl.constants import CONSTANTS
from railyard.ask.calibrate.nccl.constants import FITTED as PRIORS
from railyard.ask.calibrate.nccl.log import parse
from railyard.ask.calibrate.nccl.rows import validate_log
from railyard.collective.constants import MEASURED, read_constants
from railyard.face import api

KNOWN = catalogue.load()
HEADER = """# collective: all_reduce
# ranks: 8
# config: 8x B200 SXM, one process a GPU by MPI, -b 8 -e 4G
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
"""
SIZES = tuple(8 << (2 * step) for step in range(15))


def log(times, header=HEADER):
    """A log with those times of every size, alike in both placements."""
    lines = []
    for size, time_us in zip(SIZES, times, strict=True):
        algbw = size / time_us / 1e3
        half = f"{time_us:.4f} {algbw:.2f} {1.75 * algbw:.2f} 0"
        lines.append(f"{size} {size // 4} float sum -1 {half} {half}")
    return header + "\n".join(lines) + "\n"


def of_constants(header=HEADER, **library):
    """Times as constants of the library make them."""
    changed = dataclasses.replace(CONSTANTS, library=dataclasses.replace(MEASURED, **library))
    rows = validate_log(parse(log([1.0] * len(SIZES), header)), KNOWN, changed)
    return [row.predicted_us for row in rows if row.placement == "in-place"]


def written(folder, text, name="mine.txt"):
    path = folder / name
    path.write_text(text)
    return path


def test_a_constant_that_made_the_times_is_found(tmp_path):
    """Steps inside an Ampere domain 30 % slower than shipped; what is known of them is wide enough to follow."""
    slower = 1.3 * MEASURED.ampere_hop
    header = HEADER.replace("B200 SXM", "A100 SXM")
    kind, source = measurements.read(written(tmp_path, log(of_constants(header, ampere_hop=slower), header)))
    assert kind.name == "collectives"
    found = kind.calibrate(source, KNOWN)
    hop = next(one for one in found.constants if one.name == "ampere_hop")
    assert hop.value == pytest.approx(slower, rel=0.04)
    assert hop.low < slower < hop.high
    assert hop.before == MEASURED.ampere_hop
    misses = (
        (abs(row.before / row.measured - 1) for row in found.rows),
        (abs(row.after / row.measured - 1) for row in found.rows),
    )
    before, after = (np.mean(list(column)) for column in misses)
    left = np.mean([abs(row.left_out / row.measured - 1) for row in found.rows])
    assert after < 0.2 * before
    assert after <= left < 0.5 * before
    assert len(found.rows) == len(SIZES)  # both placements of a size are one row


def test_times_that_ship_move_nothing(tmp_path):
    kind, source = measurements.read(written(tmp_path, log(of_constants())))
    for one in kind.calibrate(source, KNOWN).constants:
        assert one.value == pytest.approx(one.before, rel=0.01)


def test_what_is_written_is_what_a_scenario_reads(tmp_path):
    kind, source = measurements.read(written(tmp_path, log(of_constants(blackwell_hop=4.0, switch_share=0.7))))
    found = kind.calibrate(source, KNOWN)
    path = written(tmp_path, found.written, "own.toml")
    constants = read_constants(path)
    for one in found.constants:
        if one.of == "library":
            assert getattr(constants, one.name) == pytest.approx(one.value, rel=1e-3)
    layout = {"tp": 8, "micro_batch": 1}
    training = {"model": "llama-3.1-8b", "global_batch": 8, "sequence": 512, "parallelism": layout}
    scenario = {
        "name": "x",
        "engine": "analytic",
        "cluster": {"accelerators": 8, "server": "hgx-b200"},
        "workload": {"training": training},
    }
    own = {**scenario, "collectives": {"constants": str(path)}}
    step = [api.run(one, out=None).result.plain()["variants"][0]["step"]["seconds"] for one in (scenario, own)]
    # LL rings of 7 steps of 0.6 us carry its 4 MiB. Each of 8 micro-batches gathers and scatters before and after 64
    # blocks and the head. All of the forward pass waits; of the backward pass what its products do not hide.
    hops_us = 7 * 0.6 * (constants.blackwell_hop - MEASURED.blackwell_hop)
    pass_s = 8 * 65 * 2 * hops_us * 1e-6
    assert pass_s < step[1] - step[0] < 2 * pass_s


def test_a_log_as_it_is_printed_says_its_collective_and_machine(tmp_path):
    """Without a header: the program's name, and the devices that nccl-tests lists."""
    ranks = "\n".join(
        f"#  Rank  {rank} Group  0 Pid {rank} on host device  {rank} [0x1b] NVIDIA B200" for rank in range(8)
    )
    bare = "# Collective test starting: all_reduce_perf\n" + ranks + "\n" + HEADER.splitlines()[-1] + "\n"
    kind, source = measurements.read(written(tmp_path, log(of_constants(), bare)))
    assert named(source).headers["collective"] == "all_reduce"
    assert {row.name.split()[0] for row in kind.calibrate(source, KNOWN).rows} == {"all-reduce"}


def test_only_constants_that_move_a_row_are_fitted():
    found = Predicted(parse(log(of_constants())), KNOWN)
    names = {PRIORS[index].name for index in found.felt}
    assert "library.blackwell_hop" in names
    assert not names & {"library.ampere_hop", "library.efa_us", "tcpx_idle_us", "python_us"}
    assert math.isclose(math.exp(shipped()[found.felt[0]]), PRIORS[found.felt[0]].get(CONSTANTS))
    assert Path(found.log.path).name == "log"
