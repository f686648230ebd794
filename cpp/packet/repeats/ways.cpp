#include "packet/repeats/ways.hpp"

#include <algorithm>
#include <utility>

namespace railyard::packet {

const Way& Ways::of(std::uint32_t flow) {
  const auto from = static_cast<std::uint32_t>(context_.traffic.source[flow]);
  const auto to = static_cast<std::uint32_t>(context_.traffic.target[flow]);
  const std::uint64_t key = std::uint64_t{from} << 32 | to;
  if (const auto known = single_.find(key); known != single_.end()) return known->second;
  Way way;
  walk(way, from, to);
  way.links = static_cast<std::uint32_t>(way.parts.size()) - 1;
  walk(way, to, from);
  if (way.single) return single_.emplace(key, std::move(way)).first->second;
  several_ = std::move(way);
  return several_;
}

bool Ways::single(std::uint32_t flow) const {
  const auto from = static_cast<std::uint32_t>(context_.traffic.source[flow]);
  const auto to = static_cast<std::uint32_t>(context_.traffic.target[flow]);
  for (const auto& [begin, end] : {std::pair(from, to), std::pair(to, from)})
    for (std::uint32_t node = begin; node != end;) {
      const Choice choice = context_.routes.find(node, end);
      if (choice.width != 1) return false;
      node = static_cast<std::uint32_t>(context_.network.link_target[*choice.links]);
    }
  return true;
}

void Ways::walk(Way& way, std::uint32_t from, std::uint32_t to) const {
  way.parts.push_back(host(from));
  std::vector<std::uint32_t> nodes{from};
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    const Choice choice = context_.routes.find(nodes[at], to);
    way.single = way.single && choice.width == 1;
    for (std::uint32_t which = 0; which < choice.width; ++which) {
      const std::uint32_t link = choice.links[which];
      const auto next = static_cast<std::uint32_t>(context_.network.link_target[link]);
      way.parts.push_back(link);
      if (next != to && std::find(nodes.begin(), nodes.end(), next) == nodes.end()) nodes.push_back(next);
    }
  }
}

}  // namespace railyard::packet
