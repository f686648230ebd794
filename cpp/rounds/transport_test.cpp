#include "rounds/transport.hpp"

#include <cmath>

#include "core/harness.hpp"

using namespace railyard::rounds;

namespace {
bool near(double one, double other, double by = 1e-6) { return std::abs(one - other) <= by * std::abs(other); }
}  // namespace

TEST(transport_windows_are_those_of_rfc_9438) {
  CHECK(near(cubic_window(0.1, 1e-4), 1.0538289 * std::pow(1e3, 0.75)));  // CUBIC's region: 187.4 packets against 122.5
  CHECK(near(cubic_window(0.01, 0.01), std::sqrt(150.0)));                // Reno's: 12.2 packets against 1.05
  // Table 2 (RTT 0.1 s, C 0.4).
  CHECK(near(cubic_window(0.1, 1e-5), 1053.8, 1e-3) && near(cubic_window(0.1, 1e-7), 33324, 1e-3));
}

TEST(transport_timeouts_are_those_of_pftk) {
  // RTO 0.3 s; 3 sqrt(3 * 0.02 / 8) = 0.2598; 0.02 * (1 + 32 * 0.0004) = 0.020256
  CHECK(near(timeout_s_per_packet(0.2, 0.1, 0.02), 0.3 * 0.259808 * 0.020256, 1e-5));
  CHECK(timeout_s_per_packet(0.2, 0.1, 0.0) == 0.0);
  CHECK(timeout_s_per_packet(HUGE_VAL, 0.1, 0.02) == 0.0);
}

TEST(transport_saw_tooth_lacks_what_lies_below_the_product) {
  CHECK(near(saw_tooth(0.0, 500, 0.1), 0.925, 1e-9));  // the mean of a cubic from 0.7 to 1 is 1 - 0.3/4
  CHECK(saw_tooth(0.5, 500, 0.1) == 1.0);              // 0.7 * 1.5 covers the product
  // A buffer of 0.1: most 550, K = cbrt(412.5) = 7.4441 s, below 500 for K - cbrt(125) = 2.4441 s.
  const double lacking = (500 - 550) * 2.444077 - 0.1 * (std::pow(5.0, 4) - std::pow(7.444077, 4));
  CHECK(near(saw_tooth(0.1, 500, 0.1), 1.0 - lacking / (500 * 7.444077), 1e-5));
}

TEST(transport_goodput_keeps_to_the_receiver) {
  const Protocol small{.receive_bytes = 1e6};
  CHECK(near(goodput_bps(small, {1e9, 0.1, 0.0, 1.0}), 8e7));
  CHECK(near(goodput_bps(small, {20e6, 0.1, 0.0, 1.0}), 20e6 * 1448 / 1500));
}
