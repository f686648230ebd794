"""Groups of ranks against the rank formula written out in loops."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.work.training.program import Lattice
from railyard.work.training.spec import Layout


def rank(layout, p, d, c, t):
    return ((p * layout.dp + d) * layout.cp + c) * layout.tp + t


def groups(lattice, name):
    return {tuple(row) for row in lattice.communicators(name).tolist()}


@given(tp=st.integers(1, 4), pp=st.integers(1, 3), dp=st.integers(1, 4), cp=st.integers(1, 3))
def test_groups_vary_one_place_of_the_rank_formula(tp, pp, dp, cp):
    layout = Layout(global_batch=dp, tp=tp, pp=pp, dp=dp, cp=cp)
    lattice = Lattice(layout)
    places = {"p": range(pp), "d": range(dp), "c": range(cp), "t": range(tp)}

    def over(varied):
        fixed = [key for key in "pdct" if key not in varied]
        found = set()
        for values in product(*(places[key] for key in fixed)):
            at = dict(zip(fixed, values, strict=True))
            inner = product(*(places[key] for key in varied))
            found.add(tuple(rank(layout, **(at | dict(zip(varied, v, strict=True)))) for v in inner))
        return found

    assert groups(lattice, "tp") == over("t")
    assert groups(lattice, "cp") == over("c")
    assert groups(lattice, "dp") == over("dc")
    assert groups(lattice, "world") == over("pdct")


@given(
    dp=st.integers(1, 6),
    cp=st.integers(1, 2),
    tp=st.sampled_from([1, 2, 4]),
    ep=st.integers(1, 8),
    etp=st.integers(1, 4),
)
def test_expert_groups_fold_over_all_ranks_of_a_stage(dp, cp, tp, ep, etp):
    width = dp * cp * tp
    if width % (ep * etp):
        return
    layout = Layout(global_batch=dp, tp=tp, pp=2, dp=dp, cp=cp, ep=ep, expert_tp=etp)
    lattice = Lattice(layout)
    assert lattice.communicator_size("ep") == ep
    assert lattice.communicator_size("edp") == layout.edp
    for name in ("ep", "edp", "etp"):
        table = lattice.communicators(name)
        assert sorted(table.ravel().tolist()) == list(range(layout.ranks))
    for members in lattice.communicators("ep"):
        assert set(np.diff(members).tolist()) <= {etp}
        assert len({int(member) // width for member in members}) == 1
    for members in lattice.communicators("edp"):
        # Replicas of an expert stand at the same place of their expert group.
        assert len({int(member) % width % (ep * etp) for member in members}) == 1


@pytest.mark.parametrize("shard", [2, 4, 8])
def test_hybrid_shards_are_neighbours_and_their_replicas_are_not(shard):
    layout = Layout(global_batch=8, dp=8, tp=2, zero=3, fsdp_shard=shard)
    lattice = Lattice(layout)
    assert lattice.communicators("shard")[0].tolist() == [2 * i for i in range(shard)]
    assert lattice.communicators("replica")[0].tolist() == [2 * shard * i for i in range(8 // shard)]


@given(tp=st.integers(1, 4), dp=st.integers(1, 6), ep=st.integers(1, 8))
def test_relations_name_every_group_that_is_met(tp, dp, ep):
    if tp * dp % ep:
        return
    lattice = Lattice(Layout(global_batch=dp, tp=tp, dp=dp, ep=ep))
    for first, second in product(("rank", "tp", "ep", "edp", "world"), repeat=2):
        table = lattice.relation(first, second)
        for group, row in enumerate(table.tolist()):
            met = {int(lattice.spaces[second].group_of[j]) for j in lattice.spaces[first].members[group]}
            assert set(row) == met
