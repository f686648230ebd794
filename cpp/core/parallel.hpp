#pragma once

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

namespace railyard {

/// Calls `body(begin, end)` for ranges that make up [0, count), each on a
/// thread; a range has at least `least` items. What body(i) writes must not
/// depend on the ranges: then neither does the result on the number of threads.
template <class Body>
void for_ranges(std::size_t count, std::size_t least, const Body& body) {
  const std::size_t most = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t parts = std::clamp<std::size_t>(count / least, 1, most);
  std::vector<std::jthread> threads;
  for (std::size_t part = 1; part < parts; ++part)
    threads.emplace_back([&, part] { body(count * part / parts, count * (part + 1) / parts); });
  body(0, count / parts);
}

}  // namespace railyard
