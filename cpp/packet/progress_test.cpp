#include "packet/progress.hpp"

#include "core/harness.hpp"

using namespace railyard;
using namespace railyard::packet;

namespace {

constexpr Ps kSecond = 1'000'000'000'000;

}  // namespace

TEST(progress_waits_a_thousand_timeouts_within_bounds) {
  CHECK(Progress::patience(1) == kSecond);
  CHECK(Progress::patience(4'194'304'000) == 4'194'304'000'000);
  CHECK(Progress::patience(kSecond) == 60 * kSecond);
}

TEST(progress_ends_where_no_byte_is_acknowledged_for_long) {
  Progress progress(3, kSecond);
  progress.started(true);
  std::int64_t bytes = 0;
  const auto comes_on = [&](std::uint32_t unfinished, Ps now) {
    return progress.comes_on(unfinished, now, [&] { return bytes; });
  };
  CHECK(comes_on(3, kSecond));
  bytes = 1;
  CHECK(comes_on(3, 2 * kSecond));
  CHECK(comes_on(3, 3 * kSecond - 1) && progress.under_way(3) == 1);
  CHECK(!comes_on(3, 4 * kSecond) && progress.moved_at() == 2 * kSecond);
  CHECK(comes_on(2, 9 * kSecond));   // it has finished: the others wait for work that takes its time
  CHECK(comes_on(2, 20 * kSecond));
  progress.started(false);
  CHECK(comes_on(1, 21 * kSecond) && comes_on(1, 40 * kSecond));
}
