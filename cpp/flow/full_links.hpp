#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "flow/columns.hpp"

namespace railyard {

/// How long each link carried all that it can: where a real port marks packets, lets senders wait or pauses them.
class FullLinks {
 public:
  /// Counts nothing with `links` 0.
  explicit FullLinks(std::size_t links) : load_(links), since_(links, kNever), full_ps_(links) {}

  bool active() const { return !load_.empty(); }
  /// The load of a link changes by `wire_bps`; it can carry `capacity_bps` from `now` on.
  void change(std::size_t link, double wire_bps, double capacity_bps, Ps now);
  /// Ends all counting; full_ps by link.
  std::vector<Ps> take(Ps now) &&;

 private:
  std::vector<double> load_;  ///< On the wire, bit/s.
  std::vector<Ps> since_;     ///< When it became full, kNever while it is not.
  std::vector<Ps> full_ps_;
};

}  // namespace railyard
