#include "flow/stretches.hpp"

#include <stdexcept>

#include "core/harness.hpp"

using namespace railyard;

namespace {

constexpr SharingLaw kLaw{.least = 1e-3, .rounding = 1e-6};

/// Entities that ask for all of their links, with equal weights.
struct Shared {
  std::vector<std::int64_t> link, entity, ptr, start, end;

  std::vector<double> found(bool slowed) const {
    const std::vector<double> ones(link.size(), 1.0);
    return stretches({link, entity, ones, ones}, {ptr, start, end}, slowed, kLaw);
  }
};

bool near(double a, double b) { return a > b * (1 - 1e-14) && a < b * (1 + 1e-14); }

}  // namespace

TEST(stretches_average_slowdowns_over_work_and_speeds_over_time) {
  // Entity 0 runs from 0 to 4, entity 1 from 3 to 4, entity 2 has no runs.
  const Shared shared{{7, 7, 7}, {0, 1, 2}, {0, 1, 2, 2}, {0, 3}, {4, 4}};
  const auto work = shared.found(false), time = shared.found(true);
  CHECK(near(work[0], 1.25) && near(work[1], 2.0) && work[2] == 1.0);
  CHECK(near(time[0], 1 / 0.875) && near(time[1], 2.0) && time[2] == 1.0);
}

TEST(stretches_are_the_same_on_links_with_equal_users) {
  // Entities 0 and 2 meet on link 0, 1 and 3 on link 1 at the same times; 4 comes when nobody runs.
  const Shared shared{{0, 0, 1, 1, 1}, {0, 2, 1, 3, 4}, {0, 1, 2, 3, 4, 5}, {0, 0, 2, 2, 9}, {4, 4, 5, 5, 10}};
  const auto found = shared.found(false);
  CHECK(near(found[0], 1.5) && near(found[2], 5.0 / 3) && found[4] == 1.0);
  CHECK(found[0] == found[1] && found[2] == found[3]);
}

TEST(stretches_refuse_what_does_not_fit) {
  CHECK_THROWS(std::invalid_argument, "pointer", (Shared{{0}, {0}, {0, 2}, {0}, {1}}.found(false)));
  CHECK_THROWS(std::invalid_argument, "starts and ends", (Shared{{0}, {0}, {0, 1}, {0}, {1, 2}}.found(false)));
  CHECK_THROWS(std::invalid_argument, "no entity", (Shared{{0}, {-1}, {0, 1}, {0}, {1}}.found(false)));
}
