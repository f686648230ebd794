#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "packet/balance/ecmp.hpp"
#include "packet/draws.hpp"
#include "packet/routing.hpp"

namespace railyard::packet {

/// Adaptive routing: of the equal-cost egresses one of those with the shortest queue, in four bands (below 5, 10, 20 % of
/// its limit, above; then those that are held back; last, those whose link is down: a switch knows its own ports, and an
/// empty queue before a dead link must not draw traffic), sampled at most every 0.1 us; among equals by lot.
class LeastLoaded {
 public:
  static constexpr Ps kSample = 100'000;
  static constexpr int kHeldBack = 4, kDown = 5;

  LeastLoaded(std::size_t links, std::size_t nodes, std::uint64_t seed) : seed_(seed), sampled_(links), draws_(nodes) {}

  template <class Ports>
  std::uint32_t choose(Ports& ports, std::uint32_t node, const Choice& choice, Ps now) {
    std::array<std::uint32_t, 256> best;
    std::uint32_t count = 0;
    int least = kDown + 1;
    for (std::uint32_t at = 0; at < choice.width; ++at) {
      const int band = band_of(ports, choice.links[at], now);
      if (band < least) {
        least = band;
        count = 0;
      }
      if (band == least && count < best.size()) best[count++] = choice.links[at];
    }
    return best[below(draw(stream_key(seed_, Stream::adaptive, node), draws_[node]++), count)];
  }

  static Mechanism record() {
    return {.family = Family::load_balancing,
            .name = "adaptive",
            .summary = "The switch: the emptiest of the equal-cost egresses.",
            .sources = {"docs/explanation/packet-lossless.md: four bands of queues, sampled"}};
  }

 private:
  struct Sample {
    Ps at = 0;
    int band = 0;
  };

  template <class Ports>
  int band_of(Ports& ports, std::uint32_t link, Ps now) {
    Sample& sample = sampled_[link];
    if (now - sample.at <= kSample) return sample.band;
    sample.at = now;
    if (ports.down(link)) return sample.band = kDown;
    if (ports.paused(link)) return sample.band = kHeldBack;
    const std::int64_t depth = ports.depth(link, now);
    const std::int64_t limit = ports.limit(link);
    sample.band = 20 * depth < limit ? 0 : 10 * depth < limit ? 1 : 5 * depth < limit ? 2 : 3;
    return sample.band;
  }

  std::uint64_t seed_;
  std::vector<Sample> sampled_;
  std::vector<std::uint32_t> draws_;
};

inline const LoadBalancer<LeastLoaded, Ecmp> kLeastLoaded;

}  // namespace railyard::packet
