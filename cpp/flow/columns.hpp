#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/time.hpp"

namespace railyard {

/// What a task is; the numbers are those of the graph's `kind` column.
enum class Kind : std::uint8_t {
  compute = 0,
  transfer = 1,
  collective = 2,
  read = 3,   ///< Of storage.
  write = 4,  ///< To storage.
  load = 5,   ///< Of the memory pool.
  store = 6,  ///< To the memory pool.
};

/// The stream on whose tasks only dependencies and release times bear: they never queue behind one another.
inline constexpr std::uint8_t kFreeStream = 12;

/// The tasks, one entry each, as the caller holds them (nothing is copied).
struct GraphColumns {
  std::int32_t ranks = 0;
  std::span<const std::uint8_t> kind;
  std::span<const std::int32_t> rank;         ///< Rank, source, or communicator of a collective.
  std::span<const std::int64_t> duration_ps;  ///< Of computations.
  std::span<const std::uint8_t> stream;
  std::span<const std::int64_t> dep_ptr;      ///< n+1.
  std::span<const std::int32_t> dep_idx;
  std::span<const std::int64_t> comm_ptr;     ///< Members of communicator c: comm_ranks[comm_ptr[c]..comm_ptr[c+1]).
  std::span<const std::int32_t> comm_ranks;
  std::span<const std::int32_t> entity;       ///< Row of EntityColumns of each communication, -1 for computations.
  /// Who slows whom on a rank; empty where nobody does. Of a computation: its row of `loss`; of a communication: the
  /// column that it counts for while it runs; -1: none.
  std::span<const std::int32_t> loss_index = {};
  std::span<const double> loss = {};  ///< Row-major: share of its speed that a computation loses to one of a column.
  std::size_t contenders = 0;    ///< Columns of `loss`.
  std::span<const std::int64_t> release_ps = {};  ///< No task starts earlier; empty where nothing has such a time.
  std::span<const std::int64_t> delay_ps = {};    ///< From when a task may start to its start; empty where there is none.
  /// How many of its dependencies a task of the free stream waits for; empty where every task waits for all.
  std::span<const std::int32_t> need = {};
  /// What jitter is drawn by; empty: by a task's and a rank's number.
  std::span<const std::int64_t> task_key = {};
  std::span<const std::int64_t> rank_key = {};
  std::size_t size() const { return kind.size(); }
};

/// Fluid entities: what a communication does to the links. Many tasks share one row.
struct EntityColumns {
  std::span<const std::int64_t> link_ptr;  ///< m+1.
  std::span<const std::int32_t> link_idx;  ///< No link twice in one row.
  std::span<const double> link_share;      ///< Wire bytes on that link per byte of volume, > 0.
  std::span<const double> volume_bytes;
  std::span<const std::int64_t> latency_ps;  ///< Fixed part before the volume flows.
  std::span<const double> rate_cap_bps;      ///< Bits of volume per second; infinity where none.
  std::span<const double> fair_weight;       ///< Rates grow in proportion to it, > 0.
  /// Bits of volume per second with the network to itself; empty: what its cap and its links allow. WHY: a row may stand
  /// for several entities that do the same, and then puts on a link what all of them do.
  std::span<const double> alone_bps = {};
  std::size_t size() const { return volume_bytes.size(); }
};

/// What happens to links and ranks, sorted by nothing in particular; each row takes effect at `at_ps`.
struct FaultColumns {
  enum class Kind : std::uint8_t {
    link_factor = 0,  ///< Capacity of link `target` becomes nominal x value.
    rank_speed = 1,   ///< Computations of rank `target` proceed at nominal speed x value.
    rank_late = 2,    ///< The computation running on rank `target`, or the next one, takes `value` ps longer.
    rerouted = 3,     ///< From now on entity `target` flows as row `value` says; what flows takes what is left along.
  };
  std::span<const std::int64_t> at_ps;
  std::span<const std::uint8_t> kind;
  std::span<const std::int32_t> target;
  std::span<const double> value;
  std::size_t size() const { return at_ps.size(); }
};

/// Relative spread of computation times: normal-like, mean 1, reproducible by seed.
struct JitterSpec {
  std::uint64_t seed = 0;
  double task_sigma = 0;  ///< Drawn anew for every task.
  double rank_sigma = 0;  ///< Drawn once for every rank.
};

}  // namespace railyard
