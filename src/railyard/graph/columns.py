"""Columns of records, each declared once: its type, its unit and what it says; files and documentation follow from it.

A record has the columns of `CORE` always, those of `COLUMNS` where they are known, and side tables of `TABLES`. A
package that records something else adds its columns to these registries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: With its unit, where it has one.
        dtype: Of NumPy, by name.
        sentence: What it says; -1 where it does not apply or did not happen, unless the sentence says otherwise.
        moment: Whether it is a time that may never come: -1 in memory, null in a file.
    """

    name: str
    dtype: str
    sentence: str
    moment: bool = False

    @property
    def unit(self) -> str:
        """Unit of its values, from the end of the name; empty for counts and indices."""
        word = self.name.rpartition("_")[2]
        return {"ps": "ps", "s": "s", "bytes": "bytes", "bps": "bit/s", "j": "J", "tokens": "tokens"}.get(word, "")

    def checked(self, values: NDArray[np.generic], length: int, where: str) -> None:
        """Refuses what is of another type or length.

        Raises:
            InputError: Names the column.
        """
        if values.dtype != np.dtype(self.dtype):
            raise InputError(f"column `{self.name}` of {where}", found=values.dtype, allowed=self.dtype)
        if len(values) != length:
            raise InputError(f"column `{self.name}` of {where}", found=f"{len(values)} rows", allowed=f"{length} rows")


@dataclass(frozen=True)
class TableKind:
    """A side table."""

    sentence: str
    columns: dict[str, Column]


def _columns(*columns: Column) -> dict[str, Column]:
    return {column.name: column for column in columns}


CORE = _columns(
    Column("who", "int32", "Whose row it is; see the kind of row."),
    Column("what", "int32", "Row of the label table."),
    Column("start_ps", "int64", "When it started.", moment=True),
    Column("end_ps", "int64", "When it ended.", moment=True),
    Column("size_bytes", "int64", "Bytes that it moved; 0 where it moved none or nobody counted."),
)
"""Columns of every record."""

ROWS: Registry[str] = Registry("kind of row")
"""Meanings of the rows of a record, with their owners."""

ROWS.add("tasks", "a task of a graph; who: its rank, or the communicator of a collective")
ROWS.add("requests", "a request; who: the replica that computed its prompt, -1 for none")
ROWS.add(
    "journeys",
    "a request through stages; who: the stage, a number among the parts, whose end was the request's, -1 for none",
)
ROWS.add("visits", "a request at one stage; who: the request, a row of the record that this is a part of")
ROWS.add("kernels", "a kernel, copy or communication of a measured trace; who: the rank that it ran on")
ROWS.add("flows", "a flow between two hosts, or work on one host; who: the host that sends")

COLUMNS: Registry[Column] = Registry("column of a record")
"""Optional columns of a record."""

for _column in (
    Column("blocker", "int32", "The row whose end let this one start; -1: nothing did."),
    Column(
        "alone_ps",
        "int64",
        "How long a communication takes with the network to itself and its flows spread evenly over equal links, 0 for "
        "computation. What it takes longer is contention, with others or (where flows are hashed) among its own.",
    ),
    Column("latency_ps", "int64", "The part of `alone_ps` that does not shrink with bandwidth."),
    Column("slowed_ps", "int64", "How much longer a computation took because of communications at the same time."),
    Column("communicator", "int32", "Of a measured communication, its communicator, a row of `meta.communicators`."),
    Column("sequence", "int64", "Of a measured communication, its number in its communicator."),
    Column("stream", "int64", "Of a measured kernel, the stream of its device."),
    Column("step", "int32", "Of a measured kernel, its step, a place in `meta.steps`."),
    Column("blocks", "int64", "Of a measured kernel, the thread blocks of its grid; 0 where nobody noted them."),
    Column("flow", "int64", "Number of a flow in its file, from 1 on."),
    Column("line", "int32", "Line of the file with the flow, 0 where there is none."),
    Column("source", "int32", "Host that sends a flow: `who`."),
    Column("job", "int32", "The job that it belongs to, where there are several."),
    Column("target", "int32", "Host that receives a flow."),
    Column("finish_ps", "int64", "When its sender had the last acknowledgement: `end_ps`.", moment=True),
    Column("fct_ps", "int64", "Flow completion time, from its start to the last acknowledgement.", moment=True),
    Column("receiver_finish_ps", "int64", "When its receiver had the last byte of a flow.", moment=True),
    Column("paused_ps", "int64", "How long packets of a flow waited at paused egresses, summed."),
    Column("victim_ps", "int64", "How much of that for the sake of a queue that they did not go to."),
    Column("victim_of", "int32", "Whose queue, a link, that mostly was."),
    Column("decode_replica", "int32", "Replica that decoded a request."),
    Column("admitted_ps", "int64", "When it left the queue for the first time.", moment=True),
    Column("prefill_start_ps", "int64", "Start of its first iteration.", moment=True),
    Column("first_token_ps", "int64", "End of the iteration that brought its first token.", moment=True),
    Column("cached_tokens", "int64", "Not computed, being in the replica's cache."),
    Column("loaded_tokens", "int64", "Not computed, being loaded from tiers below it."),
    Column("moved_tokens", "int64", "Not computed, being moved from another replica."),
    Column("generated_tokens", "int64", "That came out."),
    Column("preemptions", "int32", "How often it had to give way."),
    Column("requeued", "int32", "How often it lost its replica."),
    Column("transfer_start_ps", "int64", "When its KV cache began to travel from prefill to decode.", moment=True),
    Column("transfer_end_ps", "int64", "When all of its KV cache was there.", moment=True),
    Column("collectives_prefill_ps", "int64", "Collectives that nothing hid in its iterations up to the first token."),
    Column("collectives_ps", "int64", "Collectives that nothing hid in all of its iterations."),
    Column("status", "uint8", "0 done; 1 dropped, longer than any replica's cache; 2 unfinished when the run ended."),
    Column("predecessor", "int32", "Stage whose end let a request come to this one; -1: it came as it was asked."),
    Column("travel_ps", "int64", "How long its data were on their way from there, up to its start."),
    Column("queue_s", "float64", "Of its time at a stage, waiting."),
    Column("compute_s", "float64", "Of its time at a stage, computing."),
    Column("collectives_s", "float64", "Of its time at a stage, collectives that nothing hid."),
    Column("transfer_s", "float64", "Of its time at a stage, data on their way."),
    Column("first_queue_s", "float64", "Of its time at a stage up to the first token, waiting."),
    Column("first_compute_s", "float64", "Of its time at a stage up to the first token, computing."),
    Column(
        "first_collectives_s", "float64", "Of its time at a stage up to the first token, collectives that nothing hid."
    ),
    Column("first_transfer_s", "float64", "Of its time at a stage up to the first token, data on their way."),
    Column("decode_collectives_s", "float64", "Collectives that nothing hid, for each further token."),
):
    COLUMNS.add(_column.name, _column)

TABLES: Registry[TableKind] = Registry("side table of a record")
"""Side tables that a record may have."""


def _table(name: str, sentence: str, *columns: Column) -> None:
    TABLES.add(name, TableKind(sentence, _columns(*columns)))


_table(
    "links",
    "a directed link",
    Column("bytes", "float64", "On its wire, headers, acknowledgements and retransmissions included."),
    Column("full_ps", "int64", "How long it carried all that it can: its egress marks packets or lets them wait."),
    Column("paused_ps", "int64", "How long its egress was paused, any class."),
    Column("longest_pause_ps", "int64", "The longest of those times."),
    Column("pauses", "int32", "How often."),
    Column(
        "pause_origin",
        "int32",
        "The link whose queue caused most of that time: the head of the tree of pauses, an egress that was "
        "full though nobody paused it.",
    ),
)
_table(
    "sampled_links",
    "a link that was sampled",
    Column("link", "int32", "Its number."),
    Column("rate_bps", "float64", "Its line rate."),
)
_table(
    "link_series",
    "a sampling time; columns of two dimensions have one entry a row of `sampled_links`",
    Column("time_ps", "int64", "Start of the sample."),
    Column("utilization", "float32", "Share of the line rate in the sample, 0 to 1."),
)
_table(
    "link_windows",
    "a window of time; columns of two dimensions have one entry a directed link",
    Column("time_ps", "int64", "Start of the window; it ends where the next one begins."),
    Column("load", "uint8", "Mean load of the link in the window, in 255ths of its rate."),
)
_table(
    "queue_series",
    "a sampling time; columns of two dimensions have one entry a row of `sampled_links`",
    Column("time_ps", "int64", "When."),
    Column("depth_bytes", "int64", "Bytes waiting and in service."),
    Column("carried_bytes", "int64", "Bytes on the wire since the start."),
    Column("marks", "int64", "Packets marked since the start."),
    Column("paused_ps", "int64", "Time stopped by the neighbour since the start."),
)
_table(
    "background",
    "a flow of background traffic",
    Column("row", "int64", "Its row in the record."),
    Column("alone_ps", "int64", "How long it takes on a network without the job."),
)
_table(
    "sampled_flows",
    "a flow that was sampled",
    Column("flow", "int32", "Its row in the record."),
)
_table(
    "flow_series",
    "a sampling time; columns of two dimensions have one entry a row of `sampled_flows`",
    Column("time_ps", "int64", "When."),
    Column("window_bytes", "int64", "Congestion window, 0 without one."),
    Column("rate_bps", "float64", "Sending rate, 0 without one."),
)
_table(
    "replicas",
    "totals of a replica",
    Column("pool", "int32", "Number of its pool."),
    Column("busy_ps", "int64", "Time with an iteration under way, of the slowest of several stages."),
    Column("loads", "int64", "Times that its weights came over links."),
    Column("load_ps", "int64", "How long that took, summed."),
    Column("slowed_ps", "int64", "Of `busy_ps`, what collectives lost to transfers over the same NICs."),
    Column("up_ps", "int64", "Time that it was there."),
    Column("iterations", "int64", "Iterations."),
    Column("input_tokens", "int64", "Computed by prefills, recomputed ones included."),
    Column("output_tokens", "int64", "That came out."),
    Column("cached_tokens", "int64", "Not computed, being in the replica's own cache."),
    Column("loaded_tokens", "int64", "Not computed, being loaded from host memory or the store."),
    Column("moved_tokens", "int64", "Not computed, being moved from another replica."),
    Column("preemptions", "int64", "Of its requests."),
    Column("kv_peak_blocks", "int64", "Most blocks in use at once."),
    Column("kv_used_blocks", "int64", "Blocks in use at the end."),
    Column("tokens", "int64", "Of all iterations together, drafts included."),
    Column("kv_tokens", "float64", "Keys that decodes looked at."),
    Column("pairs", "float64", "Query and key pairs of prefills."),
    Column("energy_j", "float64", "idle_w x up + busy_w x busy + the costs by token, key and pair."),
)
_table(
    "gaps",
    "a bin of the gaps between two tokens of a request, over all requests",
    Column("lower_ps", "int64", "Lower edge."),
    Column("upper_ps", "int64", "Upper edge."),
    Column("count", "int64", "Gaps in it."),
)
_table(
    "iterations",
    "a run of like iterations of a logged replica",
    Column("replica", "int32", "Which."),
    Column("start_ps", "int64", "Start of the first."),
    Column("end_ps", "int64", "End of the last."),
    Column("count", "int64", "How many."),
    Column("tokens", "int64", "In each."),
    Column("decodes", "int64", "Of them, tokens of requests past their prompt."),
    Column("kv_tokens", "int64", "Keys that decodes looked at."),
)
_table(
    "batches",
    "a request in an iteration of a logged replica",
    Column("iteration", "int64", "Row of `iterations`."),
    Column("request", "int64", "Number in the order of arrival."),
    Column("tokens", "int64", "Its tokens in each; 0: it was preempted just before."),
    Column("admitted", "int64", "Tokens computed or cached when it was admitted here; -1: it ran before."),
)
