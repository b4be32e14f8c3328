// Splits and parses text.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtn {

// Returns the parts between separators, one more than there are separators.
std::vector<std::string_view> split(std::string_view text, char separator);

// Removes the first line from a text and returns it without its line break, LF or CRLF.
std::string_view take_line(std::string_view& text);

// Returns the number that the whole text spells; nothing for other text or a number outside of T.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

// Returns the text in lower case.
std::string lowered(std::string text);

}  // namespace dtn
