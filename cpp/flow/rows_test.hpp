// Columns for tests, made row by row.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "flow/columns.hpp"

struct EntityRows {
  std::vector<std::int64_t> ptr{0};
  std::vector<std::int32_t> idx;
  std::vector<double> share, volume, cap, weight;
  std::vector<std::int64_t> latency;

  void add(const std::vector<std::pair<std::int32_t, double>>& links, double bytes, double w = 1,
           double limit = std::numeric_limits<double>::infinity(), std::int64_t fixed = 0) {
    for (const auto& [link, part] : links) {
      idx.push_back(link);
      share.push_back(part);
    }
    ptr.push_back(static_cast<std::int64_t>(idx.size()));
    volume.push_back(bytes);
    weight.push_back(w);
    cap.push_back(limit);
    latency.push_back(fixed);
  }
  railyard::EntityColumns columns() const { return {ptr, idx, share, volume, latency, cap, weight}; }
};

struct GraphRows {
  std::int32_t ranks = 1;
  std::vector<std::uint8_t> kind, stream;
  std::vector<std::int32_t> rank, dep_idx, comm_ranks, entity;
  std::vector<std::int64_t> duration, dep_ptr{0}, comm_ptr{0};

  void group(const std::vector<std::int32_t>& members) {
    comm_ranks.insert(comm_ranks.end(), members.begin(), members.end());
    comm_ptr.push_back(static_cast<std::int64_t>(comm_ranks.size()));
  }
  void add(railyard::Kind what, std::int32_t where, std::uint8_t on, std::int64_t ps, std::int32_t row,
           const std::vector<std::int32_t>& deps = {}) {
    kind.push_back(static_cast<std::uint8_t>(what));
    rank.push_back(where);
    stream.push_back(on);
    duration.push_back(ps);
    entity.push_back(row);
    dep_idx.insert(dep_idx.end(), deps.begin(), deps.end());
    dep_ptr.push_back(static_cast<std::int64_t>(dep_idx.size()));
  }
  railyard::GraphColumns columns() const {
    return {ranks, kind, rank, duration, stream, dep_ptr, dep_idx, comm_ptr, comm_ranks, entity};
  }
};
