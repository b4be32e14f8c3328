// Building blocks of the key tables: one kind of row for each kind of value.
#pragma once

#include <optional>
#include <tuple>
#include <type_traits>
#include <vector>

#include "config/keys.h"

namespace dtn::config {

// An accessor for a member of a const or non-const config.
#define FIELD(member) ([](auto& c) -> auto& { return c.member; })
// The path and the accessor of a key with the name of its member.
#define KEY(member) #member, FIELD(member)

inline constexpr Range kAny{};
inline constexpr Range kCount = between(0, 1e12);
inline constexpr Range kPositiveCount = between(1, 1e12);

// Parts of the key table, in the order of config.yaml.
std::vector<Key> model_keys();
std::vector<Key> data_keys();
std::vector<Key> train_keys();
std::vector<Key> task_keys();

// Description of a value's format, for people.
template <class T>
struct TypeName;
template <class T>
struct TypeName<std::optional<T>> : TypeName<T> {};
#define DTN_TYPE_NAME(type, text)              \
  template <>                                  \
  struct TypeName<type> {                      \
    static constexpr const char* kText = text; \
  }
DTN_TYPE_NAME(bool, "true or false");
DTN_TYPE_NAME(int, "integer");
DTN_TYPE_NAME(std::int64_t, "integer");
DTN_TYPE_NAME(std::uint64_t, "integer");
DTN_TYPE_NAME(double, "number");
DTN_TYPE_NAME(std::string, "text");
DTN_TYPE_NAME(std::vector<double>, "number or list of numbers");
DTN_TYPE_NAME(PerStage<int>, "integer or list of them");
DTN_TYPE_NAME(PerStage<double>, "number or list of them");
DTN_TYPE_NAME(ImageSize, "integer or [height, width]");
DTN_TYPE_NAME(Period, "steps like 100, or epochs like 1epoch");
#undef DTN_TYPE_NAME

template <class Access>
using FieldOf = std::remove_reference_t<std::invoke_result_t<Access, ExperimentConfig&>>;

template <class T>
struct ValueOf {
  using Type = T;
};
template <class T>
struct ValueOf<std::optional<T>> : ValueOf<T> {};

// Makes a row. `doc` explains the key; `example` is needed if the default is not a usable example.
template <class Access>
Key value(const char* path, Access access, const Range& range, const char* example,
          const char* doc) {
  return {path,
          doc,
          [=](const Field& f, ExperimentConfig& c) { read_value(f, range, access(c)); },
          [=](const ExperimentConfig& c) { return write_value(access(c)); },
          TypeName<FieldOf<Access>>::kText,
          std::is_same_v<FieldOf<Access>, Period> ? kAny : range,  // a Period has no single unit
          {},
          example};
}
template <class Access>
Key value(const char* path, Access access, const Range& range, const char* doc) {
  return value(path, access, range, "", doc);
}
template <class Access>
Key value(const char* path, Access access, const char* example, const char* doc) {
  return value(path, access, kAny, example, doc);
}
template <class Access>
Key value(const char* path, Access access, const char* doc) {
  return value(path, access, kAny, "", doc);
}

// Makes a row whose value is an enum, or null for an optional enum. `names` has the enum's order.
template <class Access>
Key choice(const char* path, Access access, const std::vector<std::string>& names,
           const char* example, const char* doc) {
  using E = typename ValueOf<FieldOf<Access>>::Type;
  return {path,
          doc,
          [=](const Field& f, ExperimentConfig& c) {
            access(c) = static_cast<E>(read_choice(f, names));
          },
          [=](const ExperimentConfig& c) -> std::string {
            const std::optional<E> chosen = access(c);
            return chosen ? names[static_cast<std::size_t>(*chosen)] : "null";
          },
          "one of",
          kAny,
          names,
          example};
}
template <class Access>
Key choice(const char* path, Access access, const std::vector<std::string>& names,
           const char* doc) {
  return choice(path, access, names, "", doc);
}

template <class First, class Second>
Key pair(const char* path, First first, Second second, const Range& range, const char* doc) {
  return {path,
          doc,
          [=](const Field& f, ExperimentConfig& c) {
            std::tie(first(c), second(c)) = read_pair(f, range);
          },
          [=](const ExperimentConfig& c) {
            return write_value(
                std::vector<double>{static_cast<double>(first(c)), static_cast<double>(second(c))});
          },
          "list of two numbers",
          range};
}

}  // namespace dtn::config
