#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/big_vector.hpp"
#include "core/invariant.hpp"
#include "core/time.hpp"

namespace railyard::packet {

/// Something that is due at a time; `what` is for the owner of the queue to read.
struct Due {
  Ps time;
  std::uint32_t what;
  std::uint32_t tie;  ///< Which of several at one time comes first: the lower.

  bool before(const Due& other) const { return time < other.time || (time == other.time && tie < other.tie); }
};

/// A 4-ary heap over (time, tie).
class DueHeap {
 public:
  bool empty() const { return heap_.empty(); }
  const Due& top() const { return heap_.front(); }

  void push(const Due& due) {
    std::size_t at = heap_.size();
    heap_.push_back(due);
    while (at > 0) {
      const std::size_t above = (at - 1) / 4;
      if (!due.before(heap_[above])) break;
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
    if (count == 0) return first;
    std::size_t at = 0;
    while (4 * at + 1 < count) {
      std::size_t least = 4 * at + 1;
      const std::size_t end = std::min(least + 4, count);
      for (std::size_t child = least + 1; child < end; ++child)
        if (heap_[child].before(heap_[least])) least = child;
      if (!heap_[least].before(last)) break;
      heap_[at] = heap_[least];
      at = least;
    }
    heap_[at] = last;
    return first;
  }

 private:
  std::vector<Due> heap_;
};

/// A queue of events in the order of time, for times that mostly lie a link's delay ahead.
/// WHY ties and not the order of pushes: what is due at one time comes in the same order however the network is cut into
/// parts that run side by side.
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

  void push(Ps time, std::uint32_t what) { push(time, what, what); }

  /// PRE: not before the event that was taken last; at one time no two events have the same tie, unless their order does
  /// not matter.
  void push(Ps time, std::uint32_t what, std::uint32_t tie) {
    RAILYARD_INVARIANT(time >= clock_);
    const std::int64_t window = time >> shift_;
    const Due due{time, what, tie};
    if (window <= base_) {
      late_.push(due);
    } else if (window < base_ + static_cast<std::int64_t>(kWindows)) {
      append(static_cast<std::size_t>(window) & (kWindows - 1), due);
    } else {
      far_.push(due);
    }
  }

  /// When the next event is due; kNever when there is none.
  Ps next_time() {
    if (late_.empty() && next_ == sorted_.size() && !open()) return kNever;
    const Ps sorted = next_ < sorted_.size() ? sorted_[next_].time : kNever;
    return late_.empty() ? sorted : std::min(sorted, late_.top().time);
  }

  /// The next event, if it is due before `until`; false when there is none.
  bool pop(Due& due, Ps until = kNever) {
    for (;;) {
      if (next_ < sorted_.size() && (late_.empty() || !late_.top().before(sorted_[next_]))) {
        if (sorted_[next_].time >= until) return false;
        due = sorted_[next_++];
        RAILYARD_CHECKED_ONLY(clock_ = due.time;)
        return true;
      }
      if (!late_.empty()) {
        if (late_.top().time >= until) return false;
        due = late_.pop();
        RAILYARD_CHECKED_ONLY(clock_ = due.time;)
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
  RAILYARD_CHECKED_ONLY(Ps clock_ = std::numeric_limits<Ps>::min();)  // of the event that was taken last
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
      release(slot);
      return;
    }
    std::size_t to = 0;
    for (std::uint32_t at = head_[slot]; at != kNone; at = chunks_[at].next)
      for (std::uint32_t entry = 0; entry < chunks_[at].count; ++entry) sorted_[to++] = chunks_[at].entries[entry];
    release(slot);
    insertion(0, count);
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
    // `start` is now where the next part begins.
    std::size_t from = 0;
    for (const std::uint32_t end : start) {
      if (end - from > kFew) spread(from, end);
      else insertion(from, end);
      from = end;
    }
  }

  /// Time and tie in one number; PRE: both events are of the open window.
  static std::uint64_t key(const Due& due) { return static_cast<std::uint64_t>(due.time) << 32 | due.tie; }

  /// Sorts what scattering by time has left together: where thousands of hosts do the same thing at once, many ties.
  void spread(std::size_t from, std::size_t end) {
    std::uint64_t least = ~std::uint64_t{0}, most = 0;
    for (std::size_t at = from; at < end; ++at) {
      least = std::min(least, key(sorted_[at]));
      most = std::max(most, key(sorted_[at]));
    }
    const int down = std::max(static_cast<int>(std::bit_width(most - least)) - 8, 0);
    std::array<std::uint32_t, 257> start{};
    for (std::size_t at = from; at < end; ++at) ++start[((key(sorted_[at]) - least) >> down) + 1];
    for (std::size_t at = 1; at < start.size(); ++at) start[at] += start[at - 1];
    spare_.assign(sorted_.begin() + static_cast<std::ptrdiff_t>(from), sorted_.begin() + static_cast<std::ptrdiff_t>(end));
    for (const Due& due : spare_) sorted_[from + start[(key(due) - least) >> down]++] = due;
    insertion(from, end);
  }

  void insertion(std::size_t from, std::size_t end) {
    std::size_t moves = 0;
    for (std::size_t at = from + 1; at < end; ++at) {
      const Due due = sorted_[at];
      std::size_t to = at;
      while (to > from && key(due) < key(sorted_[to - 1])) {
        sorted_[to] = sorted_[to - 1];
        --to;
      }
      sorted_[to] = due;
      moves += at - to;
      if (moves <= 64 * (end - from)) continue;
      std::sort(sorted_.begin() + static_cast<std::ptrdiff_t>(from), sorted_.begin() + static_cast<std::ptrdiff_t>(end),
                [](const Due& a, const Due& b) { return key(a) < key(b); });
      return;
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
  std::vector<Due> sorted_, spare_;
  std::size_t next_ = 0;
  DueHeap late_, far_;
  std::array<std::uint32_t, kWindows> head_, tail_;
  std::array<std::uint64_t, kWindows / 64> occupied_{};
  BigVector<Chunk> chunks_;
  std::uint32_t free_ = kNone;
};

}  // namespace railyard::packet
