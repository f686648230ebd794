#pragma once

#include "packet/balance/path_choice.hpp"
#include "packet/draws.hpp"

namespace railyard::packet {

/// One entropy a flow: the hash of classic equal-cost multipath.
class Ecmp {
 public:
  Ecmp(std::uint32_t, std::uint32_t, std::uint64_t seed) : seed_(seed) {}

  std::uint16_t next(std::uint32_t flow, Ps = 0) const {
    return static_cast<std::uint16_t>(draw(stream_key(seed_, Stream::entropy, flow), 0));
  }

  static Mechanism record() {
    return {.family = Family::load_balancing,
            .name = "ecmp",
            .summary = "One entropy a flow: the hash of classic equal-cost multipath.",
            .sources = {"RFC 2992: Analysis of an Equal-Cost Multi-Path Algorithm"}};
  }

 private:
  std::uint64_t seed_;
};

inline const LoadBalancer<Ecmp> kEcmp;

}  // namespace railyard::packet
