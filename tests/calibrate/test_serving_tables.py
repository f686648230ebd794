"""`railyard calibrate runs` on serving runs: truths that it has to find again, and cells that it must refuse."""

from dataclasses import replace

import pytest

from railyard import catalog
from railyard.ask.calibrate import measurements
from railyard.ask.calibrate.kinds.serving import fitted, loop_of, rows_of
from railyard.kit.errors import InputError
from railyard.work.serving.software import columns, profile, read_profiles

HEADER = "id,gpu,model,software,tp,precision,input_tokens,output_tokens,concurrency,tpot_ms"
LOADS = ((1, 8), (2, 64), (4, 16), (2, 4), (4, 128))
KNOWN = catalog.load()


def write(folder, tpot_ms, *, header=HEADER, change=lambda line: line):
    rows = [
        f"r{number},h100-sxm,qwen3-32b,vllm,{tp},fp8,1000,500,{users},{ms}"
        for number, ((tp, users), ms) in enumerate(zip(LOADS, tpot_ms, strict=True))
    ]
    path = folder / "mine.csv"
    path.write_text("\n".join([header, *map(change, rows)]) + "\n", encoding="utf-8")
    return path


def truth(folder, **changed):
    """The table whose times are what the law says under changed constants."""
    rows = rows_of(measurements.read(write(folder, [1.0] * len(LOADS)))[1], KNOWN)
    shipped = profile("vllm", rows[0].device)
    times = {name: getattr(shipped, name) * factor for name, factor in changed.items()}
    seconds = loop_of(rows).seconds(columns([replace(shipped, **times)] * len(rows)))[0]
    return write(folder, (1e3 * seconds).tolist())


def test_a_slow_engine_is_found_and_its_other_loads_with_it(tmp_path):
    """Layers of 1.5 times the kernels: rows predicted without themselves are right within 2 %, shipped ones are not."""
    kind, source = measurements.read(truth(tmp_path, layer_s=1.5))
    assert kind.name == "serving"
    found = kind.calibrate(source, KNOWN)
    (layer,) = [one for one in found.constants if one.name == "layer_s"]
    assert layer.low < 1.5 * layer.before < layer.high
    before = [abs(row.before / row.measured - 1.0) for row in found.rows]
    without = [abs(row.left_out / row.measured - 1.0) for row in found.rows]
    assert max(before) > 0.1
    assert max(without) < 0.04
    path = tmp_path / "mine.toml"
    path.write_text(found.written, encoding="utf-8")
    assert read_profiles(path)["vllm", "h100-sxm"].constants["layer_s"] == pytest.approx(layer.value, rel=1e-3)


def test_rows_as_shipped_move_nothing(tmp_path):
    rows = rows_of(measurements.read(truth(tmp_path))[1], KNOWN)
    found = fitted(loop_of(rows), profile("vllm", rows[0].device))
    values, before = ([getattr(one, name) for one in found.constants] for name in ("value", "before"))
    assert values == pytest.approx(before, rel=1e-3)
    assert found.seconds[1, 0] == pytest.approx(loop_of(rows).measured_s[0], rel=1e-3)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (",fp8,", ",fp9,", "fp8"),
        (",1000,", ",-3,", "input_tokens"),
        (",500,", ",0.5,", "output_tokens"),
        (",vllm,", ",vlm,", "vllm"),
        ("h100-sxm", "TPU-trillium", "TPU-trillium"),
    ],
)
def test_wrong_cells_are_named_with_their_line(tmp_path, old, new, words):
    path = write(tmp_path, [10.0] * len(LOADS), change=lambda line: line.replace(old, new, 1))
    kind, source = measurements.read(path)
    with pytest.raises(InputError) as refused:
        kind.calibrate(source, KNOWN)
    assert words in str(refused.value)
    assert all(problem.line for problem in refused.value.problems)


def test_a_row_without_a_measurement_is_refused(tmp_path):
    path = write(tmp_path, [""] * len(LOADS))
    kind, source = measurements.read(path)
    with pytest.raises(InputError, match="tpot_ms, ttft_ms must be filled"):
        kind.calibrate(source, KNOWN)
