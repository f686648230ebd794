#pragma once

#include <cstdint>
#include <utility>

#include "railyard/packet/context.hpp"
#include "railyard/packet/link_layer.hpp"

namespace railyard::packet {

/// One run: a transport at the hosts over a fabric of switches and links. `docs/concepts/packet.md` says what the two must
/// offer.
template <class Fabric, class Transport>
class Engine {
 public:
  Engine(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options, const Derived& derived)
      : context_(network, traffic, options, derived), links_(context_), fabric_(context_),
        transport_(context_, fabric_) {}

  Outcome run(const Heartbeat& heartbeat) {
    Outcome& outcome = context_.outcome;
    context_.flows.begin();
    schedule_controls();
    Due due;
    while (context_.flows.unfinished() != 0 && context_.wheel.pop(due)) {
      if (context_.options.end_ps != 0 && due.time >= context_.options.end_ps) break;
      context_.now = due.time;
      look_ahead();
      dispatch(due);
      if ((++outcome.events & 0x3fff) == 0) heartbeat(outcome.events, context_.now);
    }
    outcome.now_ps = context_.now;
    outcome.packets_peak = context_.slab.capacity();
    outcome.link_bytes.resize(context_.network.link_source.size());
    for (std::uint32_t link = 0; link < outcome.link_bytes.size(); ++link) outcome.link_bytes[link] = fabric_.carried(link);
    return std::move(outcome);
  }

 private:
  static constexpr std::size_t kAheadFar = 14, kAheadMiddle = 8, kAheadNear = 3;

  /// Fetches what coming events will touch, in three steps, each by way of what the one before has fetched.
  void look_ahead() {
    if (const Due* due = context_.wheel.peek(kAheadFar); due != nullptr) {
      const std::uint32_t index = index_of(due->what);
      if (kind_of(due->what) == Event::arrival) context_.slab.prefetch(index);
      else if (kind_of(due->what) == Event::slot) __builtin_prefetch(&context_.nics[index], 1);
    }
    if (const Due* due = context_.wheel.peek(kAheadMiddle); due != nullptr) {
      const std::uint32_t index = index_of(due->what);
      if (kind_of(due->what) == Event::slot) {
        const Nic& nic = context_.nics[index];
        if (nic.first != kNone) transport_.look_ahead_sender(nic.first);
        if (nic.link != kNone) fabric_.prefetch(nic.link);
      } else if (kind_of(due->what) == Event::arrival) {
        const std::uint32_t host = fabric_.look_ahead_middle(index);
        if (host != kNone) transport_.look_ahead_middle(host, context_.slab[index]);
      }
    }
    if (const Due* due = context_.wheel.peek(kAheadNear); due != nullptr) {
      const std::uint32_t index = index_of(due->what);
      if (kind_of(due->what) == Event::slot) {
        if (const std::uint32_t flow = context_.nics[index].first; flow != kNone) transport_.look_ahead_near(flow);
      } else if (kind_of(due->what) == Event::arrival) {
        const std::uint32_t host = fabric_.look_ahead_near(index);
        if (host != kNone) transport_.look_ahead_near(host, context_.slab[index]);
      }
    }
  }

  void dispatch(const Due& due) {
    const std::uint32_t index = index_of(due.what);
    switch (kind_of(due.what)) {
      case Event::arrival: arrive(index); break;
      case Event::slot: transport_.on_slot(index); break;
      case Event::start:
        if (context_.flows.start(index, context_.now)) transport_.start(index);
        break;
      case Event::timer: transport_.on_timer(index); break;
      case Event::pacer: transport_.on_pacer(index); break;
      case Event::port: fabric_.on_port(index); break;
      case Event::extra: fabric_.on_extra(index); break;
      case Event::control: on_control(index); break;
    }
  }

  void arrive(std::uint32_t index) {
    ++context_.outcome.counters.hops;
    if constexpr (requires { fabric_.touch(index); }) fabric_.touch(index);
    if (links_.faulty() && !links_.passes(index)) return;
    const std::uint32_t host = fabric_.arrive(index);
    if (host == kNone) return;
    // WHY a copy: answers are new packets, and making them may move the slab.
    const Packet packet = context_.slab[index];
    context_.slab.release(index);
    transport_.deliver(host, packet, index);
  }

  // Control events: 0 samples; a fault's row times 2, plus 1, is the fault, plus 2 its being known to routes.

  void schedule_controls() {
    const Options& options = context_.options;
    if (options.sample_ps > 0) context_.wheel.push(0, event(Event::control, 0));
    for (std::uint32_t row = 0; row < options.faults.size(); ++row) {
      const Ps at = options.faults.at_ps[row];
      context_.wheel.push(at, event(Event::control, 2 * row + 1));
      const bool rerouted = options.faults.kind[row] == static_cast<std::uint8_t>(FaultColumns::Kind::rate);
      if (options.reroute_ps >= 0 && rerouted)
        context_.wheel.push(at + options.reroute_ps, event(Event::control, 2 * row + 2));
    }
  }

  void on_control(std::uint32_t index) {
    if (index == 0) {
      sample();
      context_.wheel.push(context_.now + context_.options.sample_ps, event(Event::control, 0));
      return;
    }
    const FaultColumns& faults = context_.options.faults;
    const std::uint32_t row = (index - 1) / 2;
    const auto link = static_cast<std::uint32_t>(faults.link[row]);
    const double value = faults.value[row];
    if (faults.kind[row] == static_cast<std::uint8_t>(FaultColumns::Kind::errors)) {
      links_.set_errors(link, value);
    } else if (index % 2 == 1) {
      links_.set_down(link, value <= 0);
      fabric_.set_rate(link, value);
    } else {
      context_.routes.withdraw(link, links_.down(link));
    }
  }

  void sample() {
    const Options& options = context_.options;
    Samples& samples = context_.outcome.samples;
    samples.time_ps.push_back(context_.now);
    for (const std::int32_t number : options.sample_links) {
      const auto link = static_cast<std::uint32_t>(number);
      samples.depth_bytes.push_back(fabric_.depth(link));
      samples.carried_bytes.push_back(fabric_.carried(link));
      samples.marks.push_back(fabric_.marks(link));
      samples.paused_ps.push_back(fabric_.paused_ps(link));
    }
    for (const std::int32_t flow : options.sample_flows) {
      samples.window_bytes.push_back(transport_.window(static_cast<std::uint32_t>(flow)));
      samples.rate_bps.push_back(transport_.rate(static_cast<std::uint32_t>(flow)));
    }
  }

  Context context_;
  LinkLayer links_;
  Fabric fabric_;
  Transport transport_;
};

}  // namespace railyard::packet
