#include "core/random.hpp"

#include "core/harness.hpp"

using namespace railyard;

/// First outputs of SplitMix64 seeded with 1234567, as listed with the "Splitmix64" task of Rosetta Code.
TEST(random_mixer_is_splitmix64) {
  std::uint64_t state = 1234567;
  const std::uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u};
  for (const std::uint64_t value : expected) {
    CHECK(mix(state) == value);
    state += 0x9e3779b97f4a7c15u;
  }
}

TEST(random_irwin_hall_has_mean_0_and_variance_1) {
  double sum = 0, squares = 0;
  constexpr int kDraws = 200'000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = static_cast<double>(irwin_hall(42, RandomStream::task_jitter, static_cast<std::uint64_t>(i))) / (1 << 17);
    CHECK(x >= -6 && x <= 6);
    sum += x;
    squares += x * x;
  }
  CHECK(sum / kDraws > -0.012 && sum / kDraws < 0.012);  // five standard errors
  CHECK(squares / kDraws > 0.984 && squares / kDraws < 1.016);
}

TEST(random_streams_differ) {
  CHECK(irwin_hall(1, RandomStream::task_jitter, 5) != irwin_hall(1, RandomStream::rank_jitter, 5));
  CHECK(irwin_hall(1, RandomStream::task_jitter, 5) != irwin_hall(2, RandomStream::task_jitter, 5));
}

TEST(random_factor_is_exact_without_spread_and_never_negative) {
  CHECK(Factor().of(123'456'789'012'345) == 123'456'789'012'345);
  CHECK(Factor::spread(0.5, 1 << 17).of(1000) == 1500);
  CHECK(Factor::spread(0.5, -(1 << 18)).of(1000) == 0);
  CHECK(Factor::spread(1.0, -(3 << 17)).of(1000) == 0);
}
