#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/big_vector.hpp"

namespace railyard::cluster {

/// Interval routing of a network, as `Routes` in src/railyard/cluster/routes.py has it, and where its links lead.
struct RouteTable {
  std::span<const std::int64_t> record_ptr;     ///< Records of node n: record_ptr[n]..record_ptr[n + 1], by `lo`.
  std::span<const std::int32_t> lo, hi;         ///< Destination ports of a record: lo up to and without hi.
  std::span<const std::int64_t> first;          ///< Its first group in `choices`.
  std::span<const std::int32_t> width, stride;  ///< Equal links of a group, and ports that share a group.
  std::span<const std::int32_t> choices;        ///< Links; -1 where nothing is connected.
  std::span<const std::int32_t> target;         ///< By link, the node to which it leads.
};

/// Links of many flows, those of flow i in link[ptr[i]..ptr[i + 1]) in the order in which it crosses them.
struct Paths {
  BigVector<std::int64_t> ptr{0};
  BigVector<std::int32_t> link;
  BigVector<std::uint8_t> arrived;  ///< 0: the links end at a node without a route to the flow's port.
  bool loop = false;                ///< Whether a flow did not arrive after kMostHops links; then nothing else counts.
};
inline constexpr int kMostHops = 1024;

/// One path a flow, from node source[i] to port[i]: at each node the hash of key[i] and the node's salt chooses among
/// equal links. Without keys and salts it is the first of them.
///
/// Throws std::invalid_argument where columns differ in length or name what is not there.
Paths walk(const RouteTable& table, std::span<const std::int32_t> source, std::span<const std::int32_t> port,
           std::span<const std::uint32_t> key, std::span<const std::uint32_t> salt);

/// Links of many flows with shares, and the row that each flow is added to, times a factor.
struct Part {
  std::span<const std::int64_t> row, ptr;
  std::span<const std::int32_t> link;
  std::span<const double> share;  ///< Empty: 1 for each link.
  std::span<const double> factor;
};

/// Shares of links by row, the links of a row in ascending order and each once.
struct Rows {
  BigVector<std::int64_t> ptr;
  BigVector<std::int32_t> link;
  BigVector<double> share;
};

/// Sums of flows by row and link, added in the order of the parts and of their flows.
///
/// Throws std::invalid_argument where columns do not fit together, or a row is not one of `rows` or a link below 0.
Rows summed(std::int64_t rows, std::span<const Part> parts);

}  // namespace railyard::cluster
