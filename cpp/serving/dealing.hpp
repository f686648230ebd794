#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace railyard::serving {

/// The replica of each request, dealt to the one with the fewest at that time, among equals to the first.
///
/// Args: when each request is dealt, ascending; from when on and until when it counts at its replica; how many there are.
/// Throws std::invalid_argument when columns differ in length or there is no replica.
std::vector<std::int64_t> dealt(std::span<const double> asked_s, std::span<const double> there_s,
                                std::span<const double> end_s, std::int64_t replicas);

}  // namespace railyard::serving
