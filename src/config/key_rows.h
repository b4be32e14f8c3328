// What the tables of keys are written with: a row for each kind of value.
#pragma once

#include <array>
#include <tuple>
#include <type_traits>
#include <vector>

#include "config/keys.h"

namespace dtn::config {

// An accessor for a member of the config, const or not.
#define FIELD(member) ([](auto& c) -> auto& { return c.member; })

inline constexpr Range kAny{};
inline constexpr Range kCount = between(0, 1e12);
inline constexpr Range kPositiveCount = between(1, 1e12);

// The parts of the table, in the order of config.yaml.
std::vector<Key> model_keys();
std::vector<Key> data_keys();
std::vector<Key> train_keys();

// Names of an enum's values, in their order; each table of keys defines those of its enums.
template <class E>
std::span<const std::string> names_of();

template <class E>
E enum_of(const Field& field) {
  return static_cast<E>(read_choice(field, names_of<E>()));
}

template <class Access>
Key value(const char* path, Access access, const Range& range, const char* doc) {
  return {path, doc, [=](const Field& f, ExperimentConfig& c) { read_value(f, range, access(c)); },
          [=](const ExperimentConfig& c) { return write_value(access(c)); }};
}

template <class Access>
Key choice(const char* path, Access access, const char* doc) {
  using E = std::remove_reference_t<std::invoke_result_t<Access, ExperimentConfig&>>;
  return {path, doc, [=](const Field& f, ExperimentConfig& c) { access(c) = enum_of<E>(f); },
          [=](const ExperimentConfig& c) {
            return names_of<E>()[static_cast<std::size_t>(access(c))];
          }};
}

template <class First, class Second>
Key pair(const char* path, First first, Second second, const Range& range, const char* doc) {
  return {path, doc,
          [=](const Field& f, ExperimentConfig& c) {
            std::tie(first(c), second(c)) = read_pair(f, range);
          },
          [=](const ExperimentConfig& c) {
            return write_value(std::vector<double>{first(c), second(c)});
          }};
}

}  // namespace dtn::config
