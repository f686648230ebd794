"""`alibaba`: pods of Alibaba's GPU cluster trace of 2023; a pod with a part of a GPU counts as one GPU."""

from __future__ import annotations

from railyard.kit.errors import InputError
from railyard.work.operate.trace import Row, TraceFormat, formats, integer, number
from railyard.work.operate.tree import UNNAMED


def _row(text: dict[str, str]) -> Row | None:
    if not text["deletion_time"] or integer(text, "num_gpu") == 0:
        return None
    begin, end = number(text, "creation_time"), number(text, "deletion_time")
    if end < begin:
        raise InputError("a pod is deleted before it is made", key="deletion_time", found=end, allowed=f"{begin:g} on")
    return Row(text["name"], begin, end - begin, integer(text, "num_gpu"), text["qos"] or UNNAMED)


ALIBABA = formats.add(
    "alibaba",
    TraceFormat(
        "alibaba",
        "Alibaba cluster-trace-gpu-v2023: pods with creation and deletion times in seconds.",
        ("name", "num_gpu", "gpu_milli", "qos", "creation_time", "deletion_time"),
        _row,
        "https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2023",
    ),
)
