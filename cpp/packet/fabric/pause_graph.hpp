#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace railyard::packet {

/// Bytes that ingress `waiter` holds and that cannot leave before ingress `blocker`, one switch further, lets go.
struct Held {
  std::uint32_t waiter, blocker;
  std::int64_t bytes;
};

/// A circle of paused ingresses none of which can ever let go: each holds so much that waits for others of the circle (or
/// of its like) that it stays paused even when everything else it holds has left. Empty where there is none.
///
/// `paused` are the ingresses that have stopped their neighbours, of `count`; `may_resume(ingress, stuck)` says whether one
/// would let go if of what every ingress holds only `stuck[ingress]` bytes were left.
using MayResume = std::function<bool(std::uint32_t, const std::vector<std::int64_t>& stuck)>;
std::vector<std::uint32_t> find_deadlock(std::size_t count, const std::vector<std::uint32_t>& paused,
                                         const std::vector<Held>& held, const MayResume& may_resume);

/// How long a flow's packets have stood behind egresses that were held back.
struct Standing {
  std::int64_t held_ps = 0;
  std::int64_t victim_ps = 0;  ///< For the sake of a queue that they do not go to.
  std::uint64_t seen = 0;      ///< The last time that was counted, so that it counts once.
};

/// Which origin has lasted longest, in constant memory (Boyer and Moore's majority vote, weighted): right where one has
/// more than half.
struct Majority {
  std::uint32_t origin = 0xffffffffu;
  std::int64_t lead = 0;

  void vote(std::uint32_t candidate, std::int64_t weight) {
    if (candidate == origin) {
      lead += weight;
    } else if (lead >= weight) {
      lead -= weight;
    } else {
      origin = candidate;
      lead = weight - lead;
    }
  }
};

}  // namespace railyard::packet
