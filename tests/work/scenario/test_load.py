"""A scenario from file or values: complete, frozen, written back unchanged; and every fault of it with its place."""

from __future__ import annotations

import contextlib
import copy
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from railyard.cluster import fabrics, topologies
from railyard.kit.errors import InputError
from railyard.kit.schema import quantity as quantities
from railyard.kit.schema import yaml
from railyard.work.scenario import load
from railyard.work.scenario import quantity as q
from railyard.work.scenario.load import expand
from railyard.work.scenario.model import Scenario
from railyard.work.training.section import SoftwareSection

SMALL = """\
name: small
cluster:
  accelerators: 16
  server: dgx-h100
  back_end:
    topology: {kind: leaf-spine, oversubscription: 3:1}
    fabric: {name: roce, qps: 4}
    link_rate: 400 Gb/s
workload:
  training:
    model: llama-3-8b
    tokens: 15 T
    global_batch: 16
    sequence: 8192
    parallelism: {tp: 8}
faults:
  - {kind: late, rank: 3, by: 20 us}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return path


def problems_of(text: str, tmp_path, *sets: str):
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load.load(path, sets)
    return caught.value.problems


def test_quantities_are_in_base_units_and_words_become_sections(file):
    scenario = load.load(file).scenario
    assert scenario.cluster.back_end.link_rate == 400e9
    assert scenario.cluster.back_end.topology.oversubscription == 3.0
    assert scenario.workload.training.tokens == 15 * 10**12
    assert scenario.faults[0].by == 20_000_000
    assert load.load(file, ["fabric=ideal"]).scenario.cluster.back_end.fabric.name == "ideal"


def test_a_scenario_is_frozen(file):
    with pytest.raises(ValidationError):
        load.load(file).scenario.seed = 3


def test_the_name_is_the_files_when_left_out(tmp_path):
    path = tmp_path / "big-one.yaml"
    path.write_text(SMALL.removeprefix("name: small\n"), encoding="utf-8")
    assert load.load(path).scenario.name == "big-one"


def test_what_is_written_is_read_back(file, tmp_path):
    scenario = load.load(file).scenario
    again = tmp_path / "again.yaml"
    again.write_text(yaml.to_text(load.dump(scenario)), encoding="utf-8")
    assert load.load(again).scenario == scenario


def test_all_faults_at_once_in_the_order_of_the_file(tmp_path):
    text = (
        SMALL.replace("accelerators: 16", "accelerators: 1k")
        .replace("400 Gb/s", "400 Gbs")
        .replace("qps", "qp")
        .replace("20 us", "20")
        .replace("sequence: 8192", "sequence: [1]")
    )
    problems = problems_of(text, tmp_path)
    assert [problem.key for problem in problems] == [
        "cluster.accelerators",
        "cluster.back_end.fabric.qp",
        "cluster.back_end.link_rate",
        "workload.training.sequence",
        "faults.0.by",
    ]
    assert [problem.line for problem in problems] == [3, 7, 8, 14, 17]
    assert problems[1].hint == "did you mean `qps`?"
    assert problems[1].column == 26
    assert "Gbps" in problems[2].hint
    assert "unit" in problems[4].message
    assert all(problem.file.endswith("x.yaml") for problem in problems)


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        (("kind: leaf-spine", "kind: leaf-spin"), "cluster.back_end.topology.kind", "there is no topology `leaf-spin`"),
        (("kind: leaf-spine, ", ""), "cluster.back_end.topology.kind", "is missing"),
        (("{name: roce, qps: 4}", "[roce]"), "cluster.back_end.fabric", "expected a section with keys"),
        (("name: roce, qps: 4", "name: rose"), "cluster.back_end.fabric.name", "expected one of the allowed values"),
        (("{tp: 8}", "atuo"), "workload.training.parallelism", "expected one of the allowed values"),
        (("{tp: 8}", "{tp: 8, xp: 1}"), "workload.training.parallelism.xp", "unknown key"),
        (("{tp: 8}", "3"), "workload.training.parallelism", "expected "),
        (("server: dgx-h100", "server: 100"), "cluster.server", "expected text"),
        (("  server: dgx-h100\n", ""), "cluster.server", "is missing"),
        (("accelerators: 16", "accelerators: true"), "cluster.accelerators", "expected an integer"),
        (("accelerators: 16", "accelerators: 0"), "cluster.accelerators", "at least 1"),
        (("accelerators: 16", "accelerators: 99999999999999999999999"), "cluster.accelerators", "integer|at most"),
        (("3:1", ".inf"), "cluster.back_end.topology.oversubscription", "finite"),
        (("3:1", "1e9999999"), "cluster.back_end.topology.oversubscription", "number|finite"),
        (("kind: late", "kind: later"), "faults.0.kind", "later"),
    ],
)
def test_one_fault_each(tmp_path, change, key, words):
    text = SMALL.replace(*change)
    assert text != SMALL
    (problem,) = problems_of(text, tmp_path)
    assert problem.key == key
    assert any(part in problem.message for part in words.split("|")), problem.message
    assert problem.line is not None


def test_an_override_is_checked_like_a_line_and_has_itself_as_place(file):
    with pytest.raises(InputError) as caught:
        load.load(file, ["link_rate=400"])
    (problem,) = caught.value.problems
    assert problem.file == "--set link_rate=400"
    assert problem.key == "cluster.back_end.link_rate"
    assert problem.line is None


def test_python_values_with_overrides():
    values = yaml.parse_mapping(SMALL, "x").plain()
    draft = load.from_values(values, {"accelerators": 32, "fabric": "ideal"})
    assert draft.scenario.cluster.accelerators == 32
    assert load.from_values(draft.scenario).scenario == draft.scenario
    with pytest.raises(InputError, match="link_rate"):
        load.from_values(values, {"link_rate": 4e11})


def test_combinations_named_variants_and_steps(file, tmp_path):
    variants = expand(load.load(file), ["fabric=roce,ideal", "oversubscription=1:1,2:1"])
    assert [variant.name for variant in variants] == [
        "roce, oversubscription 1:1",
        "roce, oversubscription 2:1",
        "ideal, oversubscription 1:1",
        "ideal, oversubscription 2:1",
    ]
    assert variants[3].draft.scenario.cluster.back_end.topology.oversubscription == 2.0
    assert variants[0].settings == {"fabric": "roce", "oversubscription": "1:1"}

    path = tmp_path / "steps.yaml"
    for way, qps in (("steps", 1), ("variants", 4)):
        path.write_text(
            f"{SMALL}compare:\n  {way}:\n    - {{name: as is}}\n    - {{name: one, set: {{qps: 1}}}}\n"
            "    - {name: wide, set: {link_rate: 800 Gb/s}}\n",
            encoding="utf-8",
        )
        found = expand(load.load(path))
        assert [variant.name for variant in found] == ["as is", "one", "wide"]
        assert found[0].draft.scenario.cluster.back_end.fabric.qps == 4
        assert found[2].draft.scenario.cluster.back_end.fabric.qps == qps
        assert found[2].draft.scenario.compare.steps == ()


def test_wrong_comparisons(file, tmp_path):
    with pytest.raises(InputError) as caught:
        expand(load.load(file), ["fabric=roce,uecc"])
    assert caught.value.problems[0].file == "--vary fabric=roce,uecc"
    with pytest.raises(InputError, match="twice"):
        expand(load.load(file), ["fabric=roce", "fabric=ideal"])
    with pytest.raises(InputError, match="too many"):
        expand(load.load(file), [f"seed={','.join(map(str, range(2000)))}"])
    text = f"{SMALL}compare:\n  vary: {{seed: [1]}}\n  steps: [{{name: a}}]\n"
    assert "only one of" in problems_of(text, tmp_path)[0].message


words = st.sampled_from(
    [
        "",
        "auto",
        "roce",
        "3:1",
        "400 Gb/s",
        "2 us",
        "$1",
        "1e400",
        "-1",
        "nan",
        "x" * 300,
        "\u202e",
        "a.b",
        "95 %",
        "1 T",
    ]
)
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=6) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | words, inner, max_size=3),
    max_leaves=6,
)


def paths_of(value, path=()):
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in pairs:
        yield from paths_of(child, (*path, key))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(data=st.data())
def test_junk_anywhere_gives_a_scenario_or_an_input_error_with_a_place(data):
    """Fuzz: a valid scenario with junk put in somewhere, by every way that a user can give it."""
    plain = load.dump(load.from_values(yaml.parse_mapping(SMALL, "x").plain()).scenario)
    values = copy.deepcopy(plain)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(sorted((p for p in paths_of(values) if p), key=str)))
        parent = values
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = data.draw(junk)
    draft, problems = None, ()
    try:
        draft = load.from_values(values)
    except InputError as error:
        problems = error.problems
    assert all(problem.file and problem.render() for problem in problems)
    assert draft is None or load.from_values(load.dump(draft.scenario)).scenario == draft.scenario


@settings(deadline=None, max_examples=100)
@given(
    key=st.text(max_size=20) | st.sampled_from(["cluster.x", "faults.0", "compare.vary", "tp", "a..b", "."]),
    value=st.text(max_size=20),
)
def test_any_override_gives_a_scenario_or_an_input_error(key, value):
    draft = load.from_values(yaml.parse_mapping(SMALL, "x").plain())
    from railyard.work.scenario import override

    with contextlib.suppress(InputError):
        draft.changed(dict([override.parse_set(f"{key}={value}")]))
        expand(draft, [f"{key}={value}"])


@pytest.mark.parametrize("kind", topologies.names())
def test_every_topology_is_a_choice_and_is_written_back(kind):
    draft = load.from_values(yaml.parse_mapping(SMALL, "x").plain(), {"topology": {"kind": kind}, "accelerators": 128})
    assert draft.scenario.cluster.back_end.topology.kind == kind
    assert load.from_values(load.dump(draft.scenario)).scenario == draft.scenario
    assert draft.scenario.cluster.back_end.spec().topology == topologies.get(kind)()


@pytest.mark.parametrize("name", fabrics.names())
def test_every_fabric_is_a_choice_and_its_constants_may_differ(name):
    draft = load.from_values(
        yaml.parse_mapping(SMALL, "x").plain(), {"fabric": {"name": name, "hop_latency": "3 us", "mtu": "1 KiB"}}
    )
    assert load.from_values(load.dump(draft.scenario)).scenario == draft.scenario
    fabric = draft.scenario.cluster.back_end.spec().fabric.resolve()
    assert (fabric.hop_latency_ps, fabric.mtu_bytes) == (3_000_000, 1024)
    assert fabric.header_bytes == fabrics.get(name).header_bytes


def test_a_list_with_one_wrong_item_is_not_called_too_short(tmp_path):
    assert [one.key for one in problems_of(f"{SMALL}check: [7]\n", tmp_path)] == ["check.0"]
    assert [one.message for one in problems_of(f"{SMALL}check: []\n", tmp_path)] == ["must have 1 or more items"]


def test_the_schema_names_every_section():
    schema = Scenario.model_json_schema()
    assert {"cluster", "workload", "faults", "compare"} <= set(schema["properties"])
    assert "LeafSpineTopology" in schema["$defs"]


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("tp: 4", "`tp` stands under `parallelism`"),
        ("micro_batch: 2", "`micro_batch` stands under `parallelism`"),
        ("global_bach: 2", "did you mean `global_batch`?"),
        ("accelerators: 2", "`accelerators` stands under `cluster`"),
    ],
)
def test_a_key_of_another_section_is_named_with_its_place(key, hint):
    text = f"cluster: {{accelerators: 8, server: hgx-h100}}\nworkload:\n  training: {{model: llama-3-8b, {key}}}\n"
    with pytest.raises(InputError) as caught:
        load.from_text(text, Path("x.yaml"))
    assert hint in {problem.hint for problem in caught.value.problems}


def test_a_key_is_named_with_its_place_in_the_section_that_is_used():
    """`draws` stands in several sections; of these a scenario of months has one."""
    text = "cluster: {accelerators: 8, server: hgx-h100}\nworkload:\n  operate: {jobs: x.csv}\ndraws: 1\n"
    with pytest.raises(InputError) as caught:
        load.from_text(text, Path("x.yaml"))
    assert "`draws` stands under `workload.operate`" in {problem.hint for problem in caught.value.problems}


# Quantities of a scenario: written with their unit, read once, and written back to the same number.

ALL = [value for value in vars(quantities).values() if isinstance(value, q.Quantity)]


@pytest.mark.parametrize("key", ["joule16", "joule8"])
def test_operations_of_a_joule_have_their_unit_and_range(key):
    """970 GFLOP/J is what an H100 or a GB300 pays in 16 bits."""
    assert getattr(SoftwareSection(**{key: "0.97 TFLOP/J"}), key) == 0.97e12
    assert SoftwareSection(**{key: "970 GFLOP/J"}).model_dump()[key] == "970 GFLOP/J"
    for wrong in (0.97e12, 0.97, "0.97 TFLOP/s", "11 PFLOP/J", "-1 TFLOP/J"):
        with pytest.raises(ValidationError):
            SoftwareSection(**{key: wrong})


@pytest.mark.parametrize(
    ("show", "value", "text"),
    [
        (quantities.YEARS.show, 1 / 12, "1 month"),
        (quantities.YEARS.show, 7 / 12, "7 months"),
        (quantities.YEARS.show, 1.5, "1.5 years"),
        (quantities.SIZE.show, 10**12, "1 TB"),
        (quantities.SIZE.show, 4 * 10**12, "4 TB"),
        (quantities.SIZE.show, 10**18, "1 EB"),
        (quantities.SIZE.show, 80 * 2**30, "80 GiB"),
        (quantities.SIZE.show, 9_000 * 2**10, "9000 KiB"),
        (quantities.SIZE.show, 1_000_001 * 2**40, "1000001 TiB"),
    ],
)
def test_values_are_shown_in_a_natural_unit(show, value, text):
    assert show(value) == text


@pytest.mark.parametrize("quantity", ALL, ids=lambda quantity: quantity.kind)
def test_the_example_is_read_and_a_bare_number_is_not(quantity):
    assert quantity.read(quantity.example) > 0
    adapter = TypeAdapter(q.field_type(quantity, float))
    if quantity.bare:
        assert adapter.validate_python(3) == 3
    else:
        with pytest.raises(ValidationError) as caught:
            adapter.validate_python(3)
        # The message of a missing unit names one that is right.
        assert quantity.example.split(" ", 1)[-1].lstrip("$0123456789.") in caught.value.errors()[0]["msg"]


@pytest.mark.parametrize("quantity", ALL, ids=lambda quantity: quantity.kind)
@given(data=st.data())
def test_written_text_is_read_back_to_the_same_number(quantity, data):
    whole = quantity in (q.SIZE, q.TIME, q.COUNT)
    fractions = st.just(0.0) | st.floats(1e-9, quantity.most)
    value = data.draw(st.integers(0, int(quantity.most)) if whole else fractions)
    assert quantity.read(quantity.write(value)) == value


@pytest.mark.parametrize("quantity", ALL, ids=lambda quantity: quantity.kind)
@given(
    text=st.text(max_size=80)
    | st.from_regex(r"[-+]?\$?[0-9.,_]{0,30}([eE][-+]?[0-9]{0,12})?[ :]?[kMGTBb/%a-zA-Z0-9]{0,8}", fullmatch=True)
)
def test_any_text_is_a_number_or_a_kind_refusal(quantity, text):
    found = []
    try:
        TypeAdapter(q.field_type(quantity, float)).validate_python(text)
    except ValidationError as error:
        found = error.errors()
    assert all(item["type"] == "unit" for item in found)


@pytest.mark.parametrize(
    ("quantity", "largest", "more"),
    [
        (q.RATE, "1000 Pb/s", "1001 Pb/s"),
        (q.SIZE, "9223372036854775807 B", "9300000000 GB"),  # 64 bits with a sign
        (q.TIME, "106 days", "107 days"),  # the same in picoseconds
        (q.COUNT, 9_007_199_254_740_992, 9_007_199_254_740_994),  # integers that a float has all of: 2^53
        (q.YEARS, "100 years", "101 years"),
        (q.RATIO, 1_000_000, 1_000_001),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_the_largest_value_is_taken(quantity, largest, more):
    assert quantity.read(largest) > 0
    with pytest.raises(q.InputError, match="is at most"):
        quantity.read(more)


def test_plain_values_are_not_bent():
    for kind, wrong in (
        (q.Natural, True),
        (q.Natural, "12"),
        (q.Natural, 1.5),
        (q.Flag, 1),
        (q.Text, 405),
        (q.Number, "1"),
    ):
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python(wrong)
