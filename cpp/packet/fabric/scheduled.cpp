#include "packet/fabric/scheduled.hpp"

#include <algorithm>
#include <stdexcept>

#include "packet/draws.hpp"

namespace railyard::packet {

namespace {

/// What the links into a leaf are taken to bring, of their rate: the rest is for messages and cells that are not full.
constexpr double kFabricShare = 0.97;
/// Cells that a leaf's fabric links hold on average before queues with credit have to wait.
constexpr std::uint32_t kLinkCells = 32;

void need(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

const ScheduledOptions& checked(const ScheduledOptions& options) {
  need((options.credit_bytes + 65'536) / options.cell_bytes < 65'535, "a credit of more than 65,535 cells");
  return options;
}

}  // namespace

ScheduledFabric::ScheduledFabric(Context& context)
    : context_(context), options_(checked(context.options.of<ScheduledOptions>())),
      target_(context.network.link_target.begin(), context.network.link_target.end()), topology_(context.network),
      routes_(topology_, context.network, context.options.seed),
      fabric_(context.network, topology_, routes_,
              {options_.cell_bytes, options_.cell_header_bytes, options_.control_cell_bytes, options_.fabric_speedup},
              *this),
      leafs_(topology_.leafs), stopped_(context.hosts, 0), told_(context.hosts, 0),
      stopped_at_(context.hosts, 0), paused_ps_(context.hosts, 0), told_at_(context.hosts, 0),
      next_paused_(std::size_t{context.hosts} * EgressPort::kClasses, kNone),
      rate_bps_(context.network.rate_bps.begin(), context.network.rate_bps.end()),
      carried_(context.network.link_source.size(), 0) {
  need(context.hosts < (1u << (kTaskShift - 4)), "a scheduled fabric of more than four million hosts");
  number_ports();
  for (const std::int32_t failed : context.options.failed_links) {
    const auto link = static_cast<std::uint32_t>(failed);
    rate_bps_[link] *= context.options.failed_fraction;
    if (topology_.link_of[link] != CellTopology::kNoSwitch)
      fabric_.set_rate(topology_.link_of[link], fabric_.rate(topology_.link_of[link]) * context.options.failed_fraction);
    else if (port_of_link_[link] != kNone)
      ports_[port_of_link_[link]].rate_bps = rate_bps_[link];
  }
  if (!context.options.failed_links.empty()) fabric_.reroute();
  share_links();
  const double loop = static_cast<double>(2 * one_way() + options_.request_ps + options_.grant_ps);
  for (EgressPort& port : ports_) {
    port.credit_time = time_for(options_.credit_bytes / options_.credit_rate, port.rate_bps);
    const double waiting = static_cast<double>(options_.egress_bytes);
    port.most_waiting = options_.egress_bytes > 0 ? time_for(waiting, port.rate_bps) : static_cast<Ps>(loop);
  }
}

void ScheduledFabric::number_ports() {
  const NetworkColumns& network = context_.network;
  port_of_link_.assign(network.link_source.size(), kNone);
  first_port_.assign(std::size_t{context_.hosts} + 1, 0);
  for (const std::uint32_t host : target_)
    if (host < context_.hosts) ++first_port_[host + 1];
  for (std::uint32_t host = 0; host < context_.hosts; ++host) first_port_[host + 1] += first_port_[host];
  port_list_.resize(first_port_.back());
  std::vector<std::uint32_t> at(first_port_.begin(), first_port_.end() - 1);
  for (std::uint32_t link = 0; link < target_.size(); ++link) {
    if (target_[link] >= context_.hosts) continue;
    EgressPort port;
    port.link = link;
    port.host = target_[link];
    port.leaf = topology_.switch_of[static_cast<std::uint32_t>(network.link_source[link])];
    port.rate_bps = rate_bps_[link];
    port.latency = network.latency_ps[link];
    port_of_link_[link] = static_cast<std::uint32_t>(ports_.size());
    port_list_[at[port.host]++] = static_cast<std::uint32_t>(ports_.size());
    ports_.push_back(port);
  }
}

/// What leafs know of their own fabric links: how fast they empty, how much credit they can answer for.
void ScheduledFabric::share_links() {
  const double cell = options_.cell_bytes;
  const double useful = kFabricShare * cell / (cell + options_.cell_header_bytes);
  std::vector<double> in(topology_.leafs, 0), out(topology_.leafs, 0), links(topology_.leafs, 0);
  for (std::uint32_t link = 0; link < topology_.links.size(); ++link) {
    const auto [number, source, target] = topology_.links[link];
    if (topology_.is_leaf(target)) in[target] += fabric_.rate(link);
    if (!topology_.is_leaf(source)) continue;
    out[source] += fabric_.rate(link);
    links[source] += 1;
  }
  for (std::uint32_t at = 0; at < topology_.leafs; ++at) {
    leafs_[at].up_bps = out[at];
    leafs_[at].slack = out[at] > 0 ? time_for(kLinkCells * links[at] * (cell + options_.cell_header_bytes), out[at]) : 0;
    leafs_[at].credit_time = in[at] > 0 ? time_for(options_.credit_bytes, in[at] * useful) : 0;
  }
}

/// From leaf to leaf through the empty fabric, a full cell, the longest of a few.
Ps ScheduledFabric::one_way() const {
  Ps longest = 0;
  const std::uint32_t step = std::max(1u, topology_.leafs / 4);
  for (std::uint32_t from = 0; from < topology_.leafs; from += step)
    for (std::uint32_t to = 0; to < topology_.leafs; ++to) longest = std::max(longest, fabric_.crossing(from, to));
  return longest;
}

/// Fetches what an event will touch: first what it names, then what that names.
void ScheduledFabric::look_ahead(Event kind, std::uint32_t index, int step) const {
  if (kind == Event::extra) {
    const std::uint32_t number = index & ((1u << kVoqBits) - 1);
    if ((index & kGrant) == 0) {
      if (step == 0) __builtin_prefetch(&claims_[number], 1);
      else if (step == 1) __builtin_prefetch(&ports_[voqs_[number].port], 1);
    } else if (step == 0) {
      __builtin_prefetch(&voqs_[number], 1);
    } else if (step == 1) {
      if (voqs_[number].first != kNone) context_.slab.prefetch(voqs_[number].first);
    }
    return;
  }
  const std::uint32_t what = index & ((1u << kTaskShift) - 1);
  if (static_cast<Task>(index >> kTaskShift) == Task::tick) {
    if (step == 0) __builtin_prefetch(&ports_[what], 1);
  } else if (static_cast<Task>(index >> kTaskShift) == Task::burst) {
    if (step == 0) __builtin_prefetch(&bursts_[what], 1);
    else if (step == 1) context_.slab.prefetch(bursts_[what].first);
    else __builtin_prefetch(&ports_[voqs_[bursts_[what].voq].port], 1);
  }
}

void ScheduledFabric::on_port(std::uint32_t index) {
  const std::uint32_t what = index & ((1u << kTaskShift) - 1);
  switch (static_cast<Task>(index >> kTaskShift)) {
    case Task::tick:
      ports_[what].ticking = false;
      tick(what);
      break;
    case Task::room: on_room(what); break;
    case Task::sweep:
      if (context_.now != fabric_.due()) break;  // an earlier one has been here
      sweep_at_ = kNever;
      fabric_.sweep(context_.now);
      sweep_later();
      break;
    case Task::pause: on_pause(what); break;
    case Task::reroute:
      fabric_.reroute();
      share_links();
      break;
    case Task::burst: leave(what); break;
  }
}

void ScheduledFabric::on_extra(std::uint32_t index) {
  const std::uint32_t number = index & ((1u << kVoqBits) - 1);
  const std::uint32_t credits = index >> kVoqBits & kMostCredits;
  if ((index & kGrant) == 0) {
    on_request(number, credits);
    return;
  }
  voqs_[number].balance += std::int64_t{credits} * options_.credit_bytes;
  spend(number);
}

// ------------------------------------------------------------------------------------------------- probes and failures

std::int64_t ScheduledFabric::depth(std::uint32_t link) const {
  const std::uint32_t inner = topology_.link_of[link];
  if (inner != CellTopology::kNoSwitch) return fabric_.depth(inner, context_.now);
  if (port_of_link_[link] == kNone) return 0;
  const EgressPort& port = ports_[port_of_link_[link]];
  const double wait = static_cast<double>(std::max<Ps>(port.busy_until - context_.now, 0));
  return static_cast<std::int64_t>(wait * port.rate_bps / 8e12);
}

std::int64_t ScheduledFabric::carried(std::uint32_t link) const {
  const std::uint32_t inner = topology_.link_of[link];
  return inner == CellTopology::kNoSwitch ? carried_[link] : fabric_.carried(inner);
}

Ps ScheduledFabric::paused_ps(std::uint32_t link) const {
  const auto host = static_cast<std::uint32_t>(context_.network.link_source[link]);
  if (host >= context_.hosts) return 0;
  return paused_ps_[host] + (stopped_[host] != 0 ? context_.now - stopped_at_[host] : 0);
}

void ScheduledFabric::set_rate(std::uint32_t link, double factor) {
  const double rate = static_cast<double>(context_.network.rate_bps[link]) * factor;
  rate_bps_[link] = rate;
  const std::uint32_t inner = topology_.link_of[link];
  if (inner != CellTopology::kNoSwitch) {
    fabric_.set_rate(inner, rate * options_.fabric_speedup);
    context_.wheel.push(context_.now + options_.reachability_ps, event(Event::port, task(Task::reroute, 0)));
    return;
  }
  if (port_of_link_[link] == kNone) return;
  EgressPort& port = ports_[port_of_link_[link]];
  port.live = factor > 0;
  if (!port.live) return;
  port.rate_bps = rate;
  port.credit_time = time_for(options_.credit_bytes / options_.credit_rate, rate);
  if (!port.ticking) tick(port_of_link_[link]);
}

void ScheduledFabric::finish() {
  ScheduledCounters& counters = context_.outcome.scheduled;
  counters.cells = fabric_.cells();
  counters.cells_lost = fabric_.lost();
  for (std::uint32_t link = 0; link < topology_.links.size(); ++link) {
    const bool uplink = topology_.is_leaf(topology_.links[link].source);
    const double wait = static_cast<double>(fabric_.longest_wait(link));
    const auto bytes = static_cast<std::int64_t>(wait * fabric_.rate(link) / 8e12);
    std::int64_t& most = uplink ? counters.uplink_bytes : counters.element_bytes;
    most = std::max(most, bytes);
  }
  counters.cell_wait_ps = counters.cells == 0 ? 0 : fabric_.waited() / static_cast<Ps>(counters.cells);
  for (const Leaf& leaf : leafs_) {
    counters.memory_bytes = std::max(counters.memory_bytes, leaf.memory_most);
    counters.contexts = std::max<std::int64_t>(counters.contexts, leaf.contexts_most);
  }
  for (const EgressPort& port : ports_) {
    const double queue = static_cast<double>(port.longest_queue);
    counters.egress_bytes = std::max(counters.egress_bytes, static_cast<std::int64_t>(queue * port.rate_bps / 8e12));
  }
}

}  // namespace railyard::packet
