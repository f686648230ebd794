#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "packet/event.hpp"
#include "packet/options.hpp"
#include "packet/partition.hpp"
#include "packet/wheel.hpp"

namespace railyard::packet {

/// Hears of the ends of flows that are sent as packets.
class Listener {
 public:
  Listener() = default;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  virtual ~Listener() = default;

  /// At its sender (0) or its receiver (1) the flow has ended; whether that is no news.
  virtual bool heard(std::uint32_t flow, std::uint8_t at, Ps now) = 0;
};

/// When flows begin and what their ends set free. A flow waits for `need` of its dependencies; a dependency is done when
/// its sender has the last acknowledgement, or (`dep_at` 1) when its receiver has every byte. A flow from a host to itself
/// is work of that host: it takes its `delay_ps` and no bandwidth.
class Lifecycle {
 public:
  /// `part` is null where the network is not cut into parts; else the flows are those that begin in the part.
  Lifecycle(const TrafficColumns& traffic, Outcome& outcome, Wheel& wheel, const Exchange* part);

  /// Schedules what waits for nothing.
  void begin();

  /// The flow's start event. True: the transport begins it; false: it was local work and is done.
  bool start(std::uint32_t flow, Ps now) {
    if (traffic_.source[flow] == traffic_.target[flow]) {
      finish_local(flow, now);
      return false;
    }
    outcome_.start_ps[flow] = now;
    return true;
  }

  /// Whom to ask before an end counts.
  void listen(Listener* listener) { listener_ = listener; }

  /// The sender has the last acknowledgement.
  void sent(std::uint32_t flow, Ps now) { end(flow, kAtSender, now); }

  /// The receiver has every byte.
  void received(std::uint32_t flow, Ps now) { end(flow, kAtReceiver, now); }

  /// The flow has ended at its sender (0) or its receiver (1).
  void announce(std::uint32_t flow, std::uint8_t at, Ps now) {
    if (at == kAtSender) {
      outcome_.finish_ps[flow] = now;
      last_finish_ = std::max(last_finish_, now);
      --unfinished_;
    } else {
      outcome_.receiver_finish_ps[flow] = now;
    }
    if (!after_.empty()) release(flow, at, now);
  }

  std::uint32_t unfinished() const { return unfinished_; }
  Ps last_finish() const { return last_finish_; }

 private:
  static constexpr std::uint8_t kAtSender = 0, kAtReceiver = 1;
  struct After {
    std::uint32_t flow;
    std::uint8_t at;
  };

  bool owns(std::size_t flow) const {
    return part_ == nullptr || part_->owns(static_cast<std::uint32_t>(traffic_.source[flow]));
  }
  void end(std::uint32_t flow, std::uint8_t at, Ps now) {
    if (listener_ == nullptr || !listener_->heard(flow, at, now)) announce(flow, at, now);
  }
  void finish_local(std::uint32_t flow, Ps now);
  void release(std::uint32_t flow, std::uint8_t at, Ps now);

  const TrafficColumns& traffic_;
  Outcome& outcome_;
  Wheel& wheel_;
  std::vector<std::uint32_t> waits_;      ///< Dependencies that must still be done.
  std::vector<std::uint32_t> after_ptr_;  ///< Who waits for a flow.
  std::vector<After> after_;
  const Exchange* part_;
  Listener* listener_ = nullptr;
  std::uint32_t unfinished_ = 0;
  Ps last_finish_ = 0;
};

}  // namespace railyard::packet
