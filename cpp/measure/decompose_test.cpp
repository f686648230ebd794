#include "measure/decompose.hpp"

#include <stdexcept>

#include "core/harness.hpp"

using namespace railyard::measure;

namespace {

/// Two ranks of one stage: 10 ps and 4 ps of computing, then a collective of 6 ps that took 5 alone, 2 of them latency.
struct Step {
  std::vector<std::uint8_t> kind{0, 0, 2}, place{1, 1, 1};
  std::vector<std::int32_t> rank{0, 1, 0}, label{0, 0, 1}, blocker{-1, -1, 0}, comm_ranks{1, 0};
  std::vector<std::int64_t> start{0, 0, 10}, end{10, 4, 16}, duration{10, 4, 0}, alone{0, 0, 5}, latency{0, 0, 2};
  std::vector<std::int64_t> comm_ptr{0, 2}, stage{0, 0}, phase{1, 2}, group{0, 2};
  std::vector<std::uint8_t> data{0, 0}, checkpoint{0, 0};

  Charges charges() const {
    return decompose(
        {kind, place, rank, label, blocker, start, end, duration, alone, latency, {}, {}, comm_ptr, comm_ranks, stage},
        {phase, group, data, checkpoint, 3, 3});
  }
};

std::int64_t of(const Charges& found, std::size_t rank, Cause cause) {
  return found.by_rank_ps[rank * kCauses + static_cast<std::size_t>(cause)];
}

}  // namespace

TEST(decompose_blames_the_member_that_computes_longer) {
  const Charges found = Step().charges();
  for (const std::size_t rank : {std::size_t{0}, std::size_t{1}}) {
    CHECK(of(found, rank, Cause::latency) == 2 && of(found, rank, Cause::bandwidth) == 3);
    CHECK(of(found, rank, Cause::contention) == 1);
  }
  CHECK(of(found, 0, Cause::compute) == 10 && of(found, 1, Cause::compute) == 4);
  CHECK(of(found, 1, Cause::straggler) == 6);
  CHECK(found.waited_for_ps == (std::vector<std::int64_t>{6, 0}));
  CHECK(found.straggled == (std::vector<std::uint8_t>{0, 0, 1}));
}

TEST(decompose_refuses_what_cannot_be) {
  Step early, circle, strange;
  early.start[2] = 9;
  CHECK(early.charges().overlap == (std::vector<std::int64_t>{0, 2, 10}));
  circle.start = {5, 0, 10}, circle.end = {10, 5, 16};
  circle.end[1] = 5, circle.blocker = {1, 0, 0};
  circle.start[1] = 5;
  CHECK(circle.charges().cycle);
  strange.blocker[2] = 3;
  CHECK(harness::throws<std::invalid_argument>([&] { strange.charges(); }, "not there"));
  strange.blocker.pop_back();
  CHECK(harness::throws<std::invalid_argument>([&] { strange.charges(); }, "lengths"));
}
