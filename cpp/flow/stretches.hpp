#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace railyard {

/// Communications on the links that they share: one row for each entity on a link, sorted by link.
struct UseColumns {
  std::span<const std::int64_t> link;
  std::span<const std::int64_t> entity;
  std::span<const double> demand;  ///< Share of the link's rate that the entity takes at full speed.
  std::span<const double> weight;  ///< In max-min sharing of that link, > 0.
  std::size_t size() const { return link.size(); }
};

/// When entities run: rows ptr[e] to ptr[e + 1] are the runs of entity e.
struct SpanColumns {
  std::span<const std::int64_t> ptr;
  std::span<const std::int64_t> start_ps;
  std::span<const std::int64_t> end_ps;  ///< After the start.
};

/// How a link is shared; the closed forms are those of `railyard.engine.analytic`.
struct SharingLaw {
  double least;     ///< Share of a link left to those who ask for more than their fair share.
  double rounding;  ///< Demand beyond a link's rate that counts as none.
};

/// How many times longer each entity takes than with the network to itself, from when all of them run.
///
/// The demand on a link over time is a step function. A run is slowed there by the mean of the slowdown over its span,
/// and by the worst of its links; an entity takes the mean over its runs. Where `slowed`, spans are those of work that is
/// slowed already: a part of a span is then a part of the time, not of the work, and speeds are averaged, not slowdowns.
///
/// Entities that run at the same times, and links whose users run at the same times, are computed once. A link takes time
/// in the order of n log k, for n runs of k users.
///
/// Throws std::invalid_argument when the columns do not fit together.
std::vector<double> stretches(const UseColumns& uses, const SpanColumns& spans, bool slowed, const SharingLaw& law);

}  // namespace railyard
