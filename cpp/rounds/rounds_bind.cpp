#include "core/arrays_bind.hpp"
#include "core/parallel.hpp"
#include "rounds/draws.hpp"
#include "rounds/places.hpp"
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

struct Links {
  Column<std::int32_t> first;
  Column<double> capacity_bps;
  Column<std::int32_t> parent;
};

void bind_sharing(nb::module_& m) {
  m.def(
      "rounds_shared_ends",
      [](const Column<double>& start_s, const Column<double>& stop_s, const Column<double>& bits,
         const Column<double>& limit_bps, const Column<std::int32_t>& link, const Column<double>& capacity_bps,
         const Column<std::int32_t>& parent, const Out& out) {
        std::vector<double> ends;
        {
          nb::gil_scoped_release nogil;
          ends = shared_ends({view(bits), view(limit_bps), view(link)}, view(start_s), view(stop_s),
                             {view(capacity_bps), view(parent)});
        }
        if (ends.size() != out.size()) throw std::invalid_argument("a column has another length");
        std::copy(ends.begin(), ends.end(), out.data());
      },
      "start_s"_a, "stop_s"_a, "bits"_a, "limit_bps"_a, "link"_a, "capacity_bps"_a, "parent"_a, "out"_a.noconvert(),
      "When each transfer over trees of shared links ends, max-min fair as a fluid; inf: it is given up before.");
  nb::class_<Links>(m, "SharedLinks", "A tree of links, and the first of each transfer.")
      .def(
          "__init__",
          [](Links* self, const Column<std::int32_t>& first, const Column<double>& capacity_bps,
             const Column<std::int32_t>& parent) { new (self) Links{first, capacity_bps, parent}; },
          nb::kw_only(), "first"_a, "capacity_bps"_a, "parent"_a);
  nb::class_<Visits>(m, "Visits", "What became of clients at places, a row each; inf for what never was.")
      .def_prop_ro("begun_s", column_of<Visits, &Visits::begun_s>(), "When a place took each.")
      .def_prop_ro("down_s", column_of<Visits, &Visits::down_s>(), "When its download began.")
      .def_prop_ro("got_s", column_of<Visits, &Visits::got_s>(), "When its last shared bit had come.")
      .def_prop_ro("up_s", column_of<Visits, &Visits::up_s>(), "When its upload began.")
      .def_prop_ro("sent_s", column_of<Visits, &Visits::sent_s>(), "When its last shared bit was sent.")
      .def_prop_ro("end_s", column_of<Visits, &Visits::end_s>(), "When its update came, or it left.")
      .def_prop_ro("came", column_of<Visits, &Visits::came>(), "Rows whose update came, in that order.")
      .def_prop_ro("left", column_of<Visits, &Visits::left>(), "Rows whose client left before, in that order.");
  m.def(
      "rounds_visits",
      [](const Column<double>& delay_s, const Column<double>& work_s, const Column<double>& lag_s,
         const Column<double>& leave_s, const Column<double>& down_bits, const Column<double>& down_bps,
         const Column<double>& up_bits, const Column<double>& up_bps, const Links& down, const Links& up,
         std::size_t places, std::size_t updates) {
        nb::gil_scoped_release nogil;
        const ClientColumns clients{view(delay_s), view(work_s), view(lag_s), view(leave_s)};
        const BothWays ways{{view(down_bits), view(down_bps), view(down.first)},
                            {view(up_bits), view(up_bps), view(up.first)},
                            {view(down.capacity_bps), view(down.parent)},
                            {view(up.capacity_bps), view(up.parent)}};
        return visits(clients, ways, places, updates);
      },
      "delay_s"_a, "work_s"_a, "lag_s"_a, "leave_s"_a, "down_bits"_a, "down_bps"_a, "up_bits"_a, "up_bps"_a, "down"_a,
      "up"_a, "places"_a, "updates"_a,
      "Clients one after the other at so many places, over links that what is under way shares.");
}

}  // namespace

void bind_rounds(nb::module_& m) {
  bind_draws(m);
  bind_transport(m);
  bind_sharing(m);
}
