#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "packet/context.hpp"
#include "packet/fabric/link_layer.hpp"
#include "packet/progress.hpp"
#include "packet/repeats/episodes.hpp"
#include "packet/stall.hpp"

namespace railyard::packet {

/// One run: a transport at the hosts over a fabric of switches and links. `docs/explanation/packet.md` says what the two must
/// offer.
template <class Fabric, class Transport>
class Engine {
 public:
  /// Whether both can run in parts, side by side.
  static constexpr bool kParts = Fabric::kParts && Transport::kParts;

  /// `part` is null where the network is not cut into parts.
  Engine(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options, const Derived& derived,
         Exchange* part)
      : context_(network, traffic, options, derived, part, kWindows), links_(context_), fabric_(context_),
        transport_(context_, fabric_),
        progress_(context_.flows.unfinished(), Progress::patience(timeout_of(options, derived))) {
    if constexpr (kRepeats) {
      if (may_repeat()) repeats_ = std::make_unique<Repeating>(*this);
    }
    context_.flows.begin();
    schedule_controls();
    if constexpr (kWindows) grouped_ = closed(network) && host_by_host(traffic);
  }

  /// Nothing happens before.
  Ps next_time() const {
    if constexpr (kWindows) return std::min(context_.wheel.next_time(), fabric_.next_departure());
    return context_.wheel.next_time();
  }
  /// What a run in parts goes on by: parts meet where windows end.
  Ps window() const { return kWindows ? context_.wheel.span() : 1; }
  std::uint32_t unfinished() const { return context_.flows.unfinished(); }
  Ps last_finish() const { return context_.flows.last_finish(); }

  /// Works off what is due before `until`.
  void advance(Ps until, const Heartbeat& heartbeat) {
    Due due;
    while (take(due, until)) step(due, heartbeat);
    until_ = until;
  }

  /// Works off everything until `drain` after the last flow has finished, or until `end`.
  void finish(Ps end, Ps drain, const Heartbeat& heartbeat) {
    Due due;
    while (unfinished() != 0 && take(due, end)) step(due, heartbeat);
    until_ = end;
    if (unfinished() == 0) advance(std::min(end, last_finish() + drain), heartbeat);
  }

  /// The run ends at this time, though this part may have had nothing to do since an earlier one.
  void end(Ps until) { until_ = until; }

  /// What other parts have sent arrives.
  void receive(std::vector<Exchange::Parcel>& parcels, std::vector<Telemetry>& telemetry) {
    for (std::size_t at = 0; at < parcels.size(); ++at) {
      const std::uint32_t index = context_.slab.acquire();
      context_.slab[index] = parcels[at].packet;
      if (!telemetry.empty()) context_.telemetry[index] = telemetry[at];
      context_.wheel.push(parcels[at].time, event(Event::arrival, index), parcels[at].link);
    }
    parcels.clear();
    telemetry.clear();
  }

  /// Ends the run.
  Outcome outcome() {
    Outcome& outcome = context_.outcome;
    // Where the end has come first, ports may not have been touched since; what they had begun by then counts.
    if (until_ != kNever) fabric_.settle(until_ - 1);
    if (repeats_ != nullptr) repeats_->episodes.finish();
    outcome.now_ps = unfinished() == 0 ? last_finish() : std::max(latest_, context_.now);
    if constexpr (requires { fabric_.finish(); }) fabric_.finish();
    outcome.packets_peak = context_.slab.capacity();
    outcome.link_bytes.resize(context_.network.link_source.size());
    for (std::uint32_t link = 0; link < outcome.link_bytes.size(); ++link) outcome.link_bytes[link] = fabric_.carried(link);
    if constexpr (requires { fabric_.conclude(); }) fabric_.conclude();
    return std::move(outcome);
  }

 private:
  static constexpr std::size_t kAheadFar = 14, kAheadMiddle = 8, kAheadNear = 3;
  static constexpr bool kWindows = Context::kWindows<Fabric>;

  /// Whether nothing goes from one node to another within a window.
  bool closed(const NetworkColumns& network) const {
    return std::all_of(network.latency_ps.begin(), network.latency_ps.end(),
                       [this](std::int64_t latency) { return latency >= context_.wheel.span(); });
  }

  /// The next event, if it is due before `until`.
  bool take(Due& due, Ps until) {
    const bool together = !grouped_ || (repeats_ != nullptr && !repeats_->episodes.over());
    const std::uint32_t owners = together ? Wheel::kNobody : context_.network.nodes;
    return context_.take(fabric_, due, until, owners, [this](const Due& of) { return node_of(of); });
  }

  /// The node whose state an event changes.
  std::uint32_t node_of(const Due& due) const {
    const std::uint32_t index = index_of(due.what);
    switch (kind_of(due.what)) {
      case Event::arrival: return static_cast<std::uint32_t>(context_.network.link_target[due.tie]);
      case Event::slot: return index;
      case Event::start: return static_cast<std::uint32_t>(context_.traffic.source[index]);
      case Event::timer:
      case Event::pacer: return transport_.host_of(kind_of(due.what), index);
      case Event::port: return static_cast<std::uint32_t>(context_.network.link_source[index]);
      default: return Wheel::kNobody;
    }
  }

  void step(const Due& due, const Heartbeat& heartbeat) {
    context_.now = due.time;
    if constexpr (kWindows) latest_ = std::max(latest_, due.time);
    look_ahead();
    dispatch(due);
    if ((++context_.outcome.events & 0x3fff) != 0) return;
    heartbeat(context_.outcome.events, context_.now);
    if (!progress_.comes_on(unfinished(), context_.now, [this] { return acknowledged_bytes(); })) stall();
  }

  std::int64_t acknowledged_bytes() const {
    std::int64_t sum = 0;
    for (std::uint32_t flow = 0; flow < context_.traffic.source.size(); ++flow)
      if (under_way(flow)) sum += transport_.acknowledged_bytes(flow);
    return sum;
  }

  bool under_way(std::uint32_t flow) const {
    const Outcome& outcome = context_.outcome;
    return outcome.start_ps[flow] >= 0 && outcome.finish_ps[flow] < 0;
  }

  /// Nothing has moved for long. A fault that is still to come may mend it: then it goes on.
  void stall() {
    if (context_.now <= last_fault_) return;
    std::vector<Stalled> flows;
    for (std::uint32_t flow = 0; flow < context_.traffic.source.size(); ++flow)
      if (under_way(flow)) flows.push_back({flow, transport_.acknowledged_bytes(flow)});
    throw_stalled(context_, links_, flows, progress_.moved_at());
  }

  /// Fetches what coming events will touch, in three steps, each by way of what the one before has fetched.
  void look_ahead() {
    if (const Due* due = context_.wheel.peek(kAheadFar); due != nullptr) {
      const std::uint32_t index = index_of(due->what);
      if (kind_of(due->what) == Event::arrival) context_.slab.prefetch(index);
      else if (kind_of(due->what) == Event::slot) __builtin_prefetch(&context_.nics[index], 1);
      else look_ahead_fabric(*due, 0);
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
      } else {
        look_ahead_fabric(*due, 1);
      }
    }
    if (const Due* due = context_.wheel.peek(kAheadNear); due != nullptr) {
      const std::uint32_t index = index_of(due->what);
      if (kind_of(due->what) == Event::slot) {
        if (const std::uint32_t flow = context_.nics[index].first; flow != kNone) transport_.look_ahead_near(flow);
      } else if (kind_of(due->what) == Event::arrival) {
        const std::uint32_t host = fabric_.look_ahead_near(index);
        if (host != kNone) transport_.look_ahead_near(host, context_.slab[index]);
      } else {
        look_ahead_fabric(*due, 2);
      }
    }
  }

  /// Of the fabric's own events, where it has such that are worth it. `step`: 0 the farthest, 2 the nearest.
  void look_ahead_fabric(const Due& due, int step) {
    if constexpr (requires { fabric_.look_ahead(Event::port, 0u, 0); }) {
      const Event kind = kind_of(due.what);
      if (kind == Event::port || kind == Event::extra) fabric_.look_ahead(kind, index_of(due.what), step);
    }
  }

  void dispatch(const Due& due) {
    const std::uint32_t index = index_of(due.what);
    switch (kind_of(due.what)) {
      case Event::arrival: arrive(index); break;
      case Event::slot: transport_.on_slot(index); break;
      case Event::start: start(index); break;
      case Event::timer: transport_.on_timer(index); break;
      case Event::pacer: transport_.on_pacer(index); break;
      case Event::port: fabric_.on_port(index); break;
      case Event::extra: fabric_.on_extra(index); break;
      case Event::control: on_control(index); break;
    }
  }

  void start(std::uint32_t flow) {
    const bool sends = context_.flows.start(flow, context_.now);
    progress_.started(sends);
    if (!sends) return;
    if (repeats_ != nullptr) repeats_->episodes.start(flow);
    else transport_.start(flow);
  }

  void arrive(std::uint32_t index) {
    ++context_.outcome.counters.hops;
    if constexpr (requires { fabric_.touch(index); }) fabric_.touch(index);
    if (links_.faulty() && !passes(index)) return;
    const std::uint32_t host = fabric_.arrive(index);
    if (host == kNone) return;
    // WHY a copy: answers are new packets, and making them may move the slab.
    const Packet packet = context_.slab[index];
    context_.slab.release(index);
    transport_.deliver(host, packet, index);
  }

  bool passes(std::uint32_t index) {
    if constexpr (requires(const Packet& packet) { fabric_.lost(packet); }) {
      const Packet packet = context_.slab[index];
      if (links_.passes(index)) return true;
      if (links_.lost()) fabric_.lost(packet);
      return false;
    } else {
      return links_.passes(index);
    }
  }

  // Control events: 0 samples; a fault's row times 2, plus 1, is the fault, plus 2 its being known to routes; the last
  // index asks for other settings.
  static constexpr std::uint32_t kRetune = kIndexMask;

  void schedule_controls() {
    const Options& options = context_.options;
    if (options.sample_ps > 0) context_.wheel.push(0, event(Event::control, 0));
    if (options.retune_ps > 0) context_.wheel.push(options.retune_ps, event(Event::control, kRetune));
    for (std::uint32_t row = 0; row < options.faults.size(); ++row) {
      if (FaultColumns::is_setting(options.faults.kind[row])) continue;
      const Ps at = options.faults.at_ps[row];
      const Ps reroute = at == 0 ? std::min<Ps>(options.reroute_ps, 0) : options.reroute_ps;  // 0: so it was before
      last_fault_ = std::max(last_fault_, at + std::max<Ps>(reroute, 0));
      context_.wheel.push(at, event(Event::control, 2 * row + 1));
      const bool rerouted = options.faults.kind[row] == static_cast<std::uint8_t>(FaultColumns::Kind::rate);
      if (reroute >= 0 && rerouted)
        context_.wheel.push(at + reroute, event(Event::control, 2 * row + 2));
    }
  }

  void on_control(std::uint32_t index) {
    if (index == 0) {
      sample();
      context_.wheel.push(context_.now + context_.options.sample_ps, event(Event::control, 0));
      return;
    }
    if (index == kRetune) {
      retune();
      context_.wheel.push(context_.now + context_.options.retune_ps, event(Event::control, kRetune));
      return;
    }
    if ((index & Episodes::kEvent) != 0) return repeats_->episodes.on_event(index);
    const FaultColumns& faults = context_.options.faults;
    const std::uint32_t row = (index - 1) / 2;
    const auto link = static_cast<std::uint32_t>(faults.link[row]);
    const double value = faults.value[row];
    if (faults.kind[row] == static_cast<std::uint8_t>(FaultColumns::Kind::errors)) {
      links_.set_errors(link, value);
      return;
    }
    forget_choices();
    if (index % 2 == 1) {
      links_.set_down(link, value <= 0);
      fabric_.set_rate(link, value);
      if (row + 1 == faults.size() && context_.options.end_ps == 0) require_paths();
    } else {
      context_.routes.withdraw(link, links_.down(link));
    }
  }

  /// Packets that are about to arrive choose their next links again: those that `look_ahead` chose may now be down.
  void forget_choices() {
    for (std::size_t ahead = 0; ahead <= kAheadMiddle; ++ahead) {
      const Due* const due = context_.wheel.peek(ahead);
      if (due != nullptr && kind_of(due->what) == Event::arrival) context_.slab[index_of(due->what)].following = kNone;
    }
  }

  /// After the last fault: a flow that has lost its way for good would be tried for ever.
  void require_paths() {
    Detours left(context_.routes, context_.routes.targets(), context_.hosts);
    for (std::uint32_t link = 0; link < context_.network.link_source.size(); ++link)
      if (links_.down(link)) left.withdraw(link, true);
    for (std::size_t flow = 0; flow < context_.traffic.source.size(); ++flow) {
      const auto from = static_cast<std::uint32_t>(context_.traffic.source[flow]);
      const auto to = static_cast<std::uint32_t>(context_.traffic.target[flow]);
      if (from == to || context_.outcome.finish_ps[flow] >= 0 || !context_.owns(from)) continue;
      if (left.find(from, to).width == 0 || left.find(to, from).width == 0)
        throw std::invalid_argument("after the last fault flow " + std::to_string(flow) + " has no path from host " +
                                    std::to_string(from) + " to host " + std::to_string(to) +
                                    " and back; give the run an end (end_ps)");
    }
  }

  /// A reading, and the settings that hold from now on.
  void retune() {
    if constexpr (requires { fabric_.retune(context_.options); transport_.retune(context_.options); }) {
      if (!tuned_) tuned_ = std::make_unique<Options>(context_.options);
      Reading reading{.now_ps = context_.now, .counters = context_.outcome.counters};
      for (std::uint32_t flow = 0; flow < context_.traffic.source.size(); ++flow)
        if (context_.outcome.start_ps[flow] >= 0)
          reading.delivered_bytes += under_way(flow) ? transport_.acknowledged_bytes(flow) : context_.traffic.size_bytes[flow];
      for (std::uint32_t link = 0; link < context_.network.link_source.size(); ++link)
        reading.paused_ps += fabric_.paused_ps(link);
      if (!context_.options.retune(reading, *tuned_)) return;
      check_fields(*tuned_);
      fabric_.retune(*tuned_);
      transport_.retune(*tuned_);
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
    if (repeats_ != nullptr) repeats_->episodes.sampled();
    for (const std::int32_t flow : options.sample_flows) {
      samples.window_bytes.push_back(transport_.window(static_cast<std::uint32_t>(flow)));
      samples.rate_bps.push_back(transport_.rate(static_cast<std::uint32_t>(flow)));
    }
  }

  static constexpr bool kRepeats = requires(Transport& transport, Words& words) {
    transport.rest(0u, words);
    requires Fabric::kSeparate;
  };

  /// Whether what repeats itself can be told: nothing comes from outside while the run goes on, nobody looks into flows, and
  /// a queue has room for a packet behind the one in service (where it has not, packets are cut without a random number).
  bool may_repeat() const {
    const Options& options = context_.options;
    return options.repeats && context_.exchange == nullptr && options.faults.size() == 0 && options.sample_flows.empty() &&
           options.retune_ps == 0 && options.end_ps == 0 && !options.telemetry &&
           context_.derived.queue_bytes >= 2 * std::int64_t{options.mtu_bytes} && Episodes::worth(context_);
  }

  /// Episodes, and this engine as they see it.
  struct Repeating final : Stage {
    explicit Repeating(Engine& of) : engine(of), episodes(of.context_, *this) { of.context_.flows.listen(&episodes); }

    void send(std::uint32_t flow, bool again) override {
      if constexpr (kRepeats) {
        if (again) engine.transport_.forget(flow);
      }
      engine.transport_.start(flow);
    }
    void dispatch(const Due& due) override { engine.dispatch(due); }
    bool next(Due& due, Ps until) override { return engine.context_.take(engine.fabric_, due, until); }
    bool rest(std::uint32_t connection, Words& words) const override {
      if constexpr (kRepeats) return engine.transport_.rest(connection, words);
      else return false;
    }
    const std::int64_t* put(std::uint32_t connection, const std::int64_t* words) override {
      if constexpr (kRepeats) return engine.transport_.put(connection, words);
      else return words;
    }
    void trace(std::uint32_t connection, bool on) override {
      if constexpr (kRepeats) engine.transport_.trace(connection, on);
    }
    bool traced(std::uint32_t connection, Delays& delays) const override {
      if constexpr (kRepeats) return engine.transport_.traced(connection, delays);
      else return false;
    }
    void see(std::uint32_t connection, const Delays& delays) override {
      if constexpr (kRepeats) engine.transport_.see(connection, delays);
    }
    std::int64_t kind(std::uint32_t link) const override {
      if constexpr (kRepeats) return static_cast<std::int64_t>(engine.fabric_.kind(link));
      else return 0;
    }
    std::uint64_t drawn(std::uint32_t link) const override {
      if constexpr (kRepeats) return engine.fabric_.drawn(link);
      else return 0;
    }
    std::int64_t carried(std::uint32_t link) const override { return engine.fabric_.carried(link); }
    void carry(std::uint32_t link, std::int64_t bytes) override {
      if constexpr (kRepeats) engine.fabric_.carry(link, bytes);
    }
    std::int64_t depth(std::uint32_t link) override { return engine.fabric_.depth(link); }

    Engine& engine;
    Episodes episodes;
  };

  Ps until_ = 0;
  Ps latest_ = 0;          ///< Of the events so far.
  bool grouped_ = false;   ///< Windows come node by node.
  Ps last_fault_ = -1;  ///< When the last one has happened and routes know of it.
  Context context_;
  std::unique_ptr<Options> tuned_;  ///< What holds since settings were changed.
  LinkLayer links_;
  Fabric fabric_;
  Transport transport_;
  Progress progress_;
  std::unique_ptr<Repeating> repeats_;  ///< Null where nothing is to be repeated.
};

}  // namespace railyard::packet
