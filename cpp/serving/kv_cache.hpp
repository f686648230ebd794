#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/invariant.hpp"
#include "serving/hash_index.hpp"

namespace railyard::serving {

/// Hashes in the order of their last use, at most `capacity` of them: a tier that keeps what is evicted above it.
class LruSet {
 public:
  explicit LruSet(std::int64_t capacity = 0) : capacity_(capacity) {}
  std::int64_t size() const { return static_cast<std::int64_t>(index_.size()); }
  std::int64_t capacity() const { return capacity_; }
  bool has(std::uint64_t hash) const { return index_.find(hash) != HashIndex::kNone; }
  /// Puts it in as the last used; the least recently used goes when there is no room.
  void put(std::uint64_t hash);
  void clear();

 private:
  struct Node {
    std::uint64_t hash = 0;
    std::uint32_t before = HashIndex::kNone, after = HashIndex::kNone;
  };
  void unlink(std::uint32_t node);
  void append(std::uint32_t node);

  std::int64_t capacity_;
  HashIndex index_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> free_;
  std::uint32_t first_ = HashIndex::kNone, last_ = HashIndex::kNone;
};

/// The blocks of one replica's KV cache.
///
/// A block is blank (free, nothing in it), private (held by one request) or part of a *unit*: the blocks that one prefix hash
/// stands for, held by as many requests as share the prefix. A unit that nobody holds stays until blocks are needed and no
/// blank one is left; then the unit that was let go first is evicted.
class KvCache {
 public:
  /// `unit_blocks` is 0 when nothing is cached.
  KvCache(std::int64_t blocks, std::int64_t unit_blocks) : unit_blocks_(unit_blocks), blank_(blocks), total_(blocks) {}

  std::int64_t unit_blocks() const { return unit_blocks_; }
  std::int64_t available() const { return blank_ + idle_ * unit_blocks_; }
  std::int64_t blank() const { return blank_; }
  std::int64_t used() const { return total_ - available(); }
  bool caches() const { return unit_blocks_ > 0; }

  /// How many of the first hashes of the chain are here without a gap (or one that comes twice).
  std::size_t hits(std::span<const std::uint64_t> chain);
  /// Blocks of those of them that nobody holds.
  std::int64_t idle_blocks(std::span<const std::uint64_t> chain) const;
  /// Holds the unit of that hash. PRE: it is here.
  std::uint32_t hold(std::uint64_t hash);
  void let_go(std::uint32_t unit);
  /// Takes private blocks; evicts. PRE: count <= available(). `evicted` is called with each hash that goes.
  template <class Evicted>
  void take(std::int64_t count, Evicted&& evicted) {
    while (blank_ < count) evicted(evict());
    blank_ -= count;
    RAILYARD_INVARIANT(blank_ >= 0);
  }
  void give_back(std::int64_t count) {
    blank_ += count;
    RAILYARD_INVARIANT(available() <= total_);
  }
  /// Makes unit_blocks() private blocks of the caller a unit that he holds; false, and nothing done, when the hash is here.
  bool publish(std::uint64_t hash, std::uint32_t& unit);
  /// Everything is lost. The private blocks must have been given back and the units let go.
  void clear();

 private:
  struct Unit {
    std::uint64_t hash = 0;
    std::uint32_t holders = 0, seen = 0;
    std::uint32_t before = HashIndex::kNone, after = HashIndex::kNone;  ///< Among those that nobody holds.
  };
  std::uint64_t evict();
  void unlink(std::uint32_t unit);

  std::int64_t unit_blocks_, blank_, total_, idle_ = 0;
  HashIndex index_;
  std::vector<Unit> units_;
  std::uint32_t look_ = 0;  ///< Number of the present look; Unit::seen is that of its last one.
  std::vector<std::uint32_t> free_;
  std::uint32_t first_ = HashIndex::kNone, last_ = HashIndex::kNone;
};

}  // namespace railyard::serving
