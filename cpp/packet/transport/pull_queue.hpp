#pragma once

#include <cstdint>
#include <vector>

#include "packet/transport/credit.hpp"

namespace railyard::packet {

/// The pulls that a receiver owes to its flows: one flow after the other, no two closer than `pause`. How many are owed to
/// a flow is counted by whoever owns the flows.
class PullQueue {
 public:
  explicit PullQueue(Ps pause) : pause_(pause) {}

  bool empty() const { return owed_ == 0; }

  /// Whether a pull may go this moment, ahead of nobody. POST: if so, it counts as gone.
  bool at_once(Ps now) {
    if (!empty() || now < next_) return false;
    next_ = now + pause_;
    return true;
  }

  /// A pull is owed to a flow. True: somebody must come back at next().
  bool push(std::uint32_t flow, std::uint32_t& owed) {
    ++owed_;
    if (++owed == 1) order_.push(flow);
    if (waking_) return false;
    return waking_ = true;
  }

  /// The flow whose turn it is, at next(). False: there is none any more. POST: if so, its pull counts as gone, and
  /// somebody must come back at next().
  bool pop(std::uint32_t& flow, std::vector<std::uint32_t>& owed, Ps now) {
    if (empty()) return waking_ = false;
    do {
      flow = order_.pop();
    } while (owed[flow] == 0);
    --owed_;
    if (--owed[flow] != 0) order_.push(flow);
    next_ = now + pause_;
    return true;
  }

  /// Nothing is owed to a flow any more.
  void forget(std::uint32_t& owed) {
    owed_ -= owed;
    owed = 0;
  }

  Ps next() const { return next_; }

 private:
  FlowQueue order_;  ///< Flows to which something is owed; of those forgotten some linger.
  std::uint64_t owed_ = 0;
  Ps pause_, next_ = 0;
  bool waking_ = false;
};

}  // namespace railyard::packet
