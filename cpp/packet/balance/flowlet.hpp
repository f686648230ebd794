#pragma once

#include <vector>

#include "packet/balance/path_choice.hpp"
#include "packet/draws.hpp"

namespace railyard::packet {

struct FlowletOptions {
  Ps gap_ps = 10'000'000;  ///< A pause after which a flowlet begins.
};

/// One entropy as long as a flow sends without a pause; after a gap that lets the path drain, another by lot (CONGA 2014,
/// section 3.3: packets of two flowlets cannot overtake each other when the gap exceeds the difference of path delays).
class Flowlet {
 public:
  Flowlet(std::uint32_t flows, const Options& options)
      : seed_(options.seed), gap_(options.of<FlowletOptions>().gap_ps), flows_(flows) {}

  std::uint16_t next(std::uint32_t flow, Ps now) {
    Flow& at = flows_[flow];
    if (at.draws == 0 || now - at.last > gap_)
      at.entropy = static_cast<std::uint16_t>(draw(stream_key(seed_, Stream::entropy, flow), at.draws++));
    at.last = now;
    return at.entropy;
  }

  static Mechanism record() {
    return {.family = Family::load_balancing,
            .name = "flowlet",
            .summary = "One entropy a burst: another after a pause.",
            .sources = {"Alizadeh et al., CONGA: Distributed Congestion-Aware Load Balancing for Datacenters, SIGCOMM 2014, section 3.3"},
            .fields = {
                field<&FlowletOptions::gap_ps>("gap_ps", "ps", kTimeRange,
                      "A pause of a flow after which its next packet may take another path.")}};
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

inline const LoadBalancer<Flowlet> kFlowlet;

}  // namespace railyard::packet
