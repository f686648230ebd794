#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/time.hpp"

namespace railyard {

/// What is due at a time; `target` and `stamp` mean what the owner of the queue wants them to mean.
struct Event {
  Ps time;
  std::uint32_t target;
  std::uint32_t stamp;
};

/// A monotone priority queue over integer time: a radix heap.
///
/// Bucket b > 0 holds the events whose time differs from `now` in bit b-1 and in no higher one; bucket 0 those at `now`.
/// WHY: a push is an append; an event moves down at most once a bit, always in sequential memory, and whole batches of
/// equal times cost one comparison each. Events of one time come out in the order they were pushed, because a bucket is
/// emptied in order into buckets that are empty at that moment.
class EventQueue {
 public:
  Ps now() const { return now_; }
  bool empty() const { return occupied_ == 0 && buckets_[0].empty(); }

  /// PRE: event.time >= now().
  void push(const Event& event) {
    const auto differing = static_cast<std::uint64_t>(event.time ^ now_);
    const auto bucket = static_cast<std::size_t>(64 - std::countl_zero(differing));
    buckets_[bucket].push_back(event);
    occupied_ |= bucket == 0 ? 0 : std::uint64_t{1} << (bucket - 1);
  }

  /// Moves to the next time at which something is due; false when nothing is.
  /// POST: `batch()` holds all events of that time; pushes at that time are appended to it.
  bool advance() {
    return advance([](const Event&, std::size_t) {});
  }

  /// The same; `soon(event, n)` is called for events that will come up among the next n, n falling as they come nearer.
  template <class Soon>
  bool advance(Soon&& soon) {
    buckets_[0].clear();
    if (occupied_ == 0) return false;
    const auto lowest = static_cast<std::size_t>(std::countr_zero(occupied_)) + 1;
    occupied_ &= occupied_ - 1;
    auto& source = buckets_[lowest];
    now_ = source.front().time;
    for (const Event& event : source) now_ = event.time < now_ ? event.time : now_;
    for (const Event& event : source) push(event);
    if (source.size() <= kSoon) {
      for (const Event& event : source) soon(event, source.size());
    }
    source.clear();
    return true;
  }

  /// The events of `now()`; grows when more are pushed, so index it instead of holding iterators.
  const std::vector<Event>& batch() const { return buckets_[0]; }

 private:
  static constexpr std::size_t kSoon = 64;

  std::array<std::vector<Event>, 64> buckets_;
  std::uint64_t occupied_ = 0;  ///< Bit b-1 set when bucket b > 0 is not empty.
  Ps now_ = 0;
};

}  // namespace railyard
