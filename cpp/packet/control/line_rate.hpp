#pragma once

#include <cstdint>

#include "packet/control/rate_controls.hpp"

namespace railyard::packet {

/// No congestion control: every flow may send at the rate of its interface, as RoCE with flow control alone does.
class LineRate {
 public:
  struct State {
    double rate_bps = 0;
    std::int64_t window_bytes = 0;
  };

  LineRate(const Options&, const Derived&) {}
  void open(State&, Ps) {}

  static Mechanism record() {
    return {.family = Family::congestion_control,
            .name = "line-rate",
            .summary = "No congestion control: flows send at the rate of their interface.",
            .sources = {"RoCE with priority flow control alone; InfiniBand without its congestion control"}};
  }
};

inline const RateControl<LineRate> kLineRate;

}  // namespace railyard::packet
