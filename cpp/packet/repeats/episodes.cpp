#include "packet/repeats/episodes.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace railyard::packet {

namespace {

constexpr std::uint32_t kBeforeAll = 0;
constexpr std::uint32_t kAfterStarts = event(Event::timer, 0);
constexpr std::uint32_t kAfterAll = event(Event::control, 0);

}  // namespace

Episodes::Episodes(Context& context, Stage& stage)
    : context_(context), stage_(stage), ways_(context), totals_(context.outcome.repeats), nodes_(1),
      owner_(ways_.parts(), kNone), number_(ways_.parts(), kNone), carried_(ways_.links(), 0), drawn_(ways_.links(), 0),
      place_(context.traffic.source.size(), 0) {}

bool Episodes::worth(const Context& context) {
  const Ways ways(context);
  std::size_t single = 0;
  const auto flows = static_cast<std::uint32_t>(context.traffic.source.size());
  for (std::uint32_t flow = 0; flow < flows; ++flow) single += ways.single(flow) ? 1 : 0;
  return single * kLeastShare >= flows;
}

void Episodes::start(std::uint32_t flow) {
  if (!trying_ && following_ == 0) return stage_.send(flow, false);
  const Way& way = ways_.of(flow);
  const std::uint32_t id = meet(way);
  Episode& episode = episodes_[id];
  ++episode.unfinished;
  Input input{order_++, context_.now, flow, {}, {}};
  if (!trying_ || !way.single || !episode.recorded || episode.inputs.size() == kMostInputs || !describe(id, way, input)) {
    forget(id);
    enter(id, way, nullptr);
    return stage_.send(flow, false);
  }
  enter(id, way, &input);
  place_[flow] = static_cast<std::uint32_t>(episode.inputs.size());
  episode.inputs.push_back(std::move(input));
  proceed(id);
}

// ------------------------------------------------------------------------------------------------- who is concerned

std::uint32_t Episodes::meet(const Way& way) {
  found_.clear();
  for (const std::uint32_t part : way.parts)
    if (owner_[part] != kNone && std::find(found_.begin(), found_.end(), owner_[part]) == found_.end())
      found_.push_back(owner_[part]);
  if (found_.empty()) return open();
  return found_.size() == 1 ? found_.front() : join(way);
}

std::uint32_t Episodes::open() {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(episodes_.size()));
    episodes_.emplace_back();
  }
  const std::uint32_t id = free_.back();
  free_.pop_back();
  episodes_[id] = Episode{};
  episodes_[id].start = context_.now;
  episodes_[id].there = true;
  ++following_;
  ++totals_.episodes;
  return id;
}

void Episodes::release(std::uint32_t id) {
  for (const std::uint32_t part : episodes_[id].parts) owner_[part] = kNone;
  for (const std::uint32_t connection : episodes_[id].connections) stage_.trace(connection, false);
  episodes_[id] = Episode{};
  free_.push_back(id);
}

/// The episodes found become one. It goes on without packets where all of them do and what they come to is known.
std::uint32_t Episodes::join(const Way& way) {
  bool packets = false, recorded = way.single;
  std::size_t inputs = 0;
  std::uint32_t id = found_.front();
  for (const std::uint32_t one : found_) {
    packets = packets || episodes_[one].packets;
    recorded = recorded && episodes_[one].recorded;
    inputs += episodes_[one].inputs.size();
    if (episodes_[one].parts.size() > episodes_[id].parts.size()) id = one;
  }
  recorded = recorded && inputs < kMostInputs;
  for (const std::uint32_t one : found_) {
    Episode& episode = episodes_[one];
    if (!episode.packets && (packets || !recorded)) play(one, kAfterStarts, episode.inputs.size());
    if (!recorded) forget(one);
    else if (episode.packets) leave(one);
  }
  Episode& whole = episodes_[id];
  for (const std::uint32_t one : found_) {
    if (one == id) continue;
    Episode& part = episodes_[one];
    whole.start = std::min(whole.start, part.start);
    whole.unfinished += part.unfinished;
    for (const std::uint32_t each : part.parts) owner_[each] = id;
    whole.parts.insert(whole.parts.end(), part.parts.begin(), part.parts.end());
    std::move(part.inputs.begin(), part.inputs.end(), std::back_inserter(whole.inputs));
    if (!whole.packets) --following_;
    part = Episode{};
    free_.push_back(one);
  }
  if (!recorded) return id;
  std::sort(whole.inputs.begin(), whole.inputs.end(), [](const Input& a, const Input& b) { return a.order < b.order; });
  for (const std::uint32_t part : whole.parts) number_[part] = kNone;
  whole.parts.clear();
  whole.sorted.clear();
  whole.connections.clear();
  std::uint32_t node = 0, place = 0;
  for (Input& input : whole.inputs) {
    enter(id, ways_.of(input.flow), &input);
    place_[input.flow] = place++;
    if (node != kNone) node = branch(node, input, whole, whole.packets);
  }
  whole.told = 0;
  if (whole.packets) arrive(id, node);
  else whole.node = node;
  return id;
}

/// The episode comes to the parts of a way; the label of a flow says to which.
void Episodes::enter(std::uint32_t id, const Way& way, Input* input) {
  Episode& episode = episodes_[id];
  Words label;
  if (input != nullptr) {
    label = {input->time - episode.start};
    label.insert(label.end(), input->own.begin(), input->own.end());
  }
  for (const std::uint32_t part : way.parts) {
    if (owner_[part] != id) {
      owner_[part] = id;
      number_[part] = kNone;
      if (part < ways_.links()) {
        carried_[part] = stage_.carried(part);
        drawn_[part] = stage_.drawn(part);
      }
    }
    const bool fresh = number_[part] == kNone;
    if (fresh) {
      number_[part] = static_cast<std::uint32_t>(episode.parts.size());
      episode.parts.push_back(part);
    }
    if (input == nullptr) continue;
    if (!fresh) {
      label.push_back(number_[part]);
      continue;
    }
    const auto place = std::lower_bound(episode.sorted.begin(), episode.sorted.end(), part);
    label.push_back(-1 - (place - episode.sorted.begin()));
    label.push_back(part < ways_.links() ? stage_.kind(part) : -1);
    episode.sorted.insert(place, part);
  }
  if (input == nullptr) return;
  const std::uint32_t connection = context_.traffic.connection_of(input->flow);
  const auto known = std::find(episode.connections.begin(), episode.connections.end(), connection);
  label.push_back(known == episode.connections.end() ? -1 : known - episode.connections.begin());
  if (known == episode.connections.end()) episode.connections.push_back(connection);
  input->label = std::move(label);
}

/// What of a flow does not depend on its episode. False: something that should be at rest is not.
bool Episodes::describe(std::uint32_t id, const Way& way, Input& input) const {
  const TrafficColumns& traffic = context_.traffic;
  const std::uint32_t flow = input.flow;
  const double share = traffic.nic_share.empty() ? 1.0 : traffic.nic_share[flow];
  input.own = {traffic.size_bytes[flow], traffic.klass[flow], traffic.heeds(flow) ? 1 : 0, std::bit_cast<std::int64_t>(share)};
  for (const std::uint32_t end : {way.parts.front(), way.parts[way.links + 1]})
    if (owner_[end] != id && !rest(end - ways_.links(), input.own)) return false;
  const std::vector<std::uint32_t>& known = episodes_[id].connections;
  const std::uint32_t connection = traffic.connection_of(flow);
  if (std::find(known.begin(), known.end(), connection) != known.end()) return true;
  stage_.trace(connection, true);
  return stage_.rest(connection, input.own);
}

bool Episodes::rest(std::uint32_t host, Words& words) const {
  const Nic& nic = context_.nics[host];
  words.insert(words.end(), {std::max<Ps>(nic.busy_until - context_.now, 0), nic.others, nic.turn, nic.links});
  return !nic.slot && nic.first == kNone && nic.control_first == kNone;
}

const std::int64_t* Episodes::put_host(std::uint32_t host, const std::int64_t* words) {
  Nic& nic = context_.nics[host];
  nic.busy_until = context_.now + words[0];
  nic.others = words[1];
  nic.turn = static_cast<std::uint8_t>(words[2]);
  return words + 4;
}

// ---------------------------------------------------------------------------------------------------------- the tree

std::uint32_t Episodes::branch(std::uint32_t node, const Input& input, const Episode& episode, bool make) {
  std::map<Words, std::uint32_t>& branches = nodes_[node].branches;
  const auto found = branches.find(input.label);
  if (found != branches.end() || !make) return found == branches.end() ? kNone : found->second;
  const auto fresh = static_cast<std::uint32_t>(nodes_.size());
  branches.emplace(input.label, fresh);
  nodes_.emplace_back().known = input.time - episode.start;
  return fresh;
}

/// As packets, the episode comes to a node.
void Episodes::arrive(std::uint32_t id, std::uint32_t node) {
  Episode& episode = episodes_[id];
  Node& at = nodes_[node];
  episode.node = node;
  if (at.random) {
    episode.recorded = false;
    return;
  }
  if (at.leader == kNone || episodes_[at.leader].start > episode.start) at.leader = id;
}

/// As packets, the episode leaves its node: up to now nothing more happens there.
void Episodes::leave(std::uint32_t id) {
  const Episode& episode = episodes_[id];
  Node& node = nodes_[episode.node];
  node.known = std::max(node.known, context_.now - episode.start);
  if (node.leader != id) return;
  node.leader = kNone;
  call(node);
}

/// Those who wait at the node look again.
void Episodes::call(Node& node) {
  for (const std::uint32_t follower : std::exchange(node.followers, {})) wake(follower, context_.now, false);
}

// --------------------------------------------------------------------------------------------------------- as packets

/// A flow has joined: the episode goes on as packets, unless what it has come to is known.
void Episodes::proceed(std::uint32_t id) {
  Episode& episode = episodes_[id];
  const Input& input = episode.inputs.back();
  if (!episode.packets) {
    const std::uint32_t next = episode.node == kNone ? kNone : branch(episode.node, input, episode, false);
    const bool known = next != kNone && !nodes_[next].random;
    episode.checked = known && episode.inputs.size() == 1 && mix(input.order) % kCheckEvery == 0;
    if (known && !episode.checked) {
      episode.node = next;
      episode.told = 0;
      return follow(id, false);
    }
    play(id, kAfterStarts, episode.inputs.size() - 1);
  }
  leave(id);
  arrive(id, branch(episode.node, input, episode, true));
  episode.told = 0;
  stage_.send(input.flow, false);
}

/// Simulates the episode from its start on, with so many of its flows, up to now: what is due now only if its tie is below
/// the limit.
void Episodes::play(std::uint32_t id, std::uint32_t limit, std::size_t inputs) {
  Episode& episode = episodes_[id];
  episode.packets = true;
  --following_;
  if (episode.node == kNone) {  // joined of several, and not known
    episode.node = 0;
    for (std::size_t at = 0; at < inputs; ++at) episode.node = branch(episode.node, episode.inputs[at], episode, true);
  }
  if (inputs != 0) {
    const Ps now = context_.now;
    Wheel& wheel = context_.wheel;
    Wheel others(wheel.span());
    std::swap(wheel, others);
    for (std::size_t at = 0; at < inputs; ++at)
      wheel.push(episode.inputs[at].time, event(Event::start, episode.inputs[at].flow),
                 event(Event::start, static_cast<std::uint32_t>(at)));
    Due due{};
    std::vector<Due> left;
    bool more = stage_.next(due, now + 1);
    for (; more && (due.time < now || due.tie < limit); more = stage_.next(due, now + 1)) {
      // A flow that an end has just set free is none of the episode's yet: it begins as any other does.
      if (kind_of(due.what) == Event::start && context_.outcome.start_ps[index_of(due.what)] < 0) left.push_back(due);
      else act(due, false);
    }
    if (more) left.push_back(due);
    while (wheel.pop(due)) left.push_back(due);
    std::swap(wheel, others);
    context_.now = now;
    for (const Due& one : left) wheel.push(one.time, one.what, one.tie);
    ++totals_.replayed;
  }
  arrive(id, episode.node);
}

void Episodes::act(const Due& due, bool again) {
  context_.now = due.time;
  ++context_.outcome.events;
  if (kind_of(due.what) == Event::start) stage_.send(index_of(due.what), again);
  else stage_.dispatch(due);
}

/// The episode goes on as packets that nobody follows.
void Episodes::forget(std::uint32_t id) {
  Episode& episode = episodes_[id];
  if (!episode.packets) play(id, kAfterStarts, episode.inputs.size());
  if (episode.recorded) leave(id);
  episode.recorded = false;
  for (const std::uint32_t connection : episode.connections) stage_.trace(connection, false);
}

bool Episodes::heard(std::uint32_t flow, std::uint8_t at, Ps now) {
  if (filling_) return true;
  const Outcome& outcome = context_.outcome;
  const Ps said = at == 0 ? outcome.finish_ps[flow] : outcome.receiver_finish_ps[flow];
  if (said >= 0) {
    differs(now - said);
    return true;
  }
  const std::uint32_t id = owner_[ways_.host(static_cast<std::uint32_t>(context_.traffic.source[flow]))];
  if (id == kNone) return false;
  Episode& episode = episodes_[id];
  if (episode.recorded) note(id, {now - episode.start, place_[flow], at});
  if (at == 0 && --episode.unfinished == 0) context_.wheel.push(now, event(Event::control, kEvent | id << 2 | kEnded), 0);
  return false;
}

/// As packets, a flow has ended.
void Episodes::note(std::uint32_t id, const Ending& ending) {
  Episode& episode = episodes_[id];
  Node& node = nodes_[episode.node];
  if (drawn(episode)) {
    node.random = true;
    return forget(id);
  }
  if (episode.told < node.endings.size()) {
    const Ending& known = node.endings[episode.told];
    const bool other = known.input != ending.input || known.at != ending.at;
    differs(other ? std::max<Ps>(ending.after - known.after, 1) : ending.after - known.after);
  } else {
    node.endings.push_back(ending);
  }
  ++episode.told;
  call(node);
}

/// Whether chance has had a say in the episode.
bool Episodes::drawn(const Episode& episode) const {
  return std::any_of(episode.parts.begin(), episode.parts.end(), [this](std::uint32_t part) {
    return part < ways_.links() && stage_.drawn(part) != drawn_[part];
  });
}

/// As packets, the episode has ended.
void Episodes::remember(std::uint32_t id) {
  Episode& episode = episodes_[id];
  Node& node = nodes_[episode.node];
  Left left;
  bool known = !drawn(episode) && count(episode, left);
  for (const std::uint32_t part : episode.parts) {
    left.hosts.emplace_back();
    if (part >= ways_.links()) known = rest(part - ways_.links(), left.hosts.back()) && known;
  }
  for (const std::uint32_t connection : episode.connections) {
    known = stage_.rest(connection, left.connections.emplace_back()) && known;
    known = stage_.traced(connection, left.delays.emplace_back()) && known;
  }
  if (!known) {
    node.random = true;
  } else if (!node.ended) {
    node.left = std::move(left);
    node.ended = true;
  } else if (left.hosts != node.left.hosts || left.connections != node.left.connections || left.carried != node.left.carried ||
             left.delays != node.left.delays) {
    differs(1);
  }
  leave(id);
  if (episode.checked) ++totals_.checked;
}

/// Packets by what links carried: beside those of the flows there are acknowledgements, which are headers. False where
/// these are not all.
bool Episodes::count(const Episode& episode, Left& left) {
  const std::int64_t header = context_.options.header_bytes, payload = context_.options.mtu_bytes - header;
  std::vector<std::int64_t> data(episode.parts.size(), 0), packets(episode.parts.size(), 0);
  for (const Input& input : episode.inputs) {
    const Way& way = ways_.of(input.flow);
    const std::int64_t size = context_.traffic.size_bytes[input.flow], many = (size + payload - 1) / payload;
    left.sent += static_cast<std::uint64_t>(many);
    for (std::uint32_t at = 1; at <= way.links; ++at) {
      data[number_[way.parts[at]]] += size + many * header;
      packets[number_[way.parts[at]]] += many;
    }
  }
  for (std::size_t at = 0; at < episode.parts.size(); ++at) {
    const std::uint32_t part = episode.parts[at];
    left.carried.push_back(part < ways_.links() ? stage_.carried(part) - carried_[part] : 0);
    if (part >= ways_.links()) continue;
    const std::int64_t others = left.carried[at] - data[at];
    if (others < 0 || others % header != 0) return false;
    left.hops += static_cast<std::uint64_t>(packets[at] + others / header);
    if (static_cast<std::uint32_t>(context_.network.link_source[part]) < context_.hosts)
      left.acks += static_cast<std::uint64_t>(others / header);
  }
  return true;
}

// ---------------------------------------------------------------------------------------------------- without packets

void Episodes::on_event(std::uint32_t index) {
  const std::uint32_t id = (index & (kEvent - 1)) >> 2, what = index & 3;
  if (what == kEnded) return conclude(id);
  Episode& episode = episodes_[id];
  if (episode.wake_at == context_.now) episode.wake_at = -1;
  follow(id, what == kLate);
}

void Episodes::wake(std::uint32_t id, Ps at, bool late) {
  Episode& episode = episodes_[id];
  if (episode.wake_at == at && episode.wake_late == late) return;
  episode.wake_at = at;
  episode.wake_late = late;
  const std::uint32_t what = event(Event::control, kEvent | id << 2 | (late ? kLate : kNow));
  // What it tells counts as what arrives; that nothing came is known when everything else of the time has.
  context_.wheel.push(at, what, late ? what : 0);
}

/// Tells of all that is due, and waits for what comes next.
void Episodes::follow(std::uint32_t id, bool late) {
  Episode& episode = episodes_[id];
  if (!episode.there || episode.packets) return;
  for (;;) {
    Node& node = nodes_[episode.node];
    if (episode.told < node.endings.size()) {
      const Ending ending = node.endings[episode.told];
      const Ps at = episode.start + ending.after;
      if (at > context_.now) return wake(id, at, false);
      if (at < context_.now) differs(context_.now - at);
      ++episode.told;
      if (ending.at == 0) --episode.unfinished;
      context_.flows.announce(episode.inputs[ending.input].flow, ending.at, context_.now);
      continue;
    }
    if (node.ended) return conclude(id);
    if (node.random) {
      play(id, kBeforeAll, episode.inputs.size());
      return;
    }
    if (node.leader != kNone && episodes_[node.leader].start <= episode.start) {
      node.followers.push_back(id);
      return;
    }
    const Ps at = std::max(episode.start + node.known, context_.now);
    if (!late || at > context_.now) return wake(id, at, true);
    return play(id, kAfterAll, episode.inputs.size());
  }
}

void Episodes::conclude(std::uint32_t id) {
  Episode& episode = episodes_[id];
  if (!episode.there || episode.unfinished != 0) return;
  if (!episode.packets) restore(id);
  else if (episode.recorded) remember(id);
  release(id);
  if (totals_.episodes > kTrials && totals_.repeated * kLeastShare < totals_.episodes) trying_ = false;
}

/// Hosts, connections and links as those of the episode before were left.
void Episodes::restore(std::uint32_t id) {
  const Episode& episode = episodes_[id];
  const Left& left = nodes_[episode.node].left;
  for (std::size_t at = 0; at < episode.parts.size(); ++at) {
    const std::uint32_t part = episode.parts[at];
    if (part < ways_.links()) stage_.carry(part, left.carried[at]);
    else put_host(part - ways_.links(), left.hosts[at].data());
  }
  for (std::size_t at = 0; at < episode.connections.size(); ++at) {
    stage_.put(episode.connections[at], left.connections[at].data());
    stage_.see(episode.connections[at], left.delays[at]);
  }
  Counters& counters = context_.outcome.counters;
  counters.sent += left.sent;
  counters.acks += left.acks;
  counters.hops += left.hops;
  totals_.hops += left.hops;
  ++totals_.repeated;
  --following_;
}

void Episodes::differs(Ps by) { totals_.worst_ps = std::max(totals_.worst_ps, by < 0 ? -by : by); }

// ------------------------------------------------------------------------------------------------------------ samples

void Episodes::sampled() {
  const Options& options = context_.options;
  const std::size_t columns = options.sample_links.size(), row = context_.outcome.samples.time_ps.size() - 1;
  for (std::size_t column = 0; column < columns; ++column) {
    const auto link = static_cast<std::uint32_t>(options.sample_links[column]);
    const std::uint32_t id = owner_[link];
    if (id == kNone || episodes_[id].packets) continue;
    const Episode& episode = episodes_[id];
    Gaps& missing = missing_[episode.node];
    if (missing.gaps.empty()) {
      missing.start = episode.start;
      missing.inputs = episode.inputs;
    }
    missing.gaps.push_back({row * columns + column, number_[link], context_.now - episode.start});
  }
}

/// Simulates each episode of which samples are missing once more.
void Episodes::finish() {
  filling_ = true;
  const Counters counters = context_.outcome.counters;
  const Ps now = context_.now;
  Wheel& wheel = context_.wheel;
  Wheel others(wheel.span());
  std::swap(wheel, others);
  for (auto& [node, missing] : missing_) fill(missing);
  std::swap(wheel, others);
  context_.now = now;
  context_.outcome.counters = counters;
}

void Episodes::fill(Gaps& missing) {
  const Ps later = context_.now + 1 - missing.start;
  std::fill(owner_.begin(), owner_.end(), kNone);
  std::vector<std::uint32_t> parts, connections;
  for (const Input& input : missing.inputs) {
    const Way& way = ways_.of(input.flow);
    const std::int64_t* words = input.own.data() + 4;
    context_.now = input.time + later;
    for (const std::uint32_t end : {way.parts.front(), way.parts[way.links + 1]})
      if (owner_[end] == kNone) words = put_host(end - ways_.links(), words);
    for (const std::uint32_t part : way.parts) {
      if (owner_[part] != kNone) continue;
      owner_[part] = 0;
      parts.push_back(part);
      if (part < ways_.links()) carried_[part] = stage_.carried(part);
    }
    const std::uint32_t connection = context_.traffic.connection_of(input.flow);
    if (std::find(connections.begin(), connections.end(), connection) == connections.end()) {
      connections.push_back(connection);
      stage_.put(connection, words);
    }
    context_.wheel.push(context_.now, event(Event::start, input.flow),
                        event(Event::start, static_cast<std::uint32_t>(&input - missing.inputs.data())));
  }
  Due due{};
  Samples& samples = context_.outcome.samples;
  std::sort(missing.gaps.begin(), missing.gaps.end(), [](const Gap& a, const Gap& b) { return a.after < b.after; });
  for (const Gap& gap : missing.gaps) {
    const Ps at = missing.start + later + gap.after;
    while (stage_.next(due, at + 1)) act(due, true);
    context_.now = at;
    const std::uint32_t link = parts[gap.number];
    samples.depth_bytes[gap.slot] = stage_.depth(link);
    samples.carried_bytes[gap.slot] += stage_.carried(link) - carried_[link];
  }
  while (stage_.next(due, kNever)) act(due, true);
  for (const std::uint32_t part : parts)
    if (part < ways_.links()) stage_.carry(part, carried_[part] - stage_.carried(part));
}

}  // namespace railyard::packet
