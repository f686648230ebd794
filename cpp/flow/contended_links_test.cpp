#include "flow/contended_links.hpp"

#include "core/harness.hpp"
#include "flow/rows_test.hpp"

using namespace railyard;

namespace {

using Flags = std::vector<std::uint8_t>;

}  // namespace

TEST(crowding_counts_one_stream_once) {
  GraphRows graph;
  graph.ranks = 2;
  EntityRows entities;
  entities.add({{0, 1.0}, {1, 1.0}}, 1);
  entities.add({{0, 1.0}}, 1);
  graph.add(Kind::transfer, 0, 3, 0, 0);
  graph.add(Kind::transfer, 0, 3, 0, 1);
  graph.add(Kind::transfer, 0, 3, 0, 0);
  CHECK(crowded_links(graph.columns(), entities.columns(), std::vector<double>{8, 8}, {}) == (Flags{0, 0}));
  graph.add(Kind::transfer, 0, 4, 0, 1);  // another stream may use link 0 at the same time
  CHECK(crowded_links(graph.columns(), entities.columns(), std::vector<double>{8, 8}, {}) == (Flags{1, 0}));
}

TEST(crowding_of_the_free_stream_is_everywhere) {
  GraphRows graph;
  EntityRows entities;
  entities.add({{0, 0.25}}, 1, 1, 1);
  graph.add(Kind::transfer, 0, kFreeStream, 0, 0);
  CHECK(crowded_links(graph.columns(), entities.columns(), std::vector<double>{8, 8}, {}) == (Flags{1, 0}));
}

TEST(crowding_keeps_ranks_and_communicators_apart) {
  GraphRows graph;
  graph.ranks = 2;
  graph.group({0, 1});
  EntityRows entities;
  entities.add({{0, 1.0}}, 1);
  entities.add({{0, 1.0}}, 1);
  graph.add(Kind::transfer, 0, 2, 0, 0);
  graph.add(Kind::collective, 0, 2, 0, 1);
  CHECK(crowded_links(graph.columns(), entities.columns(), std::vector<double>{8}, {}) == Flags{1});
}

TEST(crowding_allows_what_fits_together) {
  GraphRows graph;
  graph.ranks = 2;
  EntityRows entities;
  entities.add({{0, 1.0}}, 1, 1, 3.0);
  entities.add({{0, 1.0}}, 1, 1, 5.0);
  graph.add(Kind::transfer, 0, 3, 0, 0);
  graph.add(Kind::transfer, 1, 3, 0, 1);
  CHECK(crowded_links(graph.columns(), entities.columns(), std::vector<double>{8}, {}) == Flags{0});
  CHECK(crowded_links(graph.columns(), entities.columns(), std::vector<double>{7.9}, {}) == Flags{1});
}

TEST(crowding_trusts_no_link_that_changes_or_that_anybody_may_use) {
  GraphRows graph;
  graph.ranks = 2;
  EntityRows entities;
  entities.add({{0, 1.0}, {1, 1.0}}, 1);
  graph.add(Kind::transfer, 0, 3, 0, 0);
  const std::vector<std::int64_t> at{5};
  const std::vector<std::uint8_t> kind{0};
  const std::vector<std::int32_t> target{1};
  const std::vector<double> less{0.5}, more{2.0};
  const std::vector<double> capacity{8, 8};
  CHECK(crowded_links(graph.columns(), entities.columns(), capacity, {at, kind, target, less}) == (Flags{0, 1}));
  CHECK(crowded_links(graph.columns(), entities.columns(), capacity, {at, kind, target, more}) == (Flags{1, 1}));
  graph.add(Kind::transfer, 1, 3, 0, 0);  // the same entity from another rank
  CHECK(crowded_links(graph.columns(), entities.columns(), capacity, {}) == (Flags{1, 1}));
}
