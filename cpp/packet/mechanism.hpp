#pragma once

#include <any>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <variant>
#include <vector>

/// A mechanism of a fabric is described once, by a `Mechanism` that stands beside its code: what it is, where it comes
/// from, and its constants with unit, default, range and meaning. The options of a run, the checks of what users give, the
/// binding, the names in scenarios and the reference page all follow from it.
namespace railyard::packet {

/// The options of every mechanism of a run, by their type; what nobody has set has the defaults of its type.
class OptionSet {
 public:
  template <class T>
  T& of() {
    const auto found = values_.try_emplace(typeid(T), std::in_place_type<T>).first;
    return *std::any_cast<T>(&found->second);
  }
  template <class T>
  const T& of() const {
    static const T kDefaults{};
    const auto found = values_.find(typeid(T));
    return found == values_.end() ? kDefaults : *std::any_cast<T>(&found->second);
  }

 private:
  std::map<std::type_index, std::any> values_;
};

struct Options;

/// What a field holds, whatever its type in its struct: enumerations are words, arrays and bit sets lists.
using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

/// What a number may be; each end belongs to it unless it is open.
struct Range {
  double low = 0, high = 0;
  bool low_open = false, high_open = false;

  bool holds(double value) const {
    return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
  }
};

constexpr Range between(double low, double high) { return {low, high, false, false}; }
constexpr Range above(double low, double high) { return {low, high, true, false}; }
inline constexpr Range kShareRange = above(0, 1);
inline constexpr Range kTimeRange = between(0, 3.6e16);          ///< Up to 10 h in ps.
inline constexpr Range kPositiveTimeRange = between(1, 3.6e16);
inline constexpr Range kBytesRange = between(0, 1e15);
inline constexpr Range kRateRange = between(0, 1e15);

enum class Family : std::uint8_t {
  transport,
  flow_control,
  congestion_control,
  load_balancing,
  loss_recovery,
  marking,
  engine,  ///< What a run has whatever its mechanisms are.
};

std::string_view word(Family family);

/// One constant of a mechanism.
struct Field {
  std::string name;    ///< With its unit at the end: `alpha_interval_ps`.
  std::string unit;    ///< ps, bytes, bps, packets, share (of 1), or empty.
  Range range;         ///< Of a number, or of each number of a list.
  std::string doc;
  std::size_t least = 0, most = 1;   ///< How many numbers a list has.
  std::vector<std::string> choices;  ///< Of a word, where they are fixed.
  std::optional<Family> family;      ///< Of a word that names a mechanism.
  std::optional<Value> unset;        ///< The value that stands for "not given".
  std::string unset_word;            ///< How users write that, where they can.
  std::string unset_means;
  std::string key;     ///< How users name it; empty: mechanism's prefix and name without the unit.
  Value (*get)(const Options&) = nullptr;
  void (*set)(Options&, const Value&) = nullptr;

  /// All numbers of a list must be given.
  Field complete() const {
    Field copy = *this;
    copy.least = most;
    return copy;
  }
  Field named(std::string users_key) const {
    Field copy = *this;
    copy.key = std::move(users_key);
    return copy;
  }
  /// `value` stands for "not given", which means what `means` says.
  Field or_else(Value value, std::string means, std::string users_word = "") const {
    Field copy = *this;
    copy.unset = std::move(value);
    copy.unset_means = std::move(means);
    copy.unset_word = std::move(users_word);
    return copy;
  }
};

/// What there is to know of a mechanism.
struct Mechanism {
  Family family;
  std::string name;
  std::string summary;  ///< One sentence.
  std::vector<std::string> sources = {};
  std::vector<Field> fields = {};
  std::string transport = {};  ///< The only transport that has it; empty: any.
  /// What users' names of its fields begin with; the mechanism's name where it is not given, none where it is "-".
  std::string prefix = {};
  /// Throws std::invalid_argument where fields contradict one another.
  void (*check)(const Options&) = nullptr;
};

/// All mechanisms, by family and name.
const std::vector<Mechanism>& mechanisms();

/// The names of a family's mechanisms.
std::vector<std::string> names_of(Family family);

/// Sets a field from a value of its kind. Throws std::invalid_argument for an unknown name or a value out of range.
void set_field(Options& options, std::string_view mechanism, std::string_view field, const Value& value);

/// Throws std::invalid_argument with name, value and range for the first value out of range, then by `Mechanism::check`.
void check_fields(const Options& options);

/// Puts a mechanism on the list; one static object a mechanism.
struct Registration {
  explicit Registration(Mechanism mechanism);
};

namespace detail {

template <class>
struct MemberOf;
template <class Owner, class T>
struct MemberOf<T Owner::*> {
  using Struct = Owner;
  using Type = T;
};

/// The struct of a member within the options; `Options` itself is no part of its set.
template <auto Member, class AnyOptions>
auto& at(AnyOptions& options) {
  using Struct = typename MemberOf<decltype(Member)>::Struct;
  if constexpr (std::is_same_v<Struct, Options>) return options.*Member;
  else return options.template of<Struct>().*Member;
}

inline Field plain(std::string name, std::string unit, Range range, std::string doc) {
  Field field;
  field.name = std::move(name);
  field.unit = std::move(unit);
  field.range = range;
  field.doc = std::move(doc);
  return field;
}

template <class T>
Value value_of(const T& stored) {
  if constexpr (std::is_same_v<T, bool>) return stored;
  else if constexpr (std::is_integral_v<T>) return static_cast<std::int64_t>(stored);
  else if constexpr (std::is_floating_point_v<T>) return static_cast<double>(stored);
  else return Value(stored);
}

template <auto Member>
Field number_field(std::string name, std::string unit, Range range, std::string doc) {
  using T = typename MemberOf<decltype(Member)>::Type;
  Field field = plain(std::move(name), std::move(unit), range, std::move(doc));
  field.get = [](const auto& options) { return value_of(at<Member>(options)); };
  field.set = [](auto& options, const Value& value) {
    if constexpr (std::is_same_v<T, bool>) at<Member>(options) = std::get<bool>(value);
    else if constexpr (std::is_integral_v<T>) at<Member>(options) = static_cast<T>(std::get<std::int64_t>(value));
    else if constexpr (std::is_floating_point_v<T>) at<Member>(options) = std::get<double>(value);
    else at<Member>(options) = std::get<std::string>(value);
  };
  return field;
}

}  // namespace detail

/// A number.
template <auto Member>
Field field(std::string name, std::string unit, Range range, std::string doc) {
  return detail::number_field<Member>(std::move(name), std::move(unit), range, std::move(doc));
}

/// Yes or no.
template <auto Member>
Field flag(std::string name, std::string doc) {
  return detail::number_field<Member>(std::move(name), "", {}, std::move(doc));
}

/// The name of a mechanism of a family.
template <auto Member>
Field selection(std::string name, Family family, std::string doc) {
  Field made = detail::number_field<Member>(std::move(name), "", {}, std::move(doc));
  made.family = family;
  return made;
}

/// One of some words, which stand for the values of an enumeration in its order.
template <auto Member>
Field choice(std::string name, std::vector<std::string> words, std::string doc) {
  using T = typename detail::MemberOf<decltype(Member)>::Type;
  Field made = detail::plain(std::move(name), "", between(0, static_cast<double>(words.size()) - 1), std::move(doc));
  made.choices = std::move(words);
  made.get = [](const auto& options) { return Value(static_cast<std::int64_t>(detail::at<Member>(options))); };
  made.set = [](auto& options, const Value& value) {
    detail::at<Member>(options) = static_cast<T>(std::get<std::int64_t>(value));
  };
  return made;
}

/// The numbers of the bits that are set.
template <auto Member>
Field bits(std::string name, std::string doc) {
  using T = typename detail::MemberOf<decltype(Member)>::Type;
  Field made = detail::plain(std::move(name), "", between(0, 8 * sizeof(T) - 1), std::move(doc));
  made.most = 8 * sizeof(T);
  made.get = [](const auto& options) {
    std::vector<std::int64_t> found;
    for (unsigned bit = 0; bit < 8 * sizeof(T); ++bit)
      if ((detail::at<Member>(options) >> bit & 1) != 0) found.push_back(bit);
    return Value(found);
  };
  made.set = [](auto& options, const Value& value) {
    unsigned mask = 0;
    for (const std::int64_t bit : std::get<std::vector<std::int64_t>>(value)) mask |= 1u << bit;
    detail::at<Member>(options) = static_cast<T>(mask);
  };
  return made;
}

/// Some numbers in order; those that are not given are 0.
template <auto Member>
Field numbers(std::string name, Range range, std::string doc) {
  Field made = detail::plain(std::move(name), "", range, std::move(doc));
  made.most = std::tuple_size_v<typename detail::MemberOf<decltype(Member)>::Type>;
  made.get = [](const auto& options) {
    const auto& stored = detail::at<Member>(options);
    return Value(std::vector<std::int64_t>(stored.begin(), stored.end()));
  };
  made.set = [](auto& options, const Value& value) {
    auto& stored = detail::at<Member>(options);
    const auto& given = std::get<std::vector<std::int64_t>>(value);
    stored.fill(0);
    for (std::size_t row = 0; row < stored.size() && row < given.size(); ++row)
      stored[row] = static_cast<typename std::decay_t<decltype(stored)>::value_type>(given[row]);
  };
  return made;
}

}  // namespace railyard::packet
