#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace railyard::measure {

/// Causes of a picosecond of a rank's compute stream; src/railyard/measure/decompose.py says what each is.
enum class Cause : std::uint8_t {
  compute,
  latency,
  bandwidth,
  contention,
  straggler,
  bubble,
  data,
  checkpoint,
  fault,
  dependency,
  release,
};
inline constexpr std::size_t kCauses = 11;

/// Where a task runs.
enum class Place : std::uint8_t { elsewhere, in_turn, overlapping };

/// The tasks of a step, n rows, and what happened to them.
struct StepColumns {
  std::span<const std::uint8_t> kind;   ///< A `Kind`.
  std::span<const std::uint8_t> place;  ///< A `Place`: on the compute stream of its rank or ranks, or not.
  std::span<const std::int32_t> rank;   ///< Rank, source, or communicator of a collective.
  std::span<const std::int32_t> label;
  std::span<const std::int32_t> blocker;  ///< -1: none.
  std::span<const std::int64_t> start_ps, end_ps, duration_ps, alone_ps, latency_ps;
  std::span<const std::int64_t> slowed_ps;  ///< Empty: communications slow no computation.
  std::span<const std::uint8_t> timed;      ///< Whether the work itself delays it; empty: of no task.
  std::span<const std::int64_t> comm_ptr;   ///< Members of communicator c: comm_ranks[comm_ptr[c]..comm_ptr[c+1]).
  std::span<const std::int32_t> comm_ranks;
  std::span<const std::int64_t> stage;  ///< One a rank: ranks of one pipeline stage share a number.
};

/// Labels as numbers: phase and group of each (group 0: none, 1: the pipeline), whether it is of data or checkpoints.
struct LabelColumns {
  std::span<const std::int64_t> phase, group;
  std::span<const std::uint8_t> data, checkpoint;
  std::size_t phases, groups;
};

struct Charges {
  std::vector<std::int64_t> cells_ps;       ///< Sums over ranks by cause, group and phase.
  std::vector<std::int64_t> by_rank_ps;     ///< By rank and cause; each rank's sum to the length of the step.
  std::vector<std::int64_t> waited_for_ps;  ///< By rank: straggler time of other ranks that it caused.
  std::vector<std::uint8_t> straggled;      ///< By task: 1 for a collective in which a rank waited for a straggler.
  bool cycle = false;                       ///< Whether blockers form a cycle; then nothing else counts.
  std::vector<std::int64_t> overlap;        ///< Rank, task and free time of the first one that starts before its turn.
};

/// Splits every rank's step into causes that sum to it exactly.
///
/// A computation on a rank's compute stream is charged to itself. A wait is followed back along the chain of blockers
/// of the task that ends it: read backwards, what these did tiles the wait without gap or overlap. After its last task
/// a rank waits for its own other streams, then for the last task of all, as the next step starts everywhere at once.
///
/// A communication that took d, or a when alone, with latency l, splits into latency l, bandwidth a - l and contention
/// d - a. If only x of it was exposed, contention is charged first, min(x, d - a), because without contention exactly
/// that would not have been waited for. The rest is split between latency and bandwidth in proportion.
///
/// Why was a member of a collective late? Usually it just computes while others wait, as they did before, which
/// explains nothing. So its chain of blockers is followed into the past, beyond the start of the wait, until the time
/// is explained by a computation that ran longer than its nominal duration (a straggler, whichever rank it is), by
/// contention of a communication that ended before the wait began, or by a delay before a task that nothing blocked
/// (a straggler); or until a collective that the waiting rank took part in too: both left it together. Time that stays
/// unexplained is `bubble` if the late member had waited in its pipeline, otherwise `straggler` (its work was larger).
///
/// Throws std::invalid_argument where columns do not fit together.
Charges decompose(const StepColumns& step, const LabelColumns& labels);

}  // namespace railyard::measure
