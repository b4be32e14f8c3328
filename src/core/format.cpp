#include "core/format.h"

#include <algorithm>
#include <cctype>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <string_view>

namespace dtn {

std::string format(const char* pattern, ...) {
  va_list args, again;
  va_start(args, pattern);
  va_copy(again, args);
  const int length = std::vsnprintf(nullptr, 0, pattern, args);
  va_end(args);
  std::string text(length > 0 ? static_cast<std::size_t>(length) : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

std::string shell_quoted(const std::string& word) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("_./=:,+-").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string noun_form(std::string plural, bool one) {
  if (one) plural.resize(plural.size() - (plural.ends_with("sses") ? 2 : 1));
  return plural;
}

std::string bytes_text(double bytes) {
  if (0 < bytes && bytes < 10000) return format(bytes == 1 ? "%.0f byte" : "%.0f bytes", bytes);
  const double mib = bytes / 1048576;
  if (mib >= 1024) return format("%.2f GiB", mib / 1024);
  return format(mib < 100 ? "%.3g MiB" : "%.0f MiB", mib);
}

}  // namespace dtn
