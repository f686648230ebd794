#include "rounds/tree.hpp"

#include <cmath>
#include <stdexcept>

#include "core/harness.hpp"
#include "rounds/draws.hpp"

using namespace railyard::rounds;

namespace {
bool near(double one, double other) { return std::abs(one - other) < 1e-9 * std::max(1.0, std::abs(other)); }
}  // namespace

TEST(tree_shares_one_line_fairly) {
  const std::vector<double> start{0, 0, 1}, bits{10, 10, 10}, limit{1, 10, 10}, capacity{6};
  const std::vector<std::int32_t> link{0, 0, 0}, parent{-1};
  const auto ends = shared_ends({start, bits, limit, link}, {capacity, parent});
  // Until 1: rates 1 and 5; then 1, 2.5, 2.5: 5 left of the second end at 3,
  // the third has 5 left at 5 a second.
  CHECK(near(ends[0], 10) && near(ends[1], 3) && near(ends[2], 4));
}

TEST(tree_shares_a_concentrator_before_the_backbone) {
  // A root of 6 with a concentrator of 2 for two transfers, and two right at
  // the root: levels 1, 1 and 2, 2.
  const std::vector<double> start{0, 0, 0, 0}, bits{4, 4, 4, 8}, limit{9, 9, 9, 9}, capacity{6, 2};
  const std::vector<std::int32_t> link{1, 1, 0, 0}, parent{-1, 0};
  const auto ends = shared_ends({start, bits, limit, link}, {capacity, parent});
  // The third ends at 2, then the fourth has 4 of 6 and its last 4 bits take a
  // second; the concentrator ends at 4.
  CHECK(near(ends[0], 4) && near(ends[1], 4) && near(ends[2], 2) && near(ends[3], 3));
}

TEST(tree_refuses_what_does_not_fit) {
  const std::vector<double> one{1}, none;
  const std::vector<std::int32_t> link{0}, parent{0};
  CHECK(harness::throws<std::invalid_argument>([&] { shared_ends({one, one, one, link}, {one, parent}); }, "parent"));
  CHECK(harness::throws<std::invalid_argument>([&] { shared_ends({one, one, one, link}, {none, {}}); }, "no link"));
}

TEST(draws_are_known) {
  // Key of seed 1 and stream "a" (CRC-32 e8b7be43), client 0, counter 5.
  const std::uint64_t key = finalised((std::uint64_t{1} << 32) | 0xe8b7be43u);
  CHECK(near(uniform(key, 0, 5), 0.6498237099517652));
  CHECK(std::abs(inverse_normal(0.025) + 1.9599640) < 1e-6);
}
