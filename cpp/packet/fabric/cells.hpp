#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/time.hpp"

namespace railyard::packet {

/// A cell on its way between leafs. It is no event of its own and has no entry anywhere: sixteen bytes that are copied on.
struct Cell {
  Ps time;             ///< Arrival of its last bit at the element it flies to.
  std::uint32_t what;  ///< Data: its number within its burst and the burst; control: what the message says.
  std::uint16_t leaf;  ///< Where it goes.
  std::uint16_t bytes;  ///< On the wire; with kControlCell.

  static constexpr std::uint16_t kControlCell = 0x8000;
  static constexpr std::uint32_t kBurstBits = 26, kBurstMask = (1u << kBurstBits) - 1, kMostNumber = 63;

  bool control() const { return (bytes & kControlCell) != 0; }
  std::uint32_t size() const { return bytes & (kControlCell - 1); }
  std::uint32_t burst() const { return what & kBurstMask; }
  std::uint32_t number() const { return what >> kBurstBits; }  ///< 63 stands for all beyond.
};
static_assert(sizeof(Cell) == 16);

/// The cells in flight on a link, in the order of their arrival: a ring that doubles when full.
class CellQueue {
 public:
  bool empty() const { return head_ == tail_; }
  const Cell& front() const { return cells_[head_ & mask_]; }
  void pop() { ++head_; }
  void prefetch() const { __builtin_prefetch(cells_.get() + (head_ & mask_)); }
  void prefetch_end() const { __builtin_prefetch(cells_.get() + (tail_ & mask_), 1); }

  void push(const Cell& cell) {
    if (tail_ - head_ == size()) grow();
    cells_[tail_++ & mask_] = cell;
  }

 private:
  static constexpr std::uint32_t kLeast = 16;

  std::uint32_t size() const { return cells_ == nullptr ? 0 : mask_ + 1; }

  void grow() {
    const std::uint32_t places = cells_ == nullptr ? kLeast : 2 * size();
    std::unique_ptr<Cell[]> larger(new Cell[places]);
    const std::uint32_t count = tail_ - head_;
    for (std::uint32_t at = 0; at < count; ++at) larger[at] = cells_[(head_ + at) & mask_];
    cells_ = std::move(larger);
    head_ = 0;
    tail_ = count;
    mask_ = places - 1;
  }

  std::unique_ptr<Cell[]> cells_;
  std::uint32_t head_ = 0, tail_ = 0, mask_ = 0;
};
static_assert(sizeof(CellQueue) == 24);

}  // namespace railyard::packet
