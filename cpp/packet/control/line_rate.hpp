#pragma once

#include <cstdint>

#include "packet/control/acknowledged.hpp"
#include "packet/options.hpp"

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
  void on_ack(State&, const Acknowledged&) {}
  void on_cnp(State&, Ps) {}
  void on_nack(State&, Ps) {}
  void on_timeout(State&, Ps) {}
  void on_sent(State&, std::int64_t, Ps) {}
  Ps next_timer(const State&) const { return 0; }
  void on_timer(State&, Ps) {}
};

}  // namespace railyard::packet
