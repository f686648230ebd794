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
/// A ring of windows of `span` ps; pushes append to a window's chunks. When a window's turn comes it is sorted. What is
/// due within the window being served goes into a small heap, what lies beyond the ring into another.
/// WHY: appending and counting run through memory in order; with 100,000 events pending a heap or a tree misses the cache
/// at every level. Chunks come from a stack, so those lately used, still in the cache, come first.
///
/// Where no event changes another node before the next window, a window may come in groups: all events of one node in the
/// order of time, then those of the next. WHY: what a node's events touch stays in the cache.
class Wheel {
 public:
  static constexpr std::size_t kWindows = 1024;
  static constexpr std::uint32_t kNobody = 0xffffffffu;  ///< The owner of an event that concerns every node.

  /// PRE: span > 1.
  explicit Wheel(Ps span) : span_(span), inverse_(~std::uint64_t{0} / static_cast<std::uint64_t>(span) + 1) {
    head_.fill(kNone);
    tail_.fill(kNone);
  }

  /// Length of a window.
  Ps span() const { return span_; }
  /// Where the open window ends.
  Ps end() const { return (base_ + 1) * span_; }

  void push(Ps time, std::uint32_t what) { push(time, what, what); }

  /// PRE: not before the event that was taken last; at one time no two events have the same tie, unless their order does
  /// not matter.
  void push(Ps time, std::uint32_t what, std::uint32_t tie) {
    RAILYARD_INVARIANT(time >= clock_);
    const std::int64_t window = window_of(time);
    const Due due{time, what, tie};
    if (static_cast<std::uint64_t>(window - base_ - 1) < kWindows - 1) append(slot_of(window), due);
    else set_aside(window <= base_ ? late_ : far_, due);
  }

  /// No event is due before; kNever when there is none.
  Ps next_time() const {
    if (!late_.empty() || next_ != sorted_.size()) {
      const Ps sorted = next_ < sorted_.size() ? sorted_[next_].time : kNever;
      return late_.empty() ? sorted : std::min(sorted, late_.top().time);
    }
    const std::int64_t window = next_window();
    return window == kEmpty ? kNever : window * span_;
  }

  /// The next event, if it is due before `until`; false when there is none. In the order of time.
  bool pop(Due& due, Ps until = kNever) {
    while (!take(due, until))
      if (!exhausted() || !open(until, kNever, kNobody, [](const Due&) { return kNobody; })) return false;
    return true;
  }

  /// The next event of the open window, if it is due before `until`.
  bool take(Due& due, Ps until) {
    for (;;) {
      if (next_ < group_end_ && (late_.empty() || !late_.top().before(sorted_[next_]))) {
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
      if (group_end_ == sorted_.size()) return false;
      next_group();
    }
  }
  /// Whether nothing is left of the open window.
  bool exhausted() const { return late_.empty() && next_ == sorted_.size(); }

  /// Opens the next window that holds something, or that in which `latest` lies, where that comes first. Where it ends by
  /// `until` and holds more than a few events an owner, they come in groups by `owner(event)`, below `owners`. False: it
  /// begins at `until` or later, or there is none. PRE: exhausted().
  template <class Owner>
  bool open(Ps until, Ps latest, std::uint32_t owners, Owner&& owner) {
    if (!advance(until, latest)) return false;
    if (end() > until || !group(slot_of(base_), owners, owner)) collect(slot_of(base_));
    return true;
  }

  /// The event that comes `ahead` places later in the open window, if nothing is pushed before it; null if none. Beyond the
  /// open group they are not sorted.
  const Due* peek(std::size_t ahead) const {
    return next_ + ahead < sorted_.size() ? &sorted_[next_ + ahead] : nullptr;
  }

 private:
  RAILYARD_CHECKED_ONLY(Ps clock_ = std::numeric_limits<Ps>::min();)  // of the event that was taken last
  static constexpr std::uint32_t kNone = 0xffffffffu;
  static constexpr std::size_t kChunk = 62;
  static constexpr std::size_t kFew = 24;
  static constexpr std::size_t kSparse = 4;      ///< Owners to an event from which on grouping costs more than it brings.
  static constexpr std::size_t kSortAhead = 16;  ///< Events behind the open group that are sorted as well: `peek`.
  static constexpr std::int64_t kEmpty = kNever;

  struct Chunk {
    std::array<Due, kChunk> entries;
    std::uint32_t count;
    std::uint32_t next;
  };

  [[gnu::noinline]] static void set_aside(DueHeap& heap, const Due& due) { heap.push(due); }

  void append(std::size_t slot, const Due& due) {
    std::uint32_t last = tail_[slot];
    if (last == kNone || chunks_[last].count == kChunk) [[unlikely]] last = extend(slot);
    Chunk& chunk = chunks_[last];
    chunk.entries[chunk.count++] = due;
  }

  [[gnu::noinline]] std::uint32_t extend(std::size_t slot) {
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

  /// The next window that holds something; kEmpty where none does.
  std::int64_t next_window() const {
    const std::int64_t ahead = distance();
    const std::int64_t near = ahead == 0 ? kEmpty : base_ + ahead;
    return far_.empty() ? near : std::min(near, window_of(far_.top().time));
  }

  bool advance(Ps until, Ps latest) {
    RAILYARD_INVARIANT(exhausted());
    const std::int64_t wanted = latest == kNever ? kEmpty : std::max(window_of(latest), base_ + 1);
    const std::int64_t window = std::min(next_window(), wanted);
    if (window == kEmpty || window * span_ >= until) return false;
    base_ = window;
    RAILYARD_CHECKED_ONLY(clock_ = base_ * span_;)
    const std::int64_t end = base_ + static_cast<std::int64_t>(kWindows);
    while (!far_.empty() && window_of(far_.top().time) < end) {
      const Due due = far_.pop();
      append(slot_of(window_of(due.time)), due);
    }
    return true;
  }

  /// WHY not a division: it takes longer than all else that a push does. Beyond 2^64 / span ps the product is one too high.
  std::int64_t window_of(Ps time) const {
    __extension__ typedef unsigned __int128 Wide;  // NOLINT: `using` takes no extension
    const auto window = static_cast<std::int64_t>(Wide{static_cast<std::uint64_t>(time)} * inverse_ >> 64);
    return window - (window * span_ > time ? 1 : 0);
  }

  static std::size_t slot_of(std::int64_t window) { return static_cast<std::size_t>(window) & (kWindows - 1); }

  /// Calls `visit(event)` for each event of a window.
  template <class Visit>
  void each(std::size_t slot, Visit&& visit) const {
    for (std::uint32_t at = head_[slot]; at != kNone; at = chunks_[at].next)
      for (std::uint32_t entry = 0; entry < chunks_[at].count; ++entry) visit(chunks_[at].entries[entry]);
  }

  std::size_t count(std::size_t slot) const {
    std::size_t sum = 0;
    for (std::uint32_t at = head_[slot]; at != kNone; at = chunks_[at].next) sum += chunks_[at].count;
    return sum;
  }

  /// False where there are few events to an owner, or where one concerns all.
  template <class Owner>
  bool group(std::size_t slot, std::uint32_t owners, Owner&& owner) {
    const std::size_t events = count(slot);
    if (events < owners / kSparse) return false;
    starts_.assign(owners, 0);
    owners_.resize(events);
    std::uint32_t* of = owners_.data();
    bool grouped = true;
    each(slot, [&](const Due& due) {
      const std::uint32_t here = *of++ = owner(due);
      if (here == kNobody) grouped = false;
      else ++starts_[here];
    });
    if (!grouped) return false;
    groups_.clear();
    std::uint32_t sum = 0;
    for (std::uint32_t& value : starts_) {
      const std::uint32_t here = value;
      value = sum;
      sum += here;
      if (here != 0) groups_.push_back(sum);
    }
    sorted_.resize(events);
    of = owners_.data();
    each(slot, [&](const Due& due) { sorted_[starts_[*of++]++] = due; });
    release(slot);
    next_ = group_end_ = ready_ = ready_group_ = group_ = 0;
    return true;
  }

  void next_group() {
    group_end_ = groups_[group_++];
    while (ready_ < sorted_.size() && ready_ < group_end_ + kSortAhead) {
      const std::size_t end = groups_[ready_group_++];
      if (end - ready_ > kFew) spread(ready_, end);
      else insertion(ready_, end);
      ready_ = end;
    }
    RAILYARD_CHECKED_ONLY(clock_ = base_ * span_;)
  }

  void collect(std::size_t slot) {
    const std::size_t events = count(slot);
    sorted_.resize(events);
    next_ = 0;
    group_end_ = events;
    if (events > kFew) {
      scatter(slot);
      release(slot);
      return;
    }
    std::size_t to = 0;
    each(slot, [&](const Due& due) { sorted_[to++] = due; });
    release(slot);
    insertion(0, events);
  }

  void scatter(std::size_t slot) {
    std::array<std::uint32_t, 256> start{};
    const int down = std::max(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(span_ - 1))) - 8, 0);
    const auto part = [begin = base_ * span_, down](const Due& due) { return static_cast<std::size_t>(due.time - begin) >> down; };
    each(slot, [&](const Due& due) { ++start[part(due)]; });
    std::uint32_t sum = 0;
    for (std::uint32_t& value : start) {
      const std::uint32_t here = value;
      value = sum;
      sum += here;
    }
    each(slot, [&](const Due& due) { sorted_[start[part(due)]++] = due; });
    // `start` is now where the next part begins.
    std::size_t from = 0;
    for (const std::uint32_t end : start) {
      if (end - from > kFew) spread(from, end);
      else insertion(from, end);
      from = end;
    }
  }

  /// Time and tie in one number, for events of the open window.
  std::uint64_t key(const Due& due) const { return static_cast<std::uint64_t>(due.time - base_ * span_) << 32 | due.tie; }

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
                [](const Due& a, const Due& b) { return a.before(b); });
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

  Ps span_;
  std::uint64_t inverse_;  ///< 2^64 / span, rounded up.
  std::int64_t base_ = -1;
  std::vector<Due> sorted_, spare_;
  std::size_t next_ = 0;
  std::size_t group_end_ = 0;                ///< Of the open group in `sorted_`.
  std::size_t ready_ = 0, ready_group_ = 0;  ///< Up to where groups are sorted.
  std::size_t group_ = 0;                    ///< The next group.
  std::vector<std::uint32_t> starts_, groups_;  ///< By owner; the ends of the groups.
  std::vector<std::uint32_t> owners_;           ///< Of the events of a window.
  DueHeap late_, far_;
  std::array<std::uint32_t, kWindows> head_, tail_;
  std::array<std::uint64_t, kWindows / 64> occupied_{};
  BigVector<Chunk> chunks_;
  std::uint32_t free_ = kNone;
};

}  // namespace railyard::packet
