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
struct Line {
  std::uint32_t block = 0;
  std::uint32_t head = 0, count = 0;
  std::uint32_t log = 0;  ///< 2^log places; 0: no ring yet.

  bool empty() const { return count == 0; }

  void push(WordArena& arena, Waiting waiting) {
    if (log == 0 || count == 1u << log) grow(arena);
    *place(arena, count) = std::uint64_t{waiting.size} << 32 | waiting.index;
    ++count;
  }

  void prefetch(const WordArena& arena) const { __builtin_prefetch(arena.at(block + head), 1); }

  /// What waits at a place, 0 the first. PRE: at < count.
  Waiting peek(const WordArena& arena, std::uint32_t at) const {
    const std::uint64_t word = arena.at(block)[(head + at) & ((1u << log) - 1)];
    return {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
  }
  Waiting first(const WordArena& arena) const { return peek(arena, 0); }

  Waiting pop_first(WordArena& arena) {
    const std::uint64_t word = *place(arena, 0);
    head = (head + 1) & ((1u << log) - 1);
    --count;
    return {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
  }

  Waiting pop_last(WordArena& arena) {
    --count;
    const std::uint64_t word = *place(arena, count);
    return {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
  }

 private:
  static constexpr std::uint32_t kLeastLog = 3;

  std::uint64_t* place(WordArena& arena, std::uint32_t at) const {
    return arena.at(block) + ((head + at) & ((1u << log) - 1));
  }

  void grow(WordArena& arena) {
    Line larger{.block = 0, .head = 0, .count = count, .log = log == 0 ? kLeastLog : log + 1};
    larger.block = arena.acquire(larger.log, std::size_t{1} << larger.log);
    for (std::uint32_t at = 0; at < count; ++at) *larger.place(arena, at) = *place(arena, at);
    if (log != 0) arena.release(block, log);
    *this = larger;
  }
};

}  // namespace railyard::packet
