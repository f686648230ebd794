"""Traces of requests: public formats and Railyard's own, one file a format; the record in it is its registration."""

from railyard.work.serving.traces.formats import FORMATS, TraceFormat
from railyard.work.serving.traces.railyard_csv import write_trace
from railyard.work.serving.traces.reading import read_lengths, read_trace, stream_trace

__all__ = ["FORMATS", "TraceFormat", "read_lengths", "read_trace", "stream_trace", "write_trace"]
