#include "synthesis/timing.hpp"

#include <stdexcept>

#include "core/harness.hpp"

using namespace railyard::synthesis;

namespace {
std::vector<double> times(const std::vector<std::int32_t>& link, const std::vector<std::int64_t>& ptr,
                          const std::vector<std::int32_t>& after, const std::vector<double>& takes,
                          const std::vector<double>& planned = {}) {
  return starts_us({link, takes, takes, ptr, after, planned}, 2);
}
}  // namespace

TEST(timing_lets_the_longest_chain_go_first) {
  // Send 0 starts at 0 on link 0, and 3 waits for 2: once the link is free at
  // 2, number 2 goes before number 1.
  const auto start = times({0, 0, 0, 1}, {0, 0, 0, 0, 1}, {2}, {2, 2, 2, 5});
  CHECK(start == (std::vector<double>{0, 4, 2, 4}));
}

TEST(timing_keeps_to_a_plan) {
  // The same with a plan by which number 1 goes before number 2.
  const auto start = times({0, 0, 0, 1}, {0, 0, 0, 0, 1}, {2}, {2, 2, 2, 5}, {0, 1, 5, 7});
  CHECK(start == (std::vector<double>{0, 2, 4, 6}));
}

TEST(timing_waits_for_all_that_has_to_come_first) {
  const auto start = times({0, 1, 0}, {0, 0, 0, 2}, {0, 1}, {1, 3, 1});
  CHECK(start == (std::vector<double>{0, 0, 3}));
}

TEST(timing_refuses_what_waits_for_itself) {
  bool refused = false;
  try {
    times({0, 0}, {0, 1, 1}, {0}, {1, 1});
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  CHECK(refused);
}
