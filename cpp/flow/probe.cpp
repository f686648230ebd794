#include "flow/probe.hpp"

#include <algorithm>
#include <stdexcept>

namespace railyard {

LinkProbe::LinkProbe(std::span<const std::int32_t> links, std::uint32_t samples, std::size_t all_links)
    : samples_(links.empty() ? 0 : (samples + 1u) / 2u * 2u), width_(links.size()) {
  if (!active()) return;
  column_.assign(all_links, -1);
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (links[i] < 0 || static_cast<std::size_t>(links[i]) >= all_links) {
      throw std::invalid_argument("link to be recorded out of range");
    }
    column_[static_cast<std::size_t>(links[i])] = static_cast<std::int32_t>(i);
  }
  bytes_.assign(samples_ * width_, 0.0);
}

void LinkProbe::record(std::size_t link, double wire_bps, Ps begin, Ps end) {
  if (column_[link] < 0) return;
  const auto column = static_cast<std::size_t>(column_[link]);
  while (end > interval_ * static_cast<Ps>(samples_)) double_interval();
  while (begin < end) {
    const Ps sample = begin / interval_;
    const Ps until = std::min(end, (sample + 1) * interval_);
    const double bytes = wire_bps / 8 * (static_cast<double>(until - begin) / kPsPerSecond);
    bytes_[static_cast<std::size_t>(sample) * width_ + column] += bytes;
    begin = until;
  }
}

void LinkProbe::double_interval() {
  interval_ *= 2;
  for (std::size_t s = 0; s < samples_; ++s) {
    for (std::size_t c = 0; c < width_; ++c) {
      const std::size_t from = 2 * s * width_ + c;
      bytes_[s * width_ + c] = 2 * s < samples_ ? bytes_[from] + bytes_[from + width_] : 0.0;
    }
  }
}

}  // namespace railyard
