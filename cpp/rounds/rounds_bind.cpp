#include "core/arrays_bind.hpp"
#include "core/parallel.hpp"
#include "rounds/draws.hpp"
#include "rounds/transport.hpp"
#include "rounds/tree.hpp"

using namespace nanobind::literals;
using namespace railyard::bind;
using namespace railyard::rounds;
namespace nb = nanobind;

namespace {

using Out = nb::ndarray<double, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
constexpr std::size_t kLeast = 16'384;  // items for which a thread is worth its start

/// A column, or one value for all rows.
template <class T>
struct Values {
  std::span<const T> of;
  T operator[](std::size_t row) const { return of[of.size() == 1 ? 0 : row]; }
};

template <class T>
Values<T> values(const Column<T>& column, std::size_t rows) {
  if (column.size() != rows && column.size() != 1) throw std::invalid_argument("a column has another length");
  return {view(column)};
}

template <class Number>
void draw(std::uint64_t key, const Column<std::int64_t>& who, const Column<std::int64_t>& counter, const Out& out,
          const Number& number) {
  const std::size_t rows = out.size();
  const auto clients = values(who, rows), counts = values(counter, rows);
  double* const found = out.data();
  nb::gil_scoped_release nogil;
  railyard::for_ranges(rows, kLeast, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) found[i] = number(uniform(key, clients[i], counts[i]));
  });
}

struct Paths {
  Values<double> rate_bps, rtt_s, loss, buffer;
  Path operator[](std::size_t row) const { return {rate_bps[row], rtt_s[row], loss[row], buffer[row]}; }
};

void bind_draws(nb::module_& m) {
  m.def(
      "rounds_key", [](std::uint64_t bits) { return finalised(bits); }, "seed_and_stream"_a,
      "Key of a stream of numbers by hash.");
  m.def(
      "rounds_inverse_normal",
      [](const Column<double>& share, const Out& out) {
        if (share.size() != out.size()) throw std::invalid_argument("a column has another length");
        for (std::size_t i = 0; i < out.size(); ++i) out.data()[i] = inverse_normal(share.data()[i]);
      },
      "share"_a, "out"_a.noconvert(), "Where the standard normal distribution reaches a probability.");
  m.def(
      "rounds_uniform",
      [](std::uint64_t key, const Column<std::int64_t>& who, const Column<std::int64_t>& counter, const Out& out) {
        draw(key, who, counter, out, [](double share) { return share; });
      },
      "key"_a, "who"_a, "counter"_a, "out"_a.noconvert(), "Numbers strictly between 0 and 1, by hash.");
  m.def(
      "rounds_normal",
      [](std::uint64_t key, const Column<std::int64_t>& who, const Column<std::int64_t>& counter, const Out& out) {
        draw(key, who, counter, out, inverse_normal);
      },
      "key"_a, "who"_a, "counter"_a, "out"_a.noconvert(), "Standard normal numbers, by hash.");
}

void bind_transport(nb::module_& m) {
  nb::class_<Protocol>(m, "Protocol", "A transport protocol with its congestion control.")
      .def(
          "__init__",
          [](Protocol* self, bool bbr, double payload_bytes, double packet_bytes, double initial_window,
             double least_timeout_s, double receive_bytes) {
            new (self) Protocol{bbr, payload_bytes, packet_bytes, initial_window, least_timeout_s, receive_bytes};
          },
          nb::kw_only(), "bbr"_a, "payload_bytes"_a, "packet_bytes"_a, "initial_window"_a, "least_timeout_s"_a,
          "receive_bytes"_a);
  m.def(
      "rounds_goodput_bps",
      [](const Protocol& protocol, const Column<double>& rate_bps, const Column<double>& rtt_s,
         const Column<double>& loss, const Column<double>& buffer, const Out& out) {
        const std::size_t rows = out.size();
        const Paths paths{values(rate_bps, rows), values(rtt_s, rows), values(loss, rows), values(buffer, rows)};
        double* const found = out.data();
        nb::gil_scoped_release nogil;
        railyard::for_ranges(rows, kLeast, [&](std::size_t begin, std::size_t end) {
          for (std::size_t i = begin; i < end; ++i) found[i] = goodput_bps(protocol, paths[i]);
        });
      },
      "protocol"_a, "rate_bps"_a, "rtt_s"_a, "loss"_a, "buffer"_a, "out"_a.noconvert(),
      "Bits of payload a second of one connection, once it has started.");
  m.def(
      "rounds_carried_s",
      [](const Protocol& protocol, const Column<double>& size_bytes, const Column<double>& rate_bps,
         const Column<double>& rtt_s, const Column<double>& loss, const Column<double>& buffer, bool warm,
         const Out& out, const Out& bits_s) {
        const std::size_t rows = out.size();
        if (bits_s.size() != rows) throw std::invalid_argument("a column has another length");
        double* const bits = bits_s.data();
        const auto sizes = values(size_bytes, rows);
        const Paths paths{values(rate_bps, rows), values(rtt_s, rows), values(loss, rows), values(buffer, rows)};
        double* const found = out.data();
        nb::gil_scoped_release nogil;
        railyard::for_ranges(rows, kLeast, [&](std::size_t begin, std::size_t end) {
          for (std::size_t i = begin; i < end; ++i) {
            const Carried one = carried(protocol, sizes[i], paths[i], warm);
            found[i] = one.total_s, bits[i] = one.bits_s;
          }
        });
      },
      "protocol"_a, "size_bytes"_a, "rate_bps"_a, "rtt_s"_a, "loss"_a, "buffer"_a, "warm"_a, "out"_a.noconvert(),
      "bits_s"_a.noconvert(), "Seconds of transfers, and those of them in which bits pass at the steady goodput.");
}

}  // namespace

void bind_rounds(nb::module_& m) {
  bind_draws(m);
  bind_transport(m);
  m.def(
      "rounds_shared_ends",
      [](const Column<double>& start_s, const Column<double>& bits, const Column<double>& limit_bps,
         const Column<std::int32_t>& link, const Column<double>& capacity_bps, const Column<std::int32_t>& parent,
         const Out& out) {
        std::vector<double> ends;
        {
          nb::gil_scoped_release nogil;
          ends =
              shared_ends({view(start_s), view(bits), view(limit_bps), view(link)}, {view(capacity_bps), view(parent)});
        }
        if (ends.size() != out.size()) throw std::invalid_argument("a column has another length");
        std::copy(ends.begin(), ends.end(), out.data());
      },
      "start_s"_a, "bits"_a, "limit_bps"_a, "link"_a, "capacity_bps"_a, "parent"_a, "out"_a.noconvert(),
      "When each transfer over trees of shared links ends, max-min fair as a "
      "fluid.");
}
