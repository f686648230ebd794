#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace railyard {

/// What tells one communication of the graph from another.
struct RequestColumns {
  std::span<const std::uint8_t> kind;
  std::span<const std::int32_t> rank;
  std::span<const std::int32_t> peer;
  std::span<const std::int64_t> size_bytes;
  std::span<const std::int32_t> count;
  std::span<const std::uint8_t> collective;
};

struct Requests {
  std::vector<std::int32_t> request;  ///< Of each task: its request, -1 for computations.
  std::vector<std::int32_t> first;    ///< Of each request: the first task that makes it; requests are in this order.
};

/// Finds equal communications. WHY: millions of tasks make only thousands of different requests, and each of them is
/// lowered onto links once.
Requests unique_requests(const RequestColumns& columns);

}  // namespace railyard
