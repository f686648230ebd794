#pragma once

#include <array>
#include <vector>

#include "packet/balance/path_choice.hpp"
#include "packet/draws.hpp"

namespace railyard::packet {

/// Recycled entropies (REPS, Bonato et al. 2024): the entropies of good packets wait in a ring of eight and are used again
/// once; with none fresh a random one is tried. After a timeout the ring is frozen for 10 ms: what it holds is used over
/// and over, and 16 random ones follow.
class Reps {
 public:
  static constexpr int kRing = 8;
  static constexpr Ps kFreeze = 10'000'000'000;
  static constexpr std::uint8_t kExplore = 16;

  Reps(std::uint32_t flows, std::uint32_t paths, std::uint64_t seed) : paths_(paths), seed_(seed), flows_(flows) {}

  std::uint16_t next(std::uint32_t flow, Ps = 0) {
    Flow& at = flows_[flow];
    if (at.explore > 0) {
      --at.explore;
      return random(flow);
    }
    if (at.frozen) return at.count == 0 ? random(flow) : frozen(at);
    if (at.count == 0 || at.fresh == 0) return random(flow);
    const int oldest = (at.head + kRing - at.fresh) % kRing;
    at.valid &= static_cast<std::uint8_t>(~(1u << oldest));
    --at.fresh;
    return at.ring[static_cast<std::size_t>(oldest)];
  }

  void feedback(std::uint32_t flow, std::uint16_t entropy, Feedback what, Ps now) {
    Flow& at = flows_[flow];
    if (what == Feedback::timeout && !at.frozen && at.explore == 0) {
      at.frozen = true;
      at.thaw = now + kFreeze;
    }
    if (at.frozen && now > at.thaw) {
      const std::uint32_t draws = at.draws;
      at = Flow{};
      at.draws = draws;
      at.explore = kExplore;
    }
    if (what == Feedback::good) add(at, entropy);
  }

  static Mechanism record() {
    return {.family = Family::load_balancing,
            .name = "reps",
            .summary = "Recycled entropies of the last good packets, else random ones.",
            .sources = {"Bonato et al., REPS: Recycled Entropy Packet Spraying for Adaptive Load Balancing and Failure Mitigation, 2024"}};
  }

 private:
  struct Flow {
    std::array<std::uint16_t, kRing> ring{};
    Ps thaw = 0;
    std::uint32_t draws = 0;
    std::int8_t head = 0, fresh = 0, count = 0, frozen_head = 0;
    std::uint8_t valid = 0, explore = 0;
    bool frozen = false;
  };

  static void add(Flow& at, std::uint16_t entropy) {
    const auto bit = static_cast<std::uint8_t>(1u << at.head);
    if ((at.valid & bit) == 0 && at.fresh < kRing) ++at.fresh;
    at.ring[static_cast<std::size_t>(at.head)] = entropy;
    at.valid |= bit;
    at.head = static_cast<std::int8_t>((at.head + 1) % kRing);
    if (at.count < kRing) ++at.count;
  }

  static std::uint16_t frozen(Flow& at) {
    const auto bit = static_cast<std::uint8_t>(1u << at.frozen_head);
    if ((at.valid & bit) != 0) --at.fresh;
    at.valid &= static_cast<std::uint8_t>(~bit);
    const std::uint16_t entropy = at.ring[static_cast<std::size_t>(at.frozen_head)];
    at.frozen_head = static_cast<std::int8_t>((at.frozen_head + 1) % at.count);
    return entropy;
  }

  std::uint16_t random(std::uint32_t flow) {
    return static_cast<std::uint16_t>(draw(stream_key(seed_, Stream::entropy, flow), flows_[flow].draws++) & (paths_ - 1));
  }

  std::uint32_t paths_;
  std::uint64_t seed_;
  std::vector<Flow> flows_;
};

inline const LoadBalancer<Reps> kReps;

}  // namespace railyard::packet
