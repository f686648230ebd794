"""Combinations that cannot be built or run: left out of a comparison, with the reason; misspelt words are errors."""

from __future__ import annotations

import pytest

from railyard.face import api
from railyard.face.cli import guard
from railyard.face.reports import decision
from railyard.face.web.views import prices
from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.work.scenario import load
from railyard.work.scenario.load import expand
from railyard.work.study import believed, study
from railyard.work.study.explain import explain

SCENARIO = {
    "name": "s",
    "cluster": {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "leaf-spine"}},
    "workload": {
        "training": {
            **{"model": "llama-3.2-1b", "global_batch": 16, "sequence": 2048, "tokens": "1 T"},
            "parallelism": {"tp": 4, "pp": 1},
        }
    },
}


def compared(*varies: str, out=None):
    return study.run(load.from_values(SCENARIO), varies, engine="analytic", out=out, searched=False)


@pytest.mark.parametrize(
    ("varies", "there", "left_out", "reason"),
    [
        (["accelerators=16,20"], ["accelerators 16"], ["accelerators 20"], "entire servers"),
        (["tp=4,3"], ["tp 4"], ["tp 3"], "tp"),
        (
            ["topology=leaf-spine,torus", "oversubscription=1:1,2:1"],
            ["leaf-spine, oversubscription 1:1", "leaf-spine, oversubscription 2:1"],
            ["torus, oversubscription 1:1", "torus, oversubscription 2:1"],
            "unknown key `oversubscription` (allowed: dimensions, kind)",
        ),
    ],
)
def test_an_impossible_combination_is_left_out_with_the_reason(varies, there, left_out, reason):
    result = compared(*varies).result
    assert [one.name for one in result.variants] == there
    assert [one.name for one in result.impossible] == left_out
    (line,) = believed.left_out(result)
    assert decision(result)["lists"][-1] == {"title": "Left out", "lines": [line]}
    assert reason in line
    assert all(f'"{name}"' in line for name in left_out)


@pytest.mark.parametrize(
    ("vary", "words"),
    [
        ("fabric=roce,rooce", "did you mean `roce`"),
        ("server=hgx-h100,foo", "the catalogue has no server `foo`"),
        ("model=llama-3.2-1b,llama-3.2-1c", "did you mean `llama-3.2-1b`"),
        ("acelerators=16,32", "unknown key `acelerators`"),
        ("pp=1,x", "expected an integer"),
        ("accelerators=20,21", "entire servers"),
    ],
)
def test_misspelt_words_and_comparisons_of_nothing_possible_are_errors(vary, words):
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        compared(vary)


def test_a_misspelt_value_is_an_error_beside_another_key(tmp_path):
    with pytest.raises(InputError, match="did you mean `roce`"):
        compared("fabric=roce,rooce", "accelerators=16,20")


def test_a_run_with_a_combination_left_out_can_be_read_explained_and_repriced(tmp_path):
    found = compared("accelerators=20,16", "fabric=roce,uec", out=tmp_path)
    names = [one.name for one in found.result.variants]
    assert names == ["accelerators 16, roce", "accelerators 16, uec"]
    assert [one.name for one in prices.ledgers(found.result, found.folder)] == names
    assert explain(found.folder, variant=names[1], with_remedies=False).variant.name == names[1]
    assert len(api.compare_runs([found.folder, compared("fabric=roce,uec", out=tmp_path).folder]).result.variants) == 4


def test_the_command_names_what_it_leaves_out_and_succeeds(tmp_path, capsys):
    file = tmp_path / "s.yaml"
    file.write_text(yaml.to_text(SCENARIO), encoding="utf-8")
    args = ["compare", str(file), "--engine", "analytic", "--out", str(tmp_path), "--vary"]
    assert guard.run([*args, "accelerators=16,20"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert 'left out: "accelerators 20" is impossible: cluster.accelerators: hgx-h100 holds 8' in printed
    assert guard.run([*args, "accelerators=20,21"]) == 2


def test_what_is_checked_or_played_does_without_no_combination():
    draft = load.from_values(SCENARIO)
    with pytest.raises(InputError, match="unknown key `oversubscription`"):
        expand(draft, ["topology=leaf-spine,torus", "oversubscription=1:1,2:1"])


def test_a_variant_called_as_a_fabric_that_it_does_not_have_says_so():
    """A reader takes `uec` for Ultra Ethernet, whatever it runs."""
    given = {
        **SCENARIO,
        "compare": {
            "variants": [{"name": "uec"}, {"name": "roce"}, {"name": "scheduled", "set": {"fabric": "scheduled"}}]
        },
    }
    result = study.run(load.from_values(given), engine="analytic", searched=False).result
    said = [[note for note in one.warnings if "a variant sets nothing" in note] for one in result.variants]
    assert said == [["it runs roce: the name of a variant sets nothing; add `set: {fabric: uec}`"], [], []]
