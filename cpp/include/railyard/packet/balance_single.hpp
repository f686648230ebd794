#pragma once

#include "railyard/packet/balance.hpp"
#include "railyard/packet/draws.hpp"

namespace railyard::packet {

/// One entropy a flow: the hash of classic equal-cost multipath.
template <bool Adaptive>
class OneEntropy {
 public:
  static constexpr bool kAdaptive = Adaptive;

  OneEntropy(std::uint32_t, std::uint32_t, std::uint64_t seed) : seed_(seed) {}

  std::uint16_t next(std::uint32_t flow) const {
    return static_cast<std::uint16_t>(draw(stream_key(seed_, Stream::entropy, flow), 0));
  }
  void feedback(std::uint32_t, std::uint16_t, Feedback, Ps) {}

 private:
  std::uint64_t seed_;
};

using SinglePath = OneEntropy<false>;
/// Switches choose the emptiest egress for every data packet (see `LeastLoaded`); small packets are hashed.
using Adaptive = OneEntropy<true>;

}  // namespace railyard::packet
