#pragma once

#include <algorithm>
#include <cstddef>

#include "core/big_vector.hpp"
#include "packet/balance/spray.hpp"

namespace railyard::packet {

/// Entropies in turn; those that brought a mark (1), a trimmed packet (4) or a timeout (15) are skipped that often. As in
/// uet-htsim only the first of a row of skipped entropies is paid off, and a round without a free one takes what comes.
class Bitmap {
 public:
  static constexpr std::uint8_t kMost = 15;

  Bitmap(std::uint32_t flows, std::uint32_t paths, std::uint64_t seed)
      : turn_(flows, paths, seed), paths_(paths), penalty_(std::size_t{flows} * paths) {}

  std::uint16_t next(std::uint32_t flow, Ps = 0) {
    std::uint8_t* const penalty = penalty_.data() + std::size_t{flow} * paths_;
    std::uint16_t entropy = turn_.current(flow);
    for (std::uint32_t skipped = 0; penalty[entropy] > 0; entropy = turn_.current(flow)) {
      if (skipped == 0) --penalty[entropy];
      if (++skipped > paths_) break;
      turn_.advance(flow);
    }
    turn_.advance(flow);
    return static_cast<std::uint16_t>(entropy | turn_.upper(flow));
  }

  void feedback(std::uint32_t flow, std::uint16_t entropy, Feedback what, Ps) {
    if (what == Feedback::good) return;
    std::uint8_t& penalty = penalty_[std::size_t{flow} * paths_ + (entropy & turn_.mask())];
    const int more = what == Feedback::marked ? 1 : what == Feedback::trimmed ? 4 : kMost;
    penalty = static_cast<std::uint8_t>(std::min(penalty + more, int{kMost}));
  }

  static Mechanism record() {
    return {.family = Family::load_balancing,
            .name = "bitmap",
            .summary = "Entropies in turn, those lately congested skipped.",
            .sources = {"ultraethernet/uet-htsim, commit 40ccb05, uec_mp.cpp (bitmap)"}};
  }

 private:
  Spray turn_;
  std::uint32_t paths_;
  BigVector<std::uint8_t> penalty_;
};

inline const LoadBalancer<Bitmap> kBitmap;

}  // namespace railyard::packet
