#pragma once

#include <bit>
#include <cstdint>

#include "packet/arena.hpp"
#include "packet/transport/window.hpp"

namespace railyard::packet {

/// A set of sequence numbers from `first` on, as bits in a ring of an arena; the ring doubles when one lies beyond it.
class BitWindow {
 public:
  static constexpr unsigned kLeastLog = 2;  ///< Words, log 2.

  void open(WordArena& arena, unsigned log) {
    log_ = log;
    block_ = arena.acquire(log_, std::size_t{1} << log_);
    first_ = count_ = end_ = 0;
  }
  void close(WordArena& arena) { arena.release(block_, log_); }

  std::uint32_t first() const { return first_; }
  std::uint32_t count() const { return count_; }

  bool has(const WordArena& arena, std::uint32_t sequence) const {
    return sequence - first_ < size() && BitRing::test(arena.at(block_), mask(), sequence);
  }

  /// True when it was not in the set. PRE: sequence >= first().
  bool set(WordArena& arena, std::uint32_t sequence) {
    // One word is kept free, so that 64 bits can be read from anywhere within.
    while (sequence - first_ + 64 >= size()) grow(arena);
    if (BitRing::test(arena.at(block_), mask(), sequence)) return false;
    BitRing::set(arena.at(block_), mask(), sequence);
    ++count_;
    if (static_cast<std::int32_t>(sequence + 1 - end_) > 0) end_ = sequence + 1;
    return true;
  }

  void clear(WordArena& arena, std::uint32_t sequence) {
    if (!has(arena, sequence)) return;
    BitRing::clear(arena.at(block_), mask(), sequence);
    --count_;
  }

  /// Forgets the numbers below; returns how many of them were in the set.
  std::uint32_t advance(WordArena& arena, std::uint32_t to) {
    const std::uint32_t before = count_;
    while (count_ != 0 && static_cast<std::int32_t>(to - first_) > 0) {
      const std::uint32_t width = std::min<std::uint32_t>(to - first_, 64 - (first_ & 63));
      const std::uint64_t cover = (width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1) << (first_ & 63);
      std::uint64_t& word = arena.at(block_)[(first_ & mask()) >> 6];
      count_ -= static_cast<std::uint32_t>(std::popcount(word & cover));
      word &= ~cover;
      first_ += width;
    }
    if (static_cast<std::int32_t>(to - first_) > 0) first_ = to;
    return before - count_;
  }

  /// 64 bits from `reference` on; those below first() and beyond the ring are 0.
  std::uint64_t word(const WordArena& arena, std::uint32_t reference) const {
    const auto ahead = static_cast<std::int32_t>(reference - first_);
    if (ahead <= -64 || (ahead >= 0 && static_cast<std::uint32_t>(ahead) + 64 >= size())) return 0;
    if (ahead < 0) return BitRing::word(arena.at(block_), mask(), first_) << -ahead;
    return BitRing::word(arena.at(block_), mask(), reference);
  }

  /// The lowest number in the set. PRE: count() > 0.
  std::uint32_t lowest(const WordArena& arena) const {
    std::uint32_t at = first_;
    for (;; at += 64 - (at & 63)) {
      const std::uint64_t bits = arena.at(block_)[(at & mask()) >> 6] >> (at & 63);
      if (bits != 0) return at + static_cast<std::uint32_t>(std::countr_zero(bits));
    }
  }

 private:
  std::uint32_t size() const { return 64u << log_; }
  std::uint32_t mask() const { return size() - 1; }

  void grow(WordArena& arena) {
    const std::uint32_t fresh = arena.acquire(log_ + 1, std::size_t{2} << log_);
    const std::uint32_t larger = 2 * size() - 1;
    for (std::uint32_t at = first_; static_cast<std::int32_t>(end_ - at) > 0; ++at)
      if (BitRing::test(arena.at(block_), mask(), at)) BitRing::set(arena.at(fresh), larger, at);
    arena.release(block_, log_);
    block_ = fresh;
    ++log_;
  }

  std::uint32_t block_ = 0;
  std::uint32_t first_ = 0, end_ = 0, count_ = 0;
  unsigned log_ = kLeastLog;
};

}  // namespace railyard::packet
