#pragma once

#include <vector>

#include "packet/balance/path_choice.hpp"
#include "packet/draws.hpp"

namespace railyard::packet {

/// Every flow goes through all entropies in turn, in an order (an exclusive or) drawn anew each round. Nothing is learnt.
class Spray {
 public:
  Spray(std::uint32_t flows, std::uint32_t paths, std::uint64_t seed) : mask_(paths - 1), seed_(seed), flows_(flows) {
    for (std::uint32_t flow = 0; flow < flows; ++flow) {
      const std::uint64_t bits = random(flow);
      flows_[flow].upper = static_cast<std::uint16_t>((bits >> 16) & ~std::uint64_t{mask_} & 0xffffu);
      flows_[flow].order = static_cast<std::uint16_t>(bits & mask_);
    }
  }

  std::uint16_t next(std::uint32_t flow, Ps = 0) {
    const std::uint16_t entropy = current(flow);
    advance(flow);
    return static_cast<std::uint16_t>(entropy | flows_[flow].upper);
  }

  /// The entropy whose turn it is, without the flow's upper bits.
  std::uint16_t current(std::uint32_t flow) const {
    return static_cast<std::uint16_t>((flows_[flow].index ^ flows_[flow].order) & mask_);
  }

  void advance(std::uint32_t flow) {
    Flow& at = flows_[flow];
    if (++at.index <= mask_) return;
    at.index = 0;
    at.order = static_cast<std::uint16_t>(random(flow) & mask_);
  }

  std::uint16_t upper(std::uint32_t flow) const { return flows_[flow].upper; }
  std::uint32_t mask() const { return mask_; }

  static Mechanism record() {
    return {.family = Family::load_balancing,
            .name = "spray",
            .summary = "Entropies in turn, in an order drawn anew each round; nothing is learnt.",
            .sources = {"ultraethernet/uet-htsim, commit 40ccb05, uec_mp.cpp (oblivious)"}};
  }

 private:
  struct Flow {
    std::uint32_t index = 0;
    std::uint32_t draws = 0;
    std::uint16_t order = 0, upper = 0;
  };

  std::uint64_t random(std::uint32_t flow) {
    return draw(stream_key(seed_, Stream::entropy, flow), flows_[flow].draws++);
  }

  std::uint32_t mask_;
  std::uint64_t seed_;
  std::vector<Flow> flows_;
};

inline const LoadBalancer<Spray> kSpray;

}  // namespace railyard::packet
