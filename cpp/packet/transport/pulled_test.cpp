#include <algorithm>
#include <optional>
#include <vector>

#include "core/harness.hpp"
#include "packet/balance/skip.hpp"
#include "packet/transport/pull_queue.hpp"
#include "packet/transport/pulled.hpp"

using namespace railyard;
using namespace railyard::packet;

namespace {

constexpr std::int64_t kPull = EqdsPacer::kQuantaPerPull;

/// A byte a nanosecond; nothing is shortened.
Options plain() {
  Options options;
  options.pull_rate = 1;
  return options;
}

EqdsPacer pacer_of(std::int64_t window_pulls) {
  const Derived derived{.rate_bps = 8'000'000'000, .window_bytes = (window_pulls * kPull) << EqdsAccount::kShift};
  return EqdsPacer(plain(), derived);
}

std::vector<std::uint32_t> next(EqdsPacer& pacer, BigVector<Receiver>& receivers, int count) {
  std::vector<std::uint32_t> flows;
  for (int at = 0; at < count; ++at) {
    const std::optional<Granted> granted = pacer.grant(receivers);
    flows.push_back(granted ? granted->flow : 99);
  }
  return flows;
}

}  // namespace

TEST(pulled_pacer_serves_losses_first_then_those_that_ask_then_runs_ahead) {
  EqdsPacer pacer = pacer_of(2);
  BigVector<Receiver> receivers(3);
  for (std::uint32_t flow = 0; flow < 2; ++flow) {
    receivers[flow].pull_target += 2 * kPull;
    pacer.saw_target(receivers[flow], flow);
  }
  pacer.saw_cut(receivers[2], 2);  // a full packet: 9 quanta, so two pulls of 8
  CHECK((next(pacer, receivers, 6) == std::vector<std::uint32_t>{2, 2, 0, 1, 0, 1}));
  // Both are satisfied; each is granted a window ahead.
  CHECK((next(pacer, receivers, 5) == std::vector<std::uint32_t>{0, 1, 0, 1, 99}));
  CHECK(receivers[0].latest_pull == kFirstPull + 4 * kPull && !pacer.active());
}

TEST(pulled_pacer_keeps_its_pace) {
  EqdsPacer pacer = pacer_of(1);
  BigVector<Receiver> receivers(1);
  pacer.saw_request(receivers[0], 0);
  // 4096 bytes, header and framing, at a byte a nanosecond, whatever is granted.
  for (int at = 0; at < 3; ++at) CHECK(pacer.grant(receivers).value().pause == (4096 + 64 + 38) * 1000);
}

TEST(pulled_account_ends_speculation_with_the_first_word) {
  EqdsAccount account;
  account.open(10'000);
  CHECK(account.may_spend());
  account.spend(4150);
  CHECK(account.credit() == 5850 && account.may_spend());
  account.stop_speculating();
  CHECK(!account.may_spend());
  // What is left counts as credit in hand until attempts to send have used it up.
  const Wanted wanted{.fresh = 100'000, .again = 0, .most = 10'000, .mtu = 4150, .active = 1};
  CHECK(account.ask(wanted) == kFirstPull + (10'000 - 5850 + 511) / 512);
  account.forgo(4150);
  account.forgo(4150);
  CHECK(account.credit() == -2450);
  account.forgo(4150);
  CHECK(account.credit() == -2450 && account.ask(wanted) == kFirstPull + (12'450 + 511) / 512);
  account.on_pull(kFirstPull + 8, 0);
  CHECK(account.may_spend() && account.credit() == 4096 - 2450);
  account.spend(4150);
  CHECK(account.spent() && !account.may_spend());
  account.on_pull(kFirstPull + 3, 0);  // overtaken
  CHECK(account.pull == kFirstPull + 8);
}

TEST(pulled_account_with_more_credit_than_work_asks_for_what_is_left_while_it_speculates) {
  EqdsAccount account;
  account.open(100'000);
  const Wanted wanted{.fresh = 4000, .again = 0, .most = 100'000, .mtu = 4150, .active = 1};
  CHECK(account.ask(wanted) == kFirstPull + 8);
  account.stop_speculating();
  CHECK(account.ask(wanted) < kFirstPull);
}

TEST(pulled_queue_is_fair_and_keeps_its_distance) {
  constexpr Ps kPause = 1000;
  PullQueue queue(kPause);
  std::vector<std::uint32_t> owed(3);
  CHECK(queue.at_once(0) && !queue.at_once(999));
  CHECK(queue.push(0, owed[0]) && queue.next() == kPause);  // somebody must come back, once
  for (int more = 0; more < 3; ++more) CHECK(!queue.push(0, owed[0]));
  for (int more = 0; more < 2; ++more) CHECK(!queue.push(1, owed[1]));
  CHECK(!queue.push(2, owed[2]));
  std::vector<std::uint32_t> order;
  std::uint32_t flow = 0;
  for (Ps now = queue.next(); queue.pop(flow, owed, now); now = queue.next()) {
    CHECK(queue.next() == now + kPause);
    order.push_back(flow);
  }
  CHECK((order == std::vector<std::uint32_t>{0, 1, 2, 0, 1, 0, 0}));
  // After the last the pause still counts.
  CHECK(queue.empty() && !queue.at_once(queue.next() - 1) && queue.at_once(queue.next()));
}

TEST(pulled_queue_forgets_what_is_no_longer_owed) {
  PullQueue queue(1000);
  std::vector<std::uint32_t> owed(2);
  CHECK(queue.at_once(0) && queue.push(0, owed[0]));
  queue.push(0, owed[0]);
  queue.push(1, owed[1]);
  queue.forget(owed[0]);
  std::uint32_t flow = 0;
  CHECK(queue.pop(flow, owed, 1000) && flow == 1);
  CHECK(!queue.pop(flow, owed, 2000) && queue.empty());
  // It takes pulls of the flow again, and somebody must come back again.
  CHECK(queue.push(0, owed[0]) && queue.pop(flow, owed, 3000) && flow == 0);
}

TEST(pulled_skip_passes_over_an_entropy_once) {
  Skip balancer(1, 4, 1), same(1, 4, 1);
  std::vector<std::uint16_t> round;
  for (int at = 0; at < 4; ++at) round.push_back(static_cast<std::uint16_t>(same.next(0) & 3));
  for (int at = 0; at < 4; ++at) CHECK((balancer.next(0) & 3) == round[static_cast<std::size_t>(at)]);
  Skip bad(1, 4, 1);
  bad.feedback(0, round[1], Feedback::trimmed);
  bad.feedback(0, round[1], Feedback::trimmed);
  bad.feedback(0, round[2], Feedback::good);
  CHECK((bad.next(0) & 3) == round[0] && (bad.next(0) & 3) == round[2] && (bad.next(0) & 3) == round[3]);
  // All of them: every one is passed over once, then they are good again.
  for (std::uint16_t entropy = 0; entropy < 4; ++entropy) bad.feedback(0, entropy, Feedback::marked);
  std::vector<std::uint16_t> again;
  for (int at = 0; at < 8; ++at) again.push_back(static_cast<std::uint16_t>(bad.next(0) & 3));
  std::sort(again.begin(), again.end());
  CHECK(std::adjacent_find(again.begin(), again.end()) != again.end() && again.front() == 0 && again.back() == 3);
}
