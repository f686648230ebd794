#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "packet/context.hpp"

namespace railyard::packet {

/// What a flow and the answers to it can touch, as parts of the network: links by their number, then hosts.
struct Way {
  std::vector<std::uint32_t> parts;  ///< The sender, links to the receiver, the receiver, links back.
  std::uint32_t links = 0;           ///< To the receiver; parts 1 to `links`.
  bool single = true;                ///< Whether every packet takes the same links.
};

/// The ways between hosts. PRE: no link is withdrawn.
class Ways {
 public:
  explicit Ways(const Context& context)
      : context_(context), links_(static_cast<std::uint32_t>(context.network.link_source.size())) {}

  /// Of a flow; valid until the next call where it is not single.
  const Way& of(std::uint32_t flow);

  /// Whether a flow and the answers to it have one way each.
  bool single(std::uint32_t flow) const;

  std::uint32_t links() const { return links_; }
  std::uint32_t parts() const { return links_ + context_.hosts; }
  std::uint32_t host(std::uint32_t host) const { return links_ + host; }

 private:
  void walk(Way& way, std::uint32_t from, std::uint32_t to) const;

  const Context& context_;
  std::uint32_t links_;
  std::unordered_map<std::uint64_t, Way> single_;
  Way several_;
};

}  // namespace railyard::packet
