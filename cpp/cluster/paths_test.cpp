#include "cluster/paths.hpp"

#include <stdexcept>

#include "core/harness.hpp"

using namespace railyard::cluster;

namespace {

/// Ports 0 and 1, their leafs 2 and 3, spines 4 and 5. Links 0 to 3 join ports and leafs, 4 to 11 leafs and spines.
struct Leafs {
  std::vector<std::int64_t> record_ptr{0, 1, 2, 4, 6, 7, 8}, first{0, 1, 2, 3, 5, 7, 8, 10};
  std::vector<std::int32_t> lo{0, 0, 0, 1, 0, 1, 0, 0}, hi{2, 2, 1, 2, 1, 2, 2, 2};
  std::vector<std::int32_t> width{1, 1, 1, 2, 2, 1, 1, 1}, stride{2, 2, 2, 2, 2, 2, 1, 1};
  std::vector<std::int32_t> choices{0, 1, 2, 4, 5, 6, 7, 3, 8, 9, 10, 11}, target{2, 3, 0, 1, 4, 5, 4, 5, 2, 3, 2, 3};
  std::vector<std::int32_t> source{0, 1, 1}, port{1, 1, 0};
  std::vector<std::uint32_t> key{1, 2, 3}, salt{0, 0, 7, 11, 0, 0};

  Paths paths() const {
    return walk({record_ptr, lo, hi, first, width, stride, choices, target}, source, port, key, salt);
  }
};

template <class T>
std::vector<T> plain(const railyard::BigVector<T>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

TEST(walk_crosses_a_spine_of_the_hash) {
  Leafs leafs;
  const Paths found = leafs.paths();
  CHECK(plain(found.ptr) == (std::vector<std::int64_t>{0, 4, 4, 8}) && !found.loop);
  CHECK(plain(found.arrived) == (std::vector<std::uint8_t>{1, 1, 1}));
  for (std::uint32_t key = 0; key < 64; ++key) {
    leafs.key[0] = key;
    std::uint32_t bits = (key ^ 7U) * 0x9E3779B1U;
    bits = (bits ^ (bits >> 15)) * 0x85EBCA77U;
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE3DU;
    const int spine = static_cast<int>(bits >> 31);
    const std::vector<std::int32_t> links = plain(leafs.paths().link);
    CHECK(std::vector(links.begin(), links.begin() + 4) == (std::vector{0, 4 + spine, 9 + 2 * spine, 3}));
  }
  leafs.key.clear(), leafs.salt.clear();
  CHECK(plain(leafs.paths().link) == (std::vector{0, 4, 9, 3, 1, 6, 8, 2}));
}

TEST(walk_says_which_flows_are_lost) {
  Leafs leafs;
  leafs.hi[3] = 1;  // leaf 2 has no way to port 1
  CHECK(plain(leafs.paths().arrived) == (std::vector<std::uint8_t>{0, 1, 1}));
  CHECK(plain(leafs.paths().ptr) == (std::vector<std::int64_t>{0, 1, 1, 5}));
  leafs = {};
  leafs.choices[3] = -1;  // not connected
  CHECK(plain(leafs.paths().arrived) == (std::vector<std::uint8_t>{0, 1, 1}));
  leafs = {};
  leafs.target[9] = leafs.target[11] = 2;  // back to the leaf where it came from
  CHECK(leafs.paths().loop);
}

TEST(walk_refuses_what_is_not_there) {
  const auto refused = [](auto spoil, const char* words) {
    Leafs leafs;
    spoil(leafs);
    return harness::throws<std::invalid_argument>([&] { leafs.paths(); }, words);
  };
  CHECK(refused([](Leafs& of) { of.source[0] = -1; }, "not in its column"));
  CHECK(refused([](Leafs& of) { of.source[0] = 9; }, "not in its column"));
  CHECK(refused([](Leafs& of) { of.target[0] = 77; }, "not in its column"));
  CHECK(refused([](Leafs& of) { of.choices[0] = 12; }, "not in its column"));
  CHECK(refused([](Leafs& of) { of.first[0] = -5; }, "not in its column"));
  CHECK(refused([](Leafs& of) { of.salt.pop_back(), of.salt.resize(2); }, "not in its column"));
  CHECK(refused([](Leafs& of) { of.stride[0] = 0; }, "stride"));
  CHECK(refused([](Leafs& of) { of.record_ptr[1] = 99; }, "records"));
  CHECK(refused([](Leafs& of) { of.hi.pop_back(); }, "columns of records"));
  CHECK(refused([](Leafs& of) { of.key.pop_back(); }, "columns of flows"));
  CHECK(refused([](Leafs& of) { of.port.pop_back(); }, "columns of flows"));
}

TEST(sums_are_added_in_the_order_of_the_flows) {
  const std::vector<std::int64_t> row{2, 0, 2}, ptr{0, 2, 3, 5}, again{0}, once{0, 1};
  const std::vector<std::int32_t> link{7, 3, 5, 3, 9}, seven{7};
  const std::vector<double> share{0.1, 0.2, 0.3, 0.4, 0.5}, factor{3.0, 1.0, 0.7}, one{1e16};
  const std::vector<Part> parts{{row, ptr, link, share, factor}, {again, once, seven, {}, one}};
  const Rows found = summed(4, parts);
  CHECK(plain(found.ptr) == (std::vector<std::int64_t>{0, 2, 2, 5, 5}));
  CHECK(plain(found.link) == (std::vector{5, 7, 3, 7, 9}));
  CHECK(plain(found.share) == (std::vector{0.3, 1e16, 0.2 * 3.0 + 0.4 * 0.7, 0.1 * 3.0, 0.5 * 0.7}));
  CHECK(plain(summed(0, {}).ptr) == std::vector<std::int64_t>{0});
}

TEST(sums_refuse_what_does_not_fit) {
  struct Flows {
    std::vector<std::int64_t> row{0, 1}, ptr{0, 1, 2};
    std::vector<std::int32_t> link{4, 5};
    std::vector<double> share{1.0, 1.0}, factor{1.0, 1.0};
  };
  const auto refused = [](auto spoil, const char* words) {
    Flows flows;
    spoil(flows);
    const std::vector<Part> parts{{flows.row, flows.ptr, flows.link, flows.share, flows.factor}};
    return harness::throws<std::invalid_argument>([&] { summed(2, parts); }, words);
  };
  CHECK(refused([](Flows& of) { of.row[1] = 2; }, "row"));
  CHECK(refused([](Flows& of) { of.row[1] = -1; }, "row"));
  CHECK(refused([](Flows& of) { of.link[1] = -1; }, "below 0"));
  CHECK(refused([](Flows& of) { of.factor.pop_back(); }, "columns of flows"));
  CHECK(refused([](Flows& of) { of.ptr.pop_back(); }, "columns of flows"));
  CHECK(refused([](Flows& of) { of.share.pop_back(); }, "columns of links"));
  CHECK(refused([](Flows& of) { of.ptr[1] = 3; }, "follow"));
  CHECK(refused([](Flows& of) { of.ptr[2] = 3; }, "follow"));
  CHECK(refused([](Flows& of) { of.ptr[0] = 1; }, "follow"));
}
