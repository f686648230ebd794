#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "railyard/packet/draws.hpp"
#include "railyard/packet/receiver.hpp"

namespace railyard::packet {

/// Receiver-credit congestion control of Ultra Ethernet: credit in quanta of 256 bytes.
inline constexpr int kQuantumShift = 8;
inline constexpr std::int64_t kQuantaPerPull = (4096 * 4) >> kQuantumShift;  ///< Four packets a pull.

constexpr std::int64_t quanta_up(std::int64_t bytes) { return (bytes + 255) / 256; }

/// A queue of flow numbers.
class FlowQueue {
 public:
  bool empty() const { return head_ == flows_.size(); }
  void push(std::uint32_t flow) {
    if (head_ > 64 && 2 * head_ > flows_.size()) {
      flows_.erase(flows_.begin(), flows_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    flows_.push_back(flow);
  }
  std::uint32_t pop() { return flows_[head_++]; }

 private:
  std::vector<std::uint32_t> flows_;
  std::size_t head_ = 0;
};

/// Grants a host's line rate to the flows that ask, one pull at a time in turn; when none asks, up to a window of credit
/// ahead to those that did.
class Pacer {
 public:
  bool active() const { return active_; }
  void set_active() { active_ = true; }
  void ask(std::uint32_t flow) { asking_.push(flow); }

  /// What is granted now: the flow, its new pull number; then the quanta that time must pass for. False: nothing to do.
  bool grant(BigVector<Receiver>& receivers, std::int64_t most_ahead, std::uint32_t& flow, std::int64_t& spent) {
    if (asking_.empty() && idle_.empty()) {
      active_ = false;
      return false;
    }
    if (!asking_.empty()) {
      flow = asking_.pop();
      spent = grant_asked(receivers[flow], flow);
    } else {
      flow = idle_.pop();
      spent = grant_ahead(receivers[flow], flow, most_ahead);
    }
    // Even a pull that grants nothing takes its time.
    if (spent == 0) spent = 1024 >> kQuantumShift;
    return true;
  }

  double rate = 1;  ///< Of the line rate; slowed where the fabric is congested.

 private:
  std::int64_t grant_asked(Receiver& receiver, std::uint32_t flow) {
    const std::int64_t before = receiver.latest_pull;
    receiver.latest_pull = std::max(std::min(before + kQuantaPerPull, receiver.pull_target), before);
    if (receiver.pull_target > receiver.latest_pull) {
      asking_.push(flow);
    } else {
      idle_.push(flow);
      receiver.in_pull = false;
      receiver.in_slow_pull = true;
    }
    return receiver.latest_pull - before;
  }

  std::int64_t grant_ahead(Receiver& receiver, std::uint32_t flow, std::int64_t most_ahead) {
    if (!receiver.in_slow_pull) {
      receiver.in_slow_pull = true;
      receiver.in_pull = false;
    }
    receiver.latest_pull += kQuantaPerPull;
    const std::int64_t ahead = receiver.latest_pull - receiver.pull_target;
    if (ahead >= 0 && ahead < most_ahead) {
      idle_.push(flow);
    } else {
      receiver.in_slow_pull = false;
      receiver.in_pull = false;
    }
    return kQuantaPerPull;
  }

  FlowQueue asking_, idle_;
  bool active_ = false;
};

/// Slows a receiver's credit where the fabric between is oversubscribed: by the share of packets trimmed before the last
/// hop, and by marks above 30 %; otherwise faster, doubling (uet-htsim's OversubscribedCC).
class Oversubscription {
 public:
  static constexpr double kTarget = 0.3, kAdd = 0.01, kMultiply = 0.5, kGain = 0.5, kLeast = 0.01;

  explicit Oversubscription(double ratio = 1) : least_(std::max(0.9 / ratio, kLeast)) {}

  void saw_packet() { ++packets_; }
  void saw_mark() { ++marks_; }
  void saw_trim(bool last_hop) { ++(last_hop ? trims_last_ : trims_); }

  /// The share of the line rate to grant from now on.
  double adjust() {
    const std::int64_t whole = packets_ - trims_last_ - trims_;
    const double share = whole == 0 ? 0 : static_cast<double>(marks_) / static_cast<double>(whole);
    bool slower = false;
    if (trims_ > 0) {
      rate_ -= static_cast<double>(trims_) / static_cast<double>(packets_);
      slower = true;
    }
    mean_ = mean_ * (1 - kGain) + kGain * share;
    if (mean_ > kTarget) {
      rate_ *= 1 - (mean_ - kTarget) * kMultiply;
      slower = true;
    }
    if (slower) {
      rounds_ = 0;
    } else {
      rate_ += marks_ == 0 ? std::ldexp(kAdd, std::min(rounds_, 30)) : kAdd;
      ++rounds_;
    }
    rate_ = std::min(std::max(rate_, least_), 1.0);
    packets_ = marks_ = trims_ = trims_last_ = 0;
    return rate_;
  }

  /// Until the next adjustment: about one and a half round trips, by lot so that hosts do not act in step.
  static Ps interval(Ps base_rtt, std::uint64_t bits) {
    const double part = static_cast<double>(bits >> 11) * 0x1p-53;
    return static_cast<Ps>((0.75 + part / 2) * 1.5 * static_cast<double>(base_rtt));
  }

 private:
  std::int64_t packets_ = 0, marks_ = 0, trims_ = 0, trims_last_ = 0;
  int rounds_ = 0;
  double least_;  ///< Most of what the fabric can carry from everybody at once.
  double rate_ = 1, mean_ = 0;
};

}  // namespace railyard::packet
