#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "packet/balance/path_choice.hpp"
#include "packet/context.hpp"
#include "packet/repeats/memory.hpp"
#include "packet/transport/interface.hpp"
#include "packet/transport/sender.hpp"
#include "packet/transport/uec_options.hpp"

namespace railyard::packet {

/// The Ultra Ethernet transport: selective acknowledgements, and a window at the sender, credit from the receiver, or both.
/// The rules are those of uet-htsim 40ccb05 (uec.cpp); the program is not. With the account and the pacer of pulled.hpp it
/// is EQDS, from which it descends. Sequence numbers, acknowledgements, window and credit are those of a connection, whose
/// messages go out one after another.
template <class Control, class Fabric>
class Uec : public Interface<Uec<Control, Fabric>, Fabric> {
 public:
  static constexpr bool kParts = true;

  Uec(Context& context, Fabric& fabric);

  void start(std::uint32_t flow);
  void deliver(std::uint32_t host, const Packet& packet, std::uint32_t);
  void on_timer(std::uint32_t connection);
  void on_pacer(std::uint32_t host);
  /// The host that a timer or pacer event is of.
  std::uint32_t host_of(Event kind, std::uint32_t index) const {
    if (kind == Event::timer) return senders_[index].source;
    return index < context_.hosts ? index : index - context_.hosts;
  }

  std::int64_t window(std::uint32_t flow) const {
    if constexpr (Control::kWindow) return sender_of(flow).state.window;
    return sender_of(flow).account.credit();
  }
  double rate(std::uint32_t) const { return 0; }

  /// Appends all that the future of a connection at rest depends on, on a single path; false: it is not at rest. Neither
  /// numbers and sums that both ends count from nor what is known of paths is in it.
  bool rest(std::uint32_t connection, std::vector<std::int64_t>& words) const
    requires(!Control::kCredit)
  {
    const Sender& sender = senders_[connection];
    const Receiver& receiver = receivers_[connection];
    words.insert(words.end(), {receiver.arrived == 0 ? 1 : 0, receiver.unacknowledged, receiver.ack_requested ? 1 : 0});
    sender.state.rest(constants_, context_.now, words);
    return sender.idle() && !sender.place.taken && sender.in_flight == 0 && sender.again == 0 && sender.unheard == 0 &&
           sender.silence == 0 && sender.last_request == 0 && sender.received == receiver.arrived &&
           sender.window.first() == sender.window.next() && receiver.expected == sender.window.next() &&
           receiver.out_of_order == 0;
  }

  /// The connection is as `rest` had it. Returns what follows its words. PRE: it is at rest.
  const std::int64_t* put(std::uint32_t connection, const std::int64_t* words)
    requires(!Control::kCredit)
  {
    Sender& sender = senders_[connection];
    Receiver& receiver = receivers_[connection];
    sender.received = receiver.arrived = words[0] != 0 ? 0 : 1;
    receiver.unacknowledged = words[1];
    receiver.ack_requested = words[2] != 0;
    return sender.state.put(context_.now, words + 3);
  }

  /// See `Stage`.
  void trace(std::uint32_t connection, bool on) {
    if (traces_.empty()) traces_.resize(senders_.size());
    traces_[connection] = {.on = on, .asked = false, .samples = {}};
  }
  bool traced(std::uint32_t connection, Delays& delays) const {
    using State = typename Control::State;
    const Trace& trace = traces_[connection];
    Ps low = 0, high = kMostMean;
    for (const double sample : trace.samples) {
      low = State::mean_after(low, sample);
      high = State::mean_after(high, sample);
    }
    if (low == high) delays.mean = low;
    else delays.samples = trace.samples;
    return !trace.asked;
  }
  void see(std::uint32_t connection, const Delays& delays) {
    auto& state = senders_[connection].state;
    if (delays.mean >= 0) state.mean_delay = delays.mean;
    for (const double sample : delays.samples) state.mean_delay = state.mean_after(state.mean_delay, sample);
  }

  /// What has been sent of a flow is forgotten.
  void forget(std::uint32_t flow) { messages_[flow] = {}; }
  /// Of the flow's payload, what the sender knows to have arrived in order.
  std::int64_t acknowledged_bytes(std::uint32_t flow) const {
    const Message& message = messages_[flow];
    const std::uint32_t known = sender_of(flow).window.first();
    if (message.first == kNone || known < message.first) return 0;
    const std::uint32_t packets = known - message.first;
    return std::min(std::int64_t{packets - std::min<std::uint32_t>(packets, message.requests)} * mss_,
                    context_.traffic.size_bytes[flow]);
  }

  void look_ahead_sender(std::uint32_t connection) const;
  void look_ahead_middle(std::uint32_t host, const Packet& packet) const;
  void look_ahead_near(std::uint32_t connection) const {
    if (senders_[connection].opened) senders_[connection].window.prefetch(sent_);
  }
  void look_ahead_near(std::uint32_t host, const Packet& packet) const {
    const Nic& nic = context_.nics[host];
    if (nic.link != kNone) fabric_.prefetch(nic.link);
    if (packet.kind == Kind::ack) look_ahead_near(connection_of(packet.flow));
  }

 private:
  using Base = Interface<Uec<Control, Fabric>, Fabric>;
  friend Base;
  using Base::context_;
  using Base::fabric_;

  /// Delays of a connection.
  struct Trace {
    bool on = false, asked = false;
    std::vector<double> samples;
  };
  static constexpr Ps kMostMean = Ps{1} << 50;  ///< Above all delays.

  using Sender = packet::Sender<typename Control::State, typename Control::Account>;

  std::uint32_t connection_of(std::uint32_t flow) const { return context_.traffic.connection_of(flow); }
  Sender& sender_of(std::uint32_t flow) { return senders_[connection_of(flow)]; }
  const Sender& sender_of(std::uint32_t flow) const { return senders_[connection_of(flow)]; }

  // What the interface asks for.
  bool may_send(std::uint32_t connection) const;
  std::uint32_t emit(std::uint32_t connection);
  Place& place(std::uint32_t connection) { return senders_[connection].place; }
  std::uint32_t source(std::uint32_t connection) const { return senders_[connection].source; }
  std::uint8_t klass(std::uint32_t connection) const { return senders_[connection].klass; }

  // The sender.
  std::int64_t next_size(const Sender& sender) const;
  std::uint32_t message_of(const Sender& sender, std::uint32_t sequence) const;
  std::uint32_t size_of(const Sender& sender, std::uint32_t sequence) const;
  std::uint32_t emit_new(Sender& sender, std::int64_t size);
  std::uint32_t data_packet(std::uint32_t flow, std::uint32_t sequence, std::int64_t size, std::uint16_t flags);
  void request(std::uint32_t connection);
  std::int64_t pull_target(const Sender& sender) const;
  void try_to_send(std::uint32_t connection);
  void arm_timer(std::uint32_t connection, Ps sent);
  void wait_on(std::uint32_t connection);
  void expire(std::uint32_t connection, std::uint32_t sequence);
  void queue_again(std::uint32_t connection, std::uint32_t sequence);
  void on_ack(const Packet& ack);
  Ps delay_of(Sender& sender, const Packet& ack);
  Ps mean_of(const Sender& sender, std::uint32_t flow);
  void on_nack(const Packet& nack);
  void on_pull(const Packet& pull);
  void finish_messages(Sender& sender);

  static constexpr std::uint8_t kMostRequests = 16;
  unsigned log2_span(std::uint32_t flow) const;

  // The receiver.
  Receiver& receiver_of(std::uint32_t flow);
  void take_payload(std::uint32_t flow, std::int64_t bytes);
  void on_data(std::uint32_t host, const Packet& packet);
  void on_trimmed(std::uint32_t host, const Packet& packet);
  void on_request(std::uint32_t host, const Packet& packet);
  void acknowledge(std::uint32_t host, const Packet& packet, bool from_here, std::uint16_t flags);
  std::uint32_t answer(Kind kind, const Packet& packet);
  void see_pull_target(std::uint32_t host, std::uint32_t flow, std::int64_t target);
  void wake_pacer(std::uint32_t host);
  void slow(std::uint32_t host);

  const Options& options_;
  const Derived& derived_;
  std::int64_t mss_;
  NsccConstants constants_;
  std::int64_t sack_bytes_;
  Balancer balancer_;
  WordArena sent_, received_;
  BigVector<Sender> senders_;
  BigVector<Message> messages_;
  BigVector<Receiver> receivers_;
  std::vector<typename Control::Pacer> pacers_;
  std::vector<Oversubscription> congestion_;
  std::vector<std::uint32_t> adjustments_;
  std::vector<Trace> traces_;  ///< Empty: none are kept.
};

template <class Control, class Fabric>
Uec<Control, Fabric>::Uec(Context& context, Fabric& fabric)
    : Base(context, fabric), options_(context.options), derived_(context.derived),
      mss_(std::int64_t{options_.mtu_bytes} - options_.header_bytes),
      constants_(NsccConstants::make(options_.mtu_bytes, mss_, static_cast<double>(derived_.rate_bps),
                                     derived_.base_rtt_ps, derived_.target_delay_ps, options_.of<NsccOptions>().quick_adapt_gate)),
      sack_bytes_(options_.of<UecOptions>().sack_bytes),
      balancer_(context.traffic, options_) {
  const std::size_t flows = context.traffic.source.size();
  messages_.resize(flows);
  senders_.resize(context.traffic.connections());
  receivers_.resize(context.traffic.connections());
  for (std::uint32_t flow = 0; flow < flows; ++flow) {
    if (context.traffic.source[flow] == context.traffic.target[flow]) continue;
    Sender& sender = sender_of(flow);
    sender.source = static_cast<std::uint32_t>(context.traffic.source[flow]);
    sender.target = static_cast<std::uint32_t>(context.traffic.target[flow]);
    sender.klass = context.traffic.klass[flow];
  }
  if constexpr (Control::kCredit) {
    pacers_.assign(context.hosts, typename Control::Pacer(options_, derived_));
    if (!Control::Pacer::kSlows || options_.of<RcccOptions>().oversubscription <= 1) return;
    congestion_.assign(context.hosts, Oversubscription(options_.of<RcccOptions>().oversubscription));
    adjustments_.assign(context.hosts, 0);
    for (std::uint32_t host = 0; host < context.hosts; ++host)
      if (context.owns(host)) context.wheel.push(
          Oversubscription::interval(derived_.base_rtt_ps, stream_key(options_.seed, Stream::pacer, host)),
          event(Event::pacer, context.hosts + host));
  }
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::deliver(std::uint32_t host, const Packet& packet, std::uint32_t) {
  switch (packet.kind) {
    case Kind::data:
      if ((packet.flags & kTrimmed) != 0) on_trimmed(host, packet);
      else on_data(host, packet);
      break;
    case Kind::request: on_request(host, packet); break;
    case Kind::ack: on_ack(packet); break;
    case Kind::nack: on_nack(packet); break;
    case Kind::pull: on_pull(packet); break;
    default: break;
  }
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::look_ahead_sender(std::uint32_t connection) const {
  const char* const bytes = reinterpret_cast<const char*>(&senders_[connection]);
  for (std::size_t at = 0; at < sizeof(Sender); at += 64) __builtin_prefetch(bytes + at, 1);
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::look_ahead_middle(std::uint32_t host, const Packet& packet) const {
  __builtin_prefetch(&context_.nics[host], 1);
  const std::uint32_t connection = connection_of(packet.flow);
  if (packet.kind != Kind::data && packet.kind != Kind::request) {
    look_ahead_sender(connection);
    return;
  }
  const char* const receiver = reinterpret_cast<const char*>(&receivers_[connection]);
  __builtin_prefetch(receiver, 1);
  __builtin_prefetch(receiver + sizeof(Receiver) - 1, 1);
  __builtin_prefetch(&messages_[packet.flow], 1);
}

}  // namespace railyard::packet

#include "packet/transport/uec_receiver.hpp"  // IWYU pragma: export
#include "packet/transport/uec_sender.hpp"    // IWYU pragma: export
