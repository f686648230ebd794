"""Over random layouts and combinations: a sound graph and a possible ledger, or a refusal in words."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.kit.errors import InputError
from railyard.work.training import Layout, build, check
from railyard.work.training.sync import KINDS, Communication, check_communication
from railyard.work.training.sync.ledger import ledger

# Most parts are left out, so that most combinations are ones that a job may ask for.
ASKED = st.fixed_dictionaries(
    {
        part: st.sampled_from([*[None] * 4 * len(kinds), *(kind() for _, kind in kinds.items())])
        for part, kinds in KINDS.items()
    }
)
SIZES = st.fixed_dictionaries(
    {
        "tp": st.sampled_from((1, 2, 4)),
        "pp": st.sampled_from((1, 2)),
        "cp": st.sampled_from((1, 2)),
        "ep": st.sampled_from((1, 4)),
        "zero": st.integers(0, 3),
        "overlap_gradient": st.booleans(),
        "overlap_parameter": st.booleans(),
        "reshard": st.booleans(),
        "recompute": st.sampled_from(("none", "full")),
    }
)


@given(asked=ASKED, sizes=SIZES)
@settings(max_examples=40, deadline=None)
def test_graph_is_sound_or_the_job_is_refused(yard, asked, sizes):
    dp = 32 // (sizes["tp"] * sizes["pp"] * sizes["cp"])
    training = yard.job(model="mixtral-8x7b").replace(
        layout=Layout(dp=dp, global_batch=2 * dp, **sizes), communication=Communication(**asked)
    )
    try:
        check(training.model, training.layout, training.seq_len, 32)
        check_communication(training)
    except InputError:
        return
    for meeting in (False, True):
        build(training, yard.fast, meeting=meeting).validate()
    price = ledger(training, 8)
    assert (price is None) == training.communication.plain
    if price is not None:
        assert min(price.sent_bytes, price.kept_bytes, price.sent_across_bytes) >= 0
        assert price.sent_across_bytes <= price.sent_bytes * (1 + 1e-9)
