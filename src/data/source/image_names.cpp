#include "data/source/image_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "core/format.h"
#include "core/text.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr std::size_t kMaxEnding = 12;  // characters
constexpr std::size_t kMaxKinds = 8;    // named in a warning

// Returns the kind of a file: its ending in lower case, or a text if it has none.
std::string kind_of(std::string_view name) {
  const std::string ending = lower_ending(name);
  if (ending.size() < 2) return "without an extension";
  const bool is_plain = ending.size() <= kMaxEnding &&
                        std::all_of(ending.begin() + 1, ending.end(),
                                    [](unsigned char c) { return std::isalnum(c) != 0; });
  return is_plain ? ending : "with other extensions";
}

}  // namespace

std::string lower_ending(std::string_view file) {
  file = base_name(file);
  const std::size_t dot = file.rfind('.');
  return lowered(std::string(dot == file.npos ? std::string_view() : file.substr(dot)));
}

bool is_image_name(std::string_view file) {
  constexpr std::array<std::string_view, 14> kEndings = {".jpg",  ".jpeg", ".jpe", ".jfif", ".png",
                                                         ".webp", ".gif",  ".bmp", ".ppm",  ".pgm",
                                                         ".tga",  ".psd",  ".hdr", ".pic"};
  return std::ranges::find(kEndings, lower_ending(file)) != kEndings.end();
}

bool is_hidden_path(std::string_view path) {
  return path.starts_with('.') || path.find("/.") != path.npos;
}

bool comes_before(std::string_view a, std::string_view b) {
  auto split = [](std::string_view path) {
    const std::size_t slash = path.rfind('/');
    return slash == path.npos ? std::pair(std::string_view(), path)
                              : std::pair(path.substr(0, slash), path.substr(slash + 1));
  };
  return split(a) < split(b);
}

std::string images_of_classes(const Dataset& dataset, const char* split, const std::string& where) {
  return cat(dataset.size(), " ", split, dataset.size() == 1 ? " image " : " images ",
             dataset.ready_fields().has("labels") ? "with labels of " : "of ",
             counted(dataset.num_classes(), "classes"), " in ", where);
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

void LeftOut::add_file(std::string_view name) {
  const std::string kind = kind_of(name);
  add(kind, kind);
}

void LeftOut::add(const std::string& one, const std::string& many, std::int64_t files) {
  if (files == 0) return;
  Kind& kind = kinds_[many];
  kind.one = one;
  kind.files += files;
  count_ += files;
}

void LeftOut::add(const LeftOut& other) {
  for (const auto& [many, kind] : other.kinds_) add(kind.one, many, kind.files);
}

std::string LeftOut::kinds() const {
  std::vector<std::pair<std::string, Kind>> sorted(kinds_.begin(), kinds_.end());
  std::ranges::sort(sorted, [](const auto& a, const auto& b) {
    return a.second.files != b.second.files ? a.second.files > b.second.files : a.first < b.first;
  });
  std::string text;
  std::int64_t left = count_;
  for (std::size_t i = 0; i < sorted.size() && i < kMaxKinds; ++i) {
    const auto& [many, kind] = sorted[i];
    text += cat(i > 0 ? ", " : "", kind.files, " ", kind.files == 1 ? kind.one : many);
    left -= kind.files;
  }
  return left > 0 ? cat(text, ", ", left, " others") : text;
}

std::string LeftOut::warning(const std::string& where) const {
  if (count_ == 0) return "";
  return cat(where, ": left out ", kinds(), "; images are read from ", kImageEndings);
}

}  // namespace dtn
