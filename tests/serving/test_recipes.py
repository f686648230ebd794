"""Labels of split deployments read by the published recipes, and labels of one server."""

import pytest

from railyard import catalog
from railyard.validate.serving_cases import Case, case_of
from railyard.validate.serving_recipes import decoding, may_draft, recipe
from railyard.validate.serving_table import Row

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


def test_a_label_without_counts_is_said_to_be_one() -> None:
    found = case(parallelism="P x(TP8 aDP1 EP8 bs) D x(TP8 aDP1 EP8 bs)", pd_split="disagg", date="2026-02-14")
    assert found.vague
    assert (found.decode.workers, found.decode.tp, found.drafts) == (10, 8, 3)
    assert 0.0 < found.drafting < 1.0


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
