"""Traces of training jobs whose faults are known, written as PyTorch's profiler writes them.

A job is a scripted list of kernels and communications per rank (`job.py`), played with streams, launches and waiting
(`play.py`) and written as Kineto writes it (`kineto.py`). `cases.py` draws jobs and what is wrong with them, `judge.py`
compares answers of `railyard diagnose` with the truth. None of it uses Railyard's engines or its readers: a diagnosis
that is right here does not merely undo the simulator.
"""
