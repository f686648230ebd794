#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "packet/balance/user.hpp"
#include "packet/control/rate_controls.hpp"
#include "packet/dispatch.hpp"
#include "packet/fabric/port.hpp"
#include "packet/stuck.hpp"
#include "packet/transport/pulled_options.hpp"

namespace railyard::packet {

namespace {

constexpr double kMostQueueBytes = 1 << 30;

void need(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

template <class T>
bool within(std::span<const T> values, std::int64_t low, std::int64_t high) {
  return std::all_of(values.begin(), values.end(), [=](T value) { return value >= low && value < high; });
}

void check_network(const NetworkColumns& network) {
  const std::size_t links = network.link_source.size();
  need(network.hosts > 0 && network.hosts < (1u << 28) && network.nodes >= network.hosts, "hosts and nodes");
  need(network.link_target.size() == links && network.rate_bps.size() == links && network.latency_ps.size() == links,
       "columns of links differ in length");
  need(within(network.link_source, 0, network.nodes) && within(network.link_target, 0, network.nodes),
       "a link ends at a node that does not exist");
  need(within(network.rate_bps, 1, std::int64_t{1} << 62), "a link's rate is not positive");
  need(within(network.latency_ps, 0, std::int64_t{1} << 50), "a link's latency is negative or beyond 18 minutes");
  const std::size_t records = network.lo.size();
  need(network.record_ptr.size() == std::size_t{network.nodes} + 1 && network.record_ptr.front() == 0 &&
           static_cast<std::size_t>(network.record_ptr.back()) == records &&
           std::is_sorted(network.record_ptr.begin(), network.record_ptr.end()),
       "record_ptr");
  need(network.salt.empty() || network.salt.size() == network.nodes, "salt");
  need(network.hi.size() == records && network.first.size() == records && network.width.size() == records &&
           network.stride.size() == records,
       "columns of routing records differ in length");
  need(within(network.choices, 0, static_cast<std::int64_t>(links)), "a route leads over a link that does not exist");
  for (std::uint32_t node = 0; node < network.nodes; ++node) {
    for (auto at = static_cast<std::size_t>(network.record_ptr[node]);
         at < static_cast<std::size_t>(network.record_ptr[node + 1]); ++at) {
      need(network.lo[at] >= 0 && network.lo[at] < network.hi[at] &&
               static_cast<std::uint32_t>(network.hi[at]) <= network.hosts && network.width[at] > 0 &&
               network.stride[at] > 0 && network.first[at] >= 0,
           "a routing record is empty or out of range");
      const std::int64_t groups = (std::int64_t{network.hi[at]} - network.lo[at] - 1) / network.stride[at] + 1;
      const std::int64_t end = network.first[at] + groups * network.width[at];
      need(end <= static_cast<std::int64_t>(network.choices.size()), "a routing record runs past the choices");
      for (std::int64_t choice = network.first[at]; choice < end; ++choice) {
        const auto link = static_cast<std::size_t>(network.choices[static_cast<std::size_t>(choice)]);
        need(static_cast<std::uint32_t>(network.link_source[link]) == node, "a route leaves from another node");
      }
    }
  }
}

/// Flows that wait for each other would never start. PRE: need is within the number of dependencies.
void check_acyclic(const TrafficColumns& traffic) {
  const std::size_t flows = traffic.source.size();
  std::vector<std::int64_t> waits(traffic.need.begin(), traffic.need.end()), ptr(flows + 1, 0);
  for (const std::int32_t before : traffic.dep_idx) ++ptr[static_cast<std::size_t>(before) + 1];
  for (std::size_t flow = 0; flow < flows; ++flow) ptr[flow + 1] += ptr[flow];
  std::vector<std::size_t> after(traffic.dep_idx.size()), ready;
  std::vector<std::int64_t> at(ptr.begin(), ptr.end() - 1);
  for (std::size_t flow = 0; flow < flows; ++flow) {
    if (waits[flow] == 0) ready.push_back(flow);
    for (auto dep = traffic.dep_ptr[flow]; dep < traffic.dep_ptr[flow + 1]; ++dep)
      after[static_cast<std::size_t>(at[static_cast<std::size_t>(traffic.dep_idx[static_cast<std::size_t>(dep)])]++)] =
          flow;
  }
  std::size_t done = 0;
  for (; done < ready.size(); ++done)
    for (auto next = ptr[ready[done]]; next < ptr[ready[done] + 1]; ++next)
      if (auto& left = waits[after[static_cast<std::size_t>(next)]]; left > 0 && --left == 0) ready.push_back(after[static_cast<std::size_t>(next)]);
  need(done == flows, "the flows have a dependency cycle");
}

/// Messages of a connection go out one after another, so that they have one sender, one receiver and one traffic class.
void check_connections(const TrafficColumns& traffic) {
  if (traffic.connection.empty()) return;
  std::vector<std::size_t> first(traffic.source.size(), traffic.source.size());
  for (std::size_t flow = 0; flow < traffic.source.size(); ++flow) {
    if (traffic.source[flow] == traffic.target[flow]) continue;
    std::size_t& one = first[traffic.connection[flow]];
    one = std::min(one, flow);
    need(traffic.source[one] == traffic.source[flow] && traffic.target[one] == traffic.target[flow],
         "messages of one connection have different sources or targets");
    need(traffic.klass[one] == traffic.klass[flow], "messages of one connection have different traffic classes");
  }
}

void check_traffic(const NetworkColumns& network, const TrafficColumns& traffic) {
  const std::size_t flows = traffic.source.size();
  need(flows <= kIndexMask, "too many flows");
  need(traffic.target.size() == flows && traffic.size_bytes.size() == flows && traffic.start_ps.size() == flows &&
           traffic.delay_ps.size() == flows,
       "columns of flows differ in length");
  need(within(traffic.source, 0, network.hosts) && within(traffic.target, 0, network.hosts),
       "a flow ends at a host that does not exist");
  for (std::size_t flow = 0; flow < flows; ++flow)
    need(traffic.source[flow] == traffic.target[flow] || traffic.size_bytes[flow] > 0, "a flow without bytes");
  need(within(traffic.size_bytes, 0, std::int64_t{1} << 42), "a flow's size is not in [0, 4 TiB)");
  need(within(traffic.start_ps, -1, std::int64_t{1} << 55), "a flow's start is not in [-1, 10 h)");
  need(within(traffic.delay_ps, 0, std::int64_t{1} << 55), "a flow's delay is not in [0, 10 h)");
  need(traffic.dep_ptr.size() == flows + 1 && traffic.dep_ptr.front() == 0 &&
           static_cast<std::size_t>(traffic.dep_ptr.back()) == traffic.dep_idx.size() &&
           std::is_sorted(traffic.dep_ptr.begin(), traffic.dep_ptr.end()),
       "dep_ptr");
  need(within(traffic.dep_idx, 0, static_cast<std::int64_t>(flows)), "a dependency on a flow that does not exist");
  need(traffic.need.size() == flows && traffic.klass.size() == flows && traffic.dep_at.size() == traffic.dep_idx.size(),
       "need, klass or dep_at differ in length from what they belong to");
  for (std::size_t flow = 0; flow < flows; ++flow)
    need(traffic.need[flow] >= 0 && traffic.need[flow] <= traffic.dep_ptr[flow + 1] - traffic.dep_ptr[flow] &&
             (traffic.need[flow] > 0) == (traffic.dep_ptr[flow + 1] > traffic.dep_ptr[flow]),
         "a flow needs more dependencies than it has, or none of those it has");
  need(traffic.path_key.empty() || traffic.path_key.size() == flows, "path_key has not one row a flow");
  need(within(traffic.dep_at, 0, 2), "dep_at is neither 0 (sender) nor 1 (receiver)");
  need(traffic.deaf.empty() || traffic.deaf.size() == flows, "deaf has not one row a flow");
  need(traffic.nic_share.empty() || traffic.nic_share.size() == flows, "nic_share has not one row a flow");
  for (const double share : traffic.nic_share) need(share > 0 && share <= 1, "a share of an interface is not in (0, 1]");
  need(traffic.connection.empty() || traffic.connection.size() == flows, "connection has not one row a flow");
  need(within(traffic.connection, 0, static_cast<std::int64_t>(flows)), "a connection is not in [0, flows)");
  check_connections(traffic);
  need(within(traffic.klass, 0, 8), "a traffic class is not in [0, 8)");
  check_acyclic(traffic);
}

void check_links_and_flows(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options) {
  const auto links = static_cast<std::int64_t>(network.link_source.size());
  const FaultColumns& faults = options.faults;
  need(within(options.failed_links, 0, links), "a failed link does not exist");
  need(faults.link.size() == faults.size() && faults.kind.size() == faults.size() && faults.value.size() == faults.size(),
       "columns of faults differ in length");
  need(within(faults.link, 0, links), "a fault of a link that does not exist");
  need(within(faults.at_ps, 0, std::int64_t{1} << 55), "a fault's time is not in [0, 10 h)");
  need(within(faults.kind, 0, FaultColumns::kKinds), "a fault of no known kind");
  for (std::size_t row = 0; row < faults.size(); ++row) {
    if (!FaultColumns::is_setting(faults.kind[row])) continue;
    need(options.switching == "pfc", "pauses, marks and headroom are settings of switches that pause (pfc)");
    need(faults.at_ps[row] == 0, "settings of switches hold from the start");
  }
  for (const double value : faults.value) need(value >= 0 && value <= 1, "a fault's value is not in [0, 1]");
  need(within(options.sample_links, 0, links), "a sample of a link that does not exist");
  need(within(options.sample_flows, 0, static_cast<std::int64_t>(traffic.source.size())),
       "a sample of a flow that does not exist");
  need(options.sample_ps >= 0, "a negative sampling time");
  need(options.retune_ps >= 0, "a negative time between readings");
  need(options.retune_ps == 0 || (options.retune && options.switching == "pfc" && options.transport == "rdma"),
       "settings change during a run of switches with PFC and interfaces with RDMA alone");
}

/// Mechanisms that do not go together.
void check_pairs(const Options& options) {
  need(!options.telemetry || options.switching != "credit",
       "switches with link credit write no telemetry, which this congestion control reads");
  need(options.load_balancing != "user" || options.of<UserBalanceOptions>().choose == 0 || options.switching == "lossy" ||
           options.switching == "pfc",
       "these switches choose egresses by rules of their own: a user's choose has no say");
}

struct Path {
  int links = 0;
  Ps latency = 0;
};

/// The first of the equal-cost paths. Throws where there is none or where it does not end.
Path walk(const NetworkColumns& network, const Routes& routes, std::uint32_t from, std::uint32_t to) {
  Path path;
  for (std::uint32_t node = from; node != to;) {
    const auto link = static_cast<std::size_t>(*routes.find(node, to).links);
    path.latency += network.latency_ps[link];
    node = static_cast<std::uint32_t>(network.link_target[link]);
    if (++path.links > 64 || (node < network.hosts && node != to))
      throw std::invalid_argument("no path from host " + std::to_string(from) + " to host " + std::to_string(to));
  }
  return path;
}

/// The longest path from a few hosts to all.
Path diameter(const NetworkColumns& network, const Routes& routes) {
  Path longest;
  const std::uint32_t step = std::max(1u, network.hosts / 4);
  for (std::uint32_t from = 0; from < network.hosts; from += step)
    for (std::uint32_t to = 0; to < network.hosts; ++to) {
      if (from == to) continue;
      const Path path = walk(network, routes, from, to);
      longest.links = std::max(longest.links, path.links);
      longest.latency = std::max(longest.latency, path.latency);
    }
  return longest;
}

std::int64_t packets_of(std::int64_t given, double derived) {
  return given >= 0 ? given : static_cast<std::int64_t>(std::ceil(derived));
}

/// Nothing more was due, and flows are left.
void require_all(const Outcome& outcome) {
  const auto left = std::count_if(outcome.finish_ps.begin(), outcome.finish_ps.end(), [](Ps at) { return at < 0; });
  if (left == 0) return;
  const auto first = std::find_if(outcome.finish_ps.begin(), outcome.finish_ps.end(), [](Ps at) { return at < 0; });
  throw Stuck("nothing more happens after " + std::to_string(outcome.now_ps / 1'000'000) + " us, and " +
              std::to_string(left) + " flows have not finished, the first of them flow " +
              std::to_string(first - outcome.finish_ps.begin()));
}

/// How long a packet may be out: as htsim has it, a time of the transport's own and what drains six full queues.
Ps timeout(const Options& options, const Derived& derived) {
  const auto drain = static_cast<double>(derived.queue_bytes) * 6.0 * 8 * 1e12 / static_cast<double>(derived.rate_bps);
  if (options.transport == "eqds") return options.of<EqdsOptions>().timeout_ps + static_cast<Ps>(drain);
  if (options.transport == "ndp") return options.of<NdpOptions>().timeout_ps;
  return static_cast<Ps>(15e6 + drain);
}

}  // namespace

Derived derive(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options) {
  const Routes routes(network, options.seed);
  Derived derived;
  for (std::size_t flow = 0; flow < traffic.source.size(); ++flow) {
    if (traffic.source[flow] == traffic.target[flow]) continue;
    const Path path = walk(network, routes, static_cast<std::uint32_t>(traffic.source[flow]),
                           static_cast<std::uint32_t>(traffic.target[flow]));
    derived.diameter = std::max<std::int64_t>(derived.diameter, path.links);
    walk(network, routes, static_cast<std::uint32_t>(traffic.target[flow]), static_cast<std::uint32_t>(traffic.source[flow]));
  }
  // Of the host that a flow begins at; hosts are taken to be alike.
  const std::int32_t host = traffic.source.empty() ? 0 : traffic.source.front();
  for (std::size_t link = 0; link < network.link_source.size(); ++link)
    if (network.link_source[link] == host) derived.rate_bps += network.rate_bps[link];
  need(derived.rate_bps > 0, "a host without a link");
  const auto rate = static_cast<std::uint64_t>(derived.rate_bps);
  derived.base_rtt_ps = options.base_rtt_ps;
  if (derived.base_rtt_ps == 0 && network.hosts > 1) {
    const Path longest = diameter(network, routes);
    derived.base_rtt_ps =
        2 * longest.latency +
        longest.links * (wire_time(options.mtu_bytes, rate) + wire_time(options.header_bytes, rate));
  }
  const double bdp = static_cast<double>(derived.base_rtt_ps) * 1e-12 * static_cast<double>(derived.rate_bps) / 8;
  const std::int64_t mtu = options.mtu_bytes;
  const double bdp_packets = std::max(1.0, std::ceil(bdp / static_cast<double>(mtu)));
  const double depth = std::min(options.trim ? bdp_packets : 5 * bdp_packets, std::floor(kMostQueueBytes / static_cast<double>(mtu)));
  derived.queue_bytes = mtu * packets_of(options.queue_packets == 0 ? -1 : options.queue_packets, depth);
  const bool pulled = options.transport == "eqds" || options.transport == "ndp";
  // Where receivers pull nobody heeds marks: none are made unless they are asked for.
  const double queue_packets = static_cast<double>(derived.queue_bytes) / static_cast<double>(mtu);
  derived.ecn_low_bytes = mtu * packets_of(options.ecn_low_packets, pulled ? 2 * queue_packets : 0.2 * bdp_packets);
  derived.ecn_high_bytes = mtu * packets_of(options.ecn_high_packets, pulled ? 2 * queue_packets : 0.8 * bdp_packets);
  need(derived.ecn_low_bytes <= derived.ecn_high_bytes, "the lower marking threshold lies above the upper one");
  need(static_cast<double>(derived.queue_bytes) <= kMostQueueBytes, "the queue is longer than 1 GiB");
  derived.window_bytes = static_cast<std::int64_t>(1.5 * static_cast<double>(static_cast<std::int64_t>(bdp)));
  if (pulled && options.window_packets > 0) derived.window_bytes = mtu * options.window_packets;
  derived.min_rto_ps = timeout(options, derived);
  const double share = options.trim ? 0.75 : 1.0;
  derived.target_delay_ps = options.target_delay_ps > 0
                                ? options.target_delay_ps
                                : std::max<Ps>(1, static_cast<Ps>(static_cast<double>(derived.base_rtt_ps) * share));
  return derived;
}

Outcome run(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options,
            const Heartbeat& heartbeat) {
  check_network(network);
  check_traffic(network, traffic);
  check_fields(options);
  check_links_and_flows(network, traffic, options);
  Options chosen = options;
  chosen.telemetry = options.telemetry || (options.transport == "rdma" && RateControls::reads_telemetry(options));
  check_pairs(chosen);
  const Derived derived = derive(network, traffic, chosen);
  Outcome outcome = runner_of(chosen)(network, traffic, chosen, derived, heartbeat);
  if (options.end_ps == 0) require_all(outcome);
  return outcome;
}

}  // namespace railyard::packet
