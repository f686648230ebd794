#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "packet/draws.hpp"
#include "packet/options.hpp"
#include "packet/transport/receiver.hpp"

namespace railyard::packet {

/// What a sender goes by when it says how much credit it wants.
struct Wanted {
  std::int64_t fresh, again;  ///< Bytes not yet sent, to be sent again.
  std::int64_t most;          ///< Bytes that may be outstanding.
  std::int64_t mtu;
  std::uint32_t active;       ///< Flows that share the interface.
};

/// A sender's account where receivers grant nothing.
struct NoAccount {
  static constexpr bool kCredit = false;
  static constexpr std::int64_t target = 0;
  void open(std::int64_t) {}
  void stop_speculating() {}
  bool waits_for_answer() const { return false; }
  std::int64_t credit() const { return 0; }
  static constexpr std::uint8_t kPatience = 1;
  static Ps request_gap(const Derived& derived, bool) { return derived.base_rtt_ps; }
};

/// A sender's account of credit under Ultra Ethernet's receiver-credit control: quanta of 256 bytes. It begins with a
/// window of its own guess, which ends with the first word from the receiver.
struct RcccAccount {
  static constexpr bool kCredit = true;
  static constexpr bool kAsksAgain = true;  ///< What must be sent again is asked for like the rest.
  static constexpr int kShift = 8;
  static constexpr std::uint8_t kPatience = 100;  ///< Timeouts without a word before what waits is asked for again.

  std::int64_t bytes = 0, pull = kFirstPull, target = kFirstPull;
  bool speculating = true;

  /// A connection that was idle begins to send.
  void open(std::int64_t window) {
    bytes = window;
    speculating = true;
  }
  bool may_spend() const { return bytes > 0; }
  void spend(std::int64_t size) { bytes -= size; }
  bool spent() const { return bytes <= 0; }
  void forgo(std::int64_t) {}
  std::int64_t credit() const { return bytes; }
  bool waits_for_answer() const { return speculating; }
  void stop_speculating() {
    if (!speculating) return;
    speculating = false;
    bytes = std::min<std::int64_t>(bytes, 0);
  }
  void on_pull(std::int64_t number, std::int64_t most) {
    if (number <= pull) return;
    bytes = std::min(bytes + ((number - pull) << kShift), most);
    pull = number;
  }
  /// The pull number that would satisfy the sender.
  std::int64_t ask(const Wanted& wanted) const {
    std::int64_t ask = std::min(wanted.fresh + wanted.again, wanted.most) - bytes;
    if (speculating && ask < wanted.mtu && wanted.fresh > 0) ask = wanted.mtu;
    if (wanted.active > 1) ask /= wanted.active;
    return (ask + (pull << kShift) + (1 << kShift) - 1) / (1 << kShift);
  }
  /// Time that must pass between two requests: in uet-htsim a constant of the window control, and 0 without it.
  static Ps request_gap(const Derived& derived, bool window) { return window ? derived.base_rtt_ps : 0; }
};

/// A queue of numbers of flows or connections.
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

/// A pull that goes out: to which flow, and when the next may.
struct Granted {
  std::uint32_t flow;
  Ps pause;
};

/// What the pacers of receivers have in common: flows that ask are served in turn; when none asks, those that did get up
/// to a window of credit ahead.
class PullQueues {
 public:
  bool active() const { return active_; }
  void set_active() { active_ = true; }

 protected:
  void ask(Receiver& receiver, std::uint32_t flow) {
    if (receiver.in_pull) return;
    receiver.in_pull = true;
    asking_.push(flow);
  }

  /// After a grant to a flow that asked.
  void requeue(Receiver& receiver, std::uint32_t flow) {
    if (receiver.pull_target > receiver.latest_pull) {
      asking_.push(flow);
      return;
    }
    idle_.push(flow);
    receiver.in_pull = false;
    receiver.in_slow_pull = true;
  }

  void grant_ahead(Receiver& receiver, std::uint32_t flow, std::int64_t quanta, std::int64_t most_ahead) {
    if (!receiver.in_slow_pull) {
      receiver.in_slow_pull = true;
      receiver.in_pull = false;
    }
    receiver.latest_pull += quanta;
    const std::int64_t ahead = receiver.latest_pull - receiver.pull_target;
    if (ahead >= 0 && ahead < most_ahead) {
      idle_.push(flow);
    } else {
      receiver.in_slow_pull = false;
      receiver.in_pull = false;
    }
  }

  FlowQueue asking_, idle_;
  bool active_ = false;
};

/// Where receivers grant nothing.
struct NoPacer {
  static std::uint16_t answer_entropy(std::uint16_t packet) { return packet; }
};

/// Receiver-credit control of Ultra Ethernet: up to four packets a pull, and the time that they take until the next.
class RcccPacer : public PullQueues {
 public:
  static constexpr bool kSlows = true;  ///< Where the fabric is oversubscribed.
  static constexpr std::int64_t kQuantaPerPull = (4096 * 4) >> RcccAccount::kShift;

  RcccPacer(const Options& options, const Derived& derived)
      : quantum_(static_cast<Ps>(static_cast<double>(8 << RcccAccount::kShift) * 1e12 /
                                 static_cast<double>(derived.rate_bps) / options.pull_rate)),
        most_ahead_(derived.window_bytes >> RcccAccount::kShift) {}

  void saw_target(Receiver& receiver, std::uint32_t flow) { ask(receiver, flow); }
  void saw_cut(Receiver& receiver, std::uint32_t flow) { ask(receiver, flow); }
  void saw_request(Receiver& receiver, std::uint32_t flow) { ask(receiver, flow); }

  /// The entropy of an answer, by that of what it answers; of a pull, by that of the one before.
  static std::uint16_t answer_entropy(std::uint16_t packet) { return packet; }
  static std::uint16_t pull_entropy(std::uint16_t before) { return static_cast<std::uint16_t>((before + 1) & 127); }

  std::optional<Granted> grant(BigVector<Receiver>& receivers) {
    std::uint32_t flow = 0;
    std::int64_t spent = kQuantaPerPull;
    if (!asking_.empty()) {
      flow = asking_.pop();
      spent = grant_asked(receivers[flow]);
      requeue(receivers[flow], flow);
    } else if (!idle_.empty()) {
      flow = idle_.pop();
      grant_ahead(receivers[flow], flow, kQuantaPerPull, most_ahead_);
    } else {
      active_ = false;
      return std::nullopt;
    }
    // Even a pull that grants nothing takes its time.
    if (spent == 0) spent = 1024 >> RcccAccount::kShift;
    const Ps quantum = rate_ < 1 ? static_cast<Ps>(static_cast<double>(quantum_) / rate_) : quantum_;
    return Granted{flow, quantum * spent};
  }

  /// The share of the line rate to grant, where the fabric is congested.
  void set_rate(double rate) { rate_ = rate; }

 private:
  static std::int64_t grant_asked(Receiver& receiver) {
    const std::int64_t before = receiver.latest_pull;
    receiver.latest_pull = std::max(std::min(before + kQuantaPerPull, receiver.pull_target), before);
    return receiver.latest_pull - before;
  }

  Ps quantum_;
  std::int64_t most_ahead_;
  double rate_ = 1;
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
