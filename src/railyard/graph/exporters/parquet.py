"""Tables that data frames read: one row per task, request or flow."""

from railyard.graph import parquet
from railyard.graph.exporters import Exporter, exporters

PARQUET = exporters.add(
    "parquet",
    Exporter(
        name="parquet",
        summary="A table for data frames, which Railyard reads again; side tables are files next to it.",
        suffix=".parquet",
        write=parquet.write_record,
    ),
)
