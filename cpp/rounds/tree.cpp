#include "rounds/tree.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "rounds/fluid.hpp"

namespace railyard::rounds {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::int32_t kNone = -1;

/// Who begins when, and who gives up when.
class Starts {
 public:
  Starts(const TransferColumns& transfers, std::span<const double> start_s, std::span<const double> stop_s)
      : columns_(transfers), start_s_(start_s), stop_s_(stop_s), ends_(start_s.size(), kNever) {}

  std::vector<double> run(const LinkColumns& links) {
    Fluid fluid(columns_, links, most(links.capacity_bps.size()));
    collect(fluid);
    std::size_t starting = 0, stopping = 0, active = 0;
    std::vector<std::uint32_t> ended;
    while (starting < starts_.size() || active > 0) {
      const double starts = starting < starts_.size() ? start_s_[starts_[starting]] : kNever;
      while (stopping < stops_.size() && finished_[stops_[stopping]]) ++stopping;
      const double stops = stopping < stops_.size() ? stop_s_[stops_[stopping]] : kNever;
      const double now = std::min({starts, stops, fluid.next_end()});
      fluid.move_to(now);
      for (; starting < starts_.size() && start_s_[starts_[starting]] <= now; ++starting, ++active)
        fluid.begin(starts_[starting]);
      ended.clear();
      fluid.finish(ended);
      for (const std::uint32_t i : ended) ends_[i] = now, finished_[i] = true, --active;
      for (; stopping < stops_.size() && stop_s_[stops_[stopping]] <= now; ++stopping)
        if (const std::uint32_t i = stops_[stopping]; !finished_[i]) {
          fluid.give_up(i);
          finished_[i] = true, --active;
        }
      fluid.settle();
    }
    return std::move(ends_);
  }

 private:
  std::vector<double> most(std::size_t links) const {
    std::vector<double> sum(links, 0.0);
    for (std::size_t i = 0; i < ends_.size(); ++i)
      if (columns_.link[i] != kNone && std::isfinite(start_s_[i]))
        sum[static_cast<std::size_t>(columns_.link[i])] += columns_.limit_bps[i];
    return sum;
  }

  /// Answers at once what shares nothing; the others in the order in which they start, and in which they give up.
  void collect(const Fluid& fluid) {
    finished_.assign(ends_.size(), true);
    for (std::uint32_t i = 0; i < ends_.size(); ++i) {
      const double start = start_s_[i];
      if (!std::isfinite(start) || stop_s_[i] <= start) continue;
      if (fluid.shares(i) && columns_.bits[i] > 0) {
        finished_[i] = false;
        starts_.push_back(i);
        if (std::isfinite(stop_s_[i])) stops_.push_back(i);
      } else if (const double end = start + columns_.bits[i] / columns_.limit_bps[i]; end <= stop_s_[i]) {
        ends_[i] = end;
      }
    }
    const auto by = [](std::vector<std::uint32_t>& rows, std::span<const double> key) {
      std::stable_sort(rows.begin(), rows.end(), [&](auto one, auto other) { return key[one] < key[other]; });
    };
    by(starts_, start_s_);
    by(stops_, stop_s_);
  }

  const TransferColumns& columns_;
  std::span<const double> start_s_, stop_s_;
  std::vector<double> ends_;
  std::vector<char> finished_;  ///< Ended or given up.
  std::vector<std::uint32_t> starts_, stops_;
};

}  // namespace

void check_columns(const TransferColumns& transfers, const LinkColumns& links) {
  const std::size_t count = transfers.bits.size(), many = links.capacity_bps.size();
  if (transfers.limit_bps.size() != count || transfers.link.size() != count)
    throw std::invalid_argument("columns of transfers differ in length");
  if (links.parent.size() != many) throw std::invalid_argument("columns of links differ in length");
  for (const std::int32_t link : transfers.link)
    if (link < kNone || link >= static_cast<std::int64_t>(many))
      throw std::invalid_argument("a transfer names no link");
  for (std::size_t link = 0; link < many; ++link) {
    if (!(links.capacity_bps[link] > 0)) throw std::invalid_argument("a link has no rate");
    if (links.parent[link] < kNone || links.parent[link] >= static_cast<std::int64_t>(link))
      throw std::invalid_argument("a link comes before its parent");
  }
  for (const double limit : transfers.limit_bps)
    if (!(limit > 0)) throw std::invalid_argument("a transfer has no rate");
}

std::vector<double> shared_ends(const TransferColumns& transfers, std::span<const double> start_s,
                                std::span<const double> stop_s, const LinkColumns& links) {
  check_columns(transfers, links);
  if (start_s.size() != transfers.bits.size() || stop_s.size() != transfers.bits.size())
    throw std::invalid_argument("columns of transfers differ in length");
  return Starts(transfers, start_s, stop_s).run(links);
}

}  // namespace railyard::rounds
