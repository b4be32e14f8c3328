// YOLO labels and names of classes: any result other than finite boxes of known classes, or a
// DataError, is a bug.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "data/yolo/labels.h"
#include "dtn/core/check.h"
#include "temp_folder.h"

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
  static const dtn::test::TempFolder folder;
  const std::string path = folder.write("names" + std::string(ending), std::string(text));
  try {
    if (dtn::read_yolo_names(path).empty()) std::abort();
  } catch (const dtn::DataError&) {
  }
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
