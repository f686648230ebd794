#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/typing.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

/// What all bindings share: columns in and out, and how a long run stays in touch with Python.
namespace railyard::bind {

namespace nb = nanobind;

template <class T>
using Column = nb::ndarray<const T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Progress = nb::typed<nb::callable, void(std::uint64_t, std::int64_t)>;

template <class T>
std::span<const T> view(const Column<T>& column) {
  return {column.data(), column.size()};
}

/// A read-only numpy view of a vector that `Owner` reaches by these members, one in the other; the array keeps `self`, the
/// owner, alive.
template <class Owner, auto... Members>
auto column_of() {
  return [](nb::handle self) {
    const auto& values = (nb::cast<const Owner&>(self) .* ... .* Members);
    using T = typename std::decay_t<decltype(values)>::value_type;
    return nb::ndarray<nb::numpy, const T, nb::ndim<1>>(values.data(), {values.size()}, self);
  };
}

/// Lets Python handle signals and shows progress, about twenty times a second.
/// WHY: by the clock and not by the number of events, because with another Python thread busy each acquisition of the
/// GIL may cost the interpreter's switch interval (5 ms).
class Beat {
 public:
  explicit Beat(const std::optional<Progress>& progress) : progress_(progress) {}

  void operator()(std::uint64_t done, std::int64_t now_ps) {
    if (Clock::now() < next_) return;
    next_ = Clock::now() + kInterval;
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (progress_) (*progress_)(done, now_ps);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kInterval = std::chrono::milliseconds(50);

  const std::optional<Progress>& progress_;
  Clock::time_point next_ = Clock::now() + kInterval;
};

}  // namespace railyard::bind
