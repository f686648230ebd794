#include "packet/fabric/pause_graph.hpp"

#include <algorithm>

namespace railyard::packet {

namespace {

/// Follows what waits for what among the dead until one comes again.
std::vector<std::uint32_t> circle(std::uint32_t from, const std::vector<Held>& held, const std::vector<bool>& dead) {
  std::vector<std::uint32_t> way;
  for (std::uint32_t at = from;;) {
    const auto seen = std::find(way.begin(), way.end(), at);
    if (seen != way.end()) return {seen, way.end()};
    way.push_back(at);
    const auto edge =
        std::find_if(held.begin(), held.end(), [&](const Held& one) { return one.waiter == at && dead[one.blocker]; });
    at = edge->blocker;  // PRE: what is dead waits for something dead
  }
}

}  // namespace

std::vector<std::uint32_t> find_deadlock(std::size_t count, const std::vector<std::uint32_t>& paused,
                                         const std::vector<Held>& held, const MayResume& may_resume) {
  std::vector<std::uint32_t> left = paused;
  std::vector<bool> dead(count, false);
  for (const std::uint32_t one : left) dead[one] = true;
  for (bool changed = true; changed;) {
    std::vector<std::int64_t> stuck(count, 0);
    for (const Held& one : held)
      if (dead[one.blocker]) stuck[one.waiter] += one.bytes;
    const std::size_t before = left.size();
    std::erase_if(left, [&](std::uint32_t one) { return stuck[one] == 0 || may_resume(one, stuck); });
    changed = left.size() != before;
    dead.assign(count, false);
    for (const std::uint32_t one : left) dead[one] = true;
  }
  return left.empty() ? std::vector<std::uint32_t>{} : circle(left.front(), held, dead);
}

}  // namespace railyard::packet
