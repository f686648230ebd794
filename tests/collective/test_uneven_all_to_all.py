"""All-to-all of uneven sizes: points by hand, soundness on random matrices, engines, files, wrong matrices."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.collective.algorithm import direct
from railyard.collective.synthesis import msccl_run, mscclpp
from railyard.collective.synthesis.bound import lower_bound_us, uneven_bound_us
from railyard.collective.synthesis.msccl import msccl_xml
from railyard.collective.synthesis.mscclpp import mscclpp_json
from railyard.collective.synthesis.network import build
from railyard.collective.synthesis.uneven import chunks_of, read_matrix, synthesize_uneven
from railyard.face.cli.guard import run
from railyard.kit.errors import InputError


def mesh(ranks, late=0.0):
    """Every rank joined to every other at 1 GB/s (1,000 bytes a microsecond)."""
    return build([(a, b, 1.0, late) for a in range(ranks) for b in range(ranks) if a != b], [])


def star(ranks):
    """A switch of ports of 1 GB/s, 0.5 us a link."""
    return build([link for r in range(1, ranks + 1) for link in ((0, r, 1.0, 0.5), (r, 0, 1.0, 0.5))], [0])


def heavy(ranks, bytes_, rest=0.0):
    """A pair with many bytes, the others with few."""
    matrix = np.full((ranks, ranks), rest)
    np.fill_diagonal(matrix, 0.0)
    matrix[0, 1] = bytes_
    return matrix


def test_one_heavy_pair_takes_all_links_of_its_rank_by_hand():
    """3,000 bytes over three links of 1,000 bytes a microsecond: 1 us, a third straight, two by the others."""
    matrix = heavy(4, 3000.0)
    found = synthesize_uneven(mesh(4), matrix)
    assert found.lower_bound_us == pytest.approx(1.0)
    assert found.finish_us <= 1.04
    assert found.faults() == []
    used = {(int(found.network.source[link]), int(found.network.target[link])) for link in found.kept.sends.link}
    assert used == {(0, 1), (0, 2), (2, 1), (0, 3), (3, 1)}


def test_the_row_and_the_column_of_a_rank_bind_by_hand():
    """3,200 bytes leave rank 0 over a port of 1,000 a microsecond, the last of which has two links of 0.5 us to go.

    With what others send to rank 1, 3,400 bytes, the column binds: 3.4 us and the first byte's two links.
    """
    matrix = heavy(4, 3000.0, 100.0)
    assert uneven_bound_us(star(4), matrix) == pytest.approx(4.2)
    matrix[2:, 1] = 200.0
    assert uneven_bound_us(star(4), matrix) == pytest.approx(4.4)
    found = synthesize_uneven(star(4), matrix)
    assert found.lower_bound_us <= found.finish_us <= 1.02 * found.lower_bound_us
    assert found.faults() == []


def test_latency_of_the_farthest_pair_binds_small_sizes():
    """One byte over three links of 2 us in a line; rank 1 sends nothing farther."""
    links = [(a, b, 1.0, 2.0) for a, b in ((0, 1), (1, 2), (2, 3))]
    line = build([*links, *((b, a, rate, late) for a, b, rate, late in links)], [])
    matrix = np.zeros((4, 4))
    matrix[0, 3], matrix[1, 2] = 1.0, 1.0
    assert uneven_bound_us(line, matrix) == pytest.approx(6.001)


def test_an_even_matrix_has_the_bound_of_an_even_all_to_all():
    matrix = heavy(5, 4000.0, 4000.0)
    assert uneven_bound_us(mesh(5), matrix) == pytest.approx(lower_bound_us(mesh(5), "all-to-all", 4000.0 * 5))


def test_chunks_by_hand():
    """The heaviest pair in 3 chunks of 10 bytes: 11 bytes take two, 10 one, none none."""
    matrix = np.array([[0, 30, 11], [10, 0, 0], [1, 20, 0]], float)
    assert chunks_of(matrix, 3).tolist() == [[0, 3, 2], [1, 0, 0], [1, 2, 0]]


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 5), st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_every_schedule_is_sound_and_none_beats_the_bound(ranks, seed, through, packets):
    draw = np.random.default_rng(seed)
    matrix = draw.integers(0, 50_000, (ranks, ranks)).astype(float) * (draw.random((ranks, ranks)) < 0.7)
    np.fill_diagonal(matrix, 0.0)
    matrix[0, 1] += 1.0
    network = replace(star(ranks) if through else mesh(ranks, 0.3), packets=packets and through)
    found = synthesize_uneven(network, matrix, most_sends=500)
    assert found.faults() == []
    assert found.finish_us >= found.lower_bound_us * (1 - 1e-9)
    keeps = {"keeps": False}
    parts = (network, found.schedule, "all-to-all", found.cut)
    assert msccl_run.faults(msccl_xml(*parts, **keeps), found.pieces) == []
    assert mscclpp.faults(mscclpp_json(*parts, **keeps), found.pieces) == []
    direct(found.pieces).run()


def test_a_chunk_that_is_missing_is_found():
    found = synthesize_uneven(mesh(3), heavy(3, 3000.0, 1000.0), most_sends=60)
    more = found.pieces + (1 - np.eye(3, dtype=np.int64))
    assert any("ends without piece" in fault for fault in replace(found, pieces=more).faults())
    text = msccl_xml(found.network, found.schedule, "all-to-all", found.cut, keeps=False)
    lighter = found.pieces.copy()
    lighter[2, 0] += 1
    assert "ends without chunk" in msccl_run.faults(text, lighter)[0]


WRONG = {
    "0,1\n1\n": "not square",
    "0,1,2\n1,0,2\n": "not square",
    "0,-1\n1,0\n": "from 0 to 1",
    "5,1\n1,0\n": "a rank sends nothing to itself",
    "0,x\n1,0\n": "expected a number of bytes, got `x`",
    "0,nan\n1,0\n": "expected a number of bytes",
    "0,inf\n1,0\n": "expected a number of bytes",
    "0,0\n0,0\n": "sends nothing",
    "0\n": "not square",
    "\n": "empty",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_with_a_matrix_is_named(tmp_path, text):
    path = tmp_path / "m.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_matrix(path)
    assert WRONG[text] in str(caught.value)
    assert "m.csv" in str(caught.value)


@pytest.fixture
def table(tmp_path):
    rows = [f"{a},{b},1,0" for a in range(4) for b in range(4) if a != b]
    (tmp_path / "l.csv").write_text("\n".join(["source,destination,gb_per_s,latency_us", *rows]) + "\n")
    (tmp_path / "m.csv").write_text("0,3000,0,0\n0,0,0,0\n0,0,0,0\n0,0,0,0\n")
    return ["synthesize", "--links", str(tmp_path / "l.csv"), "--matrix", str(tmp_path / "m.csv"), "--quiet"]


def test_from_the_command_line(table, tmp_path, capsys):
    words = [*table, "--collective", "all-to-all", "--msccl", str(tmp_path / "a.xml")]
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"finish_us", "lower_bound_us", "solver_s", "steps", "stopped", "collective", "size"}
    assert (found["size"]["bytes"], found["size"]["per_pair_bytes"]) == (3000, 3000)
    assert found["lower_bound_us"] == pytest.approx(1.0)
    assert (tmp_path / "a.xml").read_text().startswith("<algo")


@pytest.mark.parametrize(
    ("more", "words"),
    [(["--collective", "all-gather"], "a matrix is for an all-to-all"), (["--size", "1 MB"], "--size has no meaning")],
)
def test_options_that_do_not_go_with_a_matrix_are_refused(table, capsys, more, words):
    assert run([*table, *more]) == 2
    assert words in capsys.readouterr().err


def test_engines_play_it_and_straight_sends(tmp_path, capsys):
    """Two servers and their rails: rank 0 has much for a rank of the other, which its peers' NICs carry too."""
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "cluster: {accelerators: 16, server: hgx-h100, back_end: {topology: rail-optimized, fabric: roce}}\n"
        "workload: {training: {model: llama-3-8b, tokens: 1 T, global_batch: 128, sequence: 8192}}\n"
    )
    matrix = np.zeros((16, 16))
    matrix[0, 9], matrix[3, 4] = 64e6, 1e6
    np.savetxt(tmp_path / "m.csv", matrix, fmt="%d", delimiter=",")
    words = [
        "synthesize",
        "--cluster",
        str(scenario),
        "--matrix",
        str(tmp_path / "m.csv"),
        "--collective",
        "all-to-all",
    ]
    assert run([*words, "--engine", "flow", "--engine", "packet", "--most-sends", "400", "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    took = {(one["engine"], one["algorithm"]): one["took_us"] for one in found["played"]}
    assert set(took) == {(on, how) for on in ("flow", "packet") for how in ("synthesized", "direct")}
    for on in ("flow", "packet"):
        assert found["lower_bound_us"] < took[on, "synthesized"] < 0.5 * took[on, "direct"]
