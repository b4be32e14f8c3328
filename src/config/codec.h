// Reads and writes config values of each C++ type. A value that is written and read again is the
// same, bit for bit.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/document.h"
#include "dtn/config/train_config.h"

namespace dtn::config {

// A value to read, and its key.
struct Field {
  const Node& node;
  const std::string& path;
  const std::string& doc;
};

// Throws an error at the value's position: "<path> <args...> (<doc>)".
template <class... Args>
[[noreturn]] void fail(const Field& field, const Args&... args) {
  fail(field.node.where, field.path, " ", args...,
       field.doc.empty() ? std::string() : cat(" (", field.doc, ")"));
}

struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;
  bool high_open = false;
};
constexpr Range at_least(double low) { return {.low = low}; }
constexpr Range above(double low) { return {.low = low, .low_open = true}; }
constexpr Range between(double low, double high) { return {.low = low, .high = high}; }
constexpr Range fraction() { return {.low = 0, .high = 1, .high_open = true}; }          // [0, 1)
constexpr Range positive_fraction() { return {.low = 0, .high = 1, .low_open = true}; }  // (0, 1]
constexpr Range inner_fraction() {
  return {.low = 0, .high = 1, .low_open = true, .high_open = true};
}  // (0, 1)

// Returns for instance "in [0, 1)" or "at least 0"; empty for the range of all numbers.
std::string describe(const Range& range);
void check_range(const Field& field, const Range& range, double value, const std::string& written);

// Parse the whole string. Return false if `text` is not a number of this type, or out of range.
bool parse_number(std::string_view text, double& value);
bool parse_integer(std::string_view text, std::int64_t& value);
// Returns the shortest text that reads back as the same value.
std::string number_text(double value);
// Returns plain text if YAML reads it back unchanged; otherwise quotes and escapes it.
std::string string_text(const std::string& value);

void read_value(const Field& field, const Range& range, bool& value);
void read_value(const Field& field, const Range& range, int& value);
void read_value(const Field& field, const Range& range, std::int64_t& value);
void read_value(const Field& field, const Range& range, std::uint64_t& value);
void read_value(const Field& field, const Range& range, double& value);
void read_value(const Field& field, const Range& range, std::string& value);
void read_value(const Field& field, const Range& range, std::vector<double>& value);
void read_value(const Field& field, const Range& range, Period& value);
void read_value(const Field& field, const Range& range, ImageSize& value);
void read_value(const Field& field, const Range& range, std::vector<std::int64_t>& value);
// Reads one number, or a list with one number for each stage.
template <class T>
void read_value(const Field& field, const Range& range, PerStage<T>& value) {
  if (!field.node.is_list()) {
    T one{};
    read_value(field, range, one);
    value = one;
    return;
  }
  if (field.node.items.empty())
    fail(field, "must be a number or a list of them, not an empty list");
  std::vector<T> each;
  for (const Node& item : field.node.items) {
    read_value(Field{item, field.path, field.doc}, range, each.emplace_back());
  }
  value = PerStage<T>(std::move(each));
}
// Reads a list of exactly two numbers.
std::pair<double, double> read_pair(const Field& field, const Range& range);
// Returns the index of the scalar's text in `choices`. Quoted text is allowed too.
std::size_t read_choice(const Field& field, std::span<const std::string> choices);

std::string write_value(bool value);
std::string write_value(int value);
std::string write_value(std::int64_t value);
std::string write_value(std::uint64_t value);
std::string write_value(double value);
std::string write_value(const std::string& value);
std::string write_value(const std::vector<double>& value);  // empty: null
std::string write_value(const Period& value);
std::string write_value(const ImageSize& value);

template <class T>
std::string list_text(const std::vector<T>& values) {  // [1, 2]
  return cat("[", join(values, ", ", [](const T& v) { return write_value(v); }), "]");
}
inline std::string write_value(const std::vector<std::int64_t>& value) { return list_text(value); }
template <class T>
std::string write_value(const PerStage<T>& value) {
  return value.is_list() ? list_text(value.values()) : write_value(value.at(0));
}

template <class T>
void read_value(const Field& field, const Range& range, std::optional<T>& value) {
  T inner{};
  read_value(field, range, inner);
  value = std::move(inner);
}
template <class T>
std::string write_value(const std::optional<T>& value) {
  return value ? write_value(*value) : "null";
}

}  // namespace dtn::config
