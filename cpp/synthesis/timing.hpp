#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace railyard::synthesis {

/// Sends over links; each waits for some that have lower numbers.
struct Sends {
  std::span<const std::int32_t> link;
  std::span<const double> takes_us;         // how long a send keeps its link busy
  std::span<const double> late_us;          // from its start until what waits for it may begin
  std::span<const std::int64_t> after_ptr;  // CSR, one more than sends
  std::span<const std::int32_t> after;
  std::span<const double> planned_us;  // for each send, the earliest first; empty: the longest chain first
};

/// When each send starts: a free link takes the send that waits for nothing
/// more and has the longest chain behind it. PRE: links are numbered below
/// `links`; `after` holds lower numbers than that of the send that waits.
/// Throws std::invalid_argument where that does not hold.
std::vector<double> starts_us(const Sends& sends, std::int32_t links);

}  // namespace railyard::synthesis
