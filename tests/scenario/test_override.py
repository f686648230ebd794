"""Values set over a scenario by dotted key."""

from __future__ import annotations

from pathlib import Path

import pytest

from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.work.scenario import override


def tree(text: str = "cluster:\n  accelerators: 8\n  back_end:\n    fabric: roce\nfaults: [{rank: 1}]\n"):
    return yaml.parse_mapping(text, "x.yaml")


def setting(*texts: str):
    root = tree()
    for text in texts:
        root = override.put(root, *override.parse_set(text))
    return root.plain()


def test_a_key_is_replaced_and_the_tree_before_is_left_alone():
    before = tree()
    after = override.put(before, *override.parse_set("cluster.accelerators=16"))
    assert after.plain()["cluster"]["accelerators"] == 16
    assert before.plain()["cluster"]["accelerators"] == 8


def test_missing_sections_are_made_and_short_names_written_out():
    assert setting("economics.pue=1.2")["economics"] == {"pue": 1.2}
    assert setting("tp=8")["workload"]["training"]["parallelism"] == {"tp": 8}
    assert setting("fabric=uec")["cluster"]["back_end"]["fabric"] == "uec"


def test_a_word_becomes_a_section_when_a_key_below_it_is_set():
    assert setting("qps=4")["cluster"]["back_end"]["fabric"] == {"name": "roce", "qps": 4}


def test_items_of_lists_are_reached_by_number():
    assert setting("faults.0.rank=7")["faults"] == [{"rank": 7}]
    with pytest.raises(InputError, match="no item `1`"):
        setting("faults.1.rank=7")


@pytest.mark.parametrize("text", ["novalue", "=3", "cluster.accelerators.x=3", "a=[1", "a=*b"])
def test_wrong_overrides_say_so_with_the_option_as_place(text):
    with pytest.raises(InputError) as caught:
        setting(text)
    assert caught.value.problems[0].file.startswith("--set")


def test_values_of_a_comparison():
    key, nodes = override.parse_vary("fabric=roce, {name: roce, qps: 1},3:1")
    assert key == "fabric"
    assert [node.plain() for node in nodes] == ["roce", {"name": "roce", "qps": 1}, "3:1"]
    assert [node.plain() for node in override.parse_vary("tp=[4,8]")[1]] == [4, 8]


def test_the_same_value_twice_is_no_comparison():
    from railyard.work.scenario import load
    from railyard.work.scenario.variants import expand

    draft = load.load(Path(__file__).parents[2] / "examples" / "first.yaml", ["tokens=2 T", "placement=scattered"])
    assert draft.scenario.workload.training.tokens == 2_000_000_000_000
    assert draft.scenario.cluster.placement == "scattered"
    with pytest.raises(InputError, match="stands twice"):
        expand(draft, ["fabric=roce,roce"])


@pytest.mark.parametrize("kind", ["serving", "pipeline"])
def test_requests_have_short_names_and_names_of_training_are_refused(kind):
    """Which would begin a training job beside the requests."""
    root = tree(f"workload:\n  {kind}: {{}}\n")
    for text in ("requests.first=9", "capacity.first=7"):
        root = override.put(root, *override.parse_set(text))
    assert root.plain()["workload"] == {kind: {"requests": {"first": 9}, "capacity": {"first": 7}}}
    if kind == "serving":
        of_it = override.put(root, *override.parse_set("gateway.rate=1 Gb/s"))
        assert of_it.plain()["workload"]["serving"]["gateway"] == {"rate": "1 Gb/s"}
    with pytest.raises(InputError, match=r"pools\.both\.tp"):
        override.put(root, *override.parse_set("tp=2"))
