#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>
#include <tuple>

#include "packet/fabric/port.hpp"

namespace railyard::packet {

namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int32_t>::max();

std::int64_t part(std::int64_t whole, double fraction) {
  return static_cast<std::int64_t>(static_cast<double>(whole) * fraction);
}

}  // namespace

Ports::Ports(Context& context)
    : context_(context), slab_(context.slab), wheel_(context.wheel), counters_(context.outcome.counters),
      mtu_(context.options.mtu_bytes), header_(context.options.header_bytes), trim_(context.options.trim),
      seed_(context.options.seed), telemetry_(context.options.telemetry ? &context.telemetry : nullptr),
      ports_(context.network.link_source.size()), draws_(ports_.size(), 0),
      targets_(context.network.link_target.begin(), context.network.link_target.end()), carried_(ports_.size(), 0),
      marks_(ports_.size(), 0) {
  const NetworkColumns& network = context.network;
  const Options& options = context.options;
  const Derived& derived = context.derived;
  std::vector<bool> failed(ports_.size(), false);
  for (const std::int32_t link : options.failed_links) failed[static_cast<std::size_t>(link)] = true;
  const bool credit = options.receiver_credit();
  std::map<std::tuple<std::int64_t, std::int64_t, bool, bool, bool, bool>, std::uint16_t> known;
  for (std::size_t link = 0; link < ports_.size(); ++link) {
    const bool from_host = static_cast<std::uint32_t>(network.link_source[link]) < network.hosts;
    const bool to_host = targets_[link] < network.hosts;
    const bool leaves = context.leaves(static_cast<std::uint32_t>(link));
    const auto [entry, fresh] =
        known.try_emplace({network.rate_bps[link], network.latency_ps[link], from_host, to_host, failed[link], leaves},
                          static_cast<std::uint16_t>(classes_.size()));
    ports_[link].kind = static_cast<std::uint16_t>(4 * entry->second);
    if (!fresh) continue;
    if (classes_.size() > 16000) throw std::invalid_argument("links of more than 16,000 kinds");
    const double kept = failed[link] ? options.failed_fraction : 1.0;
    const auto rate = static_cast<std::uint64_t>(part(network.rate_bps[link], kept));
    // Receivers that grant credit see to the last hop themselves: it does not mark.
    const bool marking = !from_host && !(credit && to_host);
    classes_.push_back({.rate_bps = rate,
                        .latency = network.latency_ps[link],
                        .mtu_time = wire_time(mtu_, rate),
                        .header_time = wire_time(header_, rate),
                        .limit = from_host ? kUnlimited : part(derived.queue_bytes, kept),
                        .control_limit = from_host ? kUnlimited : 2 * part(derived.queue_bytes, kept),
                        .mark_above = marking ? part(derived.ecn_low_bytes, kept) : kUnlimited,
                        .mark_surely = marking ? part(derived.ecn_high_bytes, kept) : kUnlimited,
                        .last_hop = to_host,
                        .first_hop = from_host,
                        .down = false,
                        .leaves = leaves,
                        .prompt = network.latency_ps[link] < context.wheel.span()});
  }
}

/// A port that is down seems for ever in service, with room for nothing: enqueueing need not ask for it.
void Ports::set_rate(std::uint32_t link, double factor, Ps now) {
  if (nominal_.empty())
    for (const Port& port : ports_) nominal_.push_back(static_cast<std::uint16_t>(port.klass()));
  Port& port = ports_[link];
  serve(port, link, now);
  if (klass(link).down) port.serving = kNone;
  PortClass changed = classes_[nominal_[link]];
  changed.down = factor <= 0;
  // What is on its way to another part is not seen again here.
  if (changed.down && (changed.leaves || changed.prompt) && port.serving != kNone)
    context_.depart(link, port.serving, port.busy_until + changed.latency);
  if (changed.down) {
    changed.limit = changed.control_limit = -1;
    while (!port.high.empty()) drop(port.high.pop_first(lines_).index);
    while (!port.low.empty()) drop(port.low.pop_first(lines_).index);
    port.low_bytes = port.high_bytes = 0;
    port.serving = kNone - 1;
    port.busy_until = kNever;
  } else {
    changed.rate_bps = std::max<std::uint64_t>(static_cast<std::uint64_t>(part(static_cast<std::int64_t>(changed.rate_bps), factor)), 1);
    changed.mtu_time = wire_time(mtu_, changed.rate_bps);
    changed.header_time = wire_time(header_, changed.rate_bps);
    if (port.serving == kNone) port.busy_until = now;
  }
  const auto flags = static_cast<std::uint16_t>(port.kind & (Port::kPayload | Port::kListed));
  std::size_t found = 0;
  while (found < classes_.size() && !(classes_[found] == changed)) ++found;
  if (found == classes_.size()) classes_.push_back(changed);
  port.kind = static_cast<std::uint16_t>(4 * found + flags);
}

void Ports::overflow(Port& port, std::uint32_t link, Waiting newcomer) {
  const PortClass& klass = classes_[port.klass()];
  Waiting victim = newcomer;
  // Half of the times the newcomer takes the place of the packet that came last, unless that is already leaving.
  if (!port.low.empty() && (random(port) >> 63) != 0) {
    victim = port.low.pop_last(lines_);
    port.low.push(lines_, newcomer);
    port.low_bytes += static_cast<std::int32_t>(newcomer.size) - static_cast<std::int32_t>(victim.size);
  }
  if (!trim_ || klass.down) {
    drop(victim.index);
    return;
  }
  Packet& packet = slab_[victim.index];
  packet.size = static_cast<std::uint16_t>(header_);
  packet.flags |= kTrimmed;
  if (klass.last_hop) packet.flags |= kLastHop;
  packet.link = link;
  ++counters_.trimmed;
  queue_control(port, {victim.index, header_});
}

}  // namespace railyard::packet
