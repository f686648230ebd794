#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/time.hpp"
#include "packet/mechanism.hpp"

namespace railyard::packet {

/// The directed links and their routes: nodes 0..hosts-1 are hosts, the rest switches. Interval routing: a node reaches
/// host d by its record with lo <= d < hi, over one of the `width` links of group (d - lo) / stride.
struct NetworkColumns {
  std::uint32_t hosts = 0;
  std::uint32_t nodes = 0;
  std::span<const std::int32_t> link_source, link_target;
  std::span<const std::int64_t> rate_bps, latency_ps;
  std::span<const std::int64_t> record_ptr;
  std::span<const std::int32_t> lo, hi;
  std::span<const std::int64_t> first;
  std::span<const std::int32_t> width, stride, choices;
  std::span<const std::uint32_t> salt = {};  ///< Of every node's hash; empty: drawn from the seed.
};

/// One row a flow. A flow may start when `need` of its dependencies are done, not before start_ps, and then delay_ps later.
/// A dependency is done when its sender has the last acknowledgement, or, where dep_at is 1, when its receiver has every byte. A flow
/// from a host to itself is work of that host: done after delay_ps.
struct TrafficColumns {
  std::span<const std::int32_t> source, target;
  std::span<const std::int64_t> size_bytes, start_ps;
  std::span<const std::int64_t> dep_ptr;
  std::span<const std::int32_t> dep_idx;
  std::span<const std::int64_t> delay_ps;
  std::span<const std::int32_t> need;     ///< 0 .. number of dependencies.
  std::span<const std::uint8_t> dep_at;   ///< One row a dependency.
  std::span<const std::uint8_t> klass;    ///< Traffic class, 0 .. 7.
  std::span<const std::uint32_t> path_key = {};  ///< What switches hash of a flow with one path; empty: drawn from the seed.
  std::span<const std::uint8_t> deaf = {};       ///< Whether its sender heeds no sign of congestion; empty: all do.
  /// The connection that it is a message of. Messages of one have the same ends and class and share its paths and what its
  /// sender has learnt of them; of `uec` they go out one after another, with one window and one acknowledgement for all.
  /// Below the number of flows; empty: every flow is a connection of its own.
  std::span<const std::uint32_t> connection = {};
  /// Share of its rate that the sender's interface reaches with the flow's packets, in (0, 1]; empty: all of it.
  std::span<const double> nic_share = {};

  Ps nic_time(std::uint32_t flow, Ps wire) const {
    return nic_share.empty() ? wire : static_cast<Ps>(static_cast<double>(wire) / nic_share[flow]);
  }
  bool heeds(std::uint32_t flow) const { return deaf.empty() || deaf[flow] == 0; }
  std::uint32_t connection_of(std::uint32_t flow) const { return connection.empty() ? flow : connection[flow]; }
  std::uint32_t connections() const {
    if (connection.empty()) return static_cast<std::uint32_t>(source.size());
    return 1 + *std::max_element(connection.begin(), connection.end());
  }
};

/// What happens to links in time, one row each, in the order of time. Settings (`is_setting`) hold from the start on, and
/// only of switches that pause.
struct FaultColumns {
  enum class Kind : std::uint8_t {
    rate = 0,    ///< The link keeps `value` of its rate; 0: it is down and loses what is on it; 1: it is well again.
    errors = 1,  ///< Of the bits on the link so many, `value`, arrive wrong.
    pause = 2,     ///< 0: the far end drops what it has no room for, in place of stopping the sender.
    obey = 3,      ///< 0: the sender does not stop when it is told to.
    mark = 4,      ///< 0: its queue marks nothing.
    headroom = 5,  ///< The far end has so much of the headroom that the link needs.
  };
  static constexpr std::uint8_t kKinds = 6;
  static bool is_setting(std::uint8_t kind) { return kind >= static_cast<std::uint8_t>(Kind::pause); }
  std::span<const std::int64_t> at_ps;
  std::span<const std::int32_t> link;
  std::span<const std::uint8_t> kind;
  std::span<const double> value;
  std::size_t size() const { return at_ps.size(); }
};

struct Counters {
  std::uint64_t sent = 0, retransmitted = 0, requests = 0, acks = 0, nacks = 0, pulls = 0, trimmed = 0, dropped = 0,
                marked = 0, hops = 0, timeouts = 0, duplicates = 0;
  std::uint64_t pauses = 0;        ///< Pause frames, those that let go included.
  std::uint64_t cnps = 0;          ///< Congestion notification packets.
  std::uint64_t lost = 0;          ///< On links that were down or had errors, or without a route.
  std::uint64_t link_retries = 0;  ///< Sent again by a link.
  std::uint64_t credits = 0;       ///< Credit packets of links.

  Counters& operator+=(const Counters& other);
};

/// What a run has come to, for those who change its settings while it goes on.
struct Reading {
  Ps now_ps = 0;
  Counters counters;
  std::int64_t delivered_bytes = 0;  ///< Acknowledged, of all flows.
  std::int64_t paused_ps = 0;        ///< Of all links together.
};

/// What every run has. Constants of mechanisms stand with them: `options.of<DcqcnOptions>()`. Defaults of uet-htsim (commit
/// 40ccb05) where nothing else is said; 0 or -1 stand for "derive it".
struct Options : OptionSet {
  std::string transport = "uec";           ///< What hosts speak.
  std::string switching = "lossy";         ///< What happens where more comes to an egress than leaves it.
  std::string congestion_control = "nscc"; ///< Of Ultra Ethernet: who decides how much a flow may send.
  std::string load_balancing = "mixed";    ///< Who decides which of the equal-cost paths a packet takes.
  std::uint32_t mtu_bytes = 4150;
  std::uint32_t header_bytes = 64;
  std::int64_t queue_packets = 0;       ///< 0: one bandwidth-delay product when trimming, five when dropping.
  std::int64_t ecn_low_packets = -1;    ///< -1: 0.2 of the bandwidth-delay product, in full packets.
  std::int64_t ecn_high_packets = -1;   ///< -1: 0.8 of it.
  bool trim = true;
  std::uint64_t seed = 0;
  bool telemetry = false;               ///< Egresses write what they see into packets.
  std::uint32_t paths = 64;             ///< Entropies of a flow; a power of two.
  std::int64_t window_packets = 0;      ///< First window; 0: 1.5 bandwidth-delay products.
  Ps base_rtt_ps = 0;                   ///< 0: of the network's longest path.
  Ps target_delay_ps = 0;               ///< 0: 0.75 base RTT when trimming, else 1.
  double pull_rate = 0.99;              ///< Credit granted, of the receiver's line rate.
  std::span<const std::int32_t> failed_links;
  double failed_fraction = 0.25;        ///< Of rate, queue and thresholds that failed links keep.
  std::uint8_t control_class = 7;       ///< Traffic class of acknowledgements and their like; above 7: their flow's.
  Ps end_ps = 0;                        ///< 0: until everything has finished.
  FaultColumns faults;
  Ps reroute_ps = 50'000'000;           ///< From a link's end or return to routes that know of it (at time 0 they do); below 0: never.
  bool link_retry = false;              ///< Links send again what arrives wrong; else it is lost.
  bool repeats = true;                  ///< What repeats itself is not simulated again, on one thread.
  std::uint32_t threads = 1;
  Ps sample_ps = 0;                     ///< Time between samples of queues and flows; 0: none.
  std::span<const std::int32_t> sample_links, sample_flows;
  Ps retune_ps = 0;                     ///< Time between two readings that may change settings; 0: nothing changes.
  /// May change marking and rate control in the options given; whether it has.
  std::function<bool(const Reading&, Options&)> retune;

  /// Whether receivers grant credit, which reacts to cut packets.
  bool receiver_credit() const { return congestion_control == "rccc" || congestion_control == "nscc+rccc"; }
};

/// What was derived from network and options.
struct Derived {
  Ps base_rtt_ps = 0;
  std::int64_t rate_bps = 0;
  std::int64_t queue_bytes = 0, ecn_low_bytes = 0, ecn_high_bytes = 0, window_bytes = 0;
  Ps min_rto_ps = 0, target_delay_ps = 0;
  std::int64_t diameter = 0;  ///< Links of the longest path of a flow.
};

/// What was seen at each sampling time; a row a time, a column a link or flow.
struct Samples {
  std::vector<std::int64_t> time_ps;
  std::vector<std::int64_t> depth_bytes, carried_bytes, marks, paused_ps;  ///< Of links; all but the depth count up.
  std::vector<std::int64_t> window_bytes;                                  ///< Of flows; 0 without one.
  std::vector<double> rate_bps;                                            ///< Of flows; 0 without one.
};

/// One row a link, of a fabric that pauses: how long its egress was held back, the longest time of that, how often, and
/// the link whose queue was the cause of most of it (-1: never held back). Then one row a flow: how long its packets stood
/// behind egresses that were held back, summed over egresses; how much of that for a queue that they did not go to; and
/// whose queue that mostly was.
struct PauseColumns {
  std::vector<std::int64_t> paused_ps, longest_ps;
  std::vector<std::int32_t> pauses, origin;
  std::vector<std::int64_t> flow_paused_ps, flow_victim_ps;
  std::vector<std::int32_t> flow_origin;
};

/// What a run of a scheduled fabric counted; zero for others.
struct ScheduledCounters {
  std::uint64_t cells = 0;        ///< Sent over links between switches, control cells among them.
  std::uint64_t cells_lost = 0;   ///< On links that were down.
  std::uint64_t requests = 0, grants = 0, pauses = 0;
  std::int64_t voq_bytes = 0, memory_bytes = 0, egress_bytes = 0;  ///< Most of a queue, a leaf, a port to a host.
  std::int64_t element_bytes = 0, uplink_bytes = 0;  ///< Most that waited for a link of an element, of a leaf.
  std::int64_t cell_wait_ps = 0;  ///< A cell's mean wait for a link.
  std::int64_t contexts = 0;      ///< Most queues of which a leaf awaited cells at a time.
  std::int64_t bursts_held = 0;   ///< Most whole bursts that waited for an earlier one.
  /// Bursts, one in sixteen, by reorder depth: the most cells that came before one which was sent earlier.
  std::array<std::uint64_t, 64> reorder{};
};

/// What of a run repeated something before it (see `Episodes`) and was not simulated.
struct Repeats {
  std::uint64_t episodes = 0;  ///< Sets of flows that met nobody else.
  std::uint64_t repeated = 0;  ///< Of them, those without packets.
  std::uint64_t checked = 0;   ///< Known, and simulated all the same.
  std::uint64_t replayed = 0;  ///< Begun without packets, and simulated when something new came to them.
  std::uint64_t hops = 0;      ///< Of the packets that were not simulated.
  Ps worst_ps = 0;             ///< By which any of the checked or replayed differed from what was expected.
};

/// One row a flow; -1 where it has not come to that.
struct Outcome {
  std::vector<std::int64_t> start_ps, finish_ps, receiver_finish_ps;
  std::vector<std::int64_t> link_bytes;
  PauseColumns pauses;
  Counters counters;
  Samples samples;
  ScheduledCounters scheduled;
  Derived derived;
  Repeats repeats;
  std::uint64_t events = 0;
  Ps now_ps = 0;
  std::uint64_t packets_peak = 0;
  std::uint32_t threads = 1;  ///< On which it ran.
};

/// Called now and then with (events so far, simulated time); may throw to end the run.
using Heartbeat = std::function<void(std::uint64_t, Ps)>;

/// What network and options make of the constants that were left open.
Derived derive(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options);

/// Runs the traffic. Throws std::invalid_argument for columns that do not fit together.
Outcome run(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options,
            const Heartbeat& heartbeat);

}  // namespace railyard::packet
