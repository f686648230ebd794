#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "packet/transport/credit.hpp"
#include "packet/transport/sender.hpp"

namespace railyard::packet {

/// EQDS (Olteanu et al., NSDI 2022): receivers pull. It shares its acknowledgements and its recovery with Ultra Ethernet's
/// transport (uec.hpp), which descends from it; what differs is the credit. The rules are those of csg-htsim 841d9e7
/// (eqds.cpp); the program is not.

/// A sender's account of credit under EQDS: quanta of 512 bytes. Granted credit and the speculative window of the
/// beginning are held apart. The first word from the receiver ends speculation; what is left of the window is spent by
/// attempts to send that it no longer allows, so that the pull target, which counts it as credit in hand, can advance.
struct EqdsAccount {
  static constexpr bool kCredit = true;
  static constexpr bool kAsksAgain = false;  ///< The receiver has seen what was lost and grants it by itself.
  static constexpr int kShift = 9;
  static constexpr std::uint8_t kPatience = 10;  ///< Timeouts without a word before what waits is asked for again.

  std::int64_t granted = 0, speculative = 0, pull = kFirstPull, target = kFirstPull;
  bool speculating = true;

  void open(std::int64_t window) {
    speculative = window;
    speculating = true;
  }
  std::int64_t credit() const { return granted + speculative; }
  bool may_spend() const { return credit() > 0 && (granted > 0 || speculating); }
  void spend(std::int64_t size) { (granted > 0 ? granted : speculative) -= size; }
  bool spent() const { return granted < 0; }
  /// An attempt to send so many bytes that finds speculative credit alone.
  void forgo(std::int64_t size) {
    if (!speculating && granted <= 0 && credit() > 0) speculative -= size;
  }
  bool waits_for_answer() const { return speculating; }
  void stop_speculating() { speculating = false; }
  void on_pull(std::int64_t number, std::int64_t) {
    if (number <= pull) return;
    granted += (number - pull) << kShift;
    pull = number;
  }
  /// The pull number that would satisfy the sender; below what has been granted when it has enough. A flow shorter than
  /// its speculative window asks for all that is left of it: speculation may end before it does. (In csg-htsim the number
  /// has no sign, and such a flow asks for 2^64 quanta.)
  std::int64_t ask(const Wanted& wanted) const {
    std::int64_t ask = std::min(wanted.fresh, wanted.most) - credit();
    if (speculating && ask <= 0) ask = wanted.fresh;
    return pull + ((ask + (1 << kShift) - 1) >> kShift);
  }
  static Ps request_gap(const Derived& derived, bool) { return derived.min_rto_ps; }
};

/// EQDS's pacer: one packet a pull, at a fixed pace. Flows that lost packets come first, then those that ask.
class EqdsPacer : public PullQueues {
 public:
  static constexpr bool kSlows = false;
  static constexpr std::uint32_t kPullBytes = 4096;
  static constexpr std::uint32_t kFraming = 38;  ///< Preamble, Ethernet header, checksum and gap.
  static constexpr std::int64_t kQuantaPerPull = kPullBytes >> EqdsAccount::kShift;

  // WHY a product: csg-htsim shortens a packet's time by the factor, and makes good for it by the framing that its links
  // do not carry; the two together grant 0.985 of the line rate.
  EqdsPacer(const Options& options, const Derived& derived)
      : pause_(static_cast<Ps>(options.pull_rate * 8e12 * (kPullBytes + options.header_bytes + kFraming) /
                               static_cast<double>(derived.rate_bps))),
        most_ahead_(derived.window_bytes >> EqdsAccount::kShift),
        packet_(static_cast<std::uint16_t>((options.mtu_bytes + (1u << EqdsAccount::kShift) - 1) >> EqdsAccount::kShift)) {}

  void saw_target(Receiver& receiver, std::uint32_t flow) {
    if (receiver.again == 0) ask(receiver, flow);
  }

  /// The sender says that it waits: everything that would have asked for it may have been lost.
  void saw_request(Receiver& receiver, std::uint32_t flow) {
    if (receiver.again == 0) ask(receiver, flow);
    saw_cut(receiver, flow);
  }

  void saw_cut(Receiver& receiver, std::uint32_t flow) {
    if (receiver.again == 0) again_.push(flow);
    receiver.again = static_cast<std::uint16_t>(std::min<std::uint32_t>(receiver.again + packet_, kMostAgain));
  }

  /// All answers to a flow take one path.
  static std::uint16_t answer_entropy(std::uint16_t) { return kOnePath; }
  static std::uint16_t pull_entropy(std::uint16_t) { return kOnePath; }

  std::optional<Granted> grant(BigVector<Receiver>& receivers) {
    std::uint32_t flow = 0;
    if (!again_.empty()) {
      flow = again_.pop();
      grant_one(receivers[flow]);
      if (receivers[flow].again > 0) again_.push(flow);
    } else if (!asking_.empty()) {
      flow = asking_.pop();
      grant_one(receivers[flow]);
      requeue(receivers[flow], flow);
    } else if (!idle_.empty()) {
      flow = idle_.pop();
      grant_ahead(receivers[flow], flow, kQuantaPerPull, most_ahead_);
    } else {
      active_ = false;
      return std::nullopt;
    }
    return Granted{flow, pause_};
  }

 private:
  static constexpr std::uint32_t kMostAgain = 0xffff;

  static void grant_one(Receiver& receiver) {
    receiver.again = static_cast<std::uint16_t>(receiver.again - std::min<std::int64_t>(receiver.again, kQuantaPerPull));
    receiver.latest_pull += kQuantaPerPull;
  }

  Ps pause_;
  std::int64_t most_ahead_;
  std::uint16_t packet_;
  FlowQueue again_;
};

using EqdsControl = Control<FixedWindow, false, EqdsAccount, EqdsPacer>;

}  // namespace railyard::packet
