"""An accelerator through PyTorch: CUDA or ROCm, whichever PyTorch was built for. Imported only when it is asked for."""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.ask.calibrate.device import Facts
from railyard.kit.errors import InputError
from railyard.kit.files import die_with_parent, read_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.catalog import Catalog


_REPEATS = 20


def main(arguments: list[str]) -> None:
    """Rank, number of ranks, library and sizes, as `run_collectives` gives them."""
    die_with_parent()
    rank, count, backend = int(arguments[0]), int(arguments[1]), arguments[2]
    torch: Any = import_module("torch")
    distributed = torch.distributed
    place = f"cuda:{rank}" if backend == "nccl" else "cpu"
    if backend == "nccl":
        torch.cuda.set_device(rank)
    store = distributed.FileStore(os.environ["RAILYARD_STORE"], count)
    distributed.init_process_group(backend, store=store, rank=rank, world_size=count)
    rows = []
    for size in map(int, arguments[3].split(",")):
        full = torch.ones(size // 4 // count * count, device=place)
        part = torch.ones(full.numel() // count, device=place)
        for kind, call in _calls(distributed, full, part).items():
            rows.append((kind, size, _seconds(torch, distributed, call, gpu=backend == "nccl")))
    if rank == 0:
        Path(os.environ["RAILYARD_FOUND"]).write_text(json.dumps(rows), encoding="utf-8")
    distributed.barrier()
    distributed.destroy_process_group()


def _calls(distributed: Any, full: Any, part: Any) -> dict[str, Callable[[], object]]:
    calls: dict[str, Callable[[], object]] = {"all-reduce": lambda: distributed.all_reduce(full)}
    calls["all-gather"] = lambda: distributed.all_gather_into_tensor(full, part)
    if distributed.get_backend() == "nccl":
        calls["reduce-scatter"] = lambda: distributed.reduce_scatter_tensor(part, full)
    return calls


def _seconds(torch: Any, distributed: Any, call: Callable[[], object], *, gpu: bool) -> float:
    samples = []
    for _ in range(_REPEATS):
        distributed.barrier()
        if gpu:
            torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        if gpu:
            torch.cuda.synchronize()
        samples.append(time.perf_counter() - begin)
    return statistics.median(samples)


if __name__ == "__main__":
    main(sys.argv[1:])


# Operations of the pass that is recorded to read the gap between kernels, and bytes that each of them moves.
_CHAIN, _CHAIN_BYTES = 40, 2**23


class TorchDevice:
    """The first device of PyTorch's own kind.

    Args:
        place: PyTorch's name of the device: `cuda` (ROCm answers to it too), or `cpu`, where kernels run in turn.

    Raises:
        InputError: There is no PyTorch, or it sees no accelerator.
    """

    # Out of memory, no kernel for a shape or type: all of PyTorch's are RuntimeErrors.
    refusals: tuple[type[Exception], ...] = (RuntimeError,)

    def __init__(self, place: str = "cuda") -> None:
        try:
            self.torch: Any = import_module("torch")
        except ImportError as error:
            raise InputError(
                f"PyTorch cannot be imported: {error}",
                key="device",
                hint="`pip install torch` on the machine of the accelerator, or `--device cpu` to try the procedure",
            ) from error
        if place == "cuda" and not self.torch.cuda.is_available():
            raise InputError(
                f"PyTorch {self.torch.__version__} sees no accelerator",
                key="device",
                hint="its build must be for CUDA or ROCm and the driver must be loaded; `--device cpu` needs neither",
            )
        self.place = place
        self.gpu = place == "cuda"
        self.wide = self.torch.bfloat16
        self.datatypes: tuple[str, ...] = ("bf16", "fp16", *(("fp8",) if self._narrow() is not None else ()))

    def _narrow(self) -> Any:
        """The 8-bit type that the device multiplies, or None."""
        torch = self.torch
        if not self.gpu or not hasattr(torch, "_scaled_mm"):
            return None
        if torch.version.hip:
            name = torch.cuda.get_device_properties(0).gcnArchName
            return torch.float8_e4m3fnuz if name.startswith("gfx94") else getattr(torch, "float8_e4m3fn", None)
        return torch.float8_e4m3fn if torch.cuda.get_device_capability(0) >= (8, 9) else None

    def _made(self, *shape: int, dtype: Any = None) -> Any:
        return self.torch.randn(*shape, device=self.place, dtype=dtype or self.wide)

    def facts(self) -> Facts:
        """Device, driver, libraries, and what the vendor's tool reads while the device works."""
        torch = self.torch
        libraries = {"Python": platform.python_version(), "PyTorch": str(torch.__version__)}
        if torch.version.hip:
            libraries["ROCm"] = str(torch.version.hip)
        elif torch.version.cuda:
            libraries["CUDA"] = str(torch.version.cuda)
        if self.gpu and torch.backends.cudnn.is_available():
            libraries["cuDNN" if not torch.version.hip else "MIOpen"] = str(torch.backends.cudnn.version())
        driver, readings = self._readings()
        return Facts(
            name=torch.cuda.get_device_name(0) if self.gpu else platform.processor() or platform.machine(),
            machine=f"{platform.node() or 'a host without a name'} ({platform.system()} {platform.release()})",
            driver=driver,
            libraries=libraries,
            readings=readings,
            devices=torch.cuda.device_count() if self.gpu else 1,
        )

    def _readings(self) -> tuple[str, dict[str, str]]:
        """Driver version, and clock, power, power limit and temperature under load."""
        tool = shutil.which("nvidia-smi")
        if not self.gpu or not tool or self.torch.version.hip:
            return "", {}
        names = ("driver_version", "clocks.sm", "power.draw", "power.limit", "temperature.gpu")
        asked = [tool, "-i", "0", f"--query-gpu={','.join(names)}", "--format=csv,noheader"]
        call = self.product(8192, 8192, 8192, "bf16")
        try:
            with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as reader:
                # Kept at work while the tool reads, or it would read the clock and the power of rest.
                while reader.poll() is None and call is not None:
                    self.seconds(call, 10)
                output = reader.stdout.read() if reader.stdout else ""
        except OSError:
            return "", {}
        if not output.strip():
            return "", {}
        driver, *values = (value.strip() for value in output.splitlines()[0].split(","))
        return driver, dict(zip(("clock", "power", "power limit", "temperature, C"), values, strict=False))

    def entry(self, catalog: Catalog, name: str | None) -> tuple[str, str]:
        """The catalogue's entry under the driver's name for the device, or the one that was asked for.

        Raises:
            InputError: The catalogue knows none of that name.
        """
        if name is not None:
            return catalog.resolve("accelerators", name), ""
        device_name = self.torch.cuda.get_device_name(0) if self.gpu else "cpu"
        found = catalog.accelerator_called(device_name, self._memory_gib())
        if found is not None:
            return found, ""
        raise InputError(
            f"the catalogue has no accelerator `{device_name}`",
            key="entry",
            found=device_name,
            hint="name its entry with `--entry`; `railyard catalog list accelerators` shows them",
        )

    def _memory_gib(self) -> float:
        return float(self.torch.cuda.get_device_properties(0).total_memory) / 2**30 if self.gpu else 0.0

    def product(self, m: int, n: int, k: int, datatype: str) -> Callable[[], object] | None:
        """A product with the operands of a linear layer: tokens by a transposed weight."""
        torch = self.torch
        if datatype not in self.datatypes:
            return None
        if datatype == "fp8":
            narrow, one = self._narrow(), torch.ones((), device=self.place)
            left, weight = self._made(m, k).to(narrow), self._made(n, k).to(narrow)
            return lambda: torch._scaled_mm(left, weight.t(), scale_a=one, scale_b=one, out_dtype=self.wide)
        dtype = torch.bfloat16 if datatype == "bf16" else torch.float16
        left, weight = self._made(m, k, dtype=dtype), self._made(n, k, dtype=dtype)
        return lambda: torch.matmul(left, weight.t())

    def grouped(self, experts: int, m: int, n: int, k: int) -> Callable[[], object] | None:
        """PyTorch's own grouped product where it has one, else a batch."""
        torch = self.torch
        right = self._made(experts, k, n)
        kernel = getattr(torch, "_grouped_mm", None)
        if self.gpu and kernel is not None and torch.cuda.get_device_capability(0) >= (9, 0) and not torch.version.hip:
            left = self._made(experts * m, k)
            ends = torch.arange(m, experts * m + 1, m, device=self.place, dtype=torch.int32)
            columns = right.transpose(1, 2).contiguous().transpose(1, 2)
            return lambda: kernel(left, columns, offs=ends)
        batch = self._made(experts, m, k)
        return lambda: torch.bmm(batch, right)

    def attention(
        self, batch: int, heads: int, sequence: int, width: int, *, backward: bool
    ) -> Callable[[], object] | None:
        """PyTorch's fused attention."""
        attend = self.torch.nn.functional.scaled_dot_product_attention
        query, key, value = (self._made(batch, heads, sequence, width).requires_grad_(backward) for _ in range(3))
        if not backward:
            return lambda: attend(query, key, value, is_causal=True)
        grad = self._made(batch, heads, sequence, width)

        def both() -> object:
            return self.torch.autograd.grad(attend(query, key, value, is_causal=True), (query, key, value), grad)

        return both

    def copy(self, size_bytes: int) -> Callable[[], object]:
        """A copy in the device's memory."""
        source = self.torch.zeros(size_bytes // 2, dtype=self.wide, device=self.place)
        target = self.torch.empty_like(source)
        return lambda: target.copy_(source)

    def norm_bytes(self, rows: int, width: int) -> int:
        """16-bit values, read and written."""
        return 2 * rows * width * 2

    def norm(self, rows: int, width: int) -> Callable[[], object]:
        """PyTorch's layer norm, which is one kernel."""
        taken, weight = self._made(rows, width), self._made(width)
        norm = self.torch.nn.functional.layer_norm
        return lambda: norm(taken, (width,), weight)

    def tiny(self) -> Callable[[], object]:
        """One addition."""
        one = self.torch.zeros(1, device=self.place)
        return lambda: one.add_(1.0)

    def seconds(self, call: Callable[[], object], repeats: int) -> float:
        """Seconds by the device's own events."""
        if not self.gpu:
            return self.host_seconds(call, repeats)
        cuda = self.torch.cuda
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda.synchronize()
        begin.record()
        for _ in range(repeats):
            call()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3

    def host_seconds(self, call: Callable[[], object], repeats: int) -> float:
        """Launches without waiting for the device."""
        if self.gpu:
            self.torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        return time.perf_counter() - begin

    def gap_s(self, repeats: int) -> float:
        """Many passes against one over as many bytes, both recorded as a graph, so that the host does not count."""
        if not self.gpu:
            return self.host_seconds(self.tiny(), repeats) / repeats
        parts = [self._pass(_CHAIN_BYTES) for _ in range(_CHAIN)]
        single_call = self._pass(_CHAIN * _CHAIN_BYTES)

        def all_parts() -> None:
            for part in parts:
                part()

        chain, single = (self._recorded(call) for call in (all_parts, single_call))
        chain(), single()
        rounds = max(5, repeats // _CHAIN)
        longer = sorted(self.seconds(chain, 1) - self.seconds(single, 1) for _ in range(rounds))[rounds // 2]
        return max(longer / (_CHAIN - 1), 0.0)

    def _pass(self, size_bytes: int) -> Callable[[], object]:
        """A kernel over so many bytes; a copy could be made by an engine of its own."""
        source = self.torch.zeros(size_bytes // 2, dtype=self.wide, device=self.place)
        target = self.torch.empty_like(source)
        return lambda: self.torch.neg(source, out=target)

    def _recorded(self, call: Callable[[], object]) -> Callable[[], object]:
        torch = self.torch
        call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        again: Callable[[], object] = graph.replay
        return again

    def collectives(self, sizes_bytes: tuple[int, ...]) -> dict[tuple[str, int], float]:
        """NCCL or RCCL over all devices of the machine, a process each."""
        count = self.torch.cuda.device_count() if self.gpu else 1
        if count < 2 or not sizes_bytes or not self.torch.distributed.is_available():
            return {}
        return run_collectives(count, "nccl", sizes_bytes)


def run_collectives(count: int, backend: str, sizes_bytes: tuple[int, ...]) -> dict[tuple[str, int], float]:
    """Times collectives in processes of their own, one a device.

    Returns:
        Seconds by kind and size.

    Raises:
        InputError: The collective library does not run on this machine.
    """
    with tempfile.TemporaryDirectory(prefix="railyard-collectives-") as folder:
        found = Path(folder) / "found.json"
        command = [sys.executable, "-m", "railyard.ask.calibrate.torch_device"]
        shared = {"RAILYARD_STORE": str(Path(folder) / "store"), "RAILYARD_FOUND": str(found)}
        words = [str(count), backend, ",".join(map(str, sizes_bytes))]
        workers = [
            subprocess.Popen(
                [*command, str(rank), *words],
                env={**os.environ, **shared},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                text=True,
            )
            for rank in range(count)
        ]
        try:
            _, errors = workers[0].communicate(timeout=300)
            codes = [worker.wait(timeout=60) for worker in workers]
        except subprocess.TimeoutExpired as error:
            raise InputError(f"collectives over {count} devices did not end within {error.timeout:.0f} s") from error
        finally:
            for worker in workers:
                worker.kill()
        if any(codes):
            last = (errors or "").strip().splitlines()[-1:] or ["no message"]
            raise InputError(
                f"collectives over {count} devices failed: {last[0]}", hint="`--no-collectives` skips them"
            )
        rows = json.loads(read_text(found))
    return {(kind, size): seconds for kind, size, seconds in rows}
