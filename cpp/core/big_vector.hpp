#pragma once

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace railyard {

/// Allocates large blocks on huge pages where the system offers them.
/// WHY: a run touches hundreds of megabytes in no order that a processor could foresee; with 4 KiB pages half of the time
/// went into address translation.
template <class T>
struct BigAllocator {
  using value_type = T;
  static constexpr std::size_t kHugePage = std::size_t{1} << 21;

  BigAllocator() = default;
  template <class U>
  BigAllocator(const BigAllocator<U>&) {}  // NOLINT: allocators convert

  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T) - kHugePage) throw std::bad_alloc();
    const std::size_t alignment = count * sizeof(T) >= kHugePage ? kHugePage : alignof(std::max_align_t);
    const std::size_t wanted = alignment < alignof(T) ? alignof(T) : alignment;
    const std::size_t size = (count * sizeof(T) + wanted - 1) / wanted * wanted;
    void* block = std::aligned_alloc(wanted, size);
    if (block == nullptr) throw std::bad_alloc();
#ifdef __linux__
    if (wanted == kHugePage) madvise(block, size, MADV_HUGEPAGE);  // a hint: failure changes nothing
#endif
    return static_cast<T*>(block);
  }
  void deallocate(T* block, std::size_t) { std::free(block); }

  template <class U>
  bool operator==(const BigAllocator<U>&) const { return true; }
};

template <class T>
using BigVector = std::vector<T, BigAllocator<T>>;

}  // namespace railyard
