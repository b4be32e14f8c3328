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

[[noreturn]] void fail_without_folder(const DataConfig& data, const fs::path& folder, Split split) {
  const char* images = data.labels ? "/<image>" : "/<class>/<image>";
  const char* hold_out = ", or data.split to hold out a part of the training images";
  throw DataError(cat("no such folder: ", folder.string(), "; set data.root, and data.",
                      name_of(split), " if the folder has another name",
                      split == Split::kVal ? hold_out : "", "; expected ", folder.string(), images,
                      " (see data/README.md)"));
}

// Throws DataError if there is a validation split, which leaves data.split nothing to do.
void check_holds_out(const DataConfig& data) {
  const std::optional<std::string> val = data.val ? data.val : usual_name(data);
  if (!val) return;
  const std::string folder = (fs::path(data.root) / *val).string();
  throw DataError(cat("data.split is ", *data.split, ", but there is a validation split, ", folder,
                      "; unset data.split to use it, or ",
                      data.val ? "unset data.val" : "move it elsewhere"));
}

}  // namespace

fs::path train_folder_of(const DataConfig& data) {
  const fs::path root = data.root;
  const bool may_be_root = (data.labels || data.split) && !data.train && !is_there(data, "train");
  return may_be_root ? root : root / data.train.value_or("train");
}

fs::path folder_of(const DataConfig& data, Split split) {
  if (data.split) check_holds_out(data);
  const bool of_train = split == Split::kTrain || data.split;
  fs::path folder = of_train ? train_folder_of(data) : fs::path(data.root) / val_folder_of(data);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) fail_without_folder(data, folder, split);
  return folder;
}

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
  return data.val || data.split || usual_name(data);
}

bool has_training_images(const DataConfig& data) {
  std::error_code ignored;
  return data.dataset != "imagefolder" || fs::is_directory(train_folder_of(data), ignored);
}

void take_test_split(DataConfig& data) {
  if (data.dataset != "imagefolder" || data.val || data.split) return;
  if (usual_name(data) || !is_there(data, "test")) return;
  data.val = "test";
  log_info(cat(data.root,
               ": has no validation split, so its folder 'test' is evaluated (set data.val to use "
               "another)"));
}

}  // namespace dtn
