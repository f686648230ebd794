#pragma once

#include <string>
#include <vector>

#include "packet/context.hpp"
#include "packet/fabric/link_layer.hpp"

namespace railyard::packet {

/// How long a packet may be out before it is sent again, by the run's transport.
Ps timeout_of(const Options& options, const Derived& derived);

/// A flow that is under way and does not come on.
struct Stalled {
  std::uint32_t flow;
  std::int64_t acknowledged_bytes;
};

/// Throws Stuck: since when nothing moves, the first of the flows, how far it came, and what stands in its way.
[[noreturn]] void throw_stalled(const Context& context, const LinkLayer& links, const std::vector<Stalled>& flows, Ps since);

}  // namespace railyard::packet
