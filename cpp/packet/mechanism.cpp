#include "packet/mechanism.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <tuple>

#include "packet/options.hpp"

namespace railyard::packet {

namespace {

std::vector<Mechanism>& list() {
  static std::vector<Mechanism> all;
  return all;
}

std::string text(double number) {
  std::array<char, 32> digits;
  return {digits.data(), static_cast<std::size_t>(std::snprintf(digits.data(), digits.size(), "%g", number))};
}

std::string text(const Range& range) {
  return (range.low_open ? "(" : "[") + text(range.low) + ", " + text(range.high) + (range.high_open ? ")" : "]");
}

[[noreturn]] void refuse(const Mechanism& mechanism, const Field& field, double found) {
  throw std::invalid_argument(mechanism.name + ": " + field.name + " must be in " + text(field.range) + ", not " +
                              text(found));
}

[[noreturn]] void refuse(const Mechanism& mechanism, const Field& field, const std::string& found) {
  throw std::invalid_argument(mechanism.name + ": " + field.name + " cannot be '" + found + "'");
}

/// Words that name a mechanism are looked up among the family's; `user` is a user's own functions.
void check_word(const Mechanism& mechanism, const Field& field, const std::string& found) {
  const std::vector<std::string> known = names_of(*field.family);
  if (found != "user" && std::find(known.begin(), known.end(), found) == known.end()) refuse(mechanism, field, found);
}

void check_value(const Mechanism& mechanism, const Field& field, const Value& value) {
  if (field.unset && *field.unset == value) return;
  const auto number = [&](double found) {
    if (!field.range.holds(found)) refuse(mechanism, field, found);
  };
  if (const auto* whole_number = std::get_if<std::int64_t>(&value)) number(static_cast<double>(*whole_number));
  if (const auto* real = std::get_if<double>(&value)) number(*real);
  if (const auto* word_found = std::get_if<std::string>(&value)) check_word(mechanism, field, *word_found);
  if (const auto* row = std::get_if<std::vector<std::int64_t>>(&value))
    for (const std::int64_t one : *row) number(static_cast<double>(one));
}

}  // namespace

std::string_view word(Family family) {
  static constexpr std::array<std::string_view, 7> kWords = {
      "transport", "flow_control", "congestion_control", "load_balancing", "loss_recovery", "marking", "engine"};
  return kWords[static_cast<std::size_t>(family)];
}

Registration::Registration(Mechanism mechanism) {
  if (mechanism.prefix.empty()) mechanism.prefix = mechanism.name;
  const auto order = [](const Mechanism& one) { return std::tie(one.family, one.name); };
  const auto place = std::upper_bound(list().begin(), list().end(), mechanism,
                                      [&](const Mechanism& a, const Mechanism& b) { return order(a) < order(b); });
  list().insert(place, std::move(mechanism));
}

const std::vector<Mechanism>& mechanisms() { return list(); }

std::vector<std::string> names_of(Family family) {
  std::vector<std::string> names;
  for (const Mechanism& mechanism : mechanisms())
    if (mechanism.family == family) names.push_back(mechanism.name);
  return names;
}

void set_field(Options& options, std::string_view mechanism, std::string_view field, const Value& value) {
  for (const Mechanism& one : mechanisms()) {
    if (one.name != mechanism) continue;
    for (const Field& entry : one.fields) {
      if (entry.name != field) continue;
      check_value(one, entry, value);
      return entry.set(options, value);
    }
  }
  throw std::invalid_argument("no field " + std::string(field) + " of " + std::string(mechanism));
}

void check_fields(const Options& options) {
  for (const Mechanism& mechanism : mechanisms()) {
    for (const Field& field : mechanism.fields) check_value(mechanism, field, field.get(options));
    if (mechanism.check != nullptr) mechanism.check(options);
  }
}

}  // namespace railyard::packet
