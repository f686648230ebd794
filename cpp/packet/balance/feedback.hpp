#pragma once

#include <cstdint>

namespace railyard::packet {

/// What came back over a path.
enum class Feedback : std::uint8_t { good, marked, trimmed, timeout };

}  // namespace railyard::packet
