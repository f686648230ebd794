"""What InferenceX's published recipes of split deployments do, for labels that leave it out.

Summary of `configs/nvidia-master.yaml` of SemiAnalysisAI/InferenceX (Apache-2.0) as it stood from December 2025 to
April 2026. One prefill replica feeds as many decoding replicas as keep it busy. Few users are decoded by
tensor-parallel groups; from some number of users on, attention has copies, and the deployments of one prefill replica
then lie on a line users x replicas = constant: half the replicas decode twice as slowly for twice the users, and ask as
much of prefill.
"""

from __future__ import annotations

from dataclasses import dataclass

# Prompts from this many tokens on are the recipes' long ones (1k and 8k are run).
LONG = 4096.0
# Sequences that a rank of a decoding replica takes at most.
_MOST = 512.0
# Copies of attention as wide as this stand alone: one replica decodes.
WIDE = 16


@dataclass(frozen=True, slots=True)
class Recipe:
    """Deployments of one engine on one device, for one length of prompts.

    Attributes:
        copies_from: Users from which attention has copies; `by_experts` where the label's expert ranks tell it.
        tensor: Decoding replicas of tensor-parallel groups.
        matched: Users times decoding replicas with copies.
        most: Decoding replicas at most.
        by_experts: Whether only labels with experts on several ranks have copies.
    """

    copies_from: float
    tensor: int
    matched: float
    most: int
    by_experts: bool = False


# (engine, device, long prompts) -> recipe.
_RECIPES = {
    ("trtllm", "b200", False): Recipe(600.0, 5, 4000.0, 7),
    ("trtllm", "b200", True): Recipe(120.0, 5, 500.0, 2),
    ("trtllm", "b300", False): Recipe(500.0, 5, 3000.0, 5),
    ("trtllm", "b300", True): Recipe(130.0, 4, 500.0, 2),
    ("trtllm", "h200", False): Recipe(500.0, 10, 6000.0, 8),
    ("trtllm", "h200", True): Recipe(64.0, 6, 100.0, 1),
    ("trtllm", "h100", False): Recipe(200.0, 3, 1800.0, 3),
    ("trtllm", "h100", True): Recipe(100.0, 3, 100.0, 1),
    ("trtllm", "gb200", False): Recipe(800.0, 4, 4000.0, 1),
    ("trtllm", "gb200", True): Recipe(300.0, 4, 500.0, 1),
    ("sglang", "b200", False): Recipe(512.0, 4, 8000.0, 4),
    ("sglang", "b200", True): Recipe(150.0, 3, 150.0, 1, by_experts=True),
    ("sglang", "h200", False): Recipe(0.0, 9, 12000.0, 6, by_experts=True),
    ("sglang", "h200", True): Recipe(0.0, 5, 64.0, 1, by_experts=True),
    ("sglang", "h100", False): Recipe(0.0, 2, 1.0, 1, by_experts=True),
    ("sglang", "h100", True): Recipe(0.0, 1, 1.0, 1, by_experts=True),
    ("sglang", "gb200", False): Recipe(512.0, 3, 1.0, 1),
    ("sglang", "gb200", True): Recipe(512.0, 3, 1.0, 1),
}
# Decoding replicas of answers of 8k tokens, which keep a prefill replica idle longer.
_LONG_ANSWERS = {("trtllm", "gb200"): 7, ("sglang", "h100"): 2}
# The same of replicas of 16 with copies.
_LONG_ANSWERS_WIDE = 3
# First day of recipes with multi-token prediction (history of the same file); none for engines that never had them.
_DRAFTS_SINCE = {
    ("trtllm", "b200"): "2026-01-29",
    ("trtllm", "b300"): "2026-01-27",
    ("trtllm", "h200"): "2026-01-29",
    ("trtllm", "h100"): "2026-02-07",
    ("trtllm", "gb200"): "2025-10-01",
    ("sglang", "b200"): "2026-02-09",
    ("sglang", "h200"): "2026-02-07",
    ("sglang", "h100"): "2026-02-12",
}


def _place(framework: str, accelerator: str) -> tuple[str, str]:
    """Engine and device, as the recipes name them."""
    engine = "sglang" if framework.startswith("sglang") else "trtllm"
    return engine, accelerator.split("_", maxsplit=1)[0].split("-", maxsplit=1)[0].lower()


def recipe(framework: str, accelerator: str, prompt: float) -> Recipe | None:
    """The recipe of an engine on a device, None where there is none.

    Args:
        framework: As the label has it.
        accelerator: As the label has it.
        prompt: Tokens.
    """
    return _RECIPES.get((*_place(framework, accelerator), prompt >= LONG))


def decoding(known: Recipe, users: float, width: int, experts: int) -> tuple[int, bool]:
    """Decoding replicas, and whether attention has copies in them.

    Args:
        known: The recipe.
        users: In the loop.
        width: Accelerators of one replica.
        experts: Ranks that hold different experts, as the label says.
    """
    copies = users >= known.copies_from and (experts > 1 or not known.by_experts)
    if not copies:
        return known.tensor, False
    matched = min(round(known.matched / max(users, 1.0)), known.most)
    return max(matched, round(users / (_MOST * width)), 1), True


def long_answers(framework: str, accelerator: str, width: int, workers: int) -> int:
    """Decoding replicas where answers are long, `workers` for the usual ones, of `width` accelerators each."""
    if width >= WIDE:
        return _LONG_ANSWERS_WIDE if width == WIDE else workers
    return _LONG_ANSWERS.get(_place(framework, accelerator), workers)


def may_draft(framework: str, accelerator: str, date: str) -> bool:
    """Whether a split deployment of that day may draft tokens: recipes with and without share their labels."""
    since = _DRAFTS_SINCE.get(_place(framework, accelerator))
    return since is not None and date >= since
