// YOLO labels and names of classes: any result other than finite boxes of known classes, or a
// DataError, is a bug.
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "data/yolo/labels.h"
#include "dtn/core/check.h"

namespace {

constexpr std::int64_t kClasses = 3, kWidth = 640, kHeight = 480;

void check_labels(std::string_view text) {
  for (const dtn::YoloLabel& label :
       dtn::parse_yolo_labels(text, "fuzz", kClasses, kWidth, kHeight)) {
    if (label.category < 0 || label.category >= kClasses) std::abort();
    for (const double value : label.box) {
      if (!(std::abs(value) <= 2 * kWidth)) std::abort();
    }
    if (!(std::abs(label.area) <= 2 * kWidth * kHeight * (1 + label.corners.size()))) std::abort();
    if (!label.corners.empty() && label.corners.size() < 3) std::abort();
  }
}

void check_names(std::string_view text, const char* ending) {
  static const std::filesystem::path stem =
      std::filesystem::temp_directory_path() / ("fuzz_yolo_" + std::to_string(::getpid()));
  const std::filesystem::path path = stem.string() + ending;
  std::ofstream(path, std::ios::binary) << text;
  try {
    if (dtn::read_yolo_names(path).empty()) std::abort();
  } catch (const dtn::DataError&) {
  }
  std::filesystem::remove(path);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    check_labels(text);
  } catch (const dtn::DataError&) {
  }
  check_names(text, ".yaml");
  check_names(text, ".txt");
  return 0;
}
