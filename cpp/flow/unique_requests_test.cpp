#include "flow/unique_requests.hpp"

#include "core/harness.hpp"

using namespace railyard;

TEST(group_numbers_equal_requests_by_first_appearance) {
  const std::vector<std::uint8_t> kind{1, 0, 1, 2, 1, 2, 2};
  const std::vector<std::int32_t> rank{5, 0, 5, 5, 6, 5, 5};
  const std::vector<std::int32_t> peer{1, -1, 1, -1, 1, -1, -1};
  const std::vector<std::int64_t> size{9, 0, 9, 9, 9, 9, 9};
  const std::vector<std::int32_t> count{1, 1, 1, 1, 1, 1, 2};
  const std::vector<std::uint8_t> collective{0, 0, 0, 3, 0, 3, 3};
  const Requests found = unique_requests({kind, rank, peer, size, count, collective});
  CHECK(found.request == (std::vector<std::int32_t>{0, -1, 0, 1, 2, 1, 3}));
  CHECK(found.first == (std::vector<std::int32_t>{0, 3, 4, 6}));
}

TEST(group_keeps_many_apart) {
  const std::size_t n = 30'000;
  std::vector<std::uint8_t> kind(n, 1), collective(n, 0);
  std::vector<std::int32_t> rank, peer, count(n, 1);
  std::vector<std::int64_t> size;
  for (std::size_t i = 0; i < n; ++i) {
    rank.push_back(static_cast<std::int32_t>(i % 100));
    peer.push_back(static_cast<std::int32_t>(i / 100 % 100));
    size.push_back(static_cast<std::int64_t>(i / 20'000));
  }
  const Requests found = unique_requests({kind, rank, peer, size, count, collective});
  CHECK(found.first.size() == 20'000);
  for (std::size_t i = 0; i < n; ++i) {
    const auto j = static_cast<std::size_t>(found.first[static_cast<std::size_t>(found.request[i])]);
    CHECK(rank[i] == rank[j] && peer[i] == peer[j] && size[i] == size[j]);
  }
}
