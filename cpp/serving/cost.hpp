#pragma once

#include <cstdint>
#include <vector>

#include "serving/deployment.hpp"
#include "serving/fine.hpp"

namespace railyard::serving {

/// What an iteration consists of.
struct Load {
  std::int64_t tokens = 0, sequences = 0;
  std::int64_t decodes = 0;    ///< Sequences that decode, and the keys that they look at.
  std::int64_t kv_tokens = 0;
  i128 pairs = 0;              ///< Query x key pairs of the prefills.
};

/// The law of CostSpec in fixed point.
class Cost {
 public:
  /// PRE: the table reaches max_tokens, that of replicas in lockstep so many times as much.
  Cost(const CostSpec& spec, std::int64_t max_tokens, std::int64_t lockstep = 1);

  Fine time(const Load& load) const;
  /// Of `count` iterations of which the first is `load`, all of decodes only, each with one more token a sequence.
  Fine run_time(const Load& load, std::int64_t count) const;
  /// The largest count, up to `limit`, whose run_time is less than `span`, when each takes `more` on top.
  std::int64_t run_within(const Load& load, Fine span, std::int64_t limit, Fine more = 0) const;
  /// Collectives that nothing hides, in an iteration of so many tokens.
  Fine network(std::int64_t tokens) const { return network_[static_cast<std::size_t>(tokens)]; }
  /// What all tokens of replicas in lockstep take together; of it, collectives.
  Fine joint(std::int64_t tokens) const { return joint_.empty() ? 0 : joint_[static_cast<std::size_t>(tokens)]; }
  Fine joint_network(std::int64_t tokens) const { return joint_.empty() ? 0 : joint_network_[static_cast<std::size_t>(tokens)]; }
  /// How much longer collectives over NICs may take until an iteration does.
  Fine slack(std::int64_t tokens) const { return slack_.empty() ? 0 : slack_[static_cast<std::size_t>(tokens)]; }

 private:
  /// Attention beside other work.
  struct Overlapped {
    std::vector<std::int64_t> hidden;  ///< By the number of tokens.
    std::int64_t per_kv = 0;
  };
  /// A time that grows by `step` from one iteration of a run to the next.
  struct Line {
    Fine first = 0, step = 0;
    Fine at(std::int64_t k) const { return first + step * k; }
  };

  /// Times of a run of decodes where attention waits for nothing else.
  struct Growth {
    Fine base = 0, floor = 0;
    Line line;      ///< Attention, where it takes longer than the floor, ...
    Fine flat = 0;  ///< ... which is after so many iterations.
    Fine time(std::int64_t count) const;
  };

  Growth growth(const Load& load) const;
  Fine base(const Load& load) const;
  std::vector<Line> lines(const Load& load) const;
  static Fine envelope(const std::vector<Line>& lines, std::int64_t count);

  std::vector<std::int64_t> table_, network_, slack_, joint_, joint_network_;  ///< By the number of tokens.
  std::vector<Overlapped> overlapped_;
  std::int64_t host_, per_seq_, per_kv_, per_decode_, floor_, per_pair_;
};

}  // namespace railyard::serving
