#include "data/classes/class_order.h"

#include <algorithm>
#include <cctype>
#include <compare>
#include <string>
#include <string_view>

#include "core/text.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// Removes the leading digits from a text and returns them without leading zeros.
std::string_view take_digits(std::string_view& text) {
  const auto end = std::ranges::find_if_not(text, is_digit);
  std::string_view digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

// Removes the leading characters that are no digits from a text and returns them in lower case.
std::string take_letters(std::string_view& text) {
  const auto end = std::ranges::find_if(text, is_digit);
  std::string letters(text.begin(), end);
  text.remove_prefix(letters.size());
  std::ranges::transform(letters, letters.begin(), lower);
  return letters;
}

int sign_of(std::strong_ordering order) { return order < 0 ? -1 : order > 0 ? 1 : 0; }

// Returns a value below, equal to or above 0 if a comes before, is equal to or comes after b. As in
// timm, names are lists of alternating texts and numbers, and their parts are compared as a whole.
int compare_naturally(std::string_view a, std::string_view b) {
  while (!a.empty() || !b.empty()) {
    const std::string letters = take_letters(a), others = take_letters(b);
    if (letters != others) return sign_of(letters <=> others);
    const std::string_view x = take_digits(a), y = take_digits(b);
    if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
    if (x != y) return sign_of(x <=> y);
  }
  return 0;
}

}  // namespace

void sort_class_names(std::vector<std::string>& names, ClassOrder order) {
  std::ranges::sort(names, [order](const std::string& a, const std::string& b) {
    const int natural = order == ClassOrder::kNatural ? compare_naturally(a, b) : 0;
    return natural != 0 ? natural < 0 : a < b;
  });
}

std::string listed_names(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) {
    text += cat(i > 0 ? ", '" : "'", names[i], "'");
  }
  if (names.size() <= kShown) return text;
  const std::size_t others = names.size() - kShown;
  return cat(text, " and ", others, others == 1 ? " other" : " others");
}

std::int64_t number_of_class(const std::string& name) {
  constexpr std::size_t kMaxDigits = 6;
  if (name.empty() || name.size() > kMaxDigits || (name.size() > 1 && name[0] == '0')) return -1;
  return is_digit(name[0]) ? parse_number<std::int64_t>(name).value_or(-1) : -1;
}

void warn_of_class_order(std::vector<std::string> names, const DataConfig& data,
                         const std::string& where) {
  const auto is_number = [](const std::string& name) { return number_of_class(name) >= 0; };
  if (data.class_order || !std::ranges::all_of(names, is_number)) return;
  sort_class_names(names, ClassOrder::kBytes);
  std::vector<std::string> natural = names;
  sort_class_names(natural, ClassOrder::kNatural);
  const auto [byte, number] = std::ranges::mismatch(names, natural);
  if (byte == names.end()) return;
  const auto label = byte - names.begin();
  log_warn(
      cat(where, ": the names of the classes are numbers, but they are sorted as text: label ",
          label, " is '", *byte, "'. If the weights sort them as numbers, as timm does (label ",
          label, " is '", *number,
          "'), set data.class_order: natural; to keep this order, set data.class_order: bytes"));
}

}  // namespace dtn
