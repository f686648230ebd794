#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/big_vector.hpp"

namespace railyard::packet {

/// Blocks of 64-bit words in a few sizes, given back and used again.
class WordArena {
 public:
  std::uint64_t* at(std::uint32_t block) { return words_.data() + block; }
  const std::uint64_t* at(std::uint32_t block) const { return words_.data() + block; }

  /// A block of so many words, all zero. PRE: blocks of one class have one size.
  std::uint32_t acquire(unsigned klass, std::size_t size) {
    if (!free_[klass].empty()) {
      const std::uint32_t block = free_[klass].back();
      free_[klass].pop_back();
      std::fill_n(at(block), size, 0);
      return block;
    }
    const auto block = static_cast<std::uint32_t>(words_.size());
    words_.resize(words_.size() + size);
    return block;
  }

  void release(std::uint32_t block, unsigned klass) { free_[klass].push_back(block); }

 private:
  BigVector<std::uint64_t> words_;
  std::array<std::vector<std::uint32_t>, 32> free_;
};

}  // namespace railyard::packet
