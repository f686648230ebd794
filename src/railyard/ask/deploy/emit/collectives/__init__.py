"""What a scenario fixes about collectives, as files of servers: for NCCL, MSCCL and MSCCL++."""
