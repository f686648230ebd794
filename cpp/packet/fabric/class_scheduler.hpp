#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace railyard::packet {

/// Which class an egress serves next: strict priority, the highest first; then, where none of those waits, the others by
/// deficit round robin (Shreedhar and Varghese 1995). Classes are ranks 0 .. count - 1.
class ClassScheduler {
 public:
  struct Round {
    std::uint8_t turn = 0;      ///< Whose turn it is.
    bool granted = false;       ///< It has had this turn's quantum.
  };

  ClassScheduler() = default;
  /// One weight a rank; 0: strict.
  ClassScheduler(const std::vector<std::uint8_t>& weights, std::uint32_t mtu) : count_(static_cast<unsigned>(weights.size())) {
    for (unsigned rank = 0; rank < count_; ++rank) {
      if (weights[rank] == 0) strict_ |= 1u << rank;
      quantum_[rank] = static_cast<std::int32_t>(weights[rank] * mtu);
    }
  }

  /// PRE: ready is not 0. `deficit(rank)` is a reference, `size(rank)` the size of its first packet, `waiting` who has any.
  template <class Deficit, class Size>
  unsigned pick(std::uint32_t ready, std::uint32_t waiting, Round& round, Deficit&& deficit, Size&& size) const {
    if (const std::uint32_t strict = ready & strict_; strict != 0) return static_cast<unsigned>(std::bit_width(strict)) - 1;
    for (;;) {
      const unsigned rank = round.turn;
      if ((ready >> rank & 1) != 0) {
        if (!round.granted) deficit(rank) += quantum_[rank];
        round.granted = true;
        if (size(rank) <= deficit(rank)) {
          deficit(rank) -= size(rank);
          return rank;
        }
      } else if ((waiting >> rank & 1) == 0) {
        deficit(rank) = 0;  // an empty queue saves nothing up; a paused one keeps what it has
      }
      round.turn = static_cast<std::uint8_t>(rank + 1 == count_ ? 0 : rank + 1);
      round.granted = false;
    }
  }

 private:
  unsigned count_ = 0;
  std::uint32_t strict_ = 0;
  std::array<std::int32_t, 8> quantum_{};
};

}  // namespace railyard::packet
