#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "railyard/big_vector.hpp"
#include "railyard/columns.hpp"

namespace railyard::packet {

/// Something that is due at a time; `what` is for the owner of the queue to read.
struct Due {
  Ps time;
  std::uint32_t what;
  std::uint32_t order;  ///< Set by the queue, where it needs one to keep the order of pushes.
};

/// A 4-ary heap over (time, order of pushes).
class DueHeap {
 public:
  bool empty() const { return heap_.empty(); }
  const Due& top() const { return heap_.front(); }

  void push(Ps time, std::uint32_t what) {
    const Due due{time, what, order_++};
    std::size_t at = heap_.size();
    heap_.push_back(due);
    while (at > 0) {
      const std::size_t above = (at - 1) / 4;
      if (!before(due, heap_[above])) break;
      heap_[at] = heap_[above];
      at = above;
    }
    heap_[at] = due;
  }

  Due pop() {
    const Due first = heap_.front();
    const Due last = heap_.back();
    heap_.pop_back();
    const std::size_t count = heap_.size();
    if (count == 0) {
      order_ = 0;
      return first;
    }
    std::size_t at = 0;
    while (4 * at + 1 < count) {
      std::size_t least = 4 * at + 1;
      const std::size_t end = std::min(least + 4, count);
      for (std::size_t child = least + 1; child < end; ++child)
        if (before(heap_[child], heap_[least])) least = child;
      if (!before(heap_[least], last)) break;
      heap_[at] = heap_[least];
      at = least;
    }
    heap_[at] = last;
    return first;
  }

 private:
  static bool before(const Due& a, const Due& b) {
    return a.time != b.time ? a.time < b.time : static_cast<std::int32_t>(a.order - b.order) < 0;
  }
  std::vector<Due> heap_;
  std::uint32_t order_ = 0;
};

/// A queue of events in the order of time, for times that mostly lie a link's delay ahead.
///
/// A ring of windows of 2^shift ps; pushes append to a window's chunks. When a window's turn comes it is sorted by
/// counting on eight bits of its time and a pass of insertion. What is due within the window being served goes into a
/// small heap beside it, what lies beyond the ring into another.
/// WHY: appending and counting run through memory in order; with 100,000 events pending a heap or a tree misses the cache
/// at every level (measured: cpp/bench). Chunks come from a stack, so those lately used, still in the cache, come first.
class Wheel {
 public:
  static constexpr std::size_t kWindows = 1024;

  explicit Wheel(int shift) : shift_(shift) { head_.fill(kNone); tail_.fill(kNone); }

  void push(Ps time, std::uint32_t what) {
    const std::int64_t window = time >> shift_;
    if (window <= base_) {
      late_.push(time, what);
    } else if (window < base_ + static_cast<std::int64_t>(kWindows)) {
      append(static_cast<std::size_t>(window) & (kWindows - 1), Due{time, what, 0});
    } else {
      far_.push(time, what);
    }
  }

  /// The next event; false when there is none.
  bool pop(Due& due) {
    for (;;) {
      if (next_ < sorted_.size() && (late_.empty() || sorted_[next_].time <= late_.top().time)) {
        due = sorted_[next_++];
        return true;
      }
      if (!late_.empty()) {
        due = late_.pop();
        return true;
      }
      if (!open()) return false;
    }
  }

  /// The event that comes `ahead` places later in the open window, if nothing is pushed before it; null if none.
  const Due* peek(std::size_t ahead) const {
    return next_ + ahead < sorted_.size() ? &sorted_[next_ + ahead] : nullptr;
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffu;
  static constexpr std::size_t kChunk = 62;
  static constexpr std::size_t kFew = 24;

  struct Chunk {
    std::array<Due, kChunk> entries;
    std::uint32_t count;
    std::uint32_t next;
  };

  void append(std::size_t slot, const Due& due) {
    std::uint32_t last = tail_[slot];
    if (last == kNone || chunks_[last].count == kChunk) last = extend(slot);
    Chunk& chunk = chunks_[last];
    chunk.entries[chunk.count++] = due;
  }

  std::uint32_t extend(std::size_t slot) {
    std::uint32_t fresh = free_;
    if (fresh == kNone) {
      fresh = static_cast<std::uint32_t>(chunks_.size());
      chunks_.emplace_back();
    } else {
      free_ = chunks_[fresh].next;
    }
    chunks_[fresh].count = 0;
    chunks_[fresh].next = kNone;
    if (tail_[slot] == kNone) {
      head_[slot] = fresh;
      occupied_[slot >> 6] |= std::uint64_t{1} << (slot & 63);
    } else {
      chunks_[tail_[slot]].next = fresh;
    }
    tail_[slot] = fresh;
    return fresh;
  }

  /// Windows from base_ + 1 to the next that holds something; 0 when none does.
  std::int64_t distance() const {
    const std::size_t start = static_cast<std::size_t>(base_ + 1) & (kWindows - 1);
    std::size_t word = start >> 6;
    std::uint64_t bits = occupied_[word] & (~std::uint64_t{0} << (start & 63));
    for (std::size_t round = 0; round <= kWindows / 64; ++round) {
      if (bits != 0) {
        const std::size_t slot = (word << 6) + static_cast<std::size_t>(std::countr_zero(bits));
        return static_cast<std::int64_t>((slot - start) & (kWindows - 1)) + 1;
      }
      word = (word + 1) & (kWindows / 64 - 1);
      bits = occupied_[word];
    }
    return 0;
  }

  bool open() {
    const std::int64_t ahead = distance();
    std::int64_t window = base_ + ahead;
    if (!far_.empty() && (ahead == 0 || (far_.top().time >> shift_) < window)) window = far_.top().time >> shift_;
    if (ahead == 0 && far_.empty()) return false;
    base_ = window;
    const std::int64_t end = base_ + static_cast<std::int64_t>(kWindows);
    while (!far_.empty() && (far_.top().time >> shift_) < end) {
      const Due due = far_.pop();
      append(static_cast<std::size_t>(due.time >> shift_) & (kWindows - 1), due);
    }
    collect(static_cast<std::size_t>(window) & (kWindows - 1));
    return true;
  }

  void collect(std::size_t slot) {
    std::size_t count = 0;
    for (std::uint32_t at = head_[slot]; at != kNone; at = chunks_[at].next) count += chunks_[at].count;
    sorted_.resize(count);
    next_ = 0;
    if (count > kFew && shift_ > 8) {
      scatter(slot);
    } else {
      std::size_t to = 0;
      for (std::uint32_t at = head_[slot]; at != kNone; at = chunks_[at].next)
        for (std::uint32_t entry = 0; entry < chunks_[at].count; ++entry) sorted_[to++] = chunks_[at].entries[entry];
    }
    release(slot);
    insertion();
  }

  std::size_t part(Ps time) const { return static_cast<std::size_t>(time >> (shift_ - 8)) & 255; }

  void scatter(std::size_t slot) {
    std::array<std::uint32_t, 256> start{};
    for (std::uint32_t at = head_[slot]; at != kNone; at = chunks_[at].next)
      for (std::uint32_t entry = 0; entry < chunks_[at].count; ++entry) ++start[part(chunks_[at].entries[entry].time)];
    std::uint32_t sum = 0;
    for (std::uint32_t& value : start) {
      const std::uint32_t here = value;
      value = sum;
      sum += here;
    }
    for (std::uint32_t at = head_[slot]; at != kNone; at = chunks_[at].next)
      for (std::uint32_t entry = 0; entry < chunks_[at].count; ++entry) {
        const Due& due = chunks_[at].entries[entry];
        sorted_[start[part(due.time)]++] = due;
      }
  }

  void insertion() {
    for (std::size_t at = 1; at < sorted_.size(); ++at) {
      const Due due = sorted_[at];
      std::size_t to = at;
      while (to > 0 && due.time < sorted_[to - 1].time) {
        sorted_[to] = sorted_[to - 1];
        --to;
      }
      sorted_[to] = due;
    }
  }

  void release(std::size_t slot) {
    if (tail_[slot] == kNone) return;
    chunks_[tail_[slot]].next = free_;
    free_ = head_[slot];
    head_[slot] = tail_[slot] = kNone;
    occupied_[slot >> 6] &= ~(std::uint64_t{1} << (slot & 63));
  }

  int shift_;
  std::int64_t base_ = -1;
  std::vector<Due> sorted_;
  std::size_t next_ = 0;
  DueHeap late_, far_;
  std::array<std::uint32_t, kWindows> head_, tail_;
  std::array<std::uint64_t, kWindows / 64> occupied_{};
  BigVector<Chunk> chunks_;
  std::uint32_t free_ = kNone;
};

}  // namespace railyard::packet
