"""Labels of split deployments read by the published recipes, and labels of one server."""

import pytest

from railyard import catalog
from railyard_validation.serving.cases import Case, case_of
from railyard_validation.serving.recipes import decoding, may_draft, recipe
from railyard_validation.serving.table import Row

KNOWN = catalog.load()


def case(**cells: str) -> Case:
    text = {"id": "x", "model": "deepseek-ai/DeepSeek-R1", "precision": "fp8", "load": "conc 64", **cells}
    text = {"framework": "trtllm 0.8.1.post2", "accelerator": "h200_sxm", "isl": "1024", "osl": "1024", **text}
    text.setdefault("source", "aiconfigurator silicon_sample.csv 2026_02_14_deepseek_r1")
    found = case_of(Row("x", 2, text, {"isl": float(text["isl"]), "osl": float(text["osl"]), "tpot_ms": 9.0}), KNOWN)
    assert isinstance(found, Case), found
    return found


# What the recipes of TensorRT-LLM on 8 x B200 in fp8 and on H200 say, 1k prompts: users, replicas, copies of attention.
@pytest.mark.parametrize(
    ("device", "users", "replicas", "copies"),
    [("b200_sxm", 896, 4, True), ("b200_sxm", 4096, 1, True), ("b200_sxm", 64, 5, False), ("h200_sxm", 64, 10, False)],
)
def test_replicas_follow_the_users(device: str, users: float, replicas: int, copies: bool) -> None:
    known = recipe("trtllm 0.8.1.post2", device, 1024.0)
    assert known is not None
    assert decoding(known, users, 8, 8) == (replicas, copies)


def test_a_rank_decodes_no_more_sequences_than_engines_take() -> None:
    known = recipe("trtllm 0.8.1.post2", "b200_sxm", 1024.0)
    assert known is not None
    assert decoding(known, 10860, 4, 4)[0] == 5


def test_drafts_are_open_from_the_first_recipe_with_them_on() -> None:
    assert not may_draft("sglang 0.5.8.post1", "b200_sxm", "2026-02-06")
    assert may_draft("sglang 0.5.8.post1", "b200_sxm", "2026-02-13")
    assert not may_draft("sglang 0.5.8.post1", "gb200", "2026-03-01")


ODD = {"load": "conc 65"}


def test_a_label_without_counts_and_without_a_recipe_is_said_to_be_one() -> None:
    found = case(
        parallelism="P x(TP8 aDP1 EP8 bs) D x(TP8 aDP1 EP8 bs)", pd_split="disagg", date="2026-02-14", load="conc 65"
    )
    assert found.vague
    assert (found.decode.workers, found.decode.tp, found.drafts) == (10, 8, 3)
    assert 0.0 < found.drafting < 1.0


# Lines of InferenceX's configurations as they stood: GB200, fp4, 1k prompts; 180 users with three drafts on one replica
# of 32 copies, 96 without drafts on four of 8 ranks; 48 users are run with both.
@pytest.mark.parametrize(
    ("users", "width", "pools", "drafts"),
    [
        (180, 32, ((1, 4), (1, 32)), (3, 1.0)),
        (96, 8, ((1, 4), (4, 1)), (0, 1.0)),
        (48, 8, ((1, 4), (4, 1)), (3, 0.75)),
    ],
)
def test_users_tell_the_published_deployment(
    users: int, width: int, pools: tuple[tuple[int, int], ...], drafts: tuple[int, float]
) -> None:
    row = {"accelerator": "gb200", "precision": "fp4", "pd_split": "disagg", "date": "2026-03-23"}
    found = case(parallelism=f"P x(TP4 aDP1 EP4 bs) D x(TP{width} aDP1 EP4 bs)", load=f"conc {users}", **row)
    assert found.prefill is not None
    assert tuple((pool.workers, pool.dp) for pool in (found.prefill, found.decode)) == pools
    assert (found.drafts, found.drafting) == drafts


@pytest.mark.parametrize(
    ("label", "degrees"),
    [
        ("TEP8", (8, 1, 8)),
        ("DEP8", (1, 8, 8)),
        ("TP1 EP8 DP1", (8, 1, 8)),
        ("TP1 EP8 DP8", (1, 8, 8)),
        ("TP8", (8, 1, 1)),
    ],
)
def test_labels_of_one_server(label: str, degrees: tuple[int, int, int]) -> None:
    found = case(parallelism=label, framework="vLLM nightly (Feb 2026)", date="20260214", n_accel="8")
    assert (found.layout.tp, found.layout.dp_attention, found.layout.ep) == degrees
