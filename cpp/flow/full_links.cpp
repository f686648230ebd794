#include "flow/full_links.hpp"

#include <utility>

namespace railyard {

namespace {

/// Of its capacity, from which a link is full: what is missing is far above the rounding of many changes.
constexpr double kAlmostFull = 1 - 1e-6;

}  // namespace

void FullLinks::change(std::size_t link, double wire_bps, double capacity_bps, Ps now) {
  load_[link] += wire_bps;
  const bool full = capacity_bps > 0 && load_[link] >= capacity_bps * kAlmostFull;
  if (full && since_[link] == kNever) {
    since_[link] = now;
  } else if (!full && since_[link] != kNever) {
    full_ps_[link] += now - since_[link];
    since_[link] = kNever;
  }
}

std::vector<Ps> FullLinks::take(Ps now) && {
  for (std::size_t link = 0; link < since_.size(); ++link) {
    if (since_[link] != kNever) full_ps_[link] += now - since_[link];
  }
  return std::move(full_ps_);
}

}  // namespace railyard
