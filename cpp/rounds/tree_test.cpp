#include "rounds/tree.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

#include "core/harness.hpp"
#include "rounds/draws.hpp"
#include "rounds/places.hpp"

using namespace railyard::rounds;

namespace {
bool near(double one, double other) { return std::abs(one - other) < 1e-9 * std::max(1.0, std::abs(other)); }
std::vector<double> never(std::size_t count) {
  return std::vector<double>(count, std::numeric_limits<double>::infinity());
}
}  // namespace

TEST(tree_shares_one_line_fairly) {
  const std::vector<double> start{0, 0, 1}, bits{10, 10, 10}, limit{1, 10, 10}, capacity{6};
  const std::vector<std::int32_t> link{0, 0, 0}, parent{-1};
  const auto ends = shared_ends({bits, limit, link}, start, never(start.size()), {capacity, parent});
  // Until 1: rates 1 and 5; then 1, 2.5, 2.5: 5 left of the second end at 3,
  // the third has 5 left at 5 a second.
  CHECK(near(ends[0], 10) && near(ends[1], 3) && near(ends[2], 4));
}

TEST(tree_shares_a_concentrator_before_the_backbone) {
  // A root of 6 with a concentrator of 2 for two transfers, and two right at
  // the root: levels 1, 1 and 2, 2.
  const std::vector<double> start{0, 0, 0, 0}, bits{4, 4, 4, 8}, limit{9, 9, 9, 9}, capacity{6, 2};
  const std::vector<std::int32_t> link{1, 1, 0, 0}, parent{-1, 0};
  const auto ends = shared_ends({bits, limit, link}, start, never(start.size()), {capacity, parent});
  // The third ends at 2, then the fourth has 4 of 6 and its last 4 bits take a
  // second; the concentrator ends at 4.
  CHECK(near(ends[0], 4) && near(ends[1], 4) && near(ends[2], 2) && near(ends[3], 3));
}

TEST(tree_gives_up_what_is_stopped) {
  // Three share 6: 2 each until 1, when the first gives up; the others have 8
  // left at 3 a second. The last stops before it starts.
  const std::vector<double> start{0, 0, 0, 5}, stop{1, 100, 100, 4}, bits{10, 10, 10, 10}, limit{9, 9, 9, 9},
      capacity{6};
  const std::vector<std::int32_t> link{0, 0, 0, 0}, parent{-1};
  const auto ends = shared_ends({bits, limit, link}, start, stop, {capacity, parent});
  CHECK(std::isinf(ends[0]) && std::isinf(ends[3]));
  CHECK(near(ends[1], 1 + 8.0 / 3) && near(ends[2], 1 + 8.0 / 3));
}

TEST(places_share_what_is_under_way) {
  // Two places, a line of 4 down that downloads of 8 at 4 a second meet, nothing
  // short up: both get 2 a second till 4, work for 1 and 2, and send for 2.
  const std::vector<double> none(5, 0), work{1, 2, 1, 1, 1}, leave{100, 100, 100, 0.5, 100}, bits(5, 8), down(5, 4),
      up(5, 4), line{4}, wide{100};
  const std::vector<std::int32_t> link(5, 0), parent{-1};
  const ClientColumns clients{none, work, none, leave};
  const Visits found = visits(clients, {{bits, down, link}, {bits, up, link}, {line, parent}, {wide, parent}}, 2, 3);
  CHECK(near(found.got_s[0], 4) && near(found.got_s[1], 4));
  CHECK(near(found.end_s[0], 7) && near(found.end_s[1], 8));
  // The third gets 4 a second from 7 to 8, 2 beside the fourth, which leaves at
  // 8.5, and 2 beside the fifth: 3 bits more take 1.5 s.
  CHECK(near(found.begun_s[2], 7) && near(found.got_s[2], 10) && near(found.end_s[2], 13));
  CHECK(found.left.size() == 1 && found.left[0] == 3 && near(found.end_s[3], 8.5));
  CHECK(found.came.size() == 3 && found.came[0] == 0 && found.came[1] == 1 && found.came[2] == 2);
}

TEST(tree_refuses_what_does_not_fit) {
  const std::vector<double> one{1}, none;
  const std::vector<std::int32_t> link{0}, parent{0};
  const TransferColumns transfers{one, one, link};
  const auto refused = [&](const LinkColumns& links, const char* words) {
    return harness::throws<std::invalid_argument>([&] { shared_ends(transfers, one, one, links); }, words);
  };
  CHECK(refused({one, parent}, "parent"));
  CHECK(refused({none, {}}, "no link"));
}

TEST(draws_are_known) {
  // Key of seed 1 and stream "a" (CRC-32 e8b7be43), client 0, counter 5.
  const std::uint64_t key = finalised((std::uint64_t{1} << 32) | 0xe8b7be43u);
  CHECK(near(uniform(key, 0, 5), 0.6498237099517652));
  CHECK(std::abs(inverse_normal(0.025) + 1.9599640) < 1e-6);
}
