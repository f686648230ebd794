"""The choice of algorithm and protocol that NCCL and RCCL would make, rewritten from their published cost models."""
