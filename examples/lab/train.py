"""A small data-parallel job in plain torch.distributed: nothing in it knows of a lab.

railyard lab exec examples/lab/lab.yaml --dilation 2000 -- python examples/lab/train.py traces/
railyard observe traces/
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile


def main(folder: Path) -> None:
    """A few steps, the last two of them traced."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8))))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.randn(16, 512)).square().mean().backward()
        optimizer.step()

    step()
    with profile(activities=[ProfilerActivity.CPU]) as trace:
        step()
        step()
    folder.mkdir(parents=True, exist_ok=True)
    trace.export_chrome_trace(str(folder / f"rank-{dist.get_rank()}.json"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
