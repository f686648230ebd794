#pragma once

#include <cstdint>

#include "railyard/columns.hpp"

namespace railyard::packet {

/// What came back over a path.
enum class Feedback : std::uint8_t { good, marked, trimmed, timeout };

/// Load balancers are classes with
///   X(std::uint32_t flows, std::uint32_t paths, std::uint64_t seed)
///   std::uint16_t next(std::uint32_t flow)                 the entropy of the flow's next packet
///   void feedback(std::uint32_t flow, std::uint16_t entropy, Feedback what, Ps now)
///   static constexpr bool kAdaptive                        switches choose, not entropies
/// `paths` is a power of two.

}  // namespace railyard::packet
