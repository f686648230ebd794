#pragma once

#include <cstdint>

#include "packet/arena.hpp"

namespace railyard::packet {

/// A packet that waits: its index and, so that it need not be touched while it waits, its size.
struct Waiting {
  std::uint32_t index;
  std::uint32_t size;
};

/// A queue of packets in a ring of an arena; the ring doubles when full.
/// WHY the first is here as well: service begins with it without waiting for the ring's memory.
class Line {
 public:
  bool empty() const { return count_ == 0; }
  std::uint32_t count() const { return count_; }

  void push(WordArena& arena, Waiting waiting) {
    if (log() == 0 || count_ == 1u << log()) grow(arena);
    *place(arena, count_) = std::uint64_t{waiting.size} << 32 | waiting.index;
    if (count_++ == 0) first_ = waiting;
  }

  void prefetch(const WordArena& arena) const { __builtin_prefetch(arena.at(block() + head_), 1); }

  /// What waits at a place, 0 the first. PRE: at < count().
  Waiting peek(const WordArena& arena, std::uint32_t at) const { return read(*place(arena, at)); }
  /// PRE: not empty().
  Waiting first() const { return first_; }

  Waiting pop_first(const WordArena& arena) {
    const Waiting popped = first_;
    head_ = (head_ + 1) & mask();
    if (--count_ != 0) first_ = peek(arena, 0);
    return popped;
  }

  Waiting pop_last(const WordArena& arena) { return peek(arena, --count_); }

 private:
  static constexpr std::uint32_t kLeastLog = 3;  // so that 8 divides `block`
  static constexpr unsigned kLogBits = 5;

  static Waiting read(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
  }
  std::uint32_t log() const { return ring_ & ((1u << kLogBits) - 1); }
  std::uint32_t mask() const { return (1u << log()) - 1; }
  std::uint32_t block() const { return ring_ >> kLogBits << kLeastLog; }

  std::uint64_t* place(WordArena& arena, std::uint32_t at) const { return arena.at(block()) + ((head_ + at) & mask()); }
  const std::uint64_t* place(const WordArena& arena, std::uint32_t at) const {
    return arena.at(block()) + ((head_ + at) & mask());
  }

  void grow(WordArena& arena) {
    Line larger = *this;
    const std::uint32_t wider = log() == 0 ? kLeastLog : log() + 1;
    larger.ring_ = arena.acquire(wider, std::size_t{1} << wider) >> kLeastLog << kLogBits | wider;
    larger.head_ = 0;
    for (std::uint32_t at = 0; at < count_; ++at) *larger.place(arena, at) = *place(arena, at);
    if (log() != 0) arena.release(block(), log());
    *this = larger;
  }

  std::uint32_t ring_ = 0;  ///< An eighth of the block, then the logarithm of its places; 0: no ring yet.
  std::uint32_t head_ = 0, count_ = 0;
  Waiting first_{};
};

}  // namespace railyard::packet
