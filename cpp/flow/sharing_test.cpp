#include "flow/sharing.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/harness.hpp"
#include "core/random.hpp"
#include "flow/rows_test.hpp"
#include "flow/simulation.hpp"

using namespace railyard;

namespace {

bool near(double a, double b) { return std::abs(a - b) <= 1e-8 * std::max(std::abs(a), std::abs(b)); }

struct Dice {
  std::uint64_t state;
  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(mix(state++) % end); }
};

/// Entities over few links, with shares and weights that differ.
EntityRows random_rows(Dice& dice, std::uint32_t links, int count) {
  EntityRows rows;
  for (int i = 0; i < count; ++i) {
    std::vector<std::pair<std::int32_t, double>> used;
    for (std::uint32_t link = 0; link < links; ++link) {
      if (dice.below(links) < 2) used.emplace_back(static_cast<std::int32_t>(link), 0.25 * (1 + dice.below(6)));
    }
    if (used.empty()) used.emplace_back(0, 1.0);
    rows.add(used, 1.0, 0.5 + dice.below(3));
  }
  return rows;
}

std::vector<std::uint8_t> everywhere(const std::vector<double>& capacity) {
  return std::vector<std::uint8_t>(capacity.size(), 1);
}

/// The rates of the active flows, found from nothing.
void check_against_fresh(const Sharing& sharing, const EntityRows& rows, const std::vector<double>& capacity,
                         const std::vector<FlowId>& active) {
  EntityRows present;
  for (const FlowId id : active) {
    const auto e = static_cast<std::size_t>(sharing.flow(id).entity);
    std::vector<std::pair<std::int32_t, double>> used;
    for (auto k = rows.ptr[e]; k < rows.ptr[e + 1]; ++k) {
      used.emplace_back(rows.idx[static_cast<std::size_t>(k)], rows.share[static_cast<std::size_t>(k)]);
    }
    present.add(used, 1.0, rows.weight[e]);
  }
  const std::vector<double> fresh = max_min(present.columns(), capacity);
  for (std::size_t i = 0; i < active.size(); ++i) CHECK(near(sharing.flow(active[i]).rate, fresh[i]));
}

}  // namespace

TEST(sharing_splits_by_weight_and_gives_back_what_leaves) {
  EntityRows rows;
  rows.add({{0, 1.0}}, 1.0, 3);
  rows.add({{0, 1.0}}, 1.0, 1);
  const std::vector<double> capacity{8.0};
  Sharing sharing(capacity, rows.columns(), everywhere(capacity));
  const FlowId first = sharing.add(0);
  CHECK(!sharing.unsettled() && sharing.flow(first).rate == 8.0);
  const FlowId second = sharing.add(1);
  CHECK(sharing.unsettled());
  sharing.settle();
  CHECK(near(sharing.flow(first).rate, 6) && near(sharing.flow(second).rate, 2));
  CHECK(sharing.changes().size() == 2 && sharing.changes()[0].old_rate + sharing.changes()[1].old_rate == 8.0);
  sharing.clear_changes();
  sharing.remove(first);
  sharing.settle();
  CHECK(near(sharing.flow(second).rate, 8));
  sharing.remove(second);
  CHECK(sharing.links()[0].demand == 0 && sharing.links()[0].count == 0);
}

TEST(sharing_leaves_alone_whom_an_event_does_not_touch) {
  EntityRows rows;
  for (int pair = 0; pair < 100; ++pair) {
    rows.add({{pair, 1.0}}, 1.0);
    rows.add({{pair, 1.0}}, 1.0);
  }
  const std::vector<double> capacity(100, 8.0);
  Sharing sharing(capacity, rows.columns(), everywhere(capacity));
  std::vector<FlowId> flows;
  for (std::uint32_t e = 0; e < 200; ++e) flows.push_back(sharing.add(e));
  sharing.settle();
  sharing.clear_changes();
  const auto before = sharing.effort().pairs;
  sharing.remove(flows[17]);
  sharing.settle();
  CHECK(sharing.effort().pairs - before <= 2);
  CHECK(sharing.changes().size() == 1 && sharing.changes()[0].flow == flows[16]);
}

/// Thousands of comings and goings: always the rates that would be found from nothing; links end up clean.
TEST(sharing_stays_exact_while_flows_come_and_go) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Dice dice{seed << 32};
    const std::uint32_t links = 3 + dice.below(12);
    const EntityRows rows = random_rows(dice, links, 40);
    std::vector<double> capacity;
    for (std::uint32_t i = 0; i < links; ++i) capacity.push_back(1e9 * (1 + dice.below(4)));
    Sharing sharing(capacity, rows.columns(), everywhere(capacity));
    std::vector<FlowId> active;
    for (int step = 0; step < 300; ++step) {
      for (std::uint32_t batch = dice.below(4); batch > 0; --batch) {
        if (!active.empty() && dice.below(30) < active.size()) {
          const std::uint32_t victim = dice.below(static_cast<std::uint32_t>(active.size()));
          sharing.remove(active[victim]);
          active.erase(active.begin() + victim);
        } else {
          active.push_back(sharing.add(dice.below(40)));
        }
      }
      sharing.settle();
      sharing.clear_changes();
      check_against_fresh(sharing, rows, capacity, active);
    }
    while (!active.empty()) {
      sharing.remove(active.back());
      active.pop_back();
      sharing.settle();
      sharing.clear_changes();
    }
    for (std::uint32_t i = 0; i < links; ++i) {
      CHECK(sharing.links()[i].demand == 0 && sharing.links()[i].count == 0);
    }
  }
}

TEST(sharing_follows_capacities) {
  Dice dice{99};
  const EntityRows rows = random_rows(dice, 6, 20);
  std::vector<double> capacity(6, 4e9);
  Sharing sharing(capacity, rows.columns(), everywhere(capacity));
  std::vector<FlowId> active;
  for (std::uint32_t e = 0; e < 20; ++e) active.push_back(sharing.add(e));
  sharing.settle();
  sharing.watch(std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5});
  for (std::uint32_t link = 0; link < 6; ++link) {
    const std::vector<std::uint32_t> changed{link};
    capacity[link] = link == 3 ? 0.0 : 1e9 * (1 + link);
    sharing.set_capacities(changed, std::vector<double>{capacity[link]});
    sharing.settle();
    sharing.clear_changes();
    check_against_fresh(sharing, rows, capacity, active);
  }
}

TEST(sharing_without_contention_ignores_links) {
  EntityRows rows;
  rows.add({{0, 2.0}}, 1.0);
  const std::vector<double> capacity{8.0};
  Sharing sharing(capacity, rows.columns(), std::vector<std::uint8_t>(1, 0));
  const FlowId first = sharing.add(0), second = sharing.add(0);
  CHECK(!sharing.unsettled() && sharing.flow(first).rate == 4.0 && sharing.flow(second).rate == 4.0);
}

TEST(sharing_refuses_columns_that_do_not_fit) {
  EntityRows rows;
  rows.add({{0, 1.0}}, 1.0);
  const std::vector<double> capacity{8.0};
  rows.share.push_back(1.0);
  CHECK_THROWS(std::invalid_argument, "differ in length", Sharing(capacity, rows.columns(), everywhere(capacity)));
  rows.share.pop_back();
  CHECK_THROWS(std::invalid_argument, "capacity", Sharing(std::vector<double>{-1.0}, rows.columns(), everywhere(capacity)));
  CHECK_THROWS(std::invalid_argument, "link out of range", Sharing(std::vector<double>{}, rows.columns(), {}));
}

TEST(link_lists_survive_crowds) {
  LinkTable links(std::vector<double>{1.0});
  for (std::uint32_t flow = 0; flow < 1000; ++flow) links.attach(links[0], {flow, 0});
  for (std::uint32_t flow = 0; flow < 1000; flow += 2) links.detach(links[0], flow);
  CHECK(links[0].count == 500);
  std::uint64_t sum = 0;
  for (const Passenger& passenger : links.flows(links[0])) sum += passenger.flow;
  CHECK(sum == 250'000);
}

TEST(sharing_says_what_one_more_flow_would_get_on_one_link) {
  Dice dice{99};
  for (int round = 0; round < 200; ++round) {
    EntityRows rows;
    const std::vector<double> capacity{100.0};
    const auto count = 2 + dice.below(6);
    for (std::uint32_t i = 0; i < count; ++i) {
      const double limit = dice.below(2) == 0 ? std::numeric_limits<double>::infinity() : 1.0 + dice.below(40);
      rows.add({{0, 0.25 * (1 + dice.below(6))}}, 1.0, 0.5 + dice.below(3), limit);
    }
    Sharing sharing(capacity, rows.columns(), everywhere(capacity));
    for (std::uint32_t i = 0; i + 1 < count; ++i) sharing.add(i);
    sharing.settle();
    const double told = sharing.free_rate(count - 1);
    const FlowId more = sharing.add(count - 1);
    sharing.settle();
    CHECK(near(told, sharing.flow(more).rate));
    CHECK(near(told, sharing.free_rate(count - 1, more)));
  }
}
