#pragma once

#include <algorithm>
#include <cstdint>

#include "packet/transport/window.hpp"

namespace railyard::packet {

/// Where pull numbers begin: credit spent ahead of its grant must not take them below zero.
inline constexpr std::int64_t kFirstPull = 100'000'000;

/// The receiving end of a connection: what has arrived, what it has told the sender of it.
struct Receiver {
  std::uint32_t expected = 0;      ///< First sequence number not yet received.
  std::uint32_t highest = 0;
  std::uint32_t out_of_order = 0;  ///< Received beyond `expected`.
  std::uint32_t block = 0;         ///< Bits of those, in the arena.
  std::uint8_t log = 0;            ///< 2^log words.
  bool ack_requested = false;      ///< The sender wants an acknowledgement; one more follows when the gaps are filled.
  bool in_pull : 1 = false;
  bool in_slow_pull : 1 = false;
  bool opened : 1 = false;
  std::uint16_t entropy = 0;       ///< Of the next pull.
  std::uint16_t again = 0;         ///< Quanta to be granted for what must be sent again.
  std::int64_t unacknowledged = 0;  ///< Bytes accepted since the last acknowledgement.
  std::uint32_t flow = 0;          ///< The message that the last packet was of.
  std::int64_t arrived = 0;        ///< Bytes received once; in acknowledgements of `uec`, headers included.
  std::int64_t latest_pull = kFirstPull, pull_target = kFirstPull;  ///< Quanta granted, quanta asked for.

  void open(WordArena& arena, unsigned log2_words) {
    opened = true;
    log = static_cast<std::uint8_t>(log2_words);
    block = arena.acquire(log, std::size_t{1} << log);
  }

  /// Nothing is missing: its bits are needed again when more comes. PRE: opened, out_of_order == 0.
  void close(WordArena& arena) {
    opened = false;
    arena.release(block, log);
  }
  std::uint32_t mask() const { return (64u << log) - 1; }

  bool has(const WordArena& arena, std::uint32_t sequence) const {
    if (static_cast<std::int32_t>(expected - sequence) > 0) return true;
    return sequence - expected <= mask() && BitRing::test(arena.at(block), mask(), sequence);
  }

  /// Takes a sequence number that it has not yet.
  void take(WordArena& arena, std::uint32_t sequence) {
    highest = std::max(highest, sequence);
    if (sequence != expected) {
      // One word is kept free, so that 64 bits can be read from anywhere within.
      while (sequence - expected + 128 > mask()) grow(arena);
      BitRing::set(arena.at(block), mask(), sequence);
      ++out_of_order;
      return;
    }
    ++expected;
    std::uint64_t* words = arena.at(block);
    while (out_of_order > 0 && BitRing::test(words, mask(), expected)) {
      BitRing::clear(words, mask(), expected);
      --out_of_order;
      ++expected;
    }
  }

  /// What a selective acknowledgement starts at when the packet itself need not be its first.
  std::uint32_t bitmap_base(std::uint32_t sequence) const {
    return static_cast<std::uint32_t>(std::max(std::int64_t{sequence} - 63, std::int64_t{expected} + 1));
  }

  std::uint64_t bitmap(const WordArena& arena, std::uint32_t reference) const {
    // Beyond the ring or before `expected` nothing is set.
    const auto ahead = static_cast<std::int32_t>(reference - expected);
    if (ahead < 0) {
      if (ahead <= -64) return 0;
      return BitRing::word(arena.at(block), mask(), expected) << -ahead;
    }
    if (static_cast<std::uint32_t>(ahead) + 64 > mask()) return 0;
    return BitRing::word(arena.at(block), mask(), reference);
  }

 private:
  void grow(WordArena& arena) {
    Receiver larger = *this;
    ++larger.log;
    larger.block = arena.acquire(larger.log, std::size_t{1} << larger.log);
    for (std::uint32_t at = expected; at - expected <= mask() && static_cast<std::int32_t>(highest - at) >= 0; ++at)
      if (BitRing::test(arena.at(block), mask(), at)) BitRing::set(arena.at(larger.block), larger.mask(), at);
    arena.release(block, log);
    *this = larger;
  }
};
static_assert(sizeof(Receiver) == 64);

}  // namespace railyard::packet
