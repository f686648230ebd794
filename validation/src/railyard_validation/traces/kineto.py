"""Traces as PyTorch's profiler writes them: Chrome trace JSON of one rank, names and fields as in published traces.

Fields: those of the traces in the tests of facebookresearch/HolisticTraceAnalysis (MIT) and of `torch.profiler` 2.5
(`Seq`, `Src Rank`, `Process Group Ranks` cut after 30 ranks). Names of kernels: cuBLAS, CUTLASS, FlashAttention,
Triton, ATen, Tensile.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from railyard_validation.traces.job import Communication
from railyard_validation.traces.play import LAUNCH_US

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from railyard_validation.traces.job import Job, Kernel
    from railyard_validation.traces.play import Event

    Floats = NDArray[np.float64]

EPOCH_US = 1_760_000_000_000_000.0
MOST_RANKS = 30
"""Ranks of a process group that the profiler lists."""

_NAMES: dict[str, dict[str, str]] = {
    "bare": {
        "gemm": "gemm_{role}",
        "attention": "flash_{way}_kernel",
        "expert": "grouped_gemm_{role}",
        "norm": "rmsnorm_{role}",
        "elementwise": "elementwise_{role}",
        "optimizer": "fused_adam",
    },
    "hopper": {
        "gemm": "nvjet_tst_{tile}x256_64x4_2x1_v_bz_coopA_{letters}",
        "attention": "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttn{Way}Sm90<flash::Collective"
        "Mainloop{Way}Sm90<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, cute::tuple<cute::C<128>, cute::C<176>"
        " >, 128, cutlass::bfloat16_t> > > >(flash::FlashAttn{Way}Sm90::Params)",
        "expert": "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<"
        "cute::tuple<int, int, int> >, {role}> >(cutlass::gemm::kernel::GemmUniversal::Params)",
        "norm": "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_{digit}",
        "elementwise": "triton_poi_fused_{role}_{digit}",
        "optimizer": "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
        "namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<"
        "float, 4, (at::native::ADAM_MODE)1, false> >",
    },
    "ampere": {
        "gemm": "ampere_bf16_s16816gemm_bf16_{tile}x256_ldg8_f2f_stages_64x3_{letters}",
        "attention": "void pytorch_flash::flash_{way}_kernel<Flash_{way}_kernel_traits<128, 64, 64, 4, false, false, "
        "cutlass::bfloat16_t>, false, true, false, false, true, true, false>(pytorch_flash::Flash_{way}_params)",
        "expert": "void cutlass::Kernel2<cutlass::gemm::kernel::GemmGrouped<{role}, cutlass::gemm::kernel::"
        "GroupScheduleMode::kDeviceOnly> >(cutlass::gemm::kernel::GemmGrouped::Params)",
        "norm": "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, true>(int, "
        "float, {role})",
        "elementwise": "void at::native::vectorized_elementwise_kernel<4, at::native::{role}, std::array<char*, 3> >",
        "optimizer": "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float, float, int>, float>",
    },
    "amd": {
        "gemm": "Cijk_Ailk_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT{tile}x256x64_MI16x16x1_SN_LDSB0_{letters}",
        "attention": "_attn_{way}.kd",
        "expert": "_grouped_gemm_{role}_kernel.kd",
        "norm": "_rms_norm_{way}_fused.kd",
        "elementwise": "void at::native::vectorized_elementwise_kernel<4, at::native::{role}, at::detail::Array<char*, "
        "3> >",
        "optimizer": "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4> "
        ">",
    },
}
STYLES = tuple(_NAMES)

_CALLED = {
    "all_reduce": ("allreduce", "AllReduce_Sum_bf16_RING_LL"),
    "reduce_scatter": ("_reduce_scatter_base", "ReduceScatter_Sum_bf16_RING_LL"),
    "all_gather": ("_allgather_base", "AllGather_RING_LL"),
    "all_to_all": ("all_to_allv", "SendRecv"),
    "send": ("send", "SendRecv"),
    "recv": ("recv", "SendRecv"),
}
_ROLE_TILES = {"qkv": 128, "projection": 64, "up": 192, "down": 160, "router": 32, "head": 256}
_STREAMS = {"tp": 20, "dp": 24, "edp": 24, "ep": 28, "pp": 32, "world": 36}


@dataclass(frozen=True)
class Style:
    """How a job's traces are written.

    Attributes:
        names: Whose kernels, one of `STYLES`.
        marked: Whether the host's steps are annotated (`ProfilerStep#3`).
        device_marks: Whether they are annotated on the device too.
        grids: Whether kernels have their grid.
        first: Number of the first step.
        packed: Whether files are compressed and named as `tensorboard_trace_handler` names them.
    """

    names: str
    marked: bool
    device_marks: bool
    grids: bool
    first: int
    packed: bool


@dataclass(frozen=True)
class Clock:
    """How the clock of a rank differs from the job's time: ahead by so many us, and too fast by a share."""

    ahead_us: float
    drift: float

    def read(self, true_us: float) -> float:
        """What it shows, us, as the profiler rounds it."""
        return round(EPOCH_US + self.ahead_us + true_us * (1 + self.drift), 3)


@dataclass(frozen=True)
class Writer:
    """Writes the file of one rank.

    Attributes:
        job: The job.
        style: Of names and fields.
        rank: Whose file.
        clock: Of the rank.
    """

    job: Job
    style: Style
    rank: int
    clock: Clock

    def write(self, folder: Path, events: list[Event], starts: Floats) -> None:
        """Writes it.

        Args:
            folder: Where.
            events: What ran on the rank.
            starts: float64[steps + 1], when its host began each step, us.
        """
        device = self.rank % self.job.per_host
        about: dict[str, Any] = {"schemaVersion": 1}
        if self.style.names != "bare":
            about["deviceProperties"] = [{"id": device, "name": "GPU"}]
        about["distributedInfo"] = self._info()
        listed = list(self._marks(starts, events))
        for order, event in enumerate(events):
            listed += self._launch(event, order)
        if self.style.packed:
            about["baseTimeNanoseconds"] = int(EPOCH_US) * 1000
            for one in listed:
                one["ts"] = round(one["ts"] - EPOCH_US, 3)
        text = json.dumps({**about, "traceEvents": listed}).encode()
        if self.style.packed:
            host = f"node{self.rank // self.job.per_host:03}"
            name = f"{host}_{4000 + self.rank}.{1_760_000_000_000 + 17 * self.rank}.pt.trace.json.gz"
            (folder / name).write_bytes(gzip.compress(text, 1, mtime=0))
        else:
            (folder / f"rank{self.rank}.json").write_bytes(text)

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"backend": "nccl", "rank": self.rank, "world_size": self.job.ranks}
        if self.style.names != "bare":
            mine = [(name, ranks) for (_, ranks), name in _groups(self.job).items() if self.rank in ranks]
            info["pg_count"] = len(mine)
            info["pg_config"] = [
                {"pg_name": name, "pg_desc": "", "backend_config": "cuda:nccl", "pg_size": len(ranks), "ranks": ranks}
                for name, ranks in mine
            ]
            info["nccl_version"] = "2.27.3"
        return info

    def _marks(self, starts: Floats, events: list[Event]) -> Iterator[dict[str, Any]]:
        """Annotations of steps, on the host and on the device."""
        host = 4000 + self.rank
        for step in range(len(starts) - 1):
            mine = [one for one in events if one.step == step]
            if not (mine and self.style.marked):
                return
            name = f"ProfilerStep#{self.style.first + step}"
            yield self._event("user_annotation", name, (host, host), (float(starts[step]), float(starts[step + 1])))
            if self.style.device_marks:
                span = min(one.start for one in mine), max(one.end for one in mine)
                yield self._event("gpu_user_annotation", name, (0, 7), span)

    def _event(self, category: str, name: str, thread: tuple[int, int], span: tuple[float, float]) -> dict[str, Any]:
        """An event without arguments, by the clock of the rank."""
        start = self.clock.read(span[0])
        event = {"ph": "X", "cat": category, "name": name, "pid": thread[0], "tid": thread[1], "ts": start}
        return event | {"dur": round(self.clock.read(span[1]) - start, 3), "args": {}}

    def _launch(self, event: Event, order: int) -> list[dict[str, Any]]:
        """The call of the host and the kernel that it launched."""
        host, device, correlation = 4000 + self.rank, self.rank % self.job.per_host, 100 + 3 * order
        launched = self._event(
            "cuda_runtime", "cudaLaunchKernel", (host, host), (event.launched - LAUNCH_US, event.launched)
        )
        launched["args"] = {"cbid": 211, "correlation": correlation}
        args: dict[str, Any] = {"External id": correlation, "device": device, "context": 1}
        category, stream, name = "kernel", 7, ""
        if isinstance(event.what, Communication):
            stream = _STREAMS[event.what.group]
            args |= _collective(event.what, event.number, self.job)
            name = f"ncclDevKernel_{_CALLED[event.what.kind][1]}(ncclDevKernelArgsStorage<4096ul>)"
        elif event.what.kind == "copy":
            args["bytes"] = 1 << 20
            category, name = "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"
        else:
            args |= {"grid": [event.what.blocks, 1, 1], "block": [256, 1, 1]} if self.style.grids else {}
            name = _named(event.what, self.style)
        kernel = self._event(category, name, (device, stream), (event.start, event.end))
        kernel["args"] = args | {"stream": stream, "correlation": correlation}
        return [launched, kernel]


def _named(what: Kernel, style: Style) -> str:
    way = "bwd" if what.role.startswith("backward") else "fwd"
    word = what.role.split()[-1]
    return _NAMES[style.names][what.kind].format(
        role=what.role.replace(" ", "_"),
        way=way,
        Way=way.capitalize(),
        tile=_ROLE_TILES.get(word, 128),
        letters="NNT" if way == "bwd" else "TNT",
        digit=len(what.role),
    )


def _collective(what: Communication, number: int, job: Job) -> dict[str, Any]:
    members = _members(what, job)
    shown = ", ".join(map(str, members[: MOST_RANKS - 1]))
    listed = f"[{shown}, ..., {members[-1]}]" if len(members) > MOST_RANKS else str(list(members))
    gathers = what.kind == "all_gather"
    args = {
        "Collective name": _CALLED[what.kind][0],
        "In msg nelems": what.elements // len(what.ranks) if gathers else what.elements,
        "Out msg nelems": what.elements // len(what.ranks) if what.kind == "reduce_scatter" else what.elements,
        "Group size": len(members),
        "dtype": "BFloat16",
        "Process Group Name": _groups(job)[what.group, members],
        "Process Group Ranks": listed,
    }
    if what.kind in ("send", "recv"):
        sends = what.kind == "send"
        args["Dst Rank" if sends else "Src Rank"] = what.ranks[1 if sends else 0]
        return args
    return args | {"Seq": number + 1}


def _members(what: Communication, job: Job) -> tuple[int, ...]:
    """Of its process group: a message goes within the chain of pipeline stages."""
    if what.group != "pp":
        return what.ranks
    stride = job.tensor * job.data
    return tuple(range(min(what.ranks) % stride, job.ranks, stride))


@cache
def _groups(job: Job) -> dict[tuple[str, tuple[int, ...]], str]:
    """Names of process groups: PyTorch numbers them in the order in which they were made."""
    stride = job.tensor * job.data
    listed = [("world", tuple(range(job.ranks)))]
    listed += [(kind, ranks) for kind, those in job.groups().items() if kind != "pp" for ranks in sorted(those)]
    listed += [("pp", tuple(range(first, job.ranks, stride))) for first in range(stride) if job.pipeline > 1]
    return {one: str(number) for number, one in enumerate(listed)}
