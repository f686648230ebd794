"""A device without units for a precision refuses the job; what does not fit shows the smallest layout there is."""

import pytest

from railyard.kit.errors import InputError
from railyard.model.machine import Machine
from railyard.work.training import LayoutError, check_fit, memory
from railyard.work.training import layout as layouts
from railyard.work.training.profiles import default
from railyard.work.training.spec import Layout, Training


def job(catalog, device, precision):
    return Training(
        model=catalog.model("llama-3.1-8b"),
        layout=Layout(global_batch=64, dp=8, tp=8, recompute="full"),
        seq_len=2048,
        software=default(device),
        precision=precision,
    )


@pytest.mark.parametrize(
    ("device", "precision", "allowed"),
    [("h100-sxm", "fp4", "bf16, fp16, fp8"), ("a100-sxm-80gb", "fp8", "bf16, fp16"), ("tpu-v5p", "fp8", "bf16")],
)
def test_a_precision_without_units_is_refused(catalog, device, precision, allowed):
    found = catalog.accelerator(device)
    with pytest.raises(InputError) as caught:
        check_fit(job(catalog, found, precision), found)
    problem = caught.value.problems[0]
    assert (problem.key, problem.found, problem.allowed) == ("precision", precision, allowed)


@pytest.mark.parametrize(("device", "precision"), [("h100-sxm", "fp8"), ("gb200", "fp4"), ("v100-sxm2-32gb", "bf16")])
def test_a_precision_with_units_of_that_width_is_taken(catalog, device, precision):
    found = catalog.accelerator(device)
    assert check_fit(job(catalog, found, precision), found).fits


def test_where_nothing_fits_the_smallest_layout_is_shown(catalog):
    device, model = catalog.accelerator("h100-sxm"), catalog.model("llama-3.1-405b")
    machine = Machine(
        accelerator=device, scale_up_bps=device.scale_up_bps, scale_up_domain=8, scale_out_bps=400e9, nvls=True
    )
    with pytest.raises(LayoutError) as caught:
        layouts.auto(model, machine, 16, global_batch=64, seq_len=8192, software=default(device))
    search = layouts.Search(accelerators=16, domain=8, global_batch=64, seq_len=8192, fixed={})
    job = Training(model=model, layout=Layout(global_batch=64), seq_len=8192, software=default(device))
    smallest = min(
        memory(job.replace(layout=found.replace(recompute="full")), device).fullest.total_bytes
        for found in layouts.layouts(model, search)
    )
    assert caught.value.table.fullest.total_bytes == pytest.approx(smallest)
    assert str(caught.value).splitlines()[-1].strip().startswith("take more accelerators")
