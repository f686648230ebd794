#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serving/deployment.hpp"

namespace railyard::serving {

enum class Status : std::uint8_t {
  done = 0,
  dropped = 1,     ///< No replica can ever hold it.
  unfinished = 2,  ///< The run ended before it.
};

/// Requests that have left, one entry each; -1 where something did not happen.
struct Finished {
  std::vector<std::int64_t> request;  ///< Number in the order of feeding, from 0.
  std::vector<std::int32_t> replica, decode_replica;
  std::vector<std::int64_t> sent_ps, admitted_ps, prefill_start_ps, first_token_ps, done_ps;
  std::vector<std::int64_t> cached_tokens, loaded_tokens;  ///< Not computed: from the replica's own cache, from tiers below it ...
  std::vector<std::int64_t> moved_tokens;                  ///< ... and from other replicas.
  std::vector<std::int32_t> preemptions, requeued;
  std::vector<std::int64_t> transfer_start_ps, transfer_end_ps;
  std::vector<std::int64_t> network_prefill_ps, network_ps;  ///< Exposed collectives, up to the first token and in all.
  std::vector<std::int64_t> output_tokens;                   ///< Emitted.
  std::vector<std::uint8_t> status;
};

/// Totals of each replica.
struct ReplicaTotals {
  std::vector<std::int64_t> loads, load_ps;  ///< Times that weights were loaded over links, and how long that took in all.
  std::vector<std::int64_t> slowed_ps;  ///< Of busy_ps: what collectives lost to transfers on the same NICs.
  std::vector<std::int64_t> busy_ps, up_ps, iterations, input_tokens, output_tokens, kv_peak_blocks, kv_used_blocks;
  std::vector<std::int64_t> cached_tokens, loaded_tokens, moved_tokens, preemptions, tokens;
  std::vector<double> kv_tokens, pairs;  ///< Keys that decodes looked at; query x key pairs of prefills.
};

/// Iterations of the logged replicas; `count` > 1: so many of them in a row, alike but for the growing context.
struct IterationLog {
  std::vector<std::int32_t> replica;
  std::vector<std::int64_t> start_ps, end_ps, count, tokens, decodes, kv_tokens;
  /// Who is in them: row above, request, its tokens (0: it was preempted before), and what was computed of it when it was
  /// admitted to this iteration (-1: it ran before).
  std::vector<std::int64_t> item_iteration, item_request, item_tokens, item_admitted;
};

/// Called now and then with the requests that have left and the simulated time; may throw to end the run.
using Poll = std::function<void(std::uint64_t, Ps)>;

/// Serving, request by request. Feed, run, drain; again as often as there are requests. A function of its arguments: the
/// same bits on every machine, however the requests are cut into chunks.
class Simulation {
 public:
  /// Throws std::invalid_argument when the deployment does not fit together.
  Simulation(const Deployment& deployment, const Options& options);
  ~Simulation();

  /// Copies the columns. Throws std::invalid_argument when they do not fit together.
  void feed(const RequestColumns& requests);
  /// Up to the time of the last request fed; to the end when it was the `last`.
  void run(bool last, const Poll& poll);
  /// What has left since the last drain.
  Finished drain();

  bool overloaded() const;
  Ps now() const;
  std::uint64_t events() const;
  ReplicaTotals totals() const;
  IterationLog log() const;
  std::vector<double> link_bytes() const;
  /// Gaps between tokens of one request, decode by decode: [gap_lower_ps(i), gap_lower_ps(i+1)) happened so often.
  std::vector<std::int64_t> gaps() const;
  static std::vector<std::int64_t> gap_lower_ps();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace railyard::serving
