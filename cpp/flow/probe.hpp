#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "flow/columns.hpp"

namespace railyard {

/// Bytes that chosen links carried in each interval of time.
///
/// Nobody knows beforehand how long a run takes: when time leaves the last sample, neighbours are merged and the interval
/// doubles, so that a run of any length ends with between half and all of the samples.
class LinkProbe {
 public:
  LinkProbe(std::span<const std::int32_t> links, std::uint32_t samples, std::size_t all_links);

  bool active() const { return samples_ > 0; }
  /// `wire_bps` flowed on `link` from `begin` to `end`.
  void record(std::size_t link, double wire_bps, Ps begin, Ps end);

  Ps interval() const { return interval_; }
  std::vector<double> take() && { return std::move(bytes_); }

 private:
  void double_interval();

  std::size_t samples_;
  std::size_t width_;
  Ps interval_ = Ps{1} << 20;  ///< About a microsecond.
  std::vector<std::int32_t> column_;  ///< Of each link, -1 where it is not recorded.
  std::vector<double> bytes_;
};

}  // namespace railyard
