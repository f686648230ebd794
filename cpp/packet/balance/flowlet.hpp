#pragma once

#include <vector>

#include "packet/balance/feedback.hpp"
#include "packet/draws.hpp"

namespace railyard::packet {

/// One entropy as long as a flow sends without a pause; after a gap that lets the path drain, another by lot (CONGA 2014,
/// section 3.3: packets of two flowlets cannot overtake each other when the gap exceeds the difference of path delays).
class Flowlet {
 public:
  Flowlet(std::uint32_t flows, std::uint64_t seed, Ps gap) : seed_(seed), gap_(gap), flows_(flows) {}

  std::uint16_t next(std::uint32_t flow, Ps now) {
    Flow& at = flows_[flow];
    if (at.draws == 0 || now - at.last > gap_)
      at.entropy = static_cast<std::uint16_t>(draw(stream_key(seed_, Stream::entropy, flow), at.draws++));
    at.last = now;
    return at.entropy;
  }

 private:
  struct Flow {
    Ps last = 0;
    std::uint32_t draws = 0;
    std::uint16_t entropy = 0;
  };
  std::uint64_t seed_;
  Ps gap_;
  std::vector<Flow> flows_;
};

}  // namespace railyard::packet
