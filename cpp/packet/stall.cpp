#include "packet/stall.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "packet/stuck.hpp"
#include "packet/transport/rdma_options.hpp"

namespace railyard::packet {

namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string ends(const Context& context, std::uint32_t link) {
  return "node " + std::to_string(context.network.link_source[link]) + " to node " +
         std::to_string(context.network.link_target[link]);
}

/// What is wrong with a link that packets of so many bytes go over; empty: nothing.
std::string fault_of(const Context& context, const LinkLayer& links, std::uint32_t link, std::int64_t bytes) {
  if (!links.faulty()) return "";
  if (links.down(link)) return "the link from " + ends(context, link) + " is down";
  const double errors = links.errors(link);
  if (errors <= 0) return "";
  const double lost = links.loss(link, bytes);
  return "bit errors of " + number(errors) + " on the link from " + ends(context, link) + " lose " +
         (lost < 1 ? number(100 * lost) + " % of packets" : "every packet") + " of " + std::to_string(bytes) + " bytes";
}

/// The first fault on any of the ways from one host to another; empty: there is none.
std::string fault_between(const Context& context, const LinkLayer& links, std::uint32_t from, std::uint32_t to,
                          std::int64_t bytes) {
  std::vector<std::uint32_t> nodes{from};
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    if (nodes[at] == to) continue;
    const Choice choice = context.routes.designed(nodes[at], to);
    for (std::uint32_t which = 0; which < choice.width; ++which) {
      const std::uint32_t link = choice.links[which];
      if (std::string fault = fault_of(context, links, link, bytes); !fault.empty()) return fault;
      const auto next = static_cast<std::uint32_t>(context.network.link_target[link]);
      if (std::find(nodes.begin(), nodes.end(), next) == nodes.end()) nodes.push_back(next);
    }
  }
  return "";
}

std::string cause_of(const Context& context, const LinkLayer& links, std::uint32_t flow) {
  const auto source = static_cast<std::uint32_t>(context.traffic.source[flow]);
  const auto target = static_cast<std::uint32_t>(context.traffic.target[flow]);
  const std::int64_t full = context.options.mtu_bytes;
  const std::int64_t bytes = std::min(full, context.traffic.size_bytes[flow] + context.options.header_bytes);
  std::string fault = fault_between(context, links, source, target, bytes);
  if (fault.empty()) fault = fault_between(context, links, target, source, context.options.header_bytes);
  return fault.empty() ? "no link on its way has a fault" : fault;
}

}  // namespace

Ps timeout_of(const Options& options, const Derived& derived) {
  return options.transport == "rdma" ? options.of<RdmaOptions>().rto_ps : derived.min_rto_ps;
}

void throw_stalled(const Context& context, const LinkLayer& links, const std::vector<Stalled>& flows, Ps since) {
  const Stalled& first = flows.front();
  const Counters& counters = context.outcome.counters;
  throw Stuck("no flow has come on since " + std::to_string(since / 1'000'000) + " us, and " +
              std::to_string(flows.size()) + " are under way; the first of them, flow " + std::to_string(first.flow) +
              " (host " + std::to_string(context.traffic.source[first.flow]) + " to host " +
              std::to_string(context.traffic.target[first.flow]) + "), has " + std::to_string(first.acknowledged_bytes) +
              " of " + std::to_string(context.traffic.size_bytes[first.flow]) + " bytes acknowledged: " +
              cause_of(context, links, first.flow) + " (of the run " + std::to_string(counters.retransmitted) +
              " packets sent again, " + std::to_string(counters.timeouts) + " timeouts)");
}

}  // namespace railyard::packet
