#include "plot/text.h"

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn::plot {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Advance widths of DejaVu Sans from space to tilde, in thousandths of the text size.
constexpr short kAdvances[] = {
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361,  318, 337, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632,
    575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635,  611, 732, 684, 989, 685,
    611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352,  635, 634, 278, 278, 579,
    278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592,  525, 636, 337, 636, 838};

double advance(std::string_view character) {
  const unsigned char c = static_cast<unsigned char>(character[0]);
  if (c >= 0x20 && c < 0x7F) return kAdvances[c - 0x20] / 1000.0;
  return c < 0xE0 ? 0.65 : 1.0;  // letters of alphabets; signs and ideographs
}

std::string without_trailing_zeros(std::string text) {
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text == "-0" ? "0" : text;
}

}  // namespace

std::size_t character_bytes(std::string_view text) {
  const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = at(0);
  const std::size_t n = first < 0x80                     ? 1
                        : first >= 0xC2 && first <= 0xDF ? 2
                        : first >= 0xE0 && first <= 0xEF ? 3
                        : first >= 0xF0 && first <= 0xF4 ? 4
                                                         : 0;
  if (n == 0 || n > text.size()) return 0;
  for (std::size_t i = 1; i < n; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  if ((first == 0xE0 && at(1) < 0xA0) || (first == 0xED && at(1) > 0x9F) ||
      (first == 0xF0 && at(1) < 0x90) || (first == 0xF4 && at(1) > 0x8F)) {
    return 0;
  }
  return n;
}

std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t n = character_bytes(text);
    const unsigned char c = static_cast<unsigned char>(text[0]);
    if (n == 0 || (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F) {
      out += kReplacement;
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else {
      out += text.substr(0, n);
    }
    text.remove_prefix(n ? n : 1);
  }
  return out;
}

std::string coordinate(double value) {
  DTN_CHECK(std::isfinite(value) && std::abs(value) < 1e9, "a coordinate of ", value);
  return without_trailing_zeros(format("%.2f", value));
}

std::string readable(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-4 || size >= 1e7)) return format("%.*e", digits - 1, value);
  const int whole = size < 1 ? 0 : static_cast<int>(std::floor(std::log10(size))) + 1;
  const int leading = size >= 0.1 || size == 0 ? 0 : -static_cast<int>(std::ceil(std::log10(size)));
  std::string text = format("%.*f", whole >= digits ? 0 : digits - whole + leading, value);
  return without_trailing_zeros(std::move(text));
}

double text_width(std::string_view text, double size) {
  double width = 0;
  while (!text.empty()) {
    width += advance(text) * size;
    const std::size_t n = character_bytes(text);
    text.remove_prefix(n ? n : 1);
  }
  return width;
}

std::string fitted(std::string_view text, double size, double width) {
  if (text_width(text, size) <= width) return std::string(text);
  const double room = width - size;  // leaves room for the ellipsis
  std::size_t end = 0;
  for (double used = 0; end < text.size();) {
    used += advance(text.substr(end)) * size;
    if (used > room) break;
    const std::size_t n = character_bytes(text.substr(end));
    end += n ? n : 1;
  }
  while (end > 0 && text[end - 1] == ' ') --end;
  return std::string(text.substr(0, end)) + "\xE2\x80\xA6";
}

std::vector<std::string> wrapped(std::string_view text, double size, double width,
                                 std::size_t lines) {
  std::vector<std::string> out;
  while (out.size() + 1 < lines && text_width(text, size) > width) {
    std::size_t end = 0, best = 0;  // ends of the text that fits: any place, a good place to break
    for (double used = 0; end < text.size();) {
      used += advance(text.substr(end)) * size;
      if (used > width) break;
      const char c = text[end];
      const std::size_t n = character_bytes(text.substr(end));
      end += n ? n : 1;
      if (c == ' ' || c == '_' || c == '-' || c == '/' || c == '.') best = end;
    }
    if (best == 0) best = end;
    if (best == 0) break;  // not even one character fits
    out.emplace_back(text.substr(0, best));
    text.remove_prefix(best);
  }
  out.push_back(fitted(text, size, width));
  return out;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += i + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

}  // namespace dtn::plot
