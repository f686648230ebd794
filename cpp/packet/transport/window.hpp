#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/time.hpp"
#include "packet/arena.hpp"
#include "packet/slab.hpp"

namespace railyard::packet {

/// A ring of bits over sequence numbers, in words of an arena.
struct BitRing {
  static bool test(const std::uint64_t* words, std::uint32_t mask, std::uint32_t sequence) {
    return ((words[(sequence & mask) >> 6] >> (sequence & 63)) & 1) != 0;
  }
  static void set(std::uint64_t* words, std::uint32_t mask, std::uint32_t sequence) {
    words[(sequence & mask) >> 6] |= std::uint64_t{1} << (sequence & 63);
  }
  static void clear(std::uint64_t* words, std::uint32_t mask, std::uint32_t sequence) {
    words[(sequence & mask) >> 6] &= ~(std::uint64_t{1} << (sequence & 63));
  }
  /// The 64 bits from `sequence` on.
  static std::uint64_t word(const std::uint64_t* words, std::uint32_t mask, std::uint32_t sequence) {
    const unsigned shift = sequence & 63;
    const std::uint64_t low = words[(sequence & mask) >> 6] >> shift;
    return shift == 0 ? low : low | words[((sequence + 64 - shift) & mask) >> 6] << (64 - shift);
  }
};

/// What a sender knows of the packets it has sent: which are out, which wait to be sent again, when each was sent last.
/// A ring over sequence numbers from the first not acknowledged; it doubles when the span outgrows it.
class SendWindow {
 public:
  static constexpr unsigned kLeastLog = 7;

  /// PRE: log >= kLeastLog.
  void open(WordArena& arena, unsigned log) {
    log_ = log;
    block_ = arena.acquire(log_, words());
  }

  void close(WordArena& arena) { arena.release(block_, log_); }

  bool out(const WordArena& arena, std::uint32_t sequence) const {
    return inside(sequence) && BitRing::test(bits(arena, kOut), mask(), sequence);
  }
  bool waiting(const WordArena& arena, std::uint32_t sequence) const {
    return inside(sequence) && BitRing::test(bits(arena, kWaiting), mask(), sequence);
  }
  Ps sent_at(const WordArena& arena, std::uint32_t sequence) const {
    return static_cast<Ps>(times(arena)[sequence & mask()] & kTimeMask);
  }
  /// How often the packet has been sent again (counts to 255).
  std::uint32_t again(const WordArena& arena, std::uint32_t sequence) const {
    return static_cast<std::uint32_t>(times(arena)[sequence & mask()] >> kCountBits);
  }
  /// Fetches what an acknowledgement and the next packet will touch.
  void prefetch(const WordArena& arena) const {
    __builtin_prefetch(bits(arena, kOut), 1);
    __builtin_prefetch(times(arena) + (next_ & mask()), 1);
  }
  std::uint32_t first() const { return first_; }
  std::uint32_t next() const { return next_; }
  std::uint32_t waiting_count() const { return waiting_; }

  /// A new packet goes out. POST: its number is the old next().
  void send_new(WordArena& arena, Ps now) {
    if (next_ - first_ >= size()) grow(arena);
    BitRing::set(bits(arena, kOut), mask(), next_);
    times(arena)[next_ & mask()] = static_cast<std::uint64_t>(now);
    ++next_;
  }

  /// A packet goes out again. PRE: waiting(sequence).
  void send_again(WordArena& arena, std::uint32_t sequence, Ps now) {
    BitRing::clear(bits(arena, kWaiting), mask(), sequence);
    BitRing::set(bits(arena, kOut), mask(), sequence);
    --waiting_;
    const std::uint64_t count = std::min<std::uint64_t>(again(arena, sequence) + 1, 255);
    const std::uint64_t request = times(arena)[sequence & mask()] & kRequest;
    times(arena)[sequence & mask()] = static_cast<std::uint64_t>(now) | request | count << kCountBits;
  }

  void mark_request(WordArena& arena, std::uint32_t sequence) { times(arena)[sequence & mask()] |= kRequest; }
  bool is_request(const WordArena& arena, std::uint32_t sequence) const {
    return (times(arena)[sequence & mask()] & kRequest) != 0;
  }

  void forget(WordArena& arena, std::uint32_t sequence) { BitRing::clear(bits(arena, kOut), mask(), sequence); }

  void wait(WordArena& arena, std::uint32_t sequence) {
    BitRing::set(bits(arena, kWaiting), mask(), sequence);
    ++waiting_;
    lowest_ = waiting_ == 1 ? sequence : std::min(lowest_, sequence);
  }

  /// The lowest number that waits. PRE: waiting_count() > 0.
  std::uint32_t lowest_waiting(const WordArena& arena) const {
    std::uint32_t at = std::max(lowest_, first_);
    std::uint64_t word = BitRing::word(bits(arena, kWaiting), mask(), at);
    for (; word == 0; word = BitRing::word(bits(arena, kWaiting), mask(), at)) at += 64;
    lowest_ = at + static_cast<std::uint32_t>(std::countr_zero(word));
    return lowest_;
  }

  /// Everything below `cumulative` has arrived; `unqueue(sequence)` is called for those that were waiting.
  template <class Unqueue>
  void acknowledge_below(WordArena& arena, std::uint32_t cumulative, Unqueue&& unqueue) {
    while (static_cast<std::int32_t>(cumulative - first_) > 0) {
      const std::uint32_t count = std::min<std::uint32_t>(cumulative - first_, 64 - (first_ & 63));
      const std::uint64_t cover = (count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1) << (first_ & 63);
      const std::size_t word = (first_ & mask()) >> 6;
      bits(arena, kOut)[word] &= ~cover;
      if (waiting_ != 0) unqueue_word(arena, first_ & ~63u, word, cover, unqueue);
      first_ += count;
    }
  }

  /// Those of 64 packets from `reference` on whose bit is set have arrived.
  template <class Unqueue>
  void acknowledge(WordArena& arena, std::uint32_t reference, std::uint64_t bitmap, Unqueue&& unqueue) {
    if (static_cast<std::int32_t>(first_ - reference) > 0) {
      const std::uint32_t past = first_ - reference;
      if (past >= 64) return;
      bitmap = bitmap >> past << past;
    }
    std::uint64_t found = bitmap & BitRing::word(bits(arena, kOut), mask(), reference);
    for (; found != 0; found &= found - 1)
      forget(arena, reference + static_cast<std::uint32_t>(std::countr_zero(found)));
    if (waiting_ == 0) return;
    for (found = bitmap & BitRing::word(bits(arena, kWaiting), mask(), reference); found != 0; found &= found - 1) {
      const std::uint32_t sequence = reference + static_cast<std::uint32_t>(std::countr_zero(found));
      BitRing::clear(bits(arena, kWaiting), mask(), sequence);
      --waiting_;
      unqueue(sequence);
    }
  }

  /// The packet that has been out longest; false when none is.
  bool oldest(const WordArena& arena, std::uint32_t& sequence, Ps& sent) const {
    bool found = false;
    for (std::uint32_t at = first_; static_cast<std::int32_t>(next_ - at) > 0; ++at) {
      if (!BitRing::test(bits(arena, kOut), mask(), at)) continue;
      const Ps time = sent_at(arena, at);
      if (found && time >= sent) continue;
      found = true;
      sent = time;
      sequence = at;
    }
    return found;
  }

 private:
  // 10 hours of picoseconds; above: whether it is a request, then how often it has been sent again.
  static constexpr unsigned kTimeBits = 55, kCountBits = 56;
  static constexpr std::uint64_t kTimeMask = (std::uint64_t{1} << kTimeBits) - 1;
  static constexpr std::uint64_t kRequest = std::uint64_t{1} << kTimeBits;
  static constexpr unsigned kOut = 0, kWaiting = 1;

  std::uint32_t size() const { return 1u << log_; }
  std::uint32_t mask() const { return size() - 1; }
  // Layout: times[size], out[size / 64], waiting[size / 64].
  std::size_t words() const { return size() + size() / 32; }
  bool inside(std::uint32_t sequence) const {
    return static_cast<std::int32_t>(sequence - first_) >= 0 && static_cast<std::int32_t>(next_ - sequence) > 0;
  }
  std::uint64_t* times(WordArena& arena) const { return arena.at(block_); }
  const std::uint64_t* times(const WordArena& arena) const { return arena.at(block_); }
  std::uint64_t* bits(WordArena& arena, unsigned which) const {
    return arena.at(block_) + size() + which * (size() / 64);
  }
  const std::uint64_t* bits(const WordArena& arena, unsigned which) const {
    return arena.at(block_) + size() + which * (size() / 64);
  }

  template <class Unqueue>
  void unqueue_word(WordArena& arena, std::uint32_t base, std::size_t word, std::uint64_t cover, Unqueue&& unqueue) {
    std::uint64_t& waiting = bits(arena, kWaiting)[word];
    std::uint64_t found = waiting & cover;
    waiting &= ~cover;
    for (; found != 0; found &= found - 1) {
      --waiting_;
      unqueue(base + static_cast<std::uint32_t>(std::countr_zero(found)));
    }
  }

  void grow(WordArena& arena) {
    SendWindow larger = *this;
    larger.log_ = log_ + 1;
    larger.block_ = arena.acquire(larger.log_, larger.words());
    for (std::uint32_t at = first_; at != next_; ++at) {
      larger.times(arena)[at & larger.mask()] = times(arena)[at & mask()];
      for (const unsigned which : {kOut, kWaiting})
        if (BitRing::test(bits(arena, which), mask(), at)) BitRing::set(larger.bits(arena, which), larger.mask(), at);
    }
    arena.release(block_, log_);
    *this = larger;
  }

  std::uint32_t block_ = 0;
  std::uint32_t first_ = 0, next_ = 0;
  std::uint32_t waiting_ = 0;
  mutable std::uint32_t lowest_ = 0;  ///< No number below it waits.
  unsigned log_ = kLeastLog;
};

}  // namespace railyard::packet
