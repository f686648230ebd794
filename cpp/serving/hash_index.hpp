#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/random.hpp"

namespace railyard::serving {

/// From hashes to numbers: open addressing with deletion by moving back, so that it never fills up with graves.
class HashIndex {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  HashIndex() : places_(16) {}
  std::size_t size() const { return size_; }

  std::uint32_t find(std::uint64_t hash) const {
    for (std::size_t i = home(hash);; i = next(i)) {
      if (places_[i].value == kNone) return kNone;
      if (places_[i].hash == hash) return places_[i].value;
    }
  }
  /// PRE: it is not there.
  void insert(std::uint64_t hash, std::uint32_t value) {
    if (2 * ++size_ > places_.size()) grow();
    put({hash, value});
  }
  /// PRE: it is there.
  void erase(std::uint64_t hash) {
    std::size_t hole = home(hash);
    while (places_[hole].hash != hash || places_[hole].value == kNone) hole = next(hole);
    for (std::size_t i = next(hole); places_[i].value != kNone; i = next(i)) {
      const std::size_t mask = places_.size() - 1;
      if (((i - home(places_[i].hash)) & mask) < ((i - hole) & mask)) continue;
      places_[hole] = places_[i];
      hole = i;
    }
    places_[hole].value = kNone;
    --size_;
  }
  void clear() {
    places_.assign(16, Place{});
    size_ = 0;
  }

 private:
  struct Place {
    std::uint64_t hash = 0;
    std::uint32_t value = kNone;
  };
  std::size_t home(std::uint64_t hash) const { return static_cast<std::size_t>(mix(hash)) & (places_.size() - 1); }
  std::size_t next(std::size_t i) const { return (i + 1) & (places_.size() - 1); }
  void put(const Place& place) {
    std::size_t i = home(place.hash);
    while (places_[i].value != kNone) i = next(i);
    places_[i] = place;
  }
  void grow() {
    std::vector<Place> old(2 * places_.size());
    old.swap(places_);
    for (const Place& place : old) {
      if (place.value != kNone) put(place);
    }
  }

  std::vector<Place> places_;
  std::size_t size_ = 0;
};

}  // namespace railyard::serving
