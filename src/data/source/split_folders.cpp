#include "data/source/split_folders.h"

#include <array>
#include <filesystem>
#include <optional>
#include <string_view>

#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kValNames = {"val", "validation", "valid"};

bool is_there(const DataConfig& data, std::string_view name) {
  std::error_code ignored;
  return fs::is_directory(fs::path(data.root) / name, ignored);
}

// Returns the first of the usual names that exists.
std::optional<std::string> usual_name(const DataConfig& data) {
  for (const std::string_view name : kValNames) {
    if (is_there(data, name)) return std::string(name);
  }
  return std::nullopt;
}

}  // namespace

std::string val_folder_of(const DataConfig& data) {
  if (data.val) return *data.val;
  std::string name = usual_name(data).value_or("val");
  if (name != "val") {
    log_info(cat(data.root, ": has no folder 'val', so its folder '", name,
                 "' is the validation split (set data.val to use another)"));
  }
  return name;
}

bool has_validation_images(const DataConfig& data) {
  if (data.dataset != "imagefolder") return has_validation(data);
  return data.val || usual_name(data);
}

void take_test_split(DataConfig& data) {
  if (data.dataset != "imagefolder" || data.val || usual_name(data) || !is_there(data, "test")) {
    return;
  }
  data.val = "test";
  log_info(cat(data.root,
               ": has no validation split, so its folder 'test' is evaluated (set data.val to use "
               "another)"));
}

}  // namespace dtn
