"""NCCL's (and RCCL's) files of a machine: its topology and the graphs it is searched for, read and written."""
