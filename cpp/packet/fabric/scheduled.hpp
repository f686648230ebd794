#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "packet/context.hpp"
#include "packet/fabric/cell_fabric.hpp"
#include "packet/fabric/scheduled_options.hpp"
#include "packet/fabric/voq.hpp"

namespace railyard::packet {

/// A scheduled fabric: packets wait at the leaf they come to, in a queue for each egress port and class; that port's
/// scheduler lets them go, a credit at a time; they cross the fabric as cells over all its links and are put together and
/// in order again at the egress leaf. See docs/explanation/packet-scheduled.md.
class ScheduledFabric {
 public:
  static constexpr bool kBackpressure = true;
  static constexpr bool kParts = false;  ///< A leaf's credits and cells touch the other leafs' at once.

  explicit ScheduledFabric(Context& context);
  ScheduledFabric(const ScheduledFabric&) = delete;
  ScheduledFabric& operator=(const ScheduledFabric&) = delete;

  /// The packet is at the end of a host's link. The host there, if it is one; else a leaf has taken it.
  std::uint32_t arrive(std::uint32_t index) {
    const std::uint32_t node = target_[context_.slab[index].link];
    if (node < context_.hosts) return node;
    enqueue(topology_.switch_of[node], index);
    return kNone;
  }

  void inject(std::uint32_t host, std::uint32_t index);
  bool ready(std::uint32_t host, std::uint8_t klass) const { return (stopped_[host] >> klass & 1u) == 0; }
  Ps host_time(std::uint32_t host, std::uint32_t index) const;

  void on_port(std::uint32_t index);
  void on_extra(std::uint32_t index);

  void prefetch(std::uint32_t) const {}
  /// The packet's queue is looked up here: it cannot change before the packet arrives.
  std::uint32_t look_ahead_middle(std::uint32_t index) {
    Packet& packet = context_.slab[index];
    const std::uint32_t node = target_[packet.link];
    if (node < context_.hosts) return node;
    packet.following = known_voq(topology_.switch_of[node], packet);
    if (packet.following != kNone) __builtin_prefetch(&voqs_[packet.following], 1);
    return kNone;
  }
  std::uint32_t look_ahead_near(std::uint32_t index) const {
    const Packet& packet = context_.slab[index];
    const std::uint32_t node = target_[packet.link];
    if (node < context_.hosts) return node;
    if (packet.following != kNone && voqs_[packet.following].last != kNone)
      context_.slab.prefetch(voqs_[packet.following].last);
    return kNone;
  }
  void look_ahead(Event kind, std::uint32_t index, int step) const;

  std::int64_t depth(std::uint32_t link) const;
  std::int64_t carried(std::uint32_t link) const;
  std::int64_t marks(std::uint32_t) const { return 0; }
  Ps paused_ps(std::uint32_t link) const;
  /// The link's rate becomes a share of what it was built with; 0: down. Cells keep off it after the reachability delay.
  void set_rate(std::uint32_t link, double factor);
  void settle(Ps) {}
  /// Puts what was counted into the outcome.
  void finish();

  // Of `CellFabric`.
  void data_cell(const Cell& cell);
  void control_cell(const Cell& cell);
  void prefetch(const Cell& cell) const {
    if (!cell.control()) __builtin_prefetch(&bursts_[cell.burst()], 1);
  }
  void lost(const Cell& cell);

 private:
  /// What a `port` event says in its upper three bits.
  enum class Task : std::uint32_t { tick, room, sweep, pause, reroute, burst };
  static constexpr unsigned kTaskShift = 26;
  static constexpr std::uint32_t task(Task what, std::uint32_t index) {
    return static_cast<std::uint32_t>(what) << kTaskShift | index;
  }

  /// A control message: one bit for a grant, six for the number of credits, the rest for the queue.
  static constexpr unsigned kVoqBits = 22, kCountBits = 6;
  static constexpr std::uint32_t kGrant = 1u << (kVoqBits + kCountBits), kMostCredits = (1u << kCountBits) - 1;

  static constexpr std::uint32_t kSampleEvery = 16, kSampleCells = Cell::kMostNumber;
  static constexpr Ps kPauseBytes = 64;

  static Ps time_for(double bytes, double rate_bps) { return static_cast<Ps>(bytes * 8e12 / rate_bps); }

  struct Leaf {
    Ps work_until = 0;        ///< When its fabric links will have sent what they were given.
    Ps granted_until = 0;     ///< Up to when the links that come in are spoken for.
    Ps credit_time = 0;       ///< Time that a credit's bytes take over all of them.
    Ps slack = 0;             ///< What its fabric links may be ahead.
    double up_bps = 0;        ///< Of the links that leave it.
    std::uint32_t line_first = kNone, line_last = kNone;  ///< Queues that wait for these.
    std::uint32_t paused = kNone;                         ///< Hosts paused because its memory is full.
    std::int64_t memory = 0, memory_most = 0;
    std::uint32_t contexts = 0, contexts_most = 0;
    bool waking = false;
  };
  struct Sample {
    std::array<Ps, kSampleCells> arrival;
    std::uint32_t cells;
  };

  // What a leaf does with packets that come in.
  void enqueue(std::uint32_t leaf, std::uint32_t index);
  std::uint32_t known_voq(std::uint32_t leaf, const Packet& packet) const {
    const std::uint32_t first = first_port_[packet.destination];
    if (first_port_[packet.destination + 1] - first != 1 || table_[packet.klass].empty()) return kNone;
    return table_[packet.klass][std::size_t{leaf} * ports_.size() + port_list_[first]] - 1;
  }
  std::uint32_t voq_of(std::uint32_t leaf, const Packet& packet);
  std::uint32_t new_voq(std::uint32_t leaf, std::uint32_t port, std::uint8_t klass);
  std::uint32_t port_of(std::uint32_t leaf, const Packet& packet) const;
  void ask(std::uint32_t voq);
  double limit_of(const Voq& voq) const;
  void hold_back(Leaf& leaf, Voq& voq, const Packet& packet);
  void let_go(std::uint32_t& list);
  void pause(std::uint32_t host, std::uint8_t klass, bool on);
  void on_pause(std::uint32_t index);

  // What it does with credits.
  void spend(std::uint32_t voq);
  bool links_busy(const Leaf& leaf) const { return leaf.work_until - leaf.slack > context_.now; }
  void stand_in_line(Leaf& leaf, std::uint32_t voq);
  void wake_later(std::uint32_t leaf);
  void on_room(std::uint32_t leaf);
  void cut(std::uint32_t voq);
  void take_packets(Voq& voq, Burst& burst);
  void send_burst(const Voq& voq, Leaf& leaf, std::uint32_t index);
  void begin_sample(Burst& burst);
  void sweep_later();

  // The egress.
  void on_request(std::uint32_t voq, std::uint32_t credits);
  void tick(std::uint32_t port);
  void tick_at(EgressPort& port, Ps time);
  void grant(std::uint32_t voq, bool local);
  void complete(std::uint32_t index);
  void leave(std::uint32_t index);
  void drop(std::uint32_t first);
  void measure(Burst& burst);

  void number_ports();
  void share_links();
  Ps one_way() const;
  std::uint32_t new_burst();

  Context& context_;
  const ScheduledOptions& options_;
  std::vector<std::uint32_t> target_;  ///< Node of a network link.
  CellTopology topology_;
  CellRoutes routes_;
  CellFabric<ScheduledFabric> fabric_;
  std::vector<Leaf> leafs_;
  std::vector<EgressPort> ports_;
  std::vector<std::uint32_t> first_port_, port_list_;  ///< Ports of a host.
  std::vector<std::uint32_t> port_of_link_;
  BigVector<Voq> voqs_;
  BigVector<Claim> claims_;
  std::array<BigVector<std::uint32_t>, EgressPort::kClasses> table_;  ///< Queue of (leaf, port); one more than its number.
  BigVector<Burst> bursts_;
  std::vector<std::uint32_t> free_bursts_;
  std::vector<Sample> samples_;
  std::vector<std::uint32_t> free_samples_;
  std::vector<std::uint8_t> stopped_;                 ///< Classes that a host may not send.
  std::vector<std::uint8_t> told_;                    ///< Classes that its leaf has told it not to send.
  std::vector<Ps> stopped_at_, paused_ps_;            ///< Of hosts: since when, and how long before.
  std::vector<Ps> told_at_;                           ///< When the latest pause frame comes to a host.
  std::vector<std::uint32_t> next_paused_;            ///< By host and class.
  std::vector<double> rate_bps_;                      ///< Of network links, now.
  std::vector<std::int64_t> carried_;                 ///< By links of hosts.
  Ps sweep_at_ = kNever;
  std::uint32_t sampling_ = 0;
};

}  // namespace railyard::packet
