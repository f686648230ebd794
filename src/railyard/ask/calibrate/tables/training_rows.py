"""A user's own table of training steps: every cell is read strictly, and a wrong one names its line and column."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from railyard.ask.calibrate.tables import facts
from railyard.ask.calibrate.tables.cells import Cells, read_rows
from railyard.catalog import Model
from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.schema.bounds import limits
from railyard.model import architecture
from railyard.model.machine import Machine
from railyard.work.study.compose import written_layout
from railyard.work.training import profiles
from railyard.work.training.layout import check
from railyard.work.training.parameters import check_precision
from railyard.work.training.spec import RECOMPUTE_MODULES, Layout, Lora, SoftwareProfile, Training

if TYPE_CHECKING:
    from railyard.ask.calibrate.tables.kind import Source
    from railyard.catalog import Accelerator, Catalog
    from railyard.work.training.spec import Precision

NEEDED = ("gpu", "n_gpu", "model", "seq_len", "global_batch_seqs")
"""Columns without which a row says nothing."""
METRICS = ("step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu")
"""One of these cells says what was measured; the first that is filled counts."""

RANGES = {
    "step_time_s": limits(1e-4, 86_400.0),
    "tokens_per_s_per_gpu": limits(1e-3, 1e7),
    "tflops_per_gpu": limits(1e-3, 1e5),
    "scale_out_gbps": limits(1e-3, 1e5),
    "routing_skew": limits(0.0, 4.0),
}
"""Beyond these nothing was ever measured: steps of 0.1 ms to a day, one token in 1,000 s to 10 million in one."""
_SHAPE = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")
_ALIASES = {"vpp": "vp", "seq_parallel": "sequence_parallel"}
_WORDS = ("id", "software", "precision", "notes", "gated_mlp")
_NETWORK = ("gpus_per_node", "scale_out_gbps")
_ADAPTERS = ("lora_rank", "lora_targets")
COLUMNS = (
    *dict.fromkeys(
        (
            *NEEDED,
            *METRICS,
            *_ALIASES,
            *_SHAPE,
            *_WORDS,
            *_NETWORK,
            *_ADAPTERS,
            "routing_skew",
            *facts.LAYOUT,
            *facts.SOFTWARE,
        )
    ),
)
"""All columns that a table may have; those of `facts` are keys of a scenario."""

_YES, _NO = ("1", "yes", "true", "on"), ("0", "no", "false", "off")
_PRECISIONS: dict[str, Precision] = {
    "bf16": "bf16",
    "fp16": "fp16",
    "fp8": "fp8",
    "mxfp8": "fp8",
    "fp4": "fp4",
    "nvfp4": "fp4",
}
_ZERO = {"0": 0, "none": 0, "1": 1, "2": 2, "3": 3, "fsdp": 3}
# What collectives reach of a NIC's line rate over a healthy fabric (NCCL logs: 45 to 48 of 50 GB/s).
_NIC_FRACTION = 0.92


@dataclass(frozen=True)
class Step:
    """One measured training step.

    Attributes:
        line: In the table, from 1.
        name: Its id, or its line.
        training, machine: What ran on what.
        measured_s: Seconds.
    """

    line: int
    name: str
    training: Training
    machine: Machine
    measured_s: float


def steps_of(source: Source, catalog: Catalog) -> list[Step]:
    """The steps of a table.

    Raises:
        InputError: A column is unknown, or cells are wrong: all of them, each with its line.
    """
    return read_rows(source, COLUMNS, lambda line, cells: _Row(line, cells).step(catalog))


class _Row(Cells):
    needed, metrics, ranges = NEEDED, METRICS, RANGES
    most: ClassVar = {"layers": 4096, "vocab": 10_000_000, "n_gpu": 10_000_000}
    largest = 1_000_000_000

    def step(self, catalog: Catalog) -> Step:
        device = catalog.accelerator(self.cells["gpu"])
        training = self._training(catalog, device)
        return Step(self.line, self.name, training, self._machine(device, catalog), self._seconds(training))

    def _training(self, catalog: Catalog, device: Accelerator) -> Training:
        model, seq_len = self._model(catalog), self.count("seq_len")
        software = self._software(device)
        precision = self.choice("precision", _PRECISIONS, "bf16")
        check_precision(precision, device)
        layout = self._layout()
        check(model, layout, seq_len, self.count("n_gpu"))
        return Training(
            model=model,
            layout=layout,
            seq_len=seq_len,
            software=software,
            precision=precision,
            routing_skew=self.number("routing_skew") if self.cells.get("routing_skew", "0") != "0" else 0.0,
            lora=self._lora(),
        )

    def _lora(self) -> Lora | None:
        targets = self.choice("lora_targets", {"all": "all", "attention": "attention"}, "all")
        return Lora(rank=self.count("lora_rank"), targets=targets) if "lora_rank" in self.cells else None

    def _software(self, device: Accelerator) -> SoftwareProfile:
        name = self.cells.get("software")
        found = profiles.default(device) if name is None else profiles.profile(name, device)
        return dataclasses.replace(found, **facts.of_software(self.cells))

    def _model(self, catalog: Catalog) -> Model:
        shape: dict[str, Any] = {name: self.count(name) for name in _SHAPE if name in self.cells}
        try:
            known = catalog.model(self.cells["model"])
        except InputError:
            if not {"layers", "hidden", "heads"} <= shape.keys():
                raise
        else:
            return dataclasses.replace(known, **shape) if shape else known
        gated = self._flag("gated_mlp", default=True)
        heads, hidden = shape["heads"], shape["hidden"]
        usual: dict[str, Any] = {"kv_heads": heads, "head_dim": hidden // heads, "ffn": 4 * hidden, "vocab": 51200}
        return Model(
            name=self.cells["model"],
            gated_mlp=gated,
            tied_embeddings=not gated,
            norm="rms" if gated else "layer",
            learned_positions=0 if gated else self.count("seq_len"),
            max_seq=self.count("seq_len"),
            **{**usual, **shape},
        )

    def _layout(self) -> Layout:
        """As a scenario's; unless told otherwise ZeRO 1, and sequence parallel with tensor parallelism."""
        named = {key: self.cells[column] for column, key in _ALIASES.items() if column in self.cells}
        given = facts.of_layout({**self.cells, **named}, frozenset({"zero", "recompute"}))
        recompute, modules = self._recompute()
        given |= {"recompute": recompute, "zero": self.choice("zero", _ZERO, "1")}
        given |= {"recompute_modules": modules} if modules else {}
        given.setdefault("sequence_parallel", given.get("tp", 1) > 1)
        given.setdefault("reshard", given.get("pp", 1) == 1)
        return written_layout(given, self.count("global_batch_seqs"), self.count("n_gpu"))

    def _recompute(self) -> tuple[Any, tuple[str, ...]]:
        text = self.cells.get("recompute", "none")
        if text in ("none", "selective", "full"):
            return text, ()
        modules = tuple(text.replace("+", " ").replace(";", " ").split())
        for module in modules:
            if module not in RECOMPUTE_MODULES:
                allowed = ("none", "selective", "full", *RECOMPUTE_MODULES)
                raise InputError(
                    f"nothing that is recomputed is called `{module}`",
                    key="recompute",
                    found=text,
                    allowed=allowed,
                    hint=did_you_mean(module, allowed),
                )
        return "none", modules

    def _machine(self, device: Accelerator, catalog: Catalog) -> Machine:
        server = catalog.server(device.server)
        per_node = self.count("gpus_per_node") if "gpus_per_node" in self.cells else server.accelerators
        domain = max(per_node, device.scale_up_domain)
        nics_bps = catalog.nic(server.nic).rate_bps * server.nics_per_accelerator
        gbps = self.number("scale_out_gbps") if "scale_out_gbps" in self.cells else nics_bps / 1e9
        return dataclasses.replace(
            Machine.of_device(device, gbps * 1e9 * _NIC_FRACTION, domain),
            scale_up_peers=device.scale_up_domain - 1 if device.scale_up_kind == "mesh" else 0,
            nvls=device.nvls,
        )

    def _seconds(self, training: Training) -> float:
        filled = self.filled()
        value, ranks = self.number(filled), self.count("n_gpu")
        if filled == "step_time_s":
            return value
        if filled == "tokens_per_s_per_gpu":
            return training.step_tokens / (value * ranks)
        of, frozen = (training.model, training.seq_len), training.lora is not None
        useful = architecture.model_flops_per_token(*of, causal=True, frozen=frozen) * training.step_tokens
        return useful / (value * 1e12 * ranks)

    def _flag(self, name: str, *, default: bool) -> bool:
        text = self.cells.get(name, "yes" if default else "no").lower()
        if text not in (*_YES, *_NO):
            raise InputError("expected yes or no", key=name, found=text, allowed=", ".join((*_YES, *_NO)))
        return text in _YES
