"""Logs of nccl-tests and rccl-tests: read, their machine built of catalogue parts, their rows predicted."""
