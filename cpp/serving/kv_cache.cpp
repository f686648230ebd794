#include "serving/kv_cache.hpp"

#include "core/invariant.hpp"

namespace railyard::serving {

constexpr std::uint32_t kNone = HashIndex::kNone;

void LruSet::put(std::uint64_t hash) {
  if (capacity_ <= 0) return;
  std::uint32_t node = index_.find(hash);
  if (node != kNone) {
    unlink(node);
    return append(node);
  }
  if (size() >= capacity_) {
    node = first_;
    unlink(node);
    index_.erase(nodes_[node].hash);
  } else if (!free_.empty()) {
    node = free_.back();
    free_.pop_back();
  } else {
    node = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  }
  nodes_[node].hash = hash;
  index_.insert(hash, node);
  append(node);
}

void LruSet::clear() {
  index_.clear();
  nodes_.clear();
  free_.clear();
  first_ = last_ = kNone;
}

void LruSet::unlink(std::uint32_t node) {
  const Node& gone = nodes_[node];
  (gone.before == kNone ? first_ : nodes_[gone.before].after) = gone.after;
  (gone.after == kNone ? last_ : nodes_[gone.after].before) = gone.before;
}

void LruSet::append(std::uint32_t node) {
  nodes_[node].before = last_;
  nodes_[node].after = kNone;
  (last_ == kNone ? first_ : nodes_[last_].after) = node;
  last_ = node;
}

std::size_t KvCache::hits(std::span<const std::uint64_t> chain) {
  ++look_;
  for (std::size_t count = 0; count < chain.size(); ++count) {
    const std::uint32_t unit = index_.find(chain[count]);
    if (unit == kNone || units_[unit].seen == look_) return count;
    units_[unit].seen = look_;
  }
  return chain.size();
}

std::int64_t KvCache::idle_blocks(std::span<const std::uint64_t> chain) const {
  std::int64_t count = 0;
  for (const std::uint64_t hash : chain) count += units_[index_.find(hash)].holders == 0 ? unit_blocks_ : 0;
  return count;
}

std::uint32_t KvCache::hold(std::uint64_t hash) {
  const std::uint32_t unit = index_.find(hash);
  if (units_[unit].holders++ == 0) {
    unlink(unit);
    --idle_;
  }
  return unit;
}

void KvCache::let_go(std::uint32_t unit) {
  Unit& freed = units_[unit];
  RAILYARD_INVARIANT(freed.holders > 0);
  if (--freed.holders != 0) return;
  freed.before = last_;
  freed.after = kNone;
  (last_ == kNone ? first_ : units_[last_].after) = unit;
  last_ = unit;
  ++idle_;
}

bool KvCache::publish(std::uint64_t hash, std::uint32_t& unit) {
  if (index_.find(hash) != kNone) return false;
  if (free_.empty()) {
    unit = static_cast<std::uint32_t>(units_.size());
    units_.emplace_back();
  } else {
    unit = free_.back();
    free_.pop_back();
  }
  units_[unit] = {.hash = hash, .holders = 1};
  index_.insert(hash, unit);
  return true;
}

void KvCache::clear() {
  while (idle_ > 0) evict();
}

std::uint64_t KvCache::evict() {
  const std::uint32_t unit = first_;
  const std::uint64_t hash = units_[unit].hash;
  unlink(unit);
  --idle_;
  index_.erase(hash);
  free_.push_back(unit);
  blank_ += unit_blocks_;
  RAILYARD_INVARIANT(idle_ >= 0 && available() <= total_);
  return hash;
}

void KvCache::unlink(std::uint32_t unit) {
  const Unit& gone = units_[unit];
  (gone.before == kNone ? first_ : units_[gone.before].after) = gone.after;
  (gone.after == kNone ? last_ : units_[gone.after].before) = gone.before;
}

}  // namespace railyard::serving
