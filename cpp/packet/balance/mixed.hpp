#pragma once

#include <vector>

#include "packet/balance/bitmap.hpp"

namespace railyard::packet {

/// The entropy of a good packet is used again, first come first served; without one it is the bitmap's turn.
class Mixed {
 public:
  Mixed(std::uint32_t flows, std::uint32_t paths, std::uint64_t seed) : bitmap_(flows, paths, seed), good_(flows) {}

  std::uint16_t next(std::uint32_t flow, Ps = 0) { return good_[flow].empty() ? bitmap_.next(flow) : good_[flow].pop(); }

  void feedback(std::uint32_t flow, std::uint16_t entropy, Feedback what, Ps now) {
    if (what == Feedback::good) good_[flow].push(entropy);
    else bitmap_.feedback(flow, entropy, what, now);
  }

  static Mechanism record() {
    return {.family = Family::load_balancing,
            .name = "mixed",
            .summary = "Recycled good entropies, else the bitmap's choice.",
            .sources = {"ultraethernet/uet-htsim, commit 40ccb05, uec_mp.cpp (mixed)"}};
  }

 private:
  /// A queue in a ring that doubles when full.
  class Ring {
   public:
    bool empty() const { return count_ == 0; }
    void push(std::uint16_t value) {
      if (count_ == values_.size()) grow();
      values_[(head_ + count_++) & (values_.size() - 1)] = value;
    }
    std::uint16_t pop() {
      const std::uint16_t value = values_[head_];
      head_ = (head_ + 1) & static_cast<std::uint32_t>(values_.size() - 1);
      --count_;
      return value;
    }

   private:
    void grow() {
      std::vector<std::uint16_t> larger(values_.empty() ? 8 : 2 * values_.size());
      for (std::uint32_t at = 0; at < count_; ++at) larger[at] = values_[(head_ + at) & (values_.size() - 1)];
      values_.swap(larger);
      head_ = 0;
    }
    std::vector<std::uint16_t> values_;
    std::uint32_t head_ = 0, count_ = 0;
  };

  Bitmap bitmap_;
  std::vector<Ring> good_;
};

inline const LoadBalancer<Mixed> kMixed;

}  // namespace railyard::packet
