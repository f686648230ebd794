import dataclasses

import pytest

from railyard import catalog as catalogue
from railyard.work.training import Layout, Machine, SoftwareProfile, Training


@pytest.fixture(scope="session")
def catalog():
    return catalogue.load()


@pytest.fixture(scope="session")
def h100(catalog):
    return catalog.accelerator("h100-sxm")


@pytest.fixture(scope="session")
def machine(h100):
    """DGX H100 class: NVLink domains of 8, a 400 Gb/s NIC each."""
    return Machine(
        accelerator=h100,
        scale_up_bps=h100.scale_up_collective_bps,
        scale_up_domain=8,
        scale_out_bps=400e9 * 0.92,
        nvls=True,
    )


@pytest.fixture(scope="session")
def job(catalog):
    """Makes a job: `job("llama-3-70b", tp=8, dp=2, global_batch=64)`."""

    def make(
        model="llama-3-70b", *, seq_len=4096, precision="bf16", software=None, causal=True, model_changes=None, **layout
    ):
        layout.setdefault("global_batch", layout.get("dp", 1) * layout.get("micro_batch", 1) * 8)
        entry = catalog.model(model)
        if model_changes:
            entry = dataclasses.replace(entry, **model_changes)
        return Training(
            model=entry,
            layout=Layout(**layout),
            seq_len=seq_len,
            precision=precision,
            causal=causal,
            software=software or SoftwareProfile(name="test"),
        )

    return make
