#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "packet/balance/least_loaded.hpp"
#include "packet/balance/user.hpp"
#include "packet/draws.hpp"
#include "packet/options.hpp"
#include "packet/routing.hpp"

namespace railyard::packet {

/// Whether switches choose among equal-cost egresses by what they see, and not by hash.
inline bool switches_choose(const Options& options) {
  return options.load_balancing == "adaptive" || (options.load_balancing == "user" && options.of<UserBalanceOptions>().choose != 0);
}

/// A switch's choice of egress for a packet: the least loaded, or what a user's function says.
class EgressChoice {
 public:
  EgressChoice(const NetworkColumns& network, const Options& options)
      : options_(options), user_(options.load_balancing == "user"), rule_(options.of<UserBalanceOptions>()),
        least_loaded_(switches_choose(options) && !user_ ? network.link_source.size() : 0,
                      switches_choose(options) && !user_ ? network.nodes : 0, options.seed),
        draws_(switches_choose(options) && user_ ? network.nodes : 0) {}

  template <class Ports>
  std::uint32_t choose(Ports& ports, std::uint32_t node, const Choice& choice, Ps now) {
    return user_ ? ask(ports, node, choice, now) : least_loaded_.choose(ports, node, choice, now);
  }

 private:
  static constexpr std::size_t kMost = 256;

  template <class Ports>
  std::uint32_t ask(Ports& ports, std::uint32_t node, const Choice& choice, Ps now) {
    std::array<UserPort, kMost> rows;
    const std::size_t count = std::min<std::size_t>(choice.width, kMost);
    for (std::size_t at = 0; at < count; ++at) {
      const std::uint32_t link = choice.links[at];
      rows[at] = {ports.depth(link, now), ports.limit(link), link};
    }
    const std::uint64_t random = draw(stream_key(options_.seed, Stream::adaptive, node), draws_[node]++);
    return choice.links[UserBalance::choose(rule_, std::span(rows.data(), count), random, now)];
  }

  const Options& options_;
  bool user_;
  UserBalanceOptions rule_;
  LeastLoaded least_loaded_;
  std::vector<std::uint64_t> draws_;
};

}  // namespace railyard::packet
