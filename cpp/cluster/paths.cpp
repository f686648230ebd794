#include "cluster/paths.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>

namespace railyard::cluster {
namespace {

template <class T, class Index>
const T& at(std::span<const T> column, Index index) {
  if (static_cast<std::size_t>(index) >= column.size()) throw std::invalid_argument("a number is not in its column");
  return column[static_cast<std::size_t>(index)];
}

/// Which of `width` equal links a switch takes; Routes::pick of the packet engine does the same, bit by bit.
std::uint32_t pick(std::uint32_t key, std::uint32_t salt, std::uint32_t width) {
  std::uint32_t bits = (key ^ salt) * 0x9E3779B1U;
  bits = (bits ^ (bits >> 15)) * 0x85EBCA77U;
  bits = (bits ^ (bits >> 13)) * 0xC2B2AE3DU;
  return static_cast<std::uint32_t>((std::uint64_t{bits} * width) >> 32);
}

/// A group of equal links; width 0: none leads there.
struct Group {
  std::int64_t first;
  std::int32_t width;
};

Group towards(const RouteTable& table, std::int32_t node, std::int32_t port) {
  const std::int64_t begin = at(table.record_ptr, node), end = at(table.record_ptr, node + 1);
  if (begin < 0 || begin > end || end > static_cast<std::int64_t>(table.lo.size()))
    throw std::invalid_argument("records of a node are not there");
  const auto above = std::upper_bound(table.lo.begin() + begin, table.lo.begin() + end, port);
  const auto record = above - table.lo.begin() - 1;
  if (record < begin || port >= table.hi[static_cast<std::size_t>(record)]) return {0, 0};
  const auto place = static_cast<std::size_t>(record);
  const std::int32_t width = table.width[place];
  if (table.stride[place] < 1) throw std::invalid_argument("a stride is below 1");
  const std::int64_t first = table.first[place] + (std::int64_t{port} - table.lo[place]) / table.stride[place] * width;
  return {first, at(table.choices, first) < 0 ? 0 : width};
}

void check(const RouteTable& table) {
  const std::size_t records = table.lo.size();
  for (const std::size_t size : {table.hi.size(), table.first.size(), table.width.size(), table.stride.size()})
    if (size != records) throw std::invalid_argument("columns of records differ in length");
}

void check(const Part& part) {
  const std::size_t flows = part.row.size();
  if (part.ptr.size() != flows + 1 || part.factor.size() != flows || flows > UINT32_MAX)
    throw std::invalid_argument("columns of flows differ in length");
  if (!part.share.empty() && part.share.size() != part.link.size())
    throw std::invalid_argument("columns of links differ in length");
  if (part.ptr.front() != 0 || part.ptr.back() != static_cast<std::int64_t>(part.link.size()) ||
      !std::is_sorted(part.ptr.begin(), part.ptr.end()))
    throw std::invalid_argument("flows do not follow one another");
}

}  // namespace

Paths walk(const RouteTable& table, std::span<const std::int32_t> source, std::span<const std::int32_t> port,
           std::span<const std::uint32_t> key, std::span<const std::uint32_t> salt) {
  check(table);
  if (port.size() != source.size() || (!salt.empty() && key.size() != source.size()))
    throw std::invalid_argument("columns of flows differ in length");
  Paths found;
  found.ptr.reserve(source.size() + 1);
  found.arrived.reserve(source.size());
  for (std::size_t flow = 0; flow < source.size(); ++flow) {
    std::int32_t node = source[flow];
    int hops = 0;
    for (; node != port[flow]; ++hops) {
      if (hops > kMostHops) {
        found.loop = true;
        return found;
      }
      const Group group = towards(table, node, port[flow]);
      if (group.width == 0) break;
      std::int64_t choice = group.first;
      if (!salt.empty() && group.width > 1)
        choice += pick(key[flow], at(salt, node), static_cast<std::uint32_t>(group.width));
      const std::int32_t link = at(table.choices, choice);
      node = at(table.target, link);
      found.link.push_back(link);
    }
    found.arrived.push_back(node == port[flow]);
    found.ptr.push_back(static_cast<std::int64_t>(found.link.size()));
  }
  return found;
}

Rows summed(std::int64_t rows, std::span<const Part> parts) {
  std::int32_t widest = -1;
  std::size_t most = 0;
  BigVector<std::size_t> next(static_cast<std::size_t>(std::max<std::int64_t>(rows, 0)) + 1);
  for (const Part& part : parts) {
    check(part);
    most += part.link.size();
    for (const std::int64_t row : part.row) {
      if (row < 0 || row >= rows) throw std::invalid_argument("a row is not there");
      ++next[static_cast<std::size_t>(row) + 1];
    }
    for (const std::int32_t link : part.link) {
      if (link < 0) throw std::invalid_argument("a link is below 0");
      widest = std::max(widest, link);
    }
  }
  for (std::size_t row = 1; row < next.size(); ++row) next[row] += next[row - 1];

  struct Flow {
    std::uint32_t part, index;
  };
  BigVector<Flow> flows(next.back());  // by row, in their order
  for (std::uint32_t part = 0; part < parts.size(); ++part)
    for (std::uint32_t index = 0; index < parts[part].row.size(); ++index)
      flows[next[static_cast<std::size_t>(parts[part].row[index])]++] = {part, index};

  struct Sum {
    double share;
    std::size_t row;  // one more than the last row that had the link
  };
  // WHY calloc: a cluster may have a million links and the flows name a few; pages that are not touched take no time.
  const std::unique_ptr<Sum[], decltype(&std::free)> sums(
      static_cast<Sum*>(std::calloc(static_cast<std::size_t>(std::int64_t{widest} + 2), sizeof(Sum))), &std::free);
  if (!sums) throw std::bad_alloc();
  Rows found;
  found.ptr.reserve(next.size());
  found.link.reserve(most);  // WHY not less: memory that is not touched takes nothing, and moving it would
  found.share.reserve(most);
  found.ptr.push_back(0);
  std::size_t flow = 0;
  for (std::size_t row = 0; row + 1 < next.size(); ++row) {
    const std::size_t begin = found.link.size();
    for (; flow < next[row]; ++flow) {  // by now where the next row begins
      const Part& part = parts[flows[flow].part];
      const std::size_t index = flows[flow].index;
      for (auto at = static_cast<std::size_t>(part.ptr[index]); at < static_cast<std::size_t>(part.ptr[index + 1]);
           ++at) {
        Sum& sum = sums[static_cast<std::size_t>(part.link[at])];
        if (sum.row != row + 1) {
          sum = {0.0, row + 1};
          found.link.push_back(part.link[at]);
        }
        sum.share += part.share.empty() ? part.factor[index] : part.share[at] * part.factor[index];
      }
    }
    std::sort(found.link.begin() + static_cast<std::ptrdiff_t>(begin), found.link.end());
    for (std::size_t at = begin; at < found.link.size(); ++at)
      found.share.push_back(sums[static_cast<std::size_t>(found.link[at])].share);
    found.ptr.push_back(static_cast<std::int64_t>(found.link.size()));
  }
  return found;
}

}  // namespace railyard::cluster
