#pragma once

#include "railyard/packet/engine.hpp"

namespace railyard::packet {

/// Windows of the event wheel: a few hundred events each at full load.
inline int wheel_shift(std::size_t links) {
  return std::clamp(24 - static_cast<int>(std::bit_width(links / 4 + 1)), 11, 17);
}

template <class Control, class Balancer>
Engine<Control, Balancer>::Engine(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options,
                                  const Derived& derived)
    : network_(network), traffic_(traffic), options_(options), derived_(derived), hosts_(network.hosts),
      mss_(std::int64_t{options.mtu_bytes} - options.header_bytes),
      key_seed_(stream_key(options.seed, Stream::key, 0)),
      constants_(NsccConstants::make(options.mtu_bytes, mss_, static_cast<double>(derived.rate_bps),
                                     derived.base_rtt_ps, derived.target_delay_ps, options.quick_adapt_gate)),
      quantum_time_(static_cast<Ps>(static_cast<double>(8 << kQuantumShift) * 1e12 /
                                    static_cast<double>(derived.rate_bps) / options.pull_rate)),
      wheel_(wheel_shift(network.link_source.size())), routes_(network, options.seed),
      ports_(network, options, derived, slab_, wheel_, outcome_.counters),
      least_loaded_(Balancer::kAdaptive ? network.link_source.size() : 0, Balancer::kAdaptive ? network.nodes : 0,
                    options.seed),
      balancer_(static_cast<std::uint32_t>(traffic.source.size()), options.paths, options.seed), nics_(hosts_) {
  const std::size_t flows = traffic.source.size();
  outcome_.derived = derived;
  outcome_.start_ps.assign(flows, -1);
  outcome_.finish_ps.assign(flows, -1);
  outcome_.receiver_finish_ps.assign(flows, -1);
  senders_.resize(flows);
  states_.resize(flows);
  receivers_.resize(flows);
  waits_.assign(flows, 0);
  unfinished_ = static_cast<std::uint32_t>(flows);
  for (std::size_t link = 0; link < network.link_source.size(); ++link) {
    const auto source = static_cast<std::uint32_t>(network.link_source[link]);
    if (source >= hosts_) continue;
    nics_[source].link = nics_[source].links == 0 ? static_cast<std::uint32_t>(link) : kNone;
    ++nics_[source].links;
  }
  if constexpr (Control::kCredit) {
    pacers_.resize(hosts_);
    if (options.oversubscription > 1) {
      congestion_.assign(hosts_, Oversubscription(options.oversubscription));
      adjustments_.assign(hosts_, 0);
    }
  }
  after_ptr_.assign(flows + 1, 0);
  for (const std::int32_t before : traffic.dep_idx) ++after_ptr_[static_cast<std::size_t>(before) + 1];
  for (std::size_t flow = 0; flow < flows; ++flow) after_ptr_[flow + 1] += after_ptr_[flow];
  after_.resize(traffic.dep_idx.size());
  std::vector<std::uint32_t> at(after_ptr_.begin(), after_ptr_.end() - 1);
  for (std::size_t flow = 0; flow < flows; ++flow) {
    const auto begin = static_cast<std::size_t>(traffic.dep_ptr[flow]);
    const auto end = static_cast<std::size_t>(traffic.dep_ptr[flow + 1]);
    waits_[flow] = static_cast<std::uint32_t>(end - begin);
    for (std::size_t dep = begin; dep < end; ++dep)
      after_[at[static_cast<std::size_t>(traffic.dep_idx[dep])]++] = static_cast<std::uint32_t>(flow);
  }
}

template <class Control, class Balancer>
Outcome Engine<Control, Balancer>::run(const Heartbeat& heartbeat) {
  for (std::uint32_t flow = 0; flow < senders_.size(); ++flow) {
    Sender& sender = senders_[flow];
    sender.source = static_cast<std::uint32_t>(traffic_.source[flow]);
    sender.target = static_cast<std::uint32_t>(traffic_.target[flow]);
    sender.size = traffic_.size_bytes[flow];
    if (waits_[flow] == 0) wheel_.push(std::max<Ps>(traffic_.start_ps[flow], 0), event(Event::timer, flow));
  }
  for (std::uint32_t host = 0; host < congestion_.size(); ++host)
    wheel_.push(Oversubscription::interval(derived_.base_rtt_ps, stream_key(options_.seed, Stream::pacer, host)),
                event(Event::pacer, hosts_ + host));
  Due due;
  while (unfinished_ != 0 && wheel_.pop(due)) {
    if (options_.end_ps != 0 && due.time >= options_.end_ps) break;
    now_ = due.time;
    look_ahead();
    dispatch(due);
    if ((++outcome_.events & 0x3fff) == 0) heartbeat(outcome_.events, now_);
  }
  outcome_.now_ps = now_;
  outcome_.packets_peak = slab_.capacity();
  outcome_.link_bytes = ports_.link_bytes();
  return std::move(outcome_);
}

/// Fetches what coming events will touch, in three steps, each by way of what the one before has fetched.
template <class Control, class Balancer>
void Engine<Control, Balancer>::look_ahead() {
  if (const Due* due = wheel_.peek(kAheadFar); due != nullptr) {
    const std::uint32_t index = due->what & 0x3fffffffu;
    if (due->what >> 30 == static_cast<std::uint32_t>(Event::arrival)) slab_.prefetch(index);
    else if (due->what >> 30 == static_cast<std::uint32_t>(Event::slot)) __builtin_prefetch(&nics_[index], 1);
  }
  if (const Due* due = wheel_.peek(kAheadMiddle); due != nullptr) look_ahead_middle(*due);
  if (const Due* due = wheel_.peek(kAheadNear); due != nullptr) look_ahead_near(*due);
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::prefetch_sender(std::uint32_t flow) const {
  const auto fetch = [](const auto& object) {
    const char* const bytes = reinterpret_cast<const char*>(&object);
    for (std::size_t at = 0; at < sizeof(object); at += 64) __builtin_prefetch(bytes + at, 1);
  };
  fetch(senders_[flow]);
  if constexpr (Control::kWindow) fetch(states_[flow]);
}

/// A hashed route depends on nothing that could change before the packet arrives, so it is chosen here.
template <class Control, class Balancer>
void Engine<Control, Balancer>::look_ahead_middle(const Due& due) {
  const std::uint32_t index = due.what & 0x3fffffffu;
  if (due.what >> 30 == static_cast<std::uint32_t>(Event::slot)) {
    const Nic& nic = nics_[index];
    if (nic.first != kNone) prefetch_sender(nic.first);
    if (nic.link != kNone) ports_.prefetch(nic.link);
    return;
  }
  if (due.what >> 30 != static_cast<std::uint32_t>(Event::arrival)) return;
  Packet& packet = slab_[index];
  const std::uint32_t node = ports_.target(packet.link);
  if (node >= hosts_) {
    if (Balancer::kAdaptive && packet.size >= 100) return;
    packet.following = routes_.hashed(node, packet.destination, packet.key);
    ports_.prefetch(packet.following);
    return;
  }
  __builtin_prefetch(&nics_[node], 1);
  if (packet.kind == Kind::data || packet.kind == Kind::request) {
    const char* const receiver = reinterpret_cast<const char*>(&receivers_[packet.flow]);
    __builtin_prefetch(receiver, 1);
    __builtin_prefetch(receiver + sizeof(Receiver) - 1, 1);
    __builtin_prefetch(&senders_[packet.flow]);
  } else {
    prefetch_sender(packet.flow);
  }
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::look_ahead_near(const Due& due) const {
  const std::uint32_t index = due.what & 0x3fffffffu;
  if (due.what >> 30 == static_cast<std::uint32_t>(Event::slot)) {
    const std::uint32_t flow = nics_[index].first;
    if (flow != kNone && !senders_[flow].done) senders_[flow].window.prefetch(sent_);
    return;
  }
  if (due.what >> 30 != static_cast<std::uint32_t>(Event::arrival)) return;
  const Packet& packet = slab_[index];
  if (packet.following != kNone) {
    ports_.prefetch_line(packet.following);
    return;
  }
  const std::uint32_t node = ports_.target(packet.link);
  if (node >= hosts_) return;
  if (nics_[node].link != kNone) ports_.prefetch(nics_[node].link);
  if (packet.kind == Kind::ack && !senders_[packet.flow].done) senders_[packet.flow].window.prefetch(sent_);
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::dispatch(const Due& due) {
  const std::uint32_t index = due.what & 0x3fffffffu;
  switch (static_cast<Event>(due.what >> 30)) {
    case Event::arrival: arrive(index); break;
    case Event::slot: nic_slot(index); break;
    case Event::timer: on_timer(index); break;
    case Event::pacer: on_pacer(index); break;
  }
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::arrive(std::uint32_t index) {
  Packet& packet = slab_[index];
  ++outcome_.counters.hops;
  if ((packet.flags & kWake) != 0) {
    packet.flags &= static_cast<std::uint8_t>(~kWake);
    ports_.wake(packet.link, now_);
  }
  const std::uint32_t node = ports_.target(packet.link);
  if (node < hosts_) deliver(node, index);
  else hop(node, index);
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::hop(std::uint32_t node, std::uint32_t index) {
  Packet& packet = slab_[index];
  std::uint32_t link = packet.following;
  packet.following = kNone;
  if (link == kNone) {
    const Choice choice = routes_.find(node, packet.destination);
    if (choice.width == 1) link = *choice.links;
    else if (Balancer::kAdaptive && packet.size >= 100) link = least_loaded_.choose(ports_, node, choice, now_);
    else link = choice.links[routes_.pick(node, packet.key, choice.width)];
  }
  ports_.enqueue(link, index, now_);
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::deliver(std::uint32_t host, std::uint32_t index) {
  // WHY a copy: answers are new packets, and making them may move the slab.
  const Packet packet = slab_[index];
  slab_.release(index);
  switch (packet.kind) {
    case Kind::data:
      if ((packet.flags & kTrimmed) != 0) on_trimmed(host, packet);
      else on_data(host, packet);
      break;
    case Kind::request: on_request(host, packet); break;
    case Kind::ack: on_ack(packet); break;
    case Kind::nack: on_nack(packet); break;
    case Kind::pull: on_pull(packet); break;
  }
}

// ---------------------------------------------------------------------------------------------------------- interface

template <class Control, class Balancer>
void Engine<Control, Balancer>::nic_send(Nic& nic, std::uint32_t host, std::uint32_t index) {
  const Packet& packet = slab_[index];
  const std::uint32_t link =
      nic.link != kNone ? nic.link : routes_.hashed(host, packet.destination, packet.key);
  const Ps time = ports_.time_of(ports_.klass(link), packet.size);
  nic.busy_until = now_ + (nic.links == 1 ? time : time / nic.links);
  ports_.enqueue(link, index, now_);
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::nic_keep_going(Nic& nic, std::uint32_t host) {
  if (nic.slot || (nic.first & nic.control_first) == kNone) return;
  nic.slot = true;
  wheel_.push(nic.busy_until, event(Event::slot, host));
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::nic_first_control(Nic& nic, std::uint32_t host) {
  const std::uint32_t index = nic.control_first;
  nic.control_first = slab_[index].next;
  if (nic.control_first == kNone) nic.control_last = kNone;
  nic_send(nic, host, index);
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::nic_control(std::uint32_t host, std::uint32_t index) {
  Nic& nic = nics_[host];
  slab_[index].next = kNone;
  (nic.control_last == kNone ? nic.control_first : slab_[nic.control_last].next) = index;
  nic.control_last = index;
  if (nic_free(nic)) nic_first_control(nic, host);
  nic_keep_going(nic, host);
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::nic_join(Nic& nic, std::uint32_t flow) {
  Sender& sender = senders_[flow];
  sender.at_nic = true;
  sender.next_active = kNone;
  (nic.last == kNone ? nic.first : senders_[nic.last].next_active) = flow;
  nic.last = flow;
  ++nic.active;
}

/// The first flow of the round that may send does; those before it leave the round. False when none may.
template <class Control, class Balancer>
bool Engine<Control, Balancer>::nic_first_flow(Nic& nic, std::uint32_t host) {
  while (nic.first != kNone) {
    const std::uint32_t flow = nic.first;
    Sender& sender = senders_[flow];
    sender.at_nic = false;
    const bool permitted = !sender.done && may_send(sender, flow);
    const std::uint32_t index = permitted ? emit(flow) : kNone;
    // It counts among the active ones while its packet is made: the pull target depends on that.
    nic.first = sender.next_active;
    if (nic.first == kNone) nic.last = kNone;
    --nic.active;
    if (!permitted) continue;
    nic_send(nic, host, index);
    if (may_send(sender, flow)) nic_join(nic, flow);
    return true;
  }
  return false;
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::nic_slot(std::uint32_t host) {
  Nic& nic = nics_[host];
  nic.slot = false;
  bool flows = nic.first != kNone;
  if (flows && nic.control_first != kNone) {
    if (++nic.turn >= Nic::kTurns) nic.turn = 0;
    flows = nic.turn < 1;
  }
  const bool sent = flows && nic_first_flow(nic, host);
  if (!sent && nic.control_first != kNone) nic_first_control(nic, host);
  nic_keep_going(nic, host);
}

// ------------------------------------------------------------------------------------------------------------- sender

template <class Control, class Balancer>
void Engine<Control, Balancer>::start(std::uint32_t flow) {
  Sender& sender = senders_[flow];
  sender.started = true;
  outcome_.start_ps[flow] = now_;
  const std::int64_t packets = (sender.size + mss_ - 1) / mss_;
  sender.backlog = packets * options_.header_bytes + sender.size;
  states_[flow].open(constants_, options_.window_packets * options_.mtu_bytes);
  sender.credit = derived_.window_bytes;
  // Room for a window, or for the whole flow where that is less; it grows where gaps need more.
  const auto span = static_cast<std::uint64_t>(std::min(packets, derived_.window_bytes / options_.mtu_bytes + 1));
  const auto log = std::max<unsigned>(static_cast<unsigned>(std::bit_width(span)), SendWindow::kLeastLog);
  sender.window.open(sent_, log);
  Receiver& receiver = receivers_[flow];
  receiver.open(received_, std::max(log - 6, 2u));
  receiver.latest_pull = receiver.pull_target = kFirstPull;
  send_while_permitted(flow);
}

template <class Control, class Balancer>
std::uint32_t Engine<Control, Balancer>::size_of(const Sender& sender, std::uint32_t sequence) const {
  // Requests take a sequence number and are headers; they exist only after timeouts.
  if (sequence == sender.last) return sender.last_size;
  if (sender.requests != 0 && sender.window.is_request(sent_, sequence)) return options_.header_bytes;
  return options_.mtu_bytes;
}

template <class Control, class Balancer>
std::int64_t Engine<Control, Balancer>::next_size(const Sender& sender) const {
  if (sender.window.waiting_count() == 0) return std::min<std::int64_t>(sender.backlog, options_.mtu_bytes);
  return size_of(sender, sender.window.lowest_waiting(sent_));
}

template <class Control, class Balancer>
bool Engine<Control, Balancer>::may_send(const Sender& sender, std::uint32_t flow) const {
  if (sender.backlog == 0 && sender.window.waiting_count() == 0) return false;
  if constexpr (Control::kCredit)
    if (sender.credit <= 0) return false;
  if constexpr (Control::kWindow) return states_[flow].window >= sender.in_flight + next_size(sender);
  return true;
}

/// Sends if the NIC is free, else joins its round. One packet at most leaves at a time, so there is nothing to repeat.
template <class Control, class Balancer>
void Engine<Control, Balancer>::send_while_permitted(std::uint32_t flow) {
  Sender& sender = senders_[flow];
  if (sender.at_nic || !may_send(sender, flow)) return;
  Nic& nic = nics_[sender.source];
  if (nic_free(nic)) {
    const std::uint32_t index = emit(flow);
    nic_send(nic, sender.source, index);
    if (may_send(sender, flow)) nic_join(nic, flow);
  } else {
    nic_join(nic, flow);
  }
  nic_keep_going(nic, sender.source);
}

/// The flow's next packet: one that must go again before a new one. PRE: may_send.
template <class Control, class Balancer>
std::uint32_t Engine<Control, Balancer>::emit(std::uint32_t flow) {
  Sender& sender = senders_[flow];
  const std::int64_t size = next_size(sender);
  std::uint8_t flags = 0;
  std::uint32_t sequence = sender.window.next();
  const bool fresh = sender.window.waiting_count() == 0;
  if constexpr (Control::kCredit) sender.credit -= size;
  if (fresh) {
    sender.backlog -= size;
    if (sender.backlog == 0) {
      sender.last = sequence;
      sender.last_size = static_cast<std::uint16_t>(size);
    }
    sender.window.send_new(sent_, now_);
    ++outcome_.counters.sent;
  } else {
    sequence = sender.window.lowest_waiting(sent_);
    sender.again -= size;
    sender.window.send_again(sent_, sequence, now_);
    flags = kRetransmission | kAckRequested;
    ++outcome_.counters.retransmitted;
  }
  sender.in_flight += size;
  bool last = sender.backlog == 0;
  if constexpr (Control::kCredit) last = last || sender.credit <= 0;
  if constexpr (Control::kWindow) last = last || sender.in_flight + size >= states_[flow].window;
  if (last) flags |= kAckRequested;
  if constexpr (Control::kCredit) sender.pull_target = pull_target(sender, flow);
  arm_timer(flow, now_);
  return data_packet(flow, sequence, size, flags);
}

template <class Control, class Balancer>
std::uint32_t Engine<Control, Balancer>::data_packet(std::uint32_t flow, std::uint32_t sequence, std::int64_t size,
                                                     std::uint8_t flags) {
  const std::uint16_t entropy = balancer_.next(flow);
  const std::uint32_t index = control_packet(Kind::data, flow, senders_[flow].target, entropy);
  Packet& packet = slab_[index];
  packet.size = static_cast<std::uint16_t>(size);
  packet.flags = flags;
  packet.sequence = sequence;
  packet.amount = senders_[flow].pull_target;
  return index;
}

template <class Control, class Balancer>
std::uint32_t Engine<Control, Balancer>::control_packet(Kind kind, std::uint32_t flow, std::uint32_t destination,
                                                        std::uint16_t entropy) {
  const std::uint32_t index = slab_.acquire();
  Packet& packet = slab_[index];
  packet.flow = flow;
  packet.key = key_of(flow, entropy);
  packet.destination = destination;
  packet.size = static_cast<std::uint16_t>(options_.header_bytes);
  packet.entropy = entropy;
  packet.kind = kind;
  packet.flags = 0;
  packet.following = kNone;
  return index;
}

template <class Control, class Balancer>
std::int64_t Engine<Control, Balancer>::pull_target(const Sender& sender, std::uint32_t flow) const {
  std::int64_t bytes = sender.backlog + sender.again;
  if constexpr (Control::kWindow) bytes = std::min(bytes, states_[flow].window + options_.mtu_bytes);
  bytes = std::min(bytes, derived_.window_bytes) - sender.credit;
  if (sender.speculating && bytes < options_.mtu_bytes && sender.backlog > 0) bytes = options_.mtu_bytes;
  const std::uint32_t active = nics_[sender.source].active;
  if (active > 1) bytes /= active;
  return quanta_up(bytes + (sender.pull << kQuantumShift));
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::stop_speculating(Sender& sender) {
  if (!sender.speculating) return;
  sender.speculating = false;
  sender.credit = std::min<std::int64_t>(sender.credit, 0);
}

/// WHY one event a flow: the deadline only ever moves later, as packets are acknowledged, so the event waits for what was
/// the oldest packet and then for the oldest that is left.
template <class Control, class Balancer>
void Engine<Control, Balancer>::arm_timer(std::uint32_t flow, Ps sent) {
  if (senders_[flow].timer) return;
  senders_[flow].timer = true;
  wheel_.push(std::max(sent + derived_.min_rto_ps, now_), event(Event::timer, flow));
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::on_timer(std::uint32_t flow) {
  Sender& sender = senders_[flow];
  if (!sender.started) {
    start(flow);
    return;
  }
  sender.timer = false;
  std::uint32_t sequence = 0;
  Ps sent = 0;
  if (sender.done || !sender.window.oldest(sent_, sequence, sent)) return;
  if (sent + derived_.min_rto_ps > now_) arm_timer(flow, sent);
  else expire(flow, sequence);
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::expire(std::uint32_t flow, std::uint32_t sequence) {
  Sender& sender = senders_[flow];
  ++outcome_.counters.timeouts;
  balancer_.feedback(flow, 0, Feedback::timeout, now_);
  const std::uint32_t size = size_of(sender, sequence);
  sender.window.forget(sent_, sequence);
  std::uint32_t other = 0;
  Ps sent = 0;
  if (sender.window.oldest(sent_, other, sent)) arm_timer(flow, sent);
  if constexpr (Control::kWindow) {
    sender.in_flight -= size;
    states_[flow].on_timeout(constants_, size);
  }
  if (sender.window.waiting_count() != 0) {
    stop_speculating(sender);
    queue_again(flow, sequence);
    if constexpr (Control::kCredit) request(flow);
    return;
  }
  queue_again(flow, sequence);
  bool blocked = false;
  if constexpr (Control::kWindow) blocked = states_[flow].window < sender.in_flight + size;
  if constexpr (Control::kCredit) blocked = blocked || sender.credit <= 0;
  if (blocked) request(flow);
  else send_while_permitted(flow);
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::queue_again(std::uint32_t flow, std::uint32_t sequence) {
  Sender& sender = senders_[flow];
  sender.again += size_of(sender, sequence);
  sender.window.wait(sent_, sequence);
  if (!sender.speculating || !Control::kCredit) send_while_permitted(flow);
}

/// Asks the receiver for an answer; it takes a sequence number.
template <class Control, class Balancer>
void Engine<Control, Balancer>::request(std::uint32_t flow) {
  Sender& sender = senders_[flow];
  // As in uet-htsim, where the limit is a constant of the sender's window control and 0 without it.
  if (Control::kWindow && sender.last_request > 0 && now_ - sender.last_request < derived_.base_rtt_ps) return;
  const std::uint32_t sequence = sender.window.next();
  sender.window.send_new(sent_, now_);
  sender.window.mark_request(sent_, sequence);
  const std::uint32_t index = control_packet(Kind::request, flow, sender.target, balancer_.next(flow));
  Packet& packet = slab_[index];
  packet.flags = kAckRequested;
  packet.sequence = sequence;
  packet.amount = sender.pull_target;
  ++sender.requests;
  ++outcome_.counters.requests;
  sender.last_request = now_;
  arm_timer(flow, now_);
  nic_control(sender.source, index);
}

/// The queueing delay that an acknowledgement tells of. A time is valid when the packet was sent once, or when what was
/// received was sent again and it was sent again once.
template <class Control, class Balancer>
Ps Engine<Control, Balancer>::delay_of(Sender& sender, typename Control::State& state, const Packet& ack) {
  if (!sender.window.out(sent_, ack.sequence)) return state.mean_delay;
  const std::uint32_t expected = (ack.flags & kRetransmission) != 0 ? 1 : 0;
  if (sender.window.again(sent_, ack.sequence) != expected) return state.mean_delay;
  const Ps rtt = now_ - sender.window.sent_at(sent_, ack.sequence);
  if ((ack.flags & kAnswersRequest) == 0) state.see_rtt(constants_, rtt);
  if (rtt < state.base_rtt) return state.mean_delay;
  state.see_delay(constants_, rtt - state.base_rtt, (ack.flags & kMarked) != 0);
  return rtt - state.base_rtt;
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::on_ack(const Packet& ack) {
  Sender& sender = senders_[ack.flow];
  if (sender.done) return;
  typename Control::State& state = states_[ack.flow];
  ++outcome_.counters.acks;
  const bool marked = (ack.flags & kMarked) != 0;
  const std::int64_t fresh = std::max<std::int64_t>(ack.amount - sender.received, 0);
  sender.received += fresh;
  sender.in_flight -= fresh;
  Ps delay = 0;
  if constexpr (Control::kWindow) {
    state.on_received(fresh);
    delay = delay_of(sender, state, ack);
  }
  const auto unqueue = [&](std::uint32_t sequence) {
    const std::uint32_t size = size_of(sender, sequence);
    sender.again -= size;
    sender.in_flight += size;  // it was taken off when the packet was queued to go again
  };
  sender.window.acknowledge_below(sent_, ack.cumulative, unqueue);
  if (ack.bitmap != 0) sender.window.acknowledge(sent_, ack.reference, ack.bitmap, unqueue);
  balancer_.feedback(ack.flow, ack.entropy, marked ? Feedback::marked : Feedback::good, now_);
  if constexpr (Control::kWindow) state.on_ack(constants_, marked, delay, fresh, sender.in_flight, now_);
  stop_speculating(sender);
  if ((std::int64_t{ack.cumulative} - sender.requests) * mss_ >= sender.size) finish(ack.flow);
  else send_while_permitted(ack.flow);
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::on_nack(const Packet& nack) {
  Sender& sender = senders_[nack.flow];
  if (sender.done) return;
  ++outcome_.counters.nacks;
  if (!sender.window.out(sent_, nack.sequence)) return;
  const std::uint32_t size = size_of(sender, nack.sequence);
  const bool last_hop = (nack.flags & kLastHop) != 0;
  if constexpr (Control::kWindow) {
    typename Control::State& state = states_[nack.flow];
    state.see_rtt(constants_, now_ - sender.window.sent_at(sent_, nack.sequence));
    state.on_nack(constants_, size, Control::kCredit && last_hop, sender.in_flight, now_);
  }
  sender.window.forget(sent_, nack.sequence);
  sender.in_flight -= size;
  stop_speculating(sender);
  queue_again(nack.flow, nack.sequence);
  const Feedback what = !last_hop ? Feedback::trimmed : (nack.flags & kMarked) != 0 ? Feedback::marked : Feedback::good;
  balancer_.feedback(nack.flow, nack.entropy, what, now_);
  send_while_permitted(nack.flow);
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::on_pull(const Packet& pull) {
  ++outcome_.counters.pulls;
  Sender& sender = senders_[pull.flow];
  if (sender.done) return;
  stop_speculating(sender);
  if (pull.amount > sender.pull) {
    sender.credit = std::min(sender.credit + ((pull.amount - sender.pull) << kQuantumShift), derived_.window_bytes);
    sender.pull = pull.amount;
  }
  send_while_permitted(pull.flow);
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::finish(std::uint32_t flow) {
  Sender& sender = senders_[flow];
  sender.done = true;
  sender.speculating = false;
  outcome_.finish_ps[flow] = now_;
  sender.window.close(sent_);
  receivers_[flow].close(received_);
  --unfinished_;
  release_dependents(flow);
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::release_dependents(std::uint32_t flow) {
  for (std::uint32_t at = after_ptr_[flow]; at < after_ptr_[flow + 1]; ++at) {
    const std::uint32_t next = after_[at];
    if (--waits_[next] != 0) continue;
    wheel_.push(std::max(now_ + traffic_.delay_ps[next], traffic_.start_ps[next]), event(Event::timer, next));
  }
}

// ----------------------------------------------------------------------------------------------------------- receiver

template <class Control, class Balancer>
void Engine<Control, Balancer>::on_data(std::uint32_t host, const Packet& packet) {
  Receiver& receiver = receivers_[packet.flow];
  receiver.unacknowledged += packet.size;
  see_pull_target(host, packet.flow, packet.amount);
  const bool marked = (packet.flags & kMarked) != 0;
  if (!congestion_.empty()) {
    congestion_[host].saw_packet();
    if (marked) congestion_[host].saw_mark();
  }
  const auto echo = static_cast<std::uint8_t>(packet.flags & (kMarked | kRetransmission));
  if (receiver.has(received_, packet.sequence)) {
    ++outcome_.counters.duplicates;
    receiver.unacknowledged = 0;
    acknowledge(host, packet, marked, echo);
    return;
  }
  bool now = receiver.payload == 0;
  receiver.payload += packet.size - options_.header_bytes;
  receiver.arrived += packet.size;
  if (receiver.payload == senders_[packet.flow].size) outcome_.receiver_finish_ps[packet.flow] = now_;
  const bool asked = (packet.flags & kAckRequested) != 0;
  if (asked) now = receiver.ack_requested = true;
  const bool in_order = packet.sequence == receiver.expected;
  receiver.take(received_, packet.sequence);
  if (in_order && receiver.out_of_order == 0 && receiver.ack_requested) {
    now = true;
    receiver.ack_requested = false;
  }
  if (!marked && !now && receiver.unacknowledged < options_.sack_bytes) return;
  receiver.unacknowledged = 0;
  acknowledge(host, packet, marked || asked, echo);
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::on_trimmed(std::uint32_t host, const Packet& packet) {
  Receiver& receiver = receivers_[packet.flow];
  if (!congestion_.empty()) {
    congestion_[host].saw_packet();
    congestion_[host].saw_trim((packet.flags & kLastHop) != 0);
  }
  if (receiver.has(received_, packet.sequence)) {
    acknowledge(host, packet, false, static_cast<std::uint8_t>(packet.flags & kRetransmission));
    return;
  }
  see_pull_target(host, packet.flow, packet.amount);
  const std::uint32_t index = control_packet(Kind::nack, packet.flow, senders_[packet.flow].source, packet.entropy);
  slab_[index].flags = static_cast<std::uint8_t>(packet.flags & (kLastHop | kMarked));
  slab_[index].sequence = packet.sequence;
  nic_control(host, index);
  ask_pull(host, packet.flow);
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::on_request(std::uint32_t host, const Packet& packet) {
  Receiver& receiver = receivers_[packet.flow];
  if (!congestion_.empty()) congestion_[host].saw_packet();
  see_pull_target(host, packet.flow, packet.amount);
  ask_pull(host, packet.flow);
  if (receiver.has(received_, packet.sequence)) {
    receiver.unacknowledged = 0;
    acknowledge(host, packet, false, kAnswersRequest);
    return;
  }
  const bool in_order = packet.sequence == receiver.expected;
  receiver.take(received_, packet.sequence);
  if (in_order && receiver.out_of_order == 0) receiver.ack_requested = false;
  acknowledge(host, packet, true, kAnswersRequest);
}

/// `from_here`: the bitmap begins with the packet itself, else 63 before it.
template <class Control, class Balancer>
void Engine<Control, Balancer>::acknowledge(std::uint32_t host, const Packet& packet, bool from_here,
                                            std::uint8_t flags) {
  const Receiver& receiver = receivers_[packet.flow];
  const std::uint32_t index = control_packet(Kind::ack, packet.flow, senders_[packet.flow].source, packet.entropy);
  Packet& ack = slab_[index];
  ack.flags = flags;
  ack.sequence = packet.sequence;
  ack.cumulative = receiver.expected;
  ack.reference = from_here ? packet.sequence : receiver.bitmap_base(packet.sequence);
  ack.bitmap = receiver.out_of_order == 0 ? 0 : receiver.bitmap(received_, ack.reference);
  ack.amount = receiver.arrived;
  nic_control(host, index);
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::see_pull_target(std::uint32_t host, std::uint32_t flow, std::int64_t target) {
  if constexpr (Control::kCredit) {
    Receiver& receiver = receivers_[flow];
    if (target <= receiver.pull_target) return;
    receiver.pull_target = target;
    ask_pull(host, flow);
  }
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::ask_pull(std::uint32_t host, std::uint32_t flow) {
  if constexpr (Control::kCredit) {
    if (receivers_[flow].in_pull) return;
    receivers_[flow].in_pull = true;
    pacers_[host].ask(flow);
    if (pacers_[host].active()) return;
    pacers_[host].set_active();
    wheel_.push(now_, event(Event::pacer, host));
  }
}

template <class Control, class Balancer>
void Engine<Control, Balancer>::on_pacer(std::uint32_t host) {
  if constexpr (Control::kCredit) {
    if (host >= hosts_) {  // the receiver's own congestion control
      host -= hosts_;
      pacers_[host].rate = congestion_[host].adjust();
      const std::uint64_t bits = draw(stream_key(options_.seed, Stream::pacer, host), ++adjustments_[host]);
      wheel_.push(now_ + Oversubscription::interval(derived_.base_rtt_ps, bits), event(Event::pacer, hosts_ + host));
      return;
    }
    std::uint32_t flow = 0;
    std::int64_t quanta = 0;
    Pacer& pacer = pacers_[host];
    if (!pacer.grant(receivers_, derived_.window_bytes >> kQuantumShift, flow, quanta)) return;
    Receiver& receiver = receivers_[flow];
    receiver.entropy = static_cast<std::uint16_t>((receiver.entropy + 1) & 127);
    const std::uint32_t index = control_packet(Kind::pull, flow, senders_[flow].source, receiver.entropy);
    slab_[index].amount = receiver.latest_pull;
    nic_control(host, index);
    const Ps quantum = pacer.rate < 1 ? static_cast<Ps>(static_cast<double>(quantum_time_) / pacer.rate) : quantum_time_;
    wheel_.push(now_ + quantum * quanta, event(Event::pacer, host));
  }
}

}  // namespace railyard::packet
