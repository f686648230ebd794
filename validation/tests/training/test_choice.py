"""What a table leaves open is chosen, and said."""

import csv

import pytest

from railyard import catalog as catalogue
from railyard_validation.training.cases import read_cases

# Narayanan et al. 2021, table 1: 39.1 billion parameters on 512 A100, micro-batch not published.
GPT_39B = {
    "id": "1",
    "tier": "B",
    "source_doc": "Narayanan et al. SC21",
    "model": "GPT-39.1B",
    "layers": "48",
    "hidden": "8192",
    "heads": "64",
    "seq_len": "2048",
    "gpu": "A100-SXM-80GB",
    "n_gpu": "512",
    "precision": "fp16",
    "framework": "Megatron-LM (PTD-P)",
    "tp": "8",
    "pp": "2",
    "dp": "32",
    "micro_batch": "",
    "global_batch_seqs": "1536",
    "recompute": "full",
    "step_time_s": "14.45",
}


@pytest.fixture(scope="module")
def catalog():
    return catalogue.load()


def one_case(tmp_path, catalog, **cells):
    path = tmp_path / "runs.csv"
    with path.open("w", newline="") as handle:
        cells = {**GPT_39B, **cells}
        writer = csv.DictWriter(handle, list(cells))
        writer.writeheader()
        writer.writerow(cells)
    cases, refused = read_cases(path, catalog)
    assert not refused, refused
    return cases[0]


def test_an_unknown_micro_batch_is_the_fastest_that_fits(tmp_path, catalog):
    case = one_case(tmp_path, catalog)
    assert case.training.layout.micro_batch > 1
    assert f"micro-batch {case.training.layout.micro_batch}: the fastest that fits" in case.defaults


def test_a_known_micro_batch_stays(tmp_path, catalog):
    case = one_case(tmp_path, catalog, micro_batch="2")
    assert case.training.layout.micro_batch == 2
    assert not any(line.startswith("micro-batch") for line in case.defaults)


def test_a_micro_batch_that_does_not_fit_is_not_chosen(tmp_path, catalog):
    # Without recomputation the activations of 16 sequences of a 145 billion model are far beyond 80 GB.
    wide = {"layers": "80", "hidden": "12288", "heads": "96", "pp": "8", "dp": "8", "recompute": "none"}
    case = one_case(tmp_path, catalog, **wide)
    assert case.training.layout.micro_batch == 1
