#include "serving/transfers.hpp"

#include <limits>

#include "flow/run.hpp"

namespace railyard::serving {
namespace {

std::uint64_t pair_of(std::int32_t from, std::int32_t to) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(from)) << 32) | static_cast<std::uint32_t>(to);
}

}  // namespace

Transfers::Transfers(const Deployment& deployment)
    : capacity_(deployment.links.rate_bps), link_bytes_(deployment.links.rate_bps.size()) {
  const LinkSpec& links = deployment.links;
  if (capacity_.empty()) return;
  constexpr double kNone = std::numeric_limits<double>::infinity();
  for (std::size_t w = 0; w < links.from.size(); ++w) {
    way_[pair_of(links.from[w], links.to[w])].push_back(static_cast<std::uint32_t>(w));
    append(links.ptr[w], links.ptr[w + 1], links.link, links.share, kNone, 1);
  }
  ways_ = static_cast<std::uint32_t>(links.from.size());
  latency_ = links.latency_ps;
  const BackgroundSpec& other = deployment.background;
  for (std::size_t row = 0; row < other.from_ps.size(); ++row) {
    append(other.ptr[row], other.ptr[row + 1], other.link, other.share, other.cap_bps[row], other.weight[row]);
  }
  append_own(links);
  const EntityColumns rows{ptr_, link_, share_, volume_, zero_, cap_, weight_};
  check_entities(rows, capacity_);
  sharing_ = std::make_unique<Sharing>(capacity_, rows, std::vector<std::uint8_t>(capacity_.size(), 1));
}

void Transfers::append_own(const LinkSpec& links) {
  if (links.collective_link.empty()) return;
  own_on_.resize(capacity_.size());
  own_.resize(links.collective_ptr.size() - 1);
  for (std::uint32_t replica = 0; replica < own_.size(); ++replica) {
    const auto begin = links.collective_ptr[replica], end = links.collective_ptr[replica + 1];
    if (begin == end) continue;
    own_[replica].entity = static_cast<std::uint32_t>(ptr_.size() - 1);
    append(begin, end, links.collective_link, links.collective_share, std::numeric_limits<double>::infinity(), 1);
    for (auto k = begin; k < end; ++k) {
      own_on_[static_cast<std::size_t>(links.collective_link[static_cast<std::size_t>(k)])].push_back(replica);
    }
  }
}

void Transfers::append(std::int64_t begin, std::int64_t end, const std::vector<std::int32_t>& link,
                       const std::vector<double>& share, double cap, double weight) {
  link_.insert(link_.end(), link.begin() + begin, link.begin() + end);
  share_.insert(share_.end(), share.begin() + begin, share.begin() + end);
  ptr_.push_back(static_cast<std::int64_t>(link_.size()));
  volume_.push_back(1);
  zero_.push_back(0);
  cap_.push_back(cap);
  weight_.push_back(weight);
}

std::uint32_t Transfers::way(std::int32_t from, std::int32_t to, std::uint32_t turn) const {
  const auto found = way_.find(pair_of(from, to));
  return found == way_.end() ? kNoWay : found->second[turn % found->second.size()];
}

std::uint32_t Transfers::open(std::uint32_t way, double volume_bytes, Cargo cargo, std::uint32_t owner, Ps now) {
  const FlowId flow =
      cargo == Cargo::own ? sharing_->add(way, own_[owner].bps) : sharing_->add(way);
  if (flow >= motions_.size()) motions_.resize(flow + 1);
  Motion& motion = motions_[flow];
  motion = {.bits = volume_bytes * 8, .updated = now, .entity = way, .owner = owner, .stamp = motion.stamp + 1,
            .cargo = cargo, .open = true};
  changed_.push_back(flow);
  return flow;
}

void Transfers::add(std::uint32_t flow, double volume_bytes, Ps now) {
  move(flow, now);
  motions_[flow].bits += volume_bytes * 8;
  changed_.push_back(flow);
}

void Transfers::close(std::uint32_t flow, Ps now) {
  move(flow, now);
  Motion& motion = motions_[flow];
  motion.open = false;
  ++motion.stamp;
  sharing_->remove(flow);
  disturb(motion.entity);
}

bool Transfers::ended(std::uint32_t flow, std::uint32_t stamp, Ps now) {
  Motion& motion = motions_[flow];
  if (motion.stamp != stamp) return false;
  if (motion.due <= now) return true;
  motion.event_at = motion.due;
  if (motion.due != kNever) arrivals_.push_back({flow, motion.stamp, motion.due});
  return false;
}

Ps Transfers::time_to_move(std::uint32_t way, double volume_bytes, Ps now) {
  settle(now);
  const Ps duration = time_for(volume_bytes * 8, sharing_->free_rate(way));
  return duration == kNever ? kNever : latency_[way] + duration;
}

void Transfers::demand(std::uint32_t replica, double bps, Ps now) {
  Own& own = own_[replica];
  if (own.bps == bps) return;
  if (own.flow != kNoFlow) close(own.flow, now);
  own.bps = bps;
  own.flow = kNoFlow;
  if (bps <= 0) return;
  own.flow = open(own.entity, std::numeric_limits<double>::infinity(), Cargo::own, replica, now);
}

/// Another flow of this entity has come, gone or got another rate.
void Transfers::disturb(std::uint32_t entity) {
  if (own_on_.empty()) return;
  for (auto k = ptr_[entity]; k < ptr_[entity + 1]; ++k) {
    for (const std::uint32_t replica : own_on_[static_cast<std::size_t>(link_[static_cast<std::size_t>(k)])]) {
      if (own_[replica].entity == entity || own_[replica].disturbed) continue;
      own_[replica].disturbed = true;
      disturbed_.push_back(replica);
    }
  }
}

void Transfers::clear_disturbed() {
  for (const std::uint32_t replica : disturbed_) own_[replica].disturbed = false;
  disturbed_.clear();
}

std::vector<double> Transfers::link_bytes(Ps now) {
  for (std::uint32_t flow = 0; flow < motions_.size(); ++flow) {
    if (motions_[flow].open) move(flow, now);
  }
  return link_bytes_;
}

void Transfers::settle(Ps now) {
  if (sharing_ == nullptr) return;
  if (sharing_->unsettled()) sharing_->settle();
  for (const RateChange& change : sharing_->changes()) {
    if (motions_[change.flow].open) plan(change.flow, now);
  }
  sharing_->clear_changes();
  for (const std::uint32_t flow : changed_) {
    if (motions_[flow].open) plan(flow, now);
  }
  changed_.clear();
}

/// Brings a flow's progress up to now.
void Transfers::move(std::uint32_t flow, Ps now) {
  Motion& motion = motions_[flow];
  const double bits = motion.rate * (static_cast<double>(now - motion.updated) / kPsPerSecond);
  // WHY all that is left at `due`: the end was rounded up to a picosecond.
  const double moved = now >= motion.due || bits > motion.bits ? motion.bits : bits;
  motion.updated = now;
  motion.bits -= moved;
  for (auto k = ptr_[motion.entity]; k < ptr_[motion.entity + 1]; ++k) {
    const auto pair = static_cast<std::size_t>(k);
    link_bytes_[static_cast<std::size_t>(link_[pair])] += share_[pair] * moved / 8;
  }
}

/// A later end needs no new event: the one in the queue finds out when it comes up.
void Transfers::plan(std::uint32_t flow, Ps now) {
  move(flow, now);
  Motion& motion = motions_[flow];
  if (motion.rate != sharing_->flow(flow).rate) disturb(motion.entity);
  motion.rate = sharing_->flow(flow).rate;
  const Ps duration = time_for(motion.bits, motion.rate);
  motion.due = duration == kNever ? kNever : now + duration;
  if (motion.due >= motion.event_at) return;
  motion.event_at = motion.due;
  arrivals_.push_back({flow, ++motion.stamp, motion.due});
}

}  // namespace railyard::serving
