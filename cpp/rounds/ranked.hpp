#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace railyard::rounds {

/// Limits in rising order, of which some are active: sums over them in
/// logarithmic time (a Fenwick tree).
class Ranked {
 public:
  /// The next limit; none is less than the one before. Its rank.
  std::uint32_t append(double limit) {
    limits_.push_back(limit);
    return static_cast<std::uint32_t>(limits_.size() - 1);
  }
  /// All limits are known; none is active.
  void seal() {
    sums_.assign(limits_.size() + 1, {});
    while (top_ * 2 <= limits_.size()) top_ *= 2;
  }
  void add(std::uint32_t rank) { change(rank, 1.0); }
  void remove(std::uint32_t rank) { change(rank, -1.0); }

  double sum() const { return total_.sum; }
  /// Sum of the active limits up to a level.
  double below(double level) const { return up_to(level).sum; }
  /// How many active ones lie above it.
  double above(double level) const { return total_.count - up_to(level).count; }
  /// Where min(limit, level) summed over the active ones is a capacity. PRE:
  /// their sum is more than it.
  double level(double capacity) const {
    Part found;
    std::size_t at = 0;
    for (std::size_t step = top_; step > 0; step /= 2) {
      if (at + step > limits_.size()) continue;
      const Part next{found.sum + sums_[at + step].sum, found.count + sums_[at + step].count};
      // Kept where the largest limit of these, given to all the others too,
      // still fits.
      if (next.sum + limits_[at + step - 1] * (total_.count - next.count) <= capacity) at += step, found = next;
    }
    return (capacity - found.sum) / (total_.count - found.count);
  }

 private:
  struct Part {
    double sum = 0, count = 0;
  };

  void change(std::uint32_t rank, double by) {
    total_.count += by;
    total_.sum = total_.count == 0 ? 0.0 : total_.sum + by * limits_[rank];  // an empty link forgets what was rounded
    for (std::size_t at = rank + 1; at < sums_.size(); at += at & (~at + 1))
      sums_[at].sum += by * limits_[rank], sums_[at].count += by;
  }
  Part up_to(double level) const {
    Part found;
    std::size_t at = 0;
    for (std::size_t step = top_; step > 0; step /= 2)
      if (at + step <= limits_.size() && limits_[at + step - 1] <= level) {
        at += step;
        found.sum += sums_[at].sum, found.count += sums_[at].count;
      }
    return found;
  }

  std::vector<double> limits_;
  std::vector<Part> sums_;  ///< Of the active ones: entry i sums over the last
                            ///< (i & -i) ranks up to i.
  Part total_;
  std::size_t top_ = 1;
};

}  // namespace railyard::rounds
