#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>

#include "packet/fabric/pfc.hpp"
#include "packet/transport/rdma_options.hpp"

namespace railyard::packet {

PfcFabric::PfcFabric(Context& context)
    : context_(context), options_(context.options.of<PfcOptions>().in_bytes(context.options.mtu_bytes)), rules_(options_), mtu_(context.options.mtu_bytes),
      header_(context.options.header_bytes), adaptive_(switches_choose(context.options)),
      telemetry_(context.options.telemetry), at_enqueue_(context.options.of<MarkingOptions>().at_enqueue),
      egress_choice_(context.network, context.options) {
  lay_out_classes();
  misconfigure();
  lay_out_links();
  pair_links();
  lay_out_buffers();
}

/// Only classes that occur take room.
void PfcFabric::lay_out_classes() {
  std::array<bool, 8> used{};
  for (const std::uint8_t klass : context_.traffic.klass) used[klass & 7u] = true;
  const bool rdma = context_.options.transport == "rdma";
  const int control = rdma ? context_.options.of<RdmaOptions>().control_class : context_.options.control_class;
  if (control >= 0 && control < 8) used[static_cast<std::size_t>(control)] = true;
  std::vector<std::uint8_t> weights;
  for (std::uint8_t klass = 0; klass < 8; ++klass) {
    if (!used[klass]) continue;
    rank_of_[klass] = static_cast<std::uint8_t>(ranks_);
    if ((options_.lossless >> klass & 1) != 0) lossless_ |= 1u << ranks_;
    weights.push_back(options_.weights[klass]);
    class_of_.push_back(klass);
    ++ranks_;
  }
  scheduler_ = ClassScheduler(weights, mtu_);
}

/// What of the settings is otherwise than it has to be.
void PfcFabric::misconfigure() {
  const FaultColumns& faults = context_.options.faults;
  const std::size_t links = context_.network.link_source.size();
  deaf_.assign(links, false);
  unmarked_.assign(links, false);
  unpaused_.assign(links, false);
  headroom_share_.assign(links, 1.0);
  for (std::size_t row = 0; row < faults.size(); ++row) {
    const auto link = static_cast<std::size_t>(faults.link[row]);
    switch (static_cast<FaultColumns::Kind>(faults.kind[row])) {
      case FaultColumns::Kind::pause: unpaused_[link] = faults.value[row] <= 0; break;
      case FaultColumns::Kind::obey: deaf_[link] = faults.value[row] <= 0; break;
      case FaultColumns::Kind::mark: unmarked_[link] = faults.value[row] <= 0; break;
      case FaultColumns::Kind::headroom: headroom_share_[link] = faults.value[row]; break;
      default: faulty_ = true;
    }
  }
}

void PfcFabric::lay_out_links() {
  const NetworkColumns& network = context_.network;
  const std::size_t links = network.link_source.size();
  ports_.resize(links);
  queues_.resize(links * ranks_);
  links_.resize(links);
  marks_.assign(links, 0);
  draws_.assign(links, 0);
  stopper_.assign(links, kNone);
  paused_ps_.assign(links, 0);
  longest_ps_.assign(links, 0);
  pauses_.assign(links, 0);
  blame_.resize(links);
  last_flow_.assign(links, kNone);
  standing_.resize(context_.traffic.source.size());
  flow_blame_.resize(standing_.size());
  std::vector<bool> failed(links, false);
  for (const std::int32_t link : context_.options.failed_links) failed[static_cast<std::size_t>(link)] = true;
  out_ptr_.assign(std::size_t{network.nodes} + 1, 0);
  for (std::uint32_t link = 0; link < links; ++link) {
    const auto source = static_cast<std::uint32_t>(network.link_source[link]);
    links_[link].target = static_cast<std::uint32_t>(network.link_target[link]);
    if (source >= context_.hosts) ports_[link].home = source - context_.hosts;
    ports_[link].sort = add_sort(sort_of(link, failed[link] ? context_.options.failed_fraction : 1.0));
    ++out_ptr_[source + 1];
  }
  std::partial_sum(out_ptr_.begin(), out_ptr_.end(), out_ptr_.begin());
  outs_.resize(links);
  std::vector<std::uint32_t> at(out_ptr_.begin(), out_ptr_.end() - 1);
  for (std::uint32_t link = 0; link < links; ++link)
    outs_[at[static_cast<std::size_t>(network.link_source[link])]++] = link;
}

PfcFabric::Sort PfcFabric::sort_of(std::uint32_t link, double kept) const {
  const NetworkColumns& network = context_.network;
  const Options& options = context_.options;
  const auto rate = static_cast<std::uint64_t>(static_cast<double>(network.rate_bps[link]) * kept);
  Sort sort{.rate_bps = rate,
            .latency = network.latency_ps[link],
            .mtu_time = wire_time(mtu_, rate),
            .header_time = wire_time(header_, rate),
            .marking = {},
            .marking_scale = 0};
  const bool from_host = static_cast<std::uint32_t>(network.link_source[link]) < context_.hosts;
  const bool to_host = static_cast<std::uint32_t>(network.link_target[link]) < context_.hosts;
  const bool credit = options.transport == "uec" &&
                      options.receiver_credit();
  // Receivers that grant credit see to the last hop themselves: it does not mark.
  if (from_host || (credit && to_host) || unmarked_[link]) return sort;
  const double scale = options.of<MarkingOptions>().by_rate
                           ? static_cast<double>(rate) / static_cast<double>(context_.derived.rate_bps) : kept;
  sort.marking_scale = scale;
  sort.marking = Marking::make(options.of<MarkingOptions>(), context_.derived.ecn_low_bytes, context_.derived.ecn_high_bytes, scale);
  return sort;
}

void PfcFabric::retune(const Options& options) {
  for (Sort& sort : sorts_)
    if (sort.marking_scale > 0)
      sort.marking = Marking::make(options.of<MarkingOptions>(), context_.derived.ecn_low_bytes,
                                   context_.derived.ecn_high_bytes, sort.marking_scale);
}

std::uint16_t PfcFabric::add_sort(const Sort& sort) {
  const auto same = [&](const Sort& other) {
    return other.rate_bps == sort.rate_bps && other.latency == sort.latency && other.marking.low == sort.marking.low &&
           other.marking.high == sort.marking.high && other.marking_scale == sort.marking_scale;
  };
  const auto found = std::find_if(sorts_.begin(), sorts_.end(), same);
  if (found != sorts_.end()) return static_cast<std::uint16_t>(found - sorts_.begin());
  if (sorts_.size() > 60'000) throw std::invalid_argument("links of more than 60,000 kinds");
  sorts_.push_back(sort);
  return static_cast<std::uint16_t>(sorts_.size() - 1);
}

/// Pauses travel against the data: the k-th link from a to b is stopped over the k-th from b to a.
void PfcFabric::pair_links() {
  const NetworkColumns& network = context_.network;
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::uint32_t>> between;
  for (std::uint32_t link = 0; link < links_.size(); ++link)
    between[{network.link_source[link], network.link_target[link]}].push_back(link);
  for (const auto& [ends, forth] : between) {
    const auto back = between.find({ends.second, ends.first});
    if (back == between.end() || back->second.size() != forth.size())
      throw std::invalid_argument("pause frames need a link back for every link");
    for (std::size_t at = 0; at < forth.size(); ++at) links_[forth[at]].reverse = back->second[at];
  }
}

void PfcFabric::lay_out_buffers() {
  const std::uint32_t hosts = context_.hosts;
  switches_.resize(context_.network.nodes - hosts);
  const auto lossless_ranks = std::popcount(lossless_);
  for (std::uint32_t home = 0; home < switches_.size(); ++home) {
    Switch& here = switches_[home];
    here.first_slot = static_cast<std::uint32_t>(link_of_slot_.size());
    double capacity = 0;
    std::int64_t own = 0;
    for (std::uint32_t at = out_ptr_[hosts + home]; at != out_ptr_[hosts + home + 1]; ++at) {
      const std::uint32_t link = links_[outs_[at]].reverse;
      const Sort& sort = sorts_[ports_[link].sort];
      links_[link].slot = static_cast<std::uint32_t>(link_of_slot_.size());
      link_of_slot_.push_back(link);
      const auto rate = static_cast<double>(sort.rate_bps);
      capacity += rate;
      headroom_.push_back(unpaused_[link] ? 0 : headroom_for(link, outs_[at]));
      own += (headroom_.back() + (unpaused_[link] ? 0 : options_.reserve_bytes)) * lossless_ranks;
    }
    const auto derived = static_cast<std::int64_t>(capacity * PfcOptions::kBufferPs * 1e-12 / 8);
    if (options_.fixed()) {
      here.pool.size = options_.buffer_bytes > 0 ? options_.buffer_bytes : std::numeric_limits<std::int64_t>::max() / 4;
    } else if (options_.buffer_bytes == 0) {
      here.pool.size = std::max(derived - own, derived / 2);
    } else if (options_.buffer_bytes > own) {
      here.pool.size = options_.buffer_bytes - own;
    } else {
      throw std::invalid_argument("a switch's buffer of " + std::to_string(options_.buffer_bytes) +
                                  " bytes does not hold the headroom of its ingresses, " + std::to_string(own) + " bytes");
    }
    if (link_of_slot_.size() - here.first_slot > 0xffff) throw std::invalid_argument("a switch with more than 65,535 links");
  }
  ingresses_.resize(link_of_slot_.size() * ranks_);
  for (std::size_t at = 0; at < ingresses_.size(); ++at)
    ingresses_[at].lossy = (lossless_ >> at % ranks_ & 1) == 0 || unpaused_[link_of_slot_[at / ranks_]];
  headroom_peak_.assign(ingresses_.size(), 0);
  origin_.assign(link_of_slot_.size(), kNone);
}

/// Of the ingress of a link; the frame goes out over the one back, the data come over this one: whichever takes longer
/// counts.
std::int64_t PfcFabric::headroom_for(std::uint32_t link, std::uint32_t back) const {
  const Sort& sort = sorts_[ports_[link].sort];
  const Ps delay = std::max(sort.latency, sorts_[ports_[back].sort].latency);
  std::int64_t room = options_.headroom_bytes > 0
                          ? options_.headroom_bytes
                          : headroom_of(static_cast<double>(sort.rate_bps), delay, options_.response_ps, mtu_, options_.frame_bytes);
  if (options_.headroom_most_bytes > 0) room = std::min(room, options_.headroom_most_bytes);
  return static_cast<std::int64_t>(static_cast<double>(room) * headroom_share_[link]);
}

// ------------------------------------------------------------------------------------------------------------- pauses

void PfcFabric::stop(Switch& home, std::uint32_t slot, unsigned rank, std::uint32_t egress) {
  Ingress& in = ingresses_[std::size_t{slot} * ranks_ + rank];
  in.paused = true;
  in.since = context_.now;
  ++home.paused;
  ++paused_total_;
  const bool stopped_itself = (ports_[egress].paused >> rank & 1) != 0;
  origin_[slot] = stopped_itself && stopper_[egress] != kNone ? stopper_[egress] : egress;
  changed_.push_back(slot);
  const std::size_t node = context_.hosts + static_cast<std::size_t>(&home - switches_.data());
  for (std::uint32_t at = out_ptr_[node]; at != out_ptr_[node + 1]; ++at) {
    Egress& port = ports_[outs_[at]];
    if (port.serving != kNone && hot(port)) need_prompt(port, outs_[at]);
  }
  if (!watching_) watch_from_ = std::min(watch_from_, context_.now);
}

void PfcFabric::let_go(Switch& home, std::uint32_t slot, unsigned rank, Ps at) {
  ingresses_[std::size_t{slot} * ranks_ + rank].paused = false;
  --home.paused;
  --paused_total_;
  latest_resume_ = std::max(latest_resume_, context_.now - at);
  changed_.push_back(slot);
}

std::uint32_t PfcFabric::new_frame(std::uint32_t link) {
  const std::uint32_t index = context_.slab.acquire();
  Packet& packet = context_.slab[index];
  packet = Packet{};
  packet.link = link;
  packet.destination = links_[link].target;
  packet.size = static_cast<std::uint16_t>(options_.frame_bytes);
  packet.kind = Kind::pause;
  packet.ingress = kNone;
  packet.following = kNone;
  return index;
}

/// Sends what neighbours must know. A frame that still waits for its turn says what holds when it begins.
void PfcFabric::flush() {
  while (!changed_.empty()) {
    const std::uint32_t link = links_[link_of_slot_[changed_.back()]].reverse;
    changed_.pop_back();
    if (down(link)) continue;
    Egress& port = ports_[link];
    serve(port, link);
    if (port.frame == kNone) port.frame = new_frame(link);
    if (port.serving == kNone) next(port, link, context_.now);
    else need_prompt(port, link);
    arm(port, link);
  }
}

void PfcFabric::begin_frame(Egress& port, std::uint32_t link, Ps at) {
  const std::uint32_t slot = links_[links_[link].reverse].slot;
  Packet& packet = context_.slab[port.frame];
  for (unsigned rank = 0; rank < ranks_; ++rank)
    if (ingresses_[std::size_t{slot} * ranks_ + rank].paused) packet.sequence |= 1u << rank;
  packet.cumulative = origin_[slot];
  port.serving = port.frame;
  port.frame = kNone;
  port.serving_rank = kFrameRank;
  port.serving_size = packet.size;
  port.busy_until = at + wire_time(packet.size, sorts_[port.sort].rate_bps);
  port.carried += packet.size;
  ++context_.outcome.counters.pauses;
  context_.depart(link, port.serving, port.busy_until + sorts_[port.sort].latency + options_.response_ps);
  if (hot(port)) need_prompt(port, link);
}

/// A pause frame has arrived at the neighbour that it stops or lets go.
void PfcFabric::take_frame(std::uint32_t index) {
  const std::uint32_t link = links_[context_.slab[index].link].reverse;
  const auto bits = static_cast<std::uint8_t>(context_.slab[index].sequence);
  const std::uint32_t origin = context_.slab[index].cumulative;
  context_.slab.release(index);
  if (deaf_[link]) return;
  Egress& port = ports_[link];
  serve(port, link);
  if ((bits & ~port.paused) != 0) stopper_[link] = origin;
  obey(port, link, bits);
  arm(port, link);
  if (!changed_.empty()) flush();
}

/// Stops the classes whose bits are set, lets the others go.
void PfcFabric::obey(Egress& port, std::uint32_t link, std::uint8_t bits) {
  const std::uint8_t before = port.paused;
  port.paused = bits;
  if (before == 0 && bits != 0) {
    port.paused_since = context_.now;
    ++pauses_[link];
  } else if (before != 0 && bits == 0) {
    const Ps time = context_.now - port.paused_since;
    paused_ps_[link] += time;
    longest_ps_[link] = std::max(longest_ps_[link], time);
    blame_[link].vote(stopper_[link], time);
  }
  if ((before & ~bits) == 0) return;
  count_standing(port, link, before & ~bits, context_.now - port.paused_since);
  go_on(port, link);
}

/// Whom a pause that ends now has held back: the flows whose packets wait, each once. Of what waits in a host only the flow
/// that sent last is known.
void PfcFabric::count_standing(const Egress& port, std::uint32_t link, unsigned bits, Ps time) {
  ++countings_;
  if (port.home == kNone) {
    const std::uint32_t flow = last_flow_[link];
    if (flow == kNone || context_.outcome.finish_ps[flow] >= 0) return;
    Packet like{};
    like.destination = static_cast<std::uint32_t>(context_.traffic.target[flow]);
    stood(flow, link, time, !goes_over(like, links_[link].target, stopper_[link]));
    return;
  }
  for (; bits != 0; bits &= bits - 1) {
    const Line& line = queue(link, static_cast<unsigned>(std::countr_zero(bits))).line;
    for (std::uint32_t at = 0; at < line.count(); ++at) {
      const Packet& packet = context_.slab[line.peek(lines_, at).index];
      if (standing_[packet.flow].seen == countings_) continue;
      stood(packet.flow, link, time, !goes_over(packet, links_[link].target, stopper_[link]));
    }
  }
}

void PfcFabric::stood(std::uint32_t flow, std::uint32_t link, Ps time, bool victim) {
  Standing& standing = standing_[flow];
  standing.seen = countings_;
  standing.held_ps += time;
  if (!victim) return;
  standing.victim_ps += time;
  votes_.push_back({context_.now, links_[link].reverse, flow, stopper_[link], time});
}

/// Whether a packet at a node may still go over a link: does, where its way is hashed.
bool PfcFabric::goes_over(const Packet& packet, std::uint32_t node, std::uint32_t link) const {
  if (links_[link].target < context_.hosts) return packet.destination == links_[link].target;
  for (int hops = 0; hops < 16 && node >= context_.hosts; ++hops) {
    const Choice choice = context_.routes.find(node, packet.destination);
    if (choice.width == 0) return false;
    if (adaptive_ || packet.key == 0) {
      if (std::find(choice.links, choice.links + choice.width, link) != choice.links + choice.width) return true;
      node = links_[*choice.links].target;
    } else {
      const std::uint32_t next = choice.links[choice.width == 1 ? 0 : context_.routes.pick(node, packet.key, choice.width)];
      if (next == link) return true;
      node = links_[next].target;
    }
  }
  return false;
}

/// An egress may send again.
void PfcFabric::go_on(Egress& port, std::uint32_t link) {
  if (port.serving == kNone) next(port, link, context_.now);
  if (port.home != kNone) return;
  const auto host = static_cast<std::uint32_t>(context_.network.link_source[link]);
  Nic& nic = context_.nics[host];
  if (nic.slot) return;
  nic.slot = true;
  context_.wheel.push(std::max(context_.now, nic.busy_until), event(Event::slot, host));
}

void PfcFabric::on_port(std::uint32_t link) {
  Egress& port = ports_[link];
  serve(port, link);
  arm(port, link);
  if (!changed_.empty()) flush();
}

void PfcFabric::write_hop(const Egress& port, std::uint32_t index, Ps at) {
  if (context_.slab[index].kind != Kind::data) return;
  context_.telemetry[index].add({.tx_bytes = static_cast<std::uint64_t>(port.carried),
                                 .time = at,
                                 .queue_bytes = port.bytes - port.serving_size,
                                 .rate_mbps = static_cast<std::uint32_t>(sorts_[port.sort].rate_bps / 1'000'000)});
}

void PfcFabric::set_rate(std::uint32_t link, double factor) {
  Egress& port = ports_[link];
  serve(port, link);
  if (down_.empty()) down_.assign(ports_.size(), false);
  const bool was_down = down_[link];
  down_[link] = factor <= 0;
  if (down_[link]) {
    empty_out(port, link);
    obey(port, link, 0);
  } else {
    port.sort = add_sort(sort_of(link, factor));
    if (was_down) {
      tell_again(link);
      tell_again(links_[link].reverse);
      go_on(port, link);
    }
  }
  arm(port, link);
  if (!changed_.empty()) flush();
}

/// Drops what waits at an egress.
void PfcFabric::empty_out(Egress& port, std::uint32_t link) {
  if (port.frame != kNone) context_.slab.release(port.frame);
  port.frame = kNone;
  for (unsigned rank = 0; rank < ranks_; ++rank) {
    ClassQueue& from = queue(link, rank);
    while (!from.line.empty()) {
      const Waiting what = from.line.pop_first(lines_);
      const std::uint32_t size = what.size & 0xffffu;
      from.bytes -= size;
      port.bytes -= size;
      if (port.home != kNone) leave_buffer(port.home, what.size >> 16, rank, size, context_.now);
      drop(what.index);
    }
  }
  port.waiting = 0;
}

/// The neighbour that sends over this link hears again what holds.
void PfcFabric::tell_again(std::uint32_t link) {
  const std::uint32_t slot = links_[link].slot;
  if (slot != kNone && origin_[slot] != kNone) changed_.push_back(slot);
}

void PfcFabric::hold(std::uint32_t link, bool held) {
  Egress& port = ports_[link];
  serve(port, link);
  port.held = held;
  if (!held) go_on(port, link);
  arm(port, link);
  if (!changed_.empty()) flush();
}

// ---------------------------------------------------------------------------------------------------- what went wrong

void PfcFabric::watch() {
  watching_ = false;
  // Where links lose packets they lose frames as well: what holds is said again and again, as it is on real links.
  if (faulty_) {
    for (std::uint32_t link = 0; link < links_.size(); ++link) tell_again(link);
    flush();
  }
  if (paused_total_ == 0 && !faulty_) return;
  if (paused_total_ != 0) fail_on_deadlock();
  if (paused_total_ != 0 && context_.now - moved_at_ >= options_.stall_ps)
    throw Stuck("nothing has moved since " + std::to_string(moved_at_ / 1'000'000) + " us, while " +
                std::to_string(paused_total_) + " ingresses hold their neighbours back: the run would never end");
  watching_ = true;
  context_.wheel.push(context_.now + options_.watch_ps, event(Event::extra, 0));
}

/// Which ingress has how much waiting behind egresses that are paused.
std::vector<Held> PfcFabric::held_back() const {
  std::vector<Held> held;
  for (std::uint32_t link = 0; link < links_.size(); ++link) {
    const Egress& port = ports_[link];
    if (port.paused == 0 || port.home == kNone || links_[link].slot == kNone) continue;
    for (unsigned rank = 0; rank < ranks_; ++rank) {
      const std::size_t blocker = std::size_t{links_[link].slot} * ranks_ + rank;
      if ((port.paused >> rank & 1) == 0 || !ingresses_[blocker].paused) continue;
      const Line& line = queues_[std::size_t{link} * ranks_ + rank].line;
      for (std::uint32_t at = 0; at < line.count(); ++at) {
        const std::uint32_t size = line.peek(lines_, at).size;
        const std::size_t slot = switches_[port.home].first_slot + (size >> 16);
        held.push_back({static_cast<std::uint32_t>(slot * ranks_ + rank), static_cast<std::uint32_t>(blocker), size & 0xffffu});
      }
    }
  }
  return held;
}

void PfcFabric::fail_on_deadlock() const {
  std::vector<std::uint32_t> stopped;
  bool long_since = false;
  for (std::uint32_t at = 0; at < ingresses_.size(); ++at) {
    if (!ingresses_[at].paused) continue;
    stopped.push_back(at);
    long_since = long_since || ingresses_[at].since + options_.watch_ps <= context_.now;
  }
  if (!long_since) return;
  const MayResume may_resume = [this](std::uint32_t at, const std::vector<std::int64_t>& stuck) {
    const std::uint32_t slot = at / ranks_;
    const std::uint32_t home = ports_[links_[link_of_slot_[slot]].reverse].home;
    Pool pool = switches_[home].pool;
    const std::size_t first = std::size_t{switches_[home].first_slot} * ranks_;
    const std::size_t end = home + 1 < switches_.size() ? std::size_t{switches_[home + 1].first_slot} * ranks_ : stuck.size();
    Ingress here = ingresses_[at];
    for (std::size_t other = first; other < end; ++other) {
      Ingress in = ingresses_[other];
      rules_.give(in, pool, in.bytes + in.headroom - std::min(stuck[other], in.bytes + in.headroom));
      if (other == at) here = in;
    }
    return rules_.may_resume(here, pool);
  };
  const std::vector<std::uint32_t> circle = find_deadlock(ingresses_.size(), stopped, held_back(), may_resume);
  if (circle.empty()) return;
  std::string text = "pause deadlock in class " + std::to_string(class_of_[circle.front() % ranks_]) + " at " +
                     std::to_string(context_.now / 1'000'000) + " us: ";
  for (std::size_t at = 0; at < circle.size(); ++at)
    text += (at == 0 ? "" : " waits for ") + name(link_of_slot_[circle[at] / ranks_]);
  throw Stuck(text + " waits for the first");
}

std::string PfcFabric::name(std::uint32_t link) const {
  return "link " + std::to_string(link) + " (node " + std::to_string(context_.network.link_source[link]) + " to node " +
         std::to_string(context_.network.link_target[link]) + ")";
}

void PfcFabric::sweep(Ps last) {
  departure_ = kNever;
  std::size_t kept = 0;
  for (const std::uint32_t link : listed_) {
    Egress& port = ports_[link];
    serve(port, link, last);
    port.listed = port.serving != kNone && port.waiting != 0;
    if (!port.listed) continue;
    listed_[kept++] = link;
    departure_ = std::min(departure_, port.busy_until);
  }
  listed_.resize(kept);
  RAILYARD_INVARIANT(changed_.empty());  // who waits to be let go is, by events
  count_votes();
  if (watch_from_ == kNever) return;
  watching_ = true;
  context_.wheel.push(std::max(watch_from_ + options_.watch_ps, last + 1), event(Event::extra, 0));
  watch_from_ = kNever;
}

void PfcFabric::count_votes() {
  std::stable_sort(votes_.begin(), votes_.end(), [](const Vote& a, const Vote& b) {
    return a.at != b.at ? a.at < b.at : a.tie < b.tie;
  });
  for (const Vote& vote : votes_) flow_blame_[vote.flow].vote(vote.origin, vote.time);
  votes_.clear();
}

void PfcFabric::settle(Ps now) {
  for (std::uint32_t link = 0; link < ports_.size(); ++link) serve(ports_[link], link, now);
  count_votes();
  changed_.clear();
}

void PfcFabric::conclude() {
  PauseColumns& columns = context_.outcome.pauses;
  for (std::uint32_t link = 0; link < ports_.size(); ++link) {
    if (ports_[link].paused == 0) continue;
    const Ps time = context_.now - ports_[link].paused_since;
    paused_ps_[link] += time;
    longest_ps_[link] = std::max(longest_ps_[link], time);
    blame_[link].vote(stopper_[link], time);
  }
  columns.paused_ps = std::move(paused_ps_);
  columns.longest_ps = std::move(longest_ps_);
  columns.pauses = std::move(pauses_);
  for (std::size_t flow = 0; flow < standing_.size(); ++flow) {
    columns.flow_paused_ps.push_back(standing_[flow].held_ps);
    columns.flow_victim_ps.push_back(standing_[flow].victim_ps);
    columns.flow_origin.push_back(static_cast<std::int32_t>(flow_blame_[flow].origin));
  }
  columns.origin.clear();
  for (const Majority& majority : blame_) columns.origin.push_back(static_cast<std::int32_t>(majority.origin));
}

}  // namespace railyard::packet
