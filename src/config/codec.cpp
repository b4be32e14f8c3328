#include "config/codec.h"

#include <charconv>
#include <cmath>

namespace dtn::config {
namespace {

// Removes a leading plus: YAML allows it, from_chars does not.
std::string_view without_plus(std::string_view view) {
  if (view.size() > 1 && view[0] == '+' && view[1] != '-') view.remove_prefix(1);
  return view;
}

template <class T>
bool parse_whole(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && !text.empty();
}

bool is_digits(const std::string& text) {
  const std::size_t begin = text[0] == '-' || text[0] == '+' ? 1 : 0;
  return text.size() > begin && text.find_first_not_of("0123456789", begin) == std::string::npos;
}

std::int64_t integer_at(const Field& field, const Node& node) {
  std::int64_t value = 0;
  if (!node.is_scalar() || node.quoted || !parse_integer(node.text, value)) {
    if (node.is_scalar() && !node.quoted && is_digits(node.text)) {
      fail(field, "is too large: ", shown(node));
    }
    fail(field, "must be a whole number, not ", shown(node));
  }
  return value;
}

double number_at(const Field& field, const Node& node) {
  double value = 0;
  if (!node.is_scalar() || node.quoted || !parse_number(node.text, value)) {
    fail(Field{node, field.path, field.doc}, "must be a finite number, not ", shown(node));
  }
  return value;
}

// True if every YAML version reads the unquoted text as this same text.
bool is_plain(const std::string& value) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (value.empty() || !(is_letter(value[0]) || value[0] == '/')) return false;
  std::string lower;
  for (char c : value) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_letter(c) && !is_digit && std::string_view("_./-+").find(c) == std::string_view::npos) {
      return false;
    }
    lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  for (const char* word : {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}) {
    if (lower == word) return false;
  }
  return true;
}

}  // namespace

std::string describe(const Range& range) {
  const bool has_low = std::isfinite(range.low);
  const bool has_high = std::isfinite(range.high);
  const auto text = [](double bound) {
    constexpr double kLongest = 1e15;  // larger bounds are written with an exponent
    const bool whole = bound == std::floor(bound) && std::abs(bound) < kLongest;
    return whole ? std::to_string(static_cast<std::int64_t>(bound)) : number_text(bound);
  };
  if (has_low && has_high) {
    return cat("in ", range.low_open ? "(" : "[", text(range.low), ", ", text(range.high),
               range.high_open ? ")" : "]");
  }
  if (has_low) return cat(range.low_open ? "above " : "at least ", text(range.low));
  return has_high ? cat(range.high_open ? "below " : "at most ", text(range.high)) : "";
}

void check_range(const Field& field, const Range& range, double value, const std::string& written) {
  const bool low_ok = range.low_open ? value > range.low : value >= range.low;
  const bool high_ok = range.high_open ? value < range.high : value <= range.high;
  if (!low_ok || !high_ok) fail(field, "must be ", describe(range), ", not ", written);
}

bool parse_number(std::string_view text, double& value) {
  return parse_whole(without_plus(text), value) && std::isfinite(value);
}

bool parse_integer(std::string_view text, std::int64_t& value) {
  return parse_whole(without_plus(text), value);
}

std::string number_text(double value) {
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, result.ptr);
  // YAML 1.1 reads "1e-05" as text, and "1.0e-05" as a number.
  const std::size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) {
    text.insert(exponent, ".0");
  }
  return text;
}

std::string string_text(const std::string& value) {
  if (is_plain(value)) return value;
  std::string out = "\"";
  for (char c : value) {
    const unsigned char code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (code < 0x20 || code == 0x7F) {
      const char* digits = "0123456789abcdef";
      out += "\\x";
      out += digits[code >> 4];
      out += digits[code & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

void read_value(const Field& field, const Range&, bool& value) {
  const Node& node = field.node;
  if (!node.is_scalar() || node.quoted || (node.text != "true" && node.text != "false")) {
    fail(field, "must be true or false, not ", shown(node));
  }
  value = node.text == "true";
}

void read_value(const Field& field, const Range& range, std::int64_t& value) {
  const std::int64_t read = integer_at(field, field.node);
  check_range(field, range, static_cast<double>(read), field.node.text);
  value = read;
}

void read_value(const Field& field, const Range& range, int& value) {
  std::int64_t read = 0;
  read_value(field, range, read);
  if (read < std::numeric_limits<int>::min() || read > std::numeric_limits<int>::max()) {
    fail(field, "is too large: ", shown(field.node));
  }
  value = static_cast<int>(read);
}

void read_value(const Field& field, const Range&, std::uint64_t& value) {
  const Node& node = field.node;
  std::uint64_t read = 0;
  if (!node.is_scalar() || node.quoted || !parse_whole(without_plus(node.text), read)) {
    fail(field, "must be a whole number from 0 to 18446744073709551615, not ", shown(node));
  }
  value = read;
}

void read_value(const Field& field, const Range& range, double& value) {
  const double read = number_at(field, field.node);
  check_range(field, range, read, field.node.text);
  value = read;
}

void read_value(const Field& field, const Range&, std::string& value) {
  if (!field.node.is_scalar()) fail(field, "must be text, not ", shown(field.node));
  value = field.node.text;
}

void read_value(const Field& field, const Range& range, std::vector<double>& value) {
  std::vector<double> read;
  if (field.node.is_scalar()) {
    read.push_back(number_at(field, field.node));
  } else if (field.node.is_list() && !field.node.items.empty()) {
    for (const Node& item : field.node.items) read.push_back(number_at(field, item));
  } else {
    fail(field, "must be a number or a list of numbers, not ",
         field.node.is_list() ? "an empty list" : shown(field.node));
  }
  for (double v : read) check_range(field, range, v, number_text(v));
  value = std::move(read);
}

void read_value(const Field& field, const Range& range, Period& value) {
  const Node& node = field.node;
  std::string_view digits = node.text;
  Period read;
  for (const std::string_view suffix : {"epochs", "epoch"}) {
    if (!digits.ends_with(suffix)) continue;
    read.epochs = true;
    digits.remove_suffix(suffix.size());
    break;
  }
  if (!node.is_scalar() || node.quoted || !parse_integer(digits, read.count)) {
    fail(field, "must be a number of steps like 100 or of epochs like 1epoch, not ", shown(node));
  }
  check_range(field, range, static_cast<double>(read.count), node.text);
  value = read;
}

void read_value(const Field& field, const Range& range, std::vector<std::int64_t>& value) {
  if (!field.node.is_list() || field.node.items.empty()) {
    fail(field, "must be a whole number or a list of them, not ",
         field.node.is_list() ? "an empty list" : shown(field.node));
  }
  std::vector<std::int64_t> read;
  for (const Node& item : field.node.items) {
    read_value(Field{item, field.path, field.doc}, range, read.emplace_back());
  }
  value = std::move(read);
}

void read_value(const Field& field, const Range& range, ImageSize& value) {
  const Node& node = field.node;
  if (!node.is_list()) {
    int side = 0;
    read_value(field, range, side);
    value = side;
    return;
  }
  if (node.items.size() != 2) {
    fail(field, "must be one number or [height, width], not a list of ", node.items.size());
  }
  read_value(Field{node.items[0], field.path, field.doc}, range, value.height);
  read_value(Field{node.items[1], field.path, field.doc}, range, value.width);
}

std::pair<double, double> read_pair(const Field& field, const Range& range) {
  const Node& node = field.node;
  if (!node.is_list() || node.items.size() != 2) {
    fail(field, "must be a list of two numbers, not ",
         node.is_list() ? cat("a list of ", node.items.size()) : shown(node));
  }
  double values[2];
  for (int i = 0; i < 2; ++i) {
    values[i] = number_at(field, node.items[i]);
    check_range(Field{node.items[i], field.path, field.doc}, range, values[i], node.items[i].text);
  }
  return {values[0], values[1]};
}

std::size_t read_choice(const Field& field, std::span<const std::string> choices) {
  if (field.node.is_scalar()) {
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (choices[i] == field.node.text) return i;
    }
    fail(field, "must be one of ", join(choices), ", not ", shown(field.node),
         did_you_mean(field.node.text, choices));
  }
  fail(field, "must be one of ", join(choices), ", not ", shown(field.node));
}

std::string write_value(bool value) { return value ? "true" : "false"; }
std::string write_value(int value) { return std::to_string(value); }
std::string write_value(std::int64_t value) { return std::to_string(value); }
std::string write_value(std::uint64_t value) { return std::to_string(value); }
std::string write_value(double value) { return number_text(value); }
std::string write_value(const std::string& value) { return string_text(value); }

std::string write_value(const std::vector<double>& value) {
  return value.empty() ? "null" : list_text(value);
}

std::string write_value(const ImageSize& value) {
  if (value.height == value.width) return write_value(value.height);
  return cat("[", value.height, ", ", value.width, "]");
}

std::string write_value(const Period& value) {
  return std::to_string(value.count) + (value.epochs ? "epoch" : "");
}

}  // namespace dtn::config
