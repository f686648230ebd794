#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "packet/balance/egress_choice.hpp"
#include "packet/context.hpp"
#include "packet/fabric/class_scheduler.hpp"
#include "packet/fabric/line.hpp"
#include "packet/fabric/marking.hpp"
#include "packet/fabric/pause_graph.hpp"
#include "packet/fabric/shared_buffer.hpp"
#include "packet/stuck.hpp"
#include "packet/wire.hpp"

namespace railyard::packet {

/// Lossless Ethernet: switches with a queue a class at every egress and a buffer that all ingresses share, which pause the
/// upstream neighbour (a switch or a host's interface) by priority flow control before they would have to drop.
///
/// Served lazily, like `Ports`: one event a packet and hop as long as nobody in a switch is paused. What an ingress holds
/// is then overestimated (packets that have left are still counted until their egress is touched), which is safe: only
/// where the estimate reaches the threshold are all egresses of the switch brought up to date, and the decision made on
/// exact numbers. While a switch has paused somebody, its egresses are served at every departure, by an event of their own,
/// so that the neighbour is let go at the right moment.
class PfcFabric {
 public:
  static constexpr bool kBackpressure = true;
  static constexpr bool kParts = false;

  explicit PfcFabric(Context& context);

  /// The open window of the wheel ends behind `last`: what begins in it does.
  void sweep(Ps last);
  /// When the next thing happens that no event tells of.
  Ps next_departure() const { return departure_; }
  std::uint32_t arrive(std::uint32_t index);
  void inject(std::uint32_t host, std::uint32_t index);
  bool ready(std::uint32_t host, std::uint8_t klass) const;
  Ps host_time(std::uint32_t host, std::uint32_t index) const {
    const Nic& nic = context_.nics[host];
    const std::uint32_t link = uplink(host, index);
    if (link == kNone) return 0;
    const Ps time = time_of(ports_[link].sort, context_.slab[index].size);
    return nic.links == 1 ? time : time / nic.links;
  }
  void on_port(std::uint32_t link);
  void on_extra(std::uint32_t) { watch(); }

  void prefetch(std::uint32_t link) const { __builtin_prefetch(ports_.data() + link, 1); }
  std::uint32_t look_ahead_middle(std::uint32_t index);
  std::uint32_t look_ahead_near(std::uint32_t index) const;

  /// Bytes that wait at the egress of a link and in service there.
  std::int64_t depth(std::uint32_t link) {
    const std::int64_t bytes = depth(link, context_.now);
    if (!changed_.empty()) flush();
    return bytes;
  }
  /// The same for a choice among egresses.
  std::int64_t depth(std::uint32_t link, Ps) {
    serve(ports_[link], link);
    arm(ports_[link], link);
    return ports_[link].bytes;
  }
  std::int64_t carried(std::uint32_t link) const { return ports_[link].carried; }
  /// Everything that has begun by `now` is known of; the last thing but `conclude` that is called.
  void settle(Ps now);
  /// Whether the link's egress has been told to pause any class.
  bool paused(std::uint32_t link) const { return ports_[link].paused != 0; }
  bool down(std::uint32_t link) const { return !down_.empty() && down_[link]; }
  std::int64_t marks(std::uint32_t link) const { return marks_[link]; }
  /// How long it has been told to.
  Ps paused_ps(std::uint32_t link) const {
    return paused_ps_[link] + (paused(link) ? context_.now - ports_[link].paused_since : 0);
  }
  std::int64_t limit(std::uint32_t) const { return context_.derived.queue_bytes; }
  /// The link keeps this part of its rate from now on; what is in service ends as it began. 0: it is down, and what waits
  /// or comes is dropped.
  void set_rate(std::uint32_t link, double factor);
  /// Other thresholds of marking hold from now on.
  void retune(const Options& options);
  /// A link's egress stands still, as before a host that takes nothing, and what comes waits; or (false) goes on.
  void hold(std::uint32_t link, bool held);
  /// Puts the columns of pauses into the outcome; the last thing that is called.
  void conclude();

  // for tests and probes
  std::int64_t headroom_used(std::uint32_t link, std::uint8_t klass) const { return ingress_of(link, klass).headroom; }
  std::int64_t headroom_most(std::uint32_t link, std::uint8_t klass) const {
    return headroom_peak_[std::size_t{links_[link].slot} * ranks_ + rank_of_[klass]];
  }
  std::int64_t headroom_limit(std::uint32_t link) const { return headroom_[links_[link].slot]; }
  std::int64_t ingress_bytes(std::uint32_t link, std::uint8_t klass) const { return ingress_of(link, klass).bytes; }
  Ps latest_resume() const { return latest_resume_; }

 private:
  static constexpr std::uint8_t kFrameRank = 8;
  /// Smaller packets are hashed, as in htsim, unless that link is down: a switch that chooses knows its own ports.
  static constexpr std::uint16_t kAdaptiveLeast = 100;

  /// The egress of a link: one cache line.
  struct alignas(64) Egress {
    Ps busy_until = 0;
    std::int64_t carried = 0;
    Ps prompt_at = -1;  ///< When its own event comes.
    Ps paused_since = 0;
    std::uint32_t serving = kNone;
    std::uint32_t frame = kNone;     ///< A pause frame that waits for its turn, the next.
    std::uint32_t home = kNone;      ///< Its switch; kNone: a host.
    std::uint32_t bytes = 0;         ///< Waiting and in service.
    std::uint16_t sort = 0;
    std::uint16_t serving_size = 0;
    std::uint16_t serving_from = 0;  ///< Number of the ingress within the switch.
    std::uint8_t serving_rank = 0;
    std::uint8_t waiting = 0;        ///< A bit a class that has a packet waiting.
    std::uint8_t paused = 0;         ///< A bit a class that the neighbour has stopped.
    bool held : 1 = false;           ///< Nothing more begins.
    bool listed : 1 = false;         ///< It is served at the end of the window.
    ClassScheduler::Round round;
  };
  static_assert(sizeof(Egress) == 64);

  struct ClassQueue {
    Line line;
    std::int64_t bytes = 0;  ///< Waiting and in service.
    std::int32_t deficit = 0;
  };

  /// What egresses have in common.
  struct Sort {
    std::uint64_t rate_bps;
    Ps latency;
    Ps mtu_time, header_time;
    Marking marking;
    double marking_scale = 0;  ///< Of thresholds; 0: it does not mark.
  };

  struct Link {
    std::uint32_t target;
    std::uint32_t reverse = kNone;
    std::uint32_t slot = kNone;  ///< Its ingress, counted over all switches; kNone: leads to a host.
  };

  struct Switch {
    Pool pool;
    std::uint32_t paused = 0;      ///< Ingresses and classes whose neighbours it has stopped.
    std::uint32_t first_slot = 0;
  };

  /// A flow's packets stood for the queue of a link. WHY votes wait for the end of the window: what they come to depends on
  /// their order in time, and within a window nodes have their turns one after another.
  struct Vote {
    Ps at;
    std::uint32_t tie;
    std::uint32_t flow, origin;
    Ps time;
  };

  const Ingress& ingress_of(std::uint32_t link, std::uint8_t klass) const {
    return ingresses_[std::size_t{links_[link].slot} * ranks_ + rank_of_[klass]];
  }
  ClassQueue& queue(std::uint32_t link, unsigned rank) { return queues_[std::size_t{link} * ranks_ + rank]; }
  Ingress& ingress(std::uint32_t slot, unsigned rank) { return ingresses_[std::size_t{slot} * ranks_ + rank]; }

  Ps time_of(std::uint32_t sort, std::uint32_t size) const {
    if (size == mtu_) return sorts_[sort].mtu_time;
    if (size == header_) return sorts_[sort].header_time;
    return wire_time(size, sorts_[sort].rate_bps);
  }

  std::uint32_t uplink(std::uint32_t host, std::uint32_t index) const {
    const Nic& nic = context_.nics[host];
    if (nic.link != kNone) return nic.link;
    const Packet& packet = context_.slab[index];
    return context_.routes.hashed(host, packet.destination, packet.key);
  }

  // construction
  void lay_out_classes();
  void lay_out_links();
  void pair_links();
  void lay_out_buffers();
  void misconfigure();
  std::int64_t headroom_for(std::uint32_t link, std::uint32_t back) const;
  Sort sort_of(std::uint32_t link, double kept) const;
  std::uint16_t add_sort(const Sort& sort);

  // service
  void serve(Egress& port, std::uint32_t link) { serve(port, link, context_.now); }
  void serve(Egress& port, std::uint32_t link, Ps until);
  void next(Egress& port, std::uint32_t link, Ps at);
  void begin(Egress& port, std::uint32_t link, Waiting what, unsigned rank, Ps at);
  void begin_frame(Egress& port, std::uint32_t link, Ps at);
  void finish(Egress& port, std::uint32_t link, Ps at);
  void leave_buffer(std::uint32_t node, std::uint32_t local, unsigned rank, std::uint32_t size, Ps at);
  void write_hop(const Egress& port, std::uint32_t index, Ps at);
  void arm(Egress& port, std::uint32_t link);
  void need_prompt(Egress& port, std::uint32_t link);
  bool hot(const Egress& port) const;

  // switching
  std::uint32_t route(std::uint32_t node, Packet& packet);
  void enter(std::uint32_t node, std::uint32_t index);
  bool admit(Switch& home, std::uint32_t from, unsigned rank, std::uint32_t egress, std::uint32_t size);
  void enqueue(std::uint32_t link, std::uint32_t index, std::uint32_t local, unsigned rank);
  void settle(const Switch& home);
  void lose(std::uint32_t index) {
    ++context_.outcome.counters.lost;
    context_.slab.release(index);
  }
  void empty_out(Egress& port, std::uint32_t link);
  void drop(std::uint32_t index) {
    ++context_.outcome.counters.dropped;
    context_.slab.release(index);
  }

  // pauses
  void stop(Switch& home, std::uint32_t slot, unsigned rank, std::uint32_t egress);
  void let_go(Switch& home, std::uint32_t slot, unsigned rank, Ps at);
  void flush();
  void take_frame(std::uint32_t index);
  void obey(Egress& port, std::uint32_t link, std::uint8_t bits);
  void tell_again(std::uint32_t link);
  void count_votes();
  void count_standing(const Egress& port, std::uint32_t link, unsigned bits, Ps time);
  void stood(std::uint32_t flow, std::uint32_t link, Ps time, bool victim);
  bool goes_over(const Packet& packet, std::uint32_t node, std::uint32_t link) const;
  void go_on(Egress& port, std::uint32_t link);
  std::uint32_t new_frame(std::uint32_t link);

  // what went wrong
  void watch();
  void fail_on_deadlock() const;
  std::vector<Held> held_back() const;
  std::string name(std::uint32_t link) const;

  Context& context_;
  PfcOptions options_;  ///< Thresholds in bytes.
  BufferRules rules_;
  std::uint32_t mtu_, header_;
  bool adaptive_, telemetry_, at_enqueue_;
  unsigned ranks_ = 0;
  std::uint32_t lossless_ = 0;                ///< A bit a rank.
  std::array<std::uint8_t, 256> rank_of_{};   ///< Of a class.
  std::vector<std::uint8_t> class_of_;        ///< Of a rank.
  ClassScheduler scheduler_;
  BigVector<Egress> ports_;
  BigVector<ClassQueue> queues_;
  BigVector<Ingress> ingresses_;
  std::vector<Link> links_;
  std::vector<Sort> sorts_;
  std::vector<Switch> switches_;
  std::vector<std::uint32_t> out_ptr_, outs_;  ///< Egresses by node.
  std::vector<std::uint32_t> link_of_slot_;
  std::vector<std::int64_t> headroom_;        ///< Limit, by slot.
  std::vector<std::int64_t> headroom_peak_;
  std::vector<std::uint32_t> origin_;         ///< By slot: the link whose queue made it pause last.
  std::vector<std::uint32_t> stopper_;        ///< By link: the origin that its neighbour named last.
  std::vector<std::int64_t> marks_;
  std::vector<bool> down_;                    ///< By link; empty while none has ever been.
  std::vector<bool> deaf_, unmarked_;         ///< By link: its egress goes on when it is told to stop; it marks nothing.
  std::vector<double> headroom_share_;        ///< By link: what its ingress has of the headroom that it needs.
  std::vector<bool> unpaused_;                ///< By link: its ingress stops nobody.
  std::vector<std::uint32_t> draws_;
  WordArena lines_;
  EgressChoice egress_choice_;
  std::vector<std::uint32_t> listed_;         ///< Egresses that are served at the end of the window.
  Ps departure_ = kNever;
  std::vector<Vote> votes_;
  std::vector<std::uint32_t> changed_;        ///< Slots whose neighbours must be told something.
  std::vector<Ps> paused_ps_, longest_ps_;
  std::vector<std::int32_t> pauses_;
  std::vector<Majority> blame_, flow_blame_;
  std::vector<Standing> standing_;            ///< By flow.
  std::vector<std::uint32_t> last_flow_;      ///< By link of a host: whose packet it sent last.
  std::uint64_t countings_ = 0;
  Ps latest_resume_ = 0;
  Ps moved_at_ = 0;
  std::uint32_t paused_total_ = 0;            ///< Ingresses and classes that have stopped their neighbours.
  bool watching_ = false;
  Ps watch_from_ = kNever;                    ///< When the first ingress stopped its neighbour in the open window, unwatched.
  bool faulty_ = false;                       ///< Links fail or make errors.
};

// ------------------------------------------------------------------------------------------------------------ service

/// Ends and begins service up to a time.
inline void PfcFabric::serve(Egress& port, std::uint32_t link, Ps until) {
  while (port.serving != kNone && port.busy_until <= until) {
    const Ps at = port.busy_until;
    finish(port, link, at);
    next(port, link, at);
  }
}

/// What is next in line begins, if anything may.
inline void PfcFabric::next(Egress& port, std::uint32_t link, Ps at) {
  if (port.held) return;
  if (port.frame != kNone) {
    begin_frame(port, link, at);
    return;
  }
  const std::uint32_t ready = port.waiting & ~std::uint32_t{port.paused};
  if (ready == 0) return;
  ClassQueue* const queues = &queue(link, 0);
  const unsigned rank = scheduler_.pick(
      ready, port.waiting, port.round, [queues](unsigned at_rank) -> std::int32_t& { return queues[at_rank].deficit; },
      [queues](unsigned at_rank) { return static_cast<std::int32_t>(queues[at_rank].line.first().size & 0xffffu); });
  const Waiting what = queues[rank].line.pop_first(lines_);
  if (queues[rank].line.empty()) port.waiting &= static_cast<std::uint8_t>(~(1u << rank));
  begin(port, link, what, rank, at);
}

inline void PfcFabric::begin(Egress& port, std::uint32_t link, Waiting what, unsigned rank, Ps at) {
  port.serving = what.index;
  port.serving_size = static_cast<std::uint16_t>(what.size);
  port.serving_from = static_cast<std::uint16_t>(what.size >> 16);
  port.serving_rank = static_cast<std::uint8_t>(rank);
  const Sort& sort = sorts_[port.sort];
  port.busy_until = at + time_of(port.sort, port.serving_size);
  if (telemetry_ && port.home != kNone) write_hop(port, what.index, at);
  port.carried += port.serving_size;
  moved_at_ = std::max(moved_at_, at);
  context_.depart(link, what.index, port.busy_until + sort.latency);
  if (hot(port)) need_prompt(port, link);
}

/// Whether the end of this service must be seen at once: somebody waits to be let go, and this packet, or one behind it,
/// may be what they wait for.
inline bool PfcFabric::hot(const Egress& port) const {
  if (port.frame != kNone) return true;
  if (port.home == kNone) return false;
  const Switch& home = switches_[port.home];
  if (home.paused == 0) return false;
  if (port.waiting != 0 || !rules_.fixed()) return true;
  if (port.serving_rank == kFrameRank) return false;
  return ingresses_[std::size_t{home.first_slot + port.serving_from} * ranks_ + port.serving_rank].paused;
}

inline void PfcFabric::need_prompt(Egress& port, std::uint32_t link) {
  if (port.prompt_at == port.busy_until) return;
  port.prompt_at = port.busy_until;
  context_.wheel.push(port.busy_until, event(Event::port, link));
}

/// Where something waits and no event of the port's own comes, the end of the window serves it, unless the packet in
/// service may arrive before that.
inline void PfcFabric::arm(Egress& port, std::uint32_t link) {
  if (port.listed || port.serving == kNone || port.waiting == 0 || port.prompt_at == port.busy_until) return;
  if (sorts_[port.sort].latency < context_.wheel.span()) return need_prompt(port, link);
  port.listed = true;
  listed_.push_back(link);
  departure_ = std::min(departure_, port.busy_until);
}

inline void PfcFabric::finish(Egress& port, std::uint32_t link, Ps at) {
  const std::uint32_t index = port.serving;
  port.serving = kNone;
  if (port.serving_rank == kFrameRank) return;
  port.bytes -= port.serving_size;
  ClassQueue& left = queue(link, port.serving_rank);
  left.bytes -= port.serving_size;
  // With bytes left behind, the packet has not arrived yet: a window ends between its departure and its arrival.
  const Marking& marking = sorts_[port.sort].marking;
  if (left.bytes > marking.low && !at_enqueue_ &&
      marking.marks(left.bytes, [&] { return draw(stream_key(context_.options.seed, Stream::port, link), draws_[link]++); })) {
    context_.slab[index].flags |= kMarked;
    ++context_.outcome.counters.marked;
    ++marks_[link];
  }
  if (port.home != kNone) leave_buffer(port.home, port.serving_from, port.serving_rank, port.serving_size, at);
}

inline void PfcFabric::leave_buffer(std::uint32_t node, std::uint32_t local, unsigned rank, std::uint32_t size, Ps at) {
  Switch& home = switches_[node];
  const std::uint32_t slot = home.first_slot + local;
  Ingress& in = ingress(slot, rank);
  if (in.lossy) {
    home.pool.used -= size;
    return;
  }
  rules_.give(in, home.pool, size);
  if (in.paused && rules_.may_resume(in, home.pool)) let_go(home, slot, rank, at);
}

inline void PfcFabric::enqueue(std::uint32_t link, std::uint32_t index, std::uint32_t local, unsigned rank) {
  Egress& port = ports_[link];
  serve(port, link);
  Packet& packet = context_.slab[index];
  packet.link = link;
  ClassQueue& into = queue(link, rank);
  if (at_enqueue_ && port.home != kNone &&
      sorts_[port.sort].marking.marks(
          into.bytes, [&] { return draw(stream_key(context_.options.seed, Stream::port, link), draws_[link]++); })) {
    packet.flags |= kMarked;
    ++context_.outcome.counters.marked;
    ++marks_[link];
  }
  into.bytes += packet.size;
  port.bytes += packet.size;
  const Waiting waiting{index, packet.size | local << 16};
  if (port.serving == kNone && (port.waiting | (port.paused & (1u << rank))) == 0 && !port.held) {
    begin(port, link, waiting, rank, context_.now);
    return;
  }
  into.line.push(lines_, waiting);
  port.waiting |= static_cast<std::uint8_t>(1u << rank);
  if (port.serving == kNone) next(port, link, context_.now);
  else if (hot(port)) need_prompt(port, link);
  arm(port, link);
}

// ---------------------------------------------------------------------------------------------------------- switching

inline std::uint32_t PfcFabric::arrive(std::uint32_t index) {
  if (context_.slab[index].kind == Kind::pause) {
    take_frame(index);
    return kNone;
  }
  const std::uint32_t node = links_[context_.slab[index].link].target;
  if (node < context_.hosts) return node;
  enter(node, index);
  if (!changed_.empty()) flush();
  return kNone;
}

inline std::uint32_t PfcFabric::route(std::uint32_t node, Packet& packet) {
  if (packet.following != kNone) {
    const std::uint32_t link = packet.following;
    packet.following = kNone;
    return link;
  }
  const Choice choice = context_.routes.find(node, packet.destination);
  if (choice.width == 0) return kNone;
  if (choice.width == 1) return *choice.links;
  if (adaptive_ && packet.size >= kAdaptiveLeast) return egress_choice_.choose(*this, node, choice, context_.now);
  const std::uint32_t hashed = choice.links[context_.routes.pick(node, packet.key, choice.width)];
  return adaptive_ && down(hashed) ? egress_choice_.choose(*this, node, choice, context_.now) : hashed;
}

inline void PfcFabric::enter(std::uint32_t node, std::uint32_t index) {
  // WHY no reference is kept: an adaptive choice looks into ports, and that may make frames, which may move the slab.
  const std::uint32_t from = context_.slab[index].link;
  const std::uint32_t egress = route(node, context_.slab[index]);
  if (egress == kNone) return lose(index);
  Packet& packet = context_.slab[index];
  packet.ingress = from;
  const unsigned rank = rank_of_[packet.klass];
  Switch& home = switches_[node - context_.hosts];
  if (down(egress) || !admit(home, from, rank, egress, packet.size)) return drop(index);
  enqueue(egress, index, links_[from].slot - home.first_slot, rank);
  const std::uint32_t slot = links_[from].slot;
  const Ingress& in = ingress(slot, rank);
  if (in.lossy || in.paused || !rules_.should_pause(in, home.pool)) return;
  settle(home);
  if (rules_.should_pause(in, home.pool)) stop(home, slot, rank, egress);
}

/// Takes a packet into the buffer, or says that there is no room.
inline bool PfcFabric::admit(Switch& home, std::uint32_t from, unsigned rank, std::uint32_t egress, std::uint32_t size) {
  const std::size_t at = std::size_t{links_[from].slot} * ranks_ + rank;
  Ingress& in = ingresses_[at];
  if (in.lossy) {
    if (!rules_.lossy_fits(queue(egress, rank).bytes, home.pool, size)) {
      settle(home);
      if (!rules_.lossy_fits(queue(egress, rank).bytes, home.pool, size)) return false;
    }
    home.pool.used += size;
    return true;
  }
  if (rules_.fixed()) {
    if (home.pool.free() < size) settle(home);
    if (home.pool.free() < size) return false;
    rules_.take(in, home.pool, size, true);
    return true;
  }
  bool inside = rules_.within(in, home.pool, size);
  if (!inside) {
    settle(home);
    inside = rules_.within(in, home.pool, size);
    if (!inside && headroom_[links_[from].slot] - in.headroom < size) return false;
  }
  rules_.take(in, home.pool, size, inside);
  if (!inside) headroom_peak_[at] = std::max(headroom_peak_[at], in.headroom);
  return true;
}

/// Brings all egresses of a switch up to date. While it has paused somebody by a dynamic threshold they are (see `hot`).
inline void PfcFabric::settle(const Switch& home) {
  if (home.paused != 0 && !rules_.fixed()) return;
  const std::size_t node = context_.hosts + static_cast<std::size_t>(&home - switches_.data());
  for (std::uint32_t at = out_ptr_[node]; at != out_ptr_[node + 1]; ++at) {
    Egress& port = ports_[outs_[at]];
    if (port.serving == kNone || port.busy_until > context_.now) continue;
    serve(port, outs_[at]);
    arm(port, outs_[at]);
  }
}

inline void PfcFabric::inject(std::uint32_t host, std::uint32_t index) {
  const std::uint32_t link = uplink(host, index);
  if (link == kNone) return lose(index);
  if (down(link)) return drop(index);
  last_flow_[link] = context_.slab[index].flow;
  enqueue(link, index, 0, rank_of_[context_.slab[index].klass]);
}

inline bool PfcFabric::ready(std::uint32_t host, std::uint8_t klass) const {
  const Nic& nic = context_.nics[host];
  const unsigned bit = 1u << rank_of_[klass];
  if (nic.link != kNone) return (ports_[nic.link].paused & bit) == 0 && !ports_[nic.link].held;
  // With several links, each keeps what is meant for it; when one that is stopped has something, the host waits.
  for (std::uint32_t at = out_ptr_[host]; at != out_ptr_[host + 1]; ++at) {
    const Egress& port = ports_[outs_[at]];
    if (((port.paused & bit) != 0 || port.held) && (port.waiting & bit) != 0) return false;
  }
  return true;
}

inline std::uint32_t PfcFabric::look_ahead_middle(std::uint32_t index) {
  Packet& packet = context_.slab[index];
  if (telemetry_) context_.telemetry.prefetch(index);
  if (packet.kind == Kind::pause) {
    prefetch(links_[packet.link].reverse);
    return kNone;
  }
  const Link& link = links_[packet.link];
  if (link.target < context_.hosts) return link.target;
  __builtin_prefetch(&ingresses_[std::size_t{link.slot} * ranks_ + rank_of_[packet.klass]], 1);
  if (adaptive_ && packet.size >= kAdaptiveLeast) return kNone;
  packet.following = context_.routes.hashed(link.target, packet.destination, packet.key);
  if (adaptive_ && packet.following != kNone && down(packet.following)) packet.following = kNone;
  if (packet.following == kNone) return kNone;
  prefetch(packet.following);
  __builtin_prefetch(&queues_[std::size_t{packet.following} * ranks_ + rank_of_[packet.klass]], 1);
  return kNone;
}

inline std::uint32_t PfcFabric::look_ahead_near(std::uint32_t index) const {
  const Packet& packet = context_.slab[index];
  if (packet.kind == Kind::pause) return kNone;
  if (packet.following != kNone) {
    const Line& line = queues_[std::size_t{packet.following} * ranks_ + rank_of_[packet.klass]].line;
    if (!line.empty()) line.prefetch(lines_);
    return kNone;
  }
  const std::uint32_t node = links_[packet.link].target;
  return node < context_.hosts ? node : kNone;
}

}  // namespace railyard::packet
