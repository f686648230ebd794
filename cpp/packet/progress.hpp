#pragma once

#include <algorithm>
#include <cstdint>

#include "core/time.hpp"

namespace railyard::packet {

/// Whether a run comes on. It does not where flows are under way and for `patience` none of their bytes has been
/// acknowledged: timers run out again and again, packets may even arrive, but never the ones that are missing.
class Progress {
 public:
  /// No sensible timeout is longer: 60 s.
  static constexpr Ps kMost = 60'000'000'000'000;
  static constexpr Ps kLeast = 1'000'000'000'000;
  static constexpr int kTimeouts = 1000;

  /// A thousand timeouts in a row, at least 1 s and at most 60 s.
  static Ps patience(Ps timeout) { return std::clamp(timeout, kLeast / kTimeouts, kMost / kTimeouts) * kTimeouts; }

  Progress(std::uint32_t flows, Ps patience) : flows_(flows), patience_(patience) {}

  void started(bool sends) { ++(sends ? started_ : local_); }

  /// Flows that have begun to send and have not finished.
  std::uint32_t under_way(std::uint32_t unfinished) const { return started_ + local_ + unfinished - flows_; }

  /// Since when nothing has moved.
  Ps moved_at() const { return moved_at_; }

  /// Asked now and then, with the bytes acknowledged of all flows (called now and then only). False: nothing comes of it
  /// any more.
  template <class Acknowledged>
  bool comes_on(std::uint32_t unfinished, Ps now, Acknowledged&& acknowledged) {
    if (now - looked_at_ < patience_ / 4) return true;
    looked_at_ = now;
    const State state{acknowledged(), unfinished, started_};
    if (state != state_ || under_way(unfinished) == 0) moved_at_ = now;
    state_ = state;
    return now - moved_at_ < patience_;
  }

 private:
  struct State {
    std::int64_t acknowledged = 0;
    std::uint32_t unfinished = 0, started = 0;
    bool operator==(const State&) const = default;
  };

  std::uint32_t flows_, started_ = 0, local_ = 0;
  Ps patience_, looked_at_ = 0, moved_at_ = 0;
  State state_;
};

}  // namespace railyard::packet
