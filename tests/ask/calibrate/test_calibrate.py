"""Calibration: a device whose rates are known, this machine's processor for real, and what can go wrong."""

import contextlib
import io
import json
from importlib.util import find_spec

import numpy as np
import pytest

from railyard import catalog as catalogue
from railyard.ask.calibrate import plan
from railyard.ask.calibrate.calibration import SHARES, calibrate, overlay, write
from railyard.ask.calibrate.device import Facts, NumpyDevice
from railyard.face.cli import guard
from railyard.kit.errors import InputError

GEMM, GEMM8, ATTENTION, BACKWARD, MEMORY, GAP, LAUNCH = 0.7, 0.65, 0.5, 0.4, 0.9, 2e-6, 5e-6


class Exact:
    """A device that takes exactly as long as its rates say: the truth that a calibration has to find."""

    datatypes = ("bf16", "fp8")
    refusals = (RuntimeError,)

    def __init__(self, entry):
        self.peak = {"bf16": entry.flops["bf16"], "fp8": entry.flops["fp8"]}
        self.memory = entry.memory_bps / 8.0

    def facts(self):
        return Facts("Exact", 'a "host": with\nodd words', "1.0", {"Nothing": "0"}, {"clock": "1 GHz"}, devices=4)

    def entry(self, catalog, name):
        return "h100-sxm", ""

    def product(self, m, n, k, datatype):
        share = {"bf16": GEMM, "fp8": GEMM8}[datatype] * min(1.0, (m / 8192) ** 0.1)
        return lambda: 2.0 * m * n * k / (share * self.peak[datatype])

    def grouped(self, experts, m, n, k):
        return lambda: 2.0 * experts * m * n * k / (0.8 * GEMM * self.peak["bf16"])

    def attention(self, batch, heads, sequence, width, *, backward):
        forward = 2.0 * batch * heads * sequence**2 * width / self.peak["bf16"]
        return lambda: forward / ATTENTION + backward * 2.5 * forward / BACKWARD

    def copy(self, size_bytes):
        return lambda: 2.0 * size_bytes / (MEMORY * self.memory)

    def norm(self, rows, width):
        return lambda: 4 * rows * width / (0.8 * MEMORY * self.memory)

    def norm_bytes(self, rows, width):
        return 4 * rows * width

    def tiny(self):
        return lambda: 0.0

    def seconds(self, call, repeats):
        return repeats * call()

    def host_seconds(self, call, repeats):
        return repeats * LAUNCH

    def gap_s(self, repeats):
        return GAP

    def collectives(self, sizes_bytes):
        return {("all-reduce", size): 2 * 3 / 4 * size / 300e9 for size in sizes_bytes}


@pytest.fixture(scope="module")
def known():
    return catalogue.load()


@pytest.fixture(scope="module")
def exact(known):
    entry = known.accelerator("h100-sxm")
    said = []
    model = known.model("llama-3-8b")
    found = calibrate(Exact(entry), entry, model, plan.LARGE_QUICK, progress=lambda *words: said.append(words))
    return found, said


def written(folder, text):
    path = folder / "measured.yaml"
    write(text, path)
    return path


def test_known_rates_are_found(exact):
    found, _ = exact
    assert found.constants["gemm_efficiency"] == pytest.approx(GEMM * 2**0.1, rel=0.08)
    assert found.constants["gemm_efficiency_8bit"] == pytest.approx(GEMM8, rel=0.08)
    assert found.constants["attention_efficiency"] == pytest.approx(ATTENTION)
    assert found.constants["memory_efficiency"] == pytest.approx(MEMORY)
    assert found.constants["launch_s"] == GAP
    assert found.software["launch_s"] == pytest.approx(LAUNCH)
    assert found.software["attention_backward"] == pytest.approx(BACKWARD / ATTENTION)
    assert found.software["grouped_fraction"] == pytest.approx(0.8 * GEMM / found.constants["gemm_efficiency"])


def test_bus_bandwidth_is_that_of_nccl_tests(exact):
    found, _ = exact
    (reduced,) = [sample for sample in found.samples if sample.kind == "all-reduce"]
    assert reduced.work / reduced.seconds == pytest.approx(300e9)


def test_progress_ends_at_all(exact):
    shares = [share for _, share in exact[1]]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_calibration_brings_the_model_nearer(exact):
    found, _ = exact
    kinds = ("copy", "attention")
    before, after = (
        np.mean([abs(sample.error(getattr(sample, name))) for sample in found.samples if sample.kind in kinds])
        for name in ("predicted_s", "calibrated_s")
    )
    assert after < before
    assert after < 0.2


def test_what_is_written_is_read_back_with_its_origin(exact, tmp_path, known):
    found, _ = exact
    entry = catalogue.load(written(tmp_path, overlay(found))).accelerator("h100-sxm")
    for name in SHARES:
        assert getattr(entry, name) == pytest.approx(found.constants[name], abs=1e-4)
        said = entry.provenance[name]
        assert said.confidence == "measured"
        assert "railyard calibrate device" in said.source
        assert found.date in said.source
        assert "driver 1.0" in said.source
    assert entry.launch_ps == round(GAP * 1e12)
    assert entry.memory_bps == known.accelerator("h100-sxm").memory_bps


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """The file that a quick measurement of this processor leaves, and what the command said."""
    path, said = tmp_path_factory.mktemp("desk") / "cpu.yaml", io.StringIO()
    words = ["calibrate", "device", "--device", "cpu", "--quick", "--entry", "desk", "--json", "--out", str(path)]
    with contextlib.redirect_stdout(said):
        assert guard.run(words) == 0
    return path, json.loads(said.getvalue())


def test_this_processor_for_real(desk):
    path, said = desk
    assert said["out"] == str(path)
    assert {row["kind"] for row in said["samples"]} == {
        "product",
        "grouped",
        "attention",
        "attention-both",
        "copy",
        "norm",
    }
    assert all(row["seconds"] > 0 for row in said["samples"])
    entry = catalogue.load(path).accelerator("desk")
    assert entry.sm_count >= 1
    assert 0 < entry.gemm_efficiency <= 1
    assert entry.gemm_efficiency == pytest.approx(said["constants"]["gemm_efficiency"], abs=1e-4)
    assert entry.provenance["gemm_efficiency"].confidence == "measured"
    assert entry.provenance["price_usd"].confidence == "estimated"
    assert [path.name for path in path.parent.iterdir()] == ["cpu.yaml"]
    assert NumpyDevice().entry(None, None)[0] == "this-cpu"


def test_a_scenario_runs_on_what_was_measured(desk, tmp_path, capsys):
    # A model that fits a machine's memory, in the same file.
    sizes = "layers: 2, hidden: 256, heads: 4, kv_heads: 4, head_dim: 64, ffn: 512"
    tiny = f"models:\n  tiny: {{extends: llama-3.2-1b, {sizes}}}\n"
    (tmp_path / "cpu.yaml").write_text(desk[0].read_text(encoding="utf-8") + tiny, encoding="utf-8")
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(
        """name: desk
catalog: cpu.yaml
cluster:
  accelerators: 4
  server: desk-host
  back_end: {topology: {kind: fat-tree}, fabric: {name: ideal}}
workload:
  training: {model: tiny, global_batch: 4, sequence: 64, precision: bf16, parallelism: {dp: 4}}
""",
        encoding="utf-8",
    )
    code = guard.run(["run", str(scenario), "--json", "--quiet", "--out", str(tmp_path / "runs")])
    out, err = capsys.readouterr()
    assert code == 0, err
    step = json.loads(out)["variants"][0]["step"]["seconds"]
    # Some tens of MFLOP a rank at tens of GFLOP/s: no H100 is at work.
    assert step > 1e-3


def test_products_and_attention_of_the_processor_are_right():
    device = NumpyDevice()
    assert device.product(8, 6, 4, "fp32")().shape == (8, 6)
    assert device.product(8, 6, 4, "bf16") is None
    assert device.grouped(3, 4, 5, 6)().shape == (3, 4, 5)
    assert device.attention(2, 3, 8, 4, backward=False)().shape == (6, 8, 4)
    assert [part.shape for part in device.attention(2, 3, 8, 4, backward=True)()] == [(6, 8, 4)] * 3
    assert np.allclose(np.mean(np.square(device.norm(4, 16)()), axis=1), 1.0, atol=1e-3)
    assert device.norm_bytes(4, 16) == 2 * 4 * 16 * 4


def test_what_a_device_refuses_is_named_and_the_rest_goes_on(known):
    class Small(Exact):
        def product(self, m, n, k, datatype):
            def call():
                raise RuntimeError("out of memory\nand more")

            return call if m >= 8192 else super().product(m, n, k, datatype)

    entry = known.accelerator("h100-sxm")
    found = calibrate(Small(entry), entry, known.model("llama-3-8b"), plan.LARGE_QUICK, progress=lambda *_: None)
    assert "product bf16 8192x8192x8192: out of memory" in found.skipped
    assert 0 < found.constants["gemm_efficiency"] < 1


def test_a_file_that_exists_is_left_alone(tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    path.write_text("mine", encoding="utf-8")
    assert guard.run(["calibrate", "device", "--device", "cpu", "--quick", "--out", str(path)]) == 2
    assert path.read_text(encoding="utf-8") == "mine"
    assert "--force" in capsys.readouterr().err
    write("new", path, force=True)
    assert path.read_text(encoding="utf-8") == "new"
    with pytest.raises(InputError, match="already exists"):
        write("newer", path)


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        write("text", tmp_path / "nowhere" / "file.yaml")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write("text", tmp_path / "folder", force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_stop_in_between_leaves_nothing(monkeypatch, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(NumpyDevice, "seconds", lambda *_: 1.0)  # as long as it takes by the clock
    monkeypatch.setattr(NumpyDevice, "norm", stop)
    path = tmp_path / "cpu.yaml"
    assert guard.run(["calibrate", "device", "--device", "cpu", "--quick", "--out", str(path)]) == 130
    assert not list(tmp_path.iterdir())


def test_an_unknown_kind_of_device_is_refused(capsys):
    assert guard.run(["calibrate", "device", "--device", "gpu"]) == 2
    assert "there is no kind of device `gpu`" in capsys.readouterr().err


def test_without_an_accelerator_the_way_out_is_said(capsys):
    if find_spec("torch") is not None and pytest.importorskip("torch").cuda.is_available():
        pytest.skip("an accelerator is here")
    assert guard.run(["calibrate", "device"]) == 2
    assert "--device cpu" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "memory_gib", "entry"),
    [
        ("NVIDIA H100 80GB HBM3", 79.6, "h100-sxm"),
        ("NVIDIA H100 PCIe", 79.6, "h100-pcie"),
        ("NVIDIA A100-SXM4-40GB", 39.4, "a100-sxm-40gb"),
        ("NVIDIA H200", 139.8, "h200-sxm"),
        ("AMD Instinct MI300X", 191.7, "mi300x"),
        ("NVIDIA GeForce RTX 4090", 23.6, "rtx-4090"),
        ("NVIDIA A100-PCIE-40GB", 39.4, None),
    ],
)
def test_names_of_drivers_lead_to_entries(known, said, memory_gib, entry):
    assert known.accelerator_called(said, memory_gib) == entry


def test_the_same_operators_through_pytorch(known):
    pytest.importorskip("torch")
    from railyard.ask.calibrate.torch_device import TorchDevice, run_collectives

    entry = known.accelerator("h100-sxm")
    found = calibrate(TorchDevice("cpu"), entry, known.model("llama-3-8b"), plan.SMALL_QUICK, progress=lambda *_: None)
    assert all(sample.seconds > 0 for sample in found.samples)
    timed = run_collectives(2, "gloo", (2**20,))
    assert set(timed) == {("all-reduce", 2**20), ("all-gather", 2**20)}
