#include "packet/mechanism.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>

#include "packet/balance/user.hpp"
#include "packet/control/user_control.hpp"
#include "packet/options.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace railyard::packet;

void bind_mechanisms(nb::module_& m);

namespace {

using Bits = nb::ndarray<const std::uint64_t, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// What a flow's own fields begin with. Throws where there are more than slots.
template <class Owner>
void set_slots(Owner& owner, const Bits& bits) {
  if (bits.size() > owner.slots.size()) throw std::invalid_argument("more slots than a flow has");
  owner.slots.fill(0);
  std::copy_n(bits.data(), bits.size(), owner.slots.begin());
}

/// The value of a run that nobody has set anything of; None where that stands for "not given".
std::optional<Value> default_of(const Field& field) {
  const Value found = field.get(Options{});
  if (field.unset == found) return std::nullopt;
  if (!field.choices.empty()) return Value(field.choices[static_cast<std::size_t>(std::get<std::int64_t>(found))]);
  return found;
}

std::int64_t index_of(const Field& field, const std::string& word_found) {
  const auto found = std::find(field.choices.begin(), field.choices.end(), word_found);
  if (found == field.choices.end()) throw std::invalid_argument(field.name + " cannot be '" + word_found + "'");
  return found - field.choices.begin();
}

/// A Python value as what the field holds: None is what stands for "not given".
Value value_of(const Field& field, nb::handle given) {
  if (given.is_none()) {
    if (!field.unset) throw std::invalid_argument(field.name + " cannot be None");
    return *field.unset;
  }
  if (!field.choices.empty()) return index_of(field, nb::cast<std::string>(given));
  const Value like = field.get(Options{});
  if (std::holds_alternative<bool>(like)) return nb::cast<bool>(given);
  if (std::holds_alternative<std::int64_t>(like)) return nb::cast<std::int64_t>(given);
  if (std::holds_alternative<double>(like)) return nb::cast<double>(given);
  if (std::holds_alternative<std::string>(like)) return nb::cast<std::string>(given);
  return nb::cast<std::vector<std::int64_t>>(given);
}

void set_from(Options& options, const std::string& mechanism, const std::string& field, nb::handle value) {
  for (const Mechanism& one : mechanisms())
    for (const Field& entry : one.fields)
      if (one.name == mechanism && entry.name == field) {
        set_field(options, mechanism, field, value_of(entry, value));
        return;
      }
  throw std::invalid_argument("no field " + field + " of " + mechanism);
}

void bind_records(nb::module_& m) {
  nb::class_<Field>(m, "PacketField", "One constant of a mechanism, as the C++ file of the mechanism describes it.")
      .def_ro("name", &Field::name)
      .def_ro("unit", &Field::unit)
      .def_ro("doc", &Field::doc)
      .def_ro("choices", &Field::choices)
      .def_ro("key", &Field::key)
      .def_ro("unset_word", &Field::unset_word)
      .def_ro("unset_means", &Field::unset_means)
      .def_prop_ro("optional", [](const Field& field) { return field.unset.has_value(); })
      .def_prop_ro("family", [](const Field& field) { return std::string(field.family ? word(*field.family) : ""); })
      .def_prop_ro("default", &default_of)
      .def_prop_ro("plain", [](const Field& field) { return field.get(Options{}); },
                   "The default as the core holds it, also where that stands for \"not given\".")
      .def_prop_ro("low", [](const Field& field) { return field.range.low; })
      .def_prop_ro("high", [](const Field& field) { return field.range.high; })
      .def_ro("least", &Field::least)
      .def_ro("most", &Field::most)
      .def_prop_ro("low_open", [](const Field& field) { return field.range.low_open; })
      .def_prop_ro("high_open", [](const Field& field) { return field.range.high_open; });
  nb::class_<Mechanism>(m, "PacketMechanism", "What there is to know of a mechanism.")
      .def_prop_ro("family", [](const Mechanism& one) { return std::string(word(one.family)); })
      .def_ro("name", &Mechanism::name)
      .def_ro("summary", &Mechanism::summary)
      .def_ro("sources", &Mechanism::sources)
      .def_ro("fields", &Mechanism::fields)
      .def_ro("transport", &Mechanism::transport)
      .def_ro("prefix", &Mechanism::prefix);
  m.def("mechanisms", &mechanisms, "All mechanisms of the packet engine, by family and name.");
}

void bind_user(nb::module_& m) {
  nb::class_<UserControlOptions>(m, "PacketUserControl", "Addresses of a user's functions; 0: none.")
      .def_rw("on_open", &UserControlOptions::on_open)
      .def_rw("on_ack", &UserControlOptions::on_ack)
      .def_rw("on_cnp", &UserControlOptions::on_cnp)
      .def_rw("on_nack", &UserControlOptions::on_nack)
      .def_rw("on_timeout", &UserControlOptions::on_timeout)
      .def_rw("on_sent", &UserControlOptions::on_sent)
      .def_rw("on_timer", &UserControlOptions::on_timer)
      .def("set_slots", &set_slots<UserControlOptions>, "bits"_a);
  nb::class_<UserBalanceOptions>(m, "PacketUserBalance", "Addresses of a user's functions; 0: none.")
      .def_rw("next_entropy", &UserBalanceOptions::next)
      .def_rw("feedback", &UserBalanceOptions::feedback)
      .def_rw("choose", &UserBalanceOptions::choose)
      .def("set_slots", &set_slots<UserBalanceOptions>, "bits"_a);
}

}  // namespace

void bind_mechanisms(nb::module_& m) {
  bind_records(m);
  bind_user(m);
  nb::class_<Options>(m, "PacketOptions", "Options of a run: fields of mechanisms by name, and what is no mechanism's.")
      .def(nb::init<>())
      .def("set", &set_from, "mechanism"_a, "field"_a, "value"_a.none(),
           "Sets a field; None where it may be left open. Raises ValueError for what is out of range.")
      .def_rw("seed", &Options::seed)
      .def_rw("threads", &Options::threads)
      .def_rw("repeats", &Options::repeats)
      .def_rw("telemetry", &Options::telemetry)
      .def_prop_ro("user_control", [](Options& options) -> UserControlOptions& { return options.of<UserControlOptions>(); },
                   nb::rv_policy::reference_internal)
      .def_prop_ro("user_balance", [](Options& options) -> UserBalanceOptions& { return options.of<UserBalanceOptions>(); },
                   nb::rv_policy::reference_internal);
}
