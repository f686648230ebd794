#pragma once

#include <cstddef>
#include <cstdint>

#include "core/big_vector.hpp"
#include "packet/balance/spray.hpp"

namespace railyard::packet {

/// Entropies in turn; one that brought a mark or a cut packet is passed over once (EQDS in csg-htsim).
class Skip {
 public:
  Skip(std::uint32_t flows, std::uint32_t paths, std::uint64_t seed)
      : turn_(flows, paths, seed), words_((paths + 63) / 64), skips_(std::size_t{flows} * words_) {}

  std::uint16_t next(std::uint32_t flow, Ps = 0) {
    std::uint64_t* const skips = skips_.data() + std::size_t{flow} * words_;
    std::uint16_t entropy = turn_.current(flow);
    for (; bit(skips, entropy); entropy = turn_.current(flow)) {
      skips[entropy >> 6] &= ~(std::uint64_t{1} << (entropy & 63));
      turn_.advance(flow);
    }
    turn_.advance(flow);
    return static_cast<std::uint16_t>(entropy | turn_.upper(flow));
  }

  void feedback(std::uint32_t flow, std::uint16_t entropy, Feedback what, Ps = 0) {
    if (what == Feedback::good) return;
    const std::uint32_t path = entropy & turn_.mask();
    skips_[std::size_t{flow} * words_ + (path >> 6)] |= std::uint64_t{1} << (path & 63);
  }

  static Mechanism record() {
    return {.family = Family::load_balancing,
            .name = "skip",
            .summary = "Entropies in turn, but for once those that brought a mark or a cut packet.",
            .sources = {"Broadcom/csg-htsim, commit 841d9e7, eqds.cpp"}};
  }

 private:
  static bool bit(const std::uint64_t* words, std::uint16_t at) { return (words[at >> 6] >> (at & 63) & 1) != 0; }

  Spray turn_;
  std::size_t words_;
  BigVector<std::uint64_t> skips_;  ///< A bit an entropy.
};

inline const LoadBalancer<Skip> kSkip;

}  // namespace railyard::packet
