"""What every assignment keeps to, on random topologies: none of it is about which of several right ones is taken."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.work.operate.kueue.objects import Fits, Given, PodAsk
from railyard.work.operate.kueue.room import Domains
from railyard.work.operate.kueue.search import assign


@st.composite
def questions(draw):
    """Nodes in racks in blocks with room for up to five pods each, and what is asked of them."""
    racks = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    blocks = draw(st.lists(st.integers(0, 2), min_size=len(racks), max_size=len(racks)))
    paths = [
        (f"b{blocks[rack]}", f"r{rack}", f"n{rack}-{node}") for rack, count in enumerate(racks) for node in range(count)
    ]
    room = np.array(draw(st.lists(st.integers(0, 5), min_size=len(paths), max_size=len(paths))), np.int64)
    leaders = draw(st.integers(0, 1))
    size = draw(st.integers(1, 4))
    slice_level = draw(st.integers(0, 2))
    level = draw(st.integers(0, slice_level))
    kind = draw(st.sampled_from(["required", "preferred", "anywhere"]))
    leads = np.minimum(room, 1) if leaders else np.zeros_like(room)
    fits = Fits(room, np.maximum(room - leads, 0), leads, np.zeros_like(room))
    slices = ((slice_level, size),) if size > 1 else ()
    if kind == "anywhere":
        level = 0 if slices else 2
    ask = PodAsk(
        size * draw(st.integers(1, 8)),
        level,
        required=kind == "required",
        anywhere=kind == "anywhere",
        slices=slices,
        leaders=leaders,
        least_free=draw(st.booleans()),
        balanced=draw(st.booleans()),
    )
    return Domains.of(paths, 3), fits, ask


def sums(domains, pods, level):
    """Pods in each group of a level."""
    for below in range(domains.lowest, level, -1):
        parent = domains.parent[below]
        pods = np.bincount(parent, weights=pods, minlength=len(domains.parent[below - 1])).astype(np.int64)
    return pods


@given(questions())
@settings(max_examples=300, deadline=None)
def test_assignments_keep_to_what_is_asked(question):
    domains, fits, ask = question
    found = assign(domains, fits, ask)
    if not isinstance(found, Given):
        return
    assert found.pods.sum() == ask.pods
    assert found.leaders.sum() == ask.leaders
    assert np.all(found.pods <= np.where(found.leaders > 0, fits.led, fits.pods))
    if ask.slices:
        assert np.all(sums(domains, found.pods, ask.slices[0][0]) % ask.size == 0)
    if ask.required:
        assert np.count_nonzero(sums(domains, found.pods + found.leaders, ask.level)) == 1


@given(questions())
@settings(max_examples=300, deadline=None)
def test_nothing_that_fits_is_refused(question):
    """Without a leader, a set fits if a group holds its slices, or all groups together where none is required."""
    domains, fits, ask = question
    if ask.leaders:
        return
    slice_level = ask.slices[0][0] if ask.slices else domains.lowest
    slices = sums(domains, fits.pods, slice_level) // ask.size
    within = slices
    for below in range(slice_level, ask.level, -1):
        parent = domains.parent[below]
        within = np.bincount(parent, weights=within, minlength=len(domains.parent[below - 1])).astype(np.int64)
    holds = within.max() >= ask.wanted if ask.required else slices.sum() >= ask.wanted
    assert isinstance(assign(domains, fits, ask), Given) == holds


@given(questions())
@settings(max_examples=100, deadline=None)
def test_the_names_of_nodes_only_break_ties(question):
    """The same room under leafs in another order of the file gives the same."""
    domains, fits, ask = question
    order = np.arange(len(fits.pods))[::-1]
    turned = Domains.of([domains.paths[-1][one] for one in order], 3)
    other = Fits(fits.pods[order], fits.led[order], fits.leads[order], fits.score[order])
    first, second = assign(domains, fits, ask), assign(turned, other, ask)
    assert isinstance(first, Given) == isinstance(second, Given)
    if isinstance(first, Given):
        assert first.pods[order].tolist() == second.pods.tolist()
