#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

#include "packet/fabric/link_credit.hpp"

namespace railyard::packet {

namespace {

constexpr Ps kNever = std::numeric_limits<Ps>::max() / 4;

void need(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

}  // namespace

CreditFabric::CreditFabric(Context& context)
    : context_(context), options_(context.options.of<LinkCreditOptions>()), adaptive_(context.options.load_balancing == "adaptive"),
      hashed_(!adaptive_ && context.options.load_balancing != "ecmp"), fifo_(options_.fifo),
      lanes_(options_.lanes), mtu_(context.options.mtu_bytes), header_(context.options.header_bytes),
      ahead_(lanes_ == 1 && !fifo_ ? 1 : 0), mtu_blocks_(blocks(mtu_)), tables_(context.network) {
  const std::size_t links = context.network.link_source.size();
  need(options_.buffer_bytes / kBlock >= mtu_blocks_,
       "link credit: the buffer of a lane must hold a full packet in blocks of 64 bytes");
  for (std::uint32_t lane = 0; lane < lanes_; ++lane)
    need(options_.high_weight[lane] != 0 || options_.low_weight[lane] != 0,
         "link credit: a lane without weight would never send");
  need(links * lanes_ < kIndexMask, "link credit: too many links and lanes");
  const auto smallest = static_cast<std::int32_t>(options_.buffer_bytes / kBlock);
  buffer_.resize(links);
  for (std::size_t link = 0; link < links; ++link) buffer_[link] = std::max(smallest, flying_blocks(link));
  // WHY not more than what is left beside a packet: space that is not told of must never be all that keeps the sender.
  const std::int64_t update = std::min<std::int64_t>(options_.update_bytes / kBlock, smallest - mtu_blocks_);
  update_blocks_ = static_cast<std::int32_t>(std::max<std::int64_t>(update, 1));
  ports_.resize(links);
  if (lanes_ > 2) more_.resize(links * (lanes_ - 2));
  if (lanes_ > 1) arbiters_.resize(links);
  inputs_.resize(links * lanes_);
  stuck_since_.resize(links * lanes_);
  waited_.resize(links);
  marks_.resize(links);
  longest_.resize(links);
  times_.resize(links);
  blame_.resize(links);
  if (adaptive_) {
    loads_.resize(links);
    draws_.resize(context.network.nodes);
  }
  if (fifo_) {
    reading_.resize(links);
    heads_.assign(links * lanes_, kNone);
  }
  pair_links();
  lay_out_queues();
  for (std::uint32_t link = 0; link < links; ++link) {
    for (unsigned lane = 0; lane < lanes_; ++lane) {
      lane_at(ports_[link], link, lane).credit = buffer_[link];
      inputs_[input(link, lane)].granted = buffer_[link];
    }
  }
}

/// What a link carries in its round trip, or in `reach_ps` of it, and the credit that is told of late.
std::int32_t CreditFabric::flying_blocks(std::size_t link) const {
  if (options_.reach_ps == 0) return 0;
  const Ps round = std::min<Ps>(2 * context_.network.latency_ps[link], options_.reach_ps);
  const double bytes = static_cast<double>(round) * 1e-12 * static_cast<double>(context_.network.rate_bps[link]) / 8;
  const double whole = (bytes + static_cast<double>(options_.update_bytes)) / static_cast<double>(kBlock);
  need(whole < static_cast<double>(std::numeric_limits<std::int32_t>::max()) / 4, "link credit: a buffer beyond 32 GiB");
  return static_cast<std::int32_t>(whole) + 2 * mtu_blocks_;
}

void CreditFabric::pair_links() {
  const NetworkColumns& network = context_.network;
  const std::size_t links = network.link_source.size();
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::uint32_t>> between;
  for (std::size_t link = 0; link < links; ++link)
    between[{network.link_source[link], network.link_target[link]}].push_back(static_cast<std::uint32_t>(link));
  reverse_.resize(links);
  for (const auto& [ends, there] : between) {
    const auto back = between.find({ends.second, ends.first});
    need(back != between.end() && back->second.size() == there.size(),
         "link credit: every link needs a link back for its credit");
    for (std::size_t at = 0; at < there.size(); ++at) reverse_[there[at]] = back->second[at];
  }
}

void CreditFabric::lay_out_queues() {
  const NetworkColumns& network = context_.network;
  const std::size_t links = network.link_source.size();
  std::vector<bool> slow(links, false);
  for (const std::int32_t link : context_.options.failed_links) slow[static_cast<std::size_t>(link)] = true;
  std::vector<std::uint16_t> inputs(network.nodes, 0);
  ends_.resize(links);
  for (std::size_t link = 0; link < links; ++link) {
    const auto target = static_cast<std::uint32_t>(network.link_target[link]);
    const double kept = slow[link] ? context_.options.failed_fraction : 1.0;
    const auto rate = static_cast<std::uint64_t>(static_cast<double>(network.rate_bps[link]) * kept);
    need(inputs[target] < 0xffff, "link credit: more than 65,535 links end at a node");
    ends_[link] = {target, inputs[target]++, class_of(rate, network.latency_ps[link], target < network.hosts)};
    ports_[link].kind = ends_[link].kind;
  }
  for (const CreditLinkClass& klass : classes_) uniform_ = uniform_ && klass.rate_bps == classes_.front().rate_bps;
  std::uint64_t next = fifo_ ? links * lanes_ : 0;
  leaving_ptr_.assign(std::size_t{network.nodes} + 1, 0);
  for (std::size_t link = 0; link < links; ++link) {
    const auto source = static_cast<std::uint32_t>(network.link_source[link]);
    ports_[link].queues = static_cast<std::uint32_t>(next);
    ++leaving_ptr_[source + 1];
    next += source < network.hosts ? lanes_ : fifo_ ? 0 : std::uint64_t{inputs[source]} * lanes_;
    need(next < kNone, "link credit: too many inputs, egresses and lanes");
  }
  tails_.assign(next, kNone);
  for (std::uint32_t node = 0; node < network.nodes; ++node) leaving_ptr_[node + 1] += leaving_ptr_[node];
  leaving_.resize(links);
  std::vector<std::uint32_t> at(leaving_ptr_.begin(), leaving_ptr_.end() - 1);
  for (std::size_t link = 0; link < links; ++link)
    leaving_[at[static_cast<std::size_t>(network.link_source[link])]++] = static_cast<std::uint32_t>(link);
}

std::uint16_t CreditFabric::class_of(std::uint64_t rate_bps, Ps latency, bool to_host) {
  const Ps mtu_time = wire_time(mtu_, rate_bps);
  const Ps head_time = to_host || !options_.cut_through ? kNever : wire_time(options_.head_bytes, rate_bps);
  for (std::size_t at = 0; at < classes_.size(); ++at)
    if (classes_[at].rate_bps == rate_bps && classes_[at].latency == latency && classes_[at].head_time == head_time)
      return static_cast<std::uint16_t>(at);
  need(classes_.size() < 0xffff, "link credit: links of more than 65,535 kinds");
  classes_.push_back({.rate_bps = rate_bps,
                      .latency = latency,
                      .mtu_time = mtu_time,
                      .header_time = wire_time(header_, rate_bps),
                      .head_time = head_time,
                      .credit_time = wire_time(options_.packet_bytes, rate_bps)});
  return static_cast<std::uint16_t>(classes_.size() - 1);
}

}  // namespace railyard::packet
