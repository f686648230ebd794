#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "flow/columns.hpp"
#include "flow/sharing.hpp"

namespace railyard {

/// How to run.
struct Options {
  JitterSpec jitter;
  bool contention = true;  ///< Off: every communication proceeds as if it had the network to itself.
  std::span<const std::int32_t> probe_links;  ///< Links whose load over time is recorded.
  std::uint32_t probe_samples = 0;            ///< At most so many samples; 0 records nothing.
  bool count_full = false;                    ///< Counts how long each link is full.
};

/// What happened.
struct Result {
  enum class Outcome : std::uint8_t {
    finished = 0,
    cycle = 1,    ///< `stuck` holds tasks that form a dependency cycle.
    stalled = 2,  ///< `stuck` holds communications that wait for links without capacity.
  };
  BigVector<Ps> start_ps, end_ps;       ///< -1 where a task did not start or end.
  BigVector<std::int32_t> blocker;      ///< The task whose end let this one start, -1 when none.
  BigVector<Ps> contention_ps;              ///< Longer by communications beside it; empty when nothing is slowed that way.
  std::vector<double> link_bytes;       ///< On the wire, of all that ended.
  std::vector<Ps> link_full_ps;         ///< How long each carried all that it can; empty where nobody counts.
  std::vector<std::int32_t> stuck;
  std::vector<Ps> stuck_since_ps;  ///< Start of each where the run is stalled.
  std::vector<std::int32_t> idle_faults;  ///< Rows of rank_late that met no computation.
  std::vector<double> probe_bytes;      ///< [sample][link] row-major, by integration of rates over time.
  Ps probe_interval_ps = 0;
  Outcome outcome = Outcome::finished;
  std::uint64_t events = 0;
  Sharing::Effort effort;
};

/// Called now and then with the tasks that have ended and the simulated time; may throw to end the run.
using Poll = std::function<void(std::uint64_t, Ps)>;

/// Runs the graph to its end. A function of its arguments: same bits on every machine.
/// Throws std::invalid_argument when the columns do not fit together.
Result simulate(const GraphColumns& graph, const EntityColumns& entities, std::span<const double> capacity_bps,
                const FaultColumns& faults, const Options& options, const Poll& poll);

/// The max-min fair rates (bits of volume per second) of all entities flowing at once, by the code the engine runs.
std::vector<double> max_min(const EntityColumns& entities, std::span<const double> capacity_bps);

}  // namespace railyard
