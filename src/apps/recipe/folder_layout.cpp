#include "apps/recipe/folder_layout.h"

#include <algorithm>
#include <array>
#include <optional>

#include "core/format.h"
#include "core/text.h"
#include "data/source/image_names.h"
#include "data/source/split_folders.h"
#include "data/table/label_table.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "io/file.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

constexpr double kHeldOut = 0.2;

bool is_table(const fs::path& file) {
  const std::string ending = lower_ending(file.filename().string());
  return ending == ".csv" || ending == ".tsv";
}

std::vector<fs::path> files_in(const fs::path& folder, bool (*wanted)(const fs::path&)) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const bool is_hidden = it->path().filename().string().starts_with('.');
    if (!is_hidden && it->is_regular_file(error) && wanted(it->path())) files.push_back(it->path());
  }
  if (error) throw DataError(cat(folder.string(), ": cannot list it: ", error.message()));
  std::ranges::sort(files);
  return files;
}

// Returns the table of a folder: labels.csv or labels.tsv, or else the only one.
std::optional<fs::path> table_in(const fs::path& folder) {
  const std::vector<fs::path> tables = files_in(folder, is_table);
  const auto named =
      std::ranges::find(tables, "labels", [](const fs::path& p) { return p.stem(); });
  if (named != tables.end()) return *named;
  if (tables.size() < 2) return tables.empty() ? std::nullopt : std::optional(tables.front());
  std::string names;
  for (const fs::path& table : tables) {
    names += cat(names.empty() ? "" : ", ", table.filename().string());
  }
  throw DataError(cat(folder.string(), ": has several tables (", names,
                      "); call the one with the labels labels.csv"));
}

// A table with labels of images that exist.
struct FoundTable {
  fs::path file;
  bool any_number = false;  // an image has several labels, or none
};

// Reads the table of a folder. Returns nothing if there is none, or if it does not list images
// below the folder although there are class folders.
std::optional<FoundTable> labels_in(const fs::path& folder, bool has_class_folders) {
  const std::optional<fs::path> file = table_in(folder);
  if (!file) return std::nullopt;
  try {
    const LabelTable table = read_label_table(FileSource(file->string()), LabelsPerImage::kAny);
    const bool exists = fs::exists(folder / table.paths[0]);
    if (!exists && has_class_folders) return std::nullopt;
    const bool one_each = std::ranges::all_of(table.text_of, [&](std::int32_t of) {
      return table.combinations[static_cast<std::size_t>(of)].size() == 1;
    });
    return FoundTable{*file, !one_each};
  } catch (const DataError&) {
    if (has_class_folders) return std::nullopt;
    throw;
  }
}

bool has_class_folders(const fs::path& folder) {
  try {
    class_folders_of(folder.string());
    return true;
  } catch (const DataError&) {
    return false;
  }
}

// Throws DataError if a folder without `train` has folders that look like splits: they would be
// taken for classes.
void check_no_splits(const fs::path& root) {
  for (const std::string& name : class_folders_of(root.string())) {
    const std::string lower = lowered(name);
    const bool is_split = std::ranges::any_of(
        std::array{"train", "training", "val", "valid", "validation", "test", "testing"},
        [&](const char* split) { return lower == split; });
    if (!is_split || !has_class_folders(root / name)) continue;
    throw DataError(cat((root / name).string(),
                        ": has class folders of its own, so it looks like a split and not like a "
                        "class. Put the images to learn from into ",
                        (root / "train").string(),
                        "/<class>/, and those to judge by into val or test beside it"));
  }
}

bool is_tar(const fs::path& file) { return lower_ending(file.filename().string()) == ".tar"; }

// Uses the validation split if there is one, else holds out a part of the training images.
void divide(FolderLayout& layout) {
  DataConfig& data = layout.data;
  const fs::path root = data.root;
  if (has_validation_images(data)) {
    layout.notes.push_back(cat("validation: ", (root / val_folder_of(data)).string()));
    return;
  }
  data.split = kHeldOut;
  layout.notes.push_back(
      cat("validation: a fifth of the images, chosen by the seed and the names of the files"));
  std::error_code ignored;
  const bool apart = fs::is_directory(root / "train", ignored) && !data.train;
  if (apart && fs::is_directory(root / "test", ignored)) {
    layout.notes.push_back(cat((root / "test").string(),
                               " is left for a last test: dtn-eval RUN "
                               "--set data.split=null --set data.val=test"));
  }
}

FolderLayout of_table(const fs::path& root, const FoundTable& table, bool in_root) {
  FolderLayout layout;
  layout.data.root = root.string();
  layout.data.labels = table.file.filename().string();
  std::error_code ignored;
  if (in_root && fs::is_directory(root / "train", ignored)) layout.data.train = ".";
  layout.notes.push_back(cat("labels: ", table.file.string()));
  if (table.any_number) {
    layout.task = "multilabel";
    layout.notes.push_back(
        "task: multilabel, because an image of the table has several labels or none");
  }
  divide(layout);
  return layout;
}

FolderLayout of_class_folders(const fs::path& root, const fs::path& train) {
  FolderLayout layout;
  layout.data.root = root.string();
  layout.notes.push_back(cat("labels: the folders in ", train.string()));
  for (const fs::path& table : files_in(train, is_table)) {
    layout.notes.push_back(cat(table.string(), " is not used, because there are class folders"));
  }
  divide(layout);
  return layout;
}

FolderLayout of_shards(const fs::path& root) {
  FolderLayout layout;
  layout.data.dataset = "webdataset";
  layout.data.root = root.string();
  const auto any = [&](const char* part) {
    return std::ranges::any_of(files_in(root, is_tar), [&](const fs::path& file) {
      return file.filename().string().find(part) != std::string::npos;
    });
  };
  if (!any("train") || !any("val")) {
    throw DataError(cat(root.string(),
                        ": has shards, but not of both splits; name them *train*.tar and "
                        "*val*.tar, or write a config (data.train, data.val)"));
  }
  layout.notes.push_back(cat("labels: in the shards ", (root / "*train*.tar").string()));
  ModelConfig model;
  model.num_classes = 0;  // any number
  if (open_any_webdataset(layout.data, model, Split::kTrain)->ready_fields().has("labels")) {
    layout.task = "multilabel";
    layout.notes.push_back(
        "task: multilabel, because an image of the shards has several labels or none");
  }
  layout.notes.push_back(cat("validation: ", (root / "*val*.tar").string()));
  return layout;
}

}  // namespace

FolderLayout find_layout(const fs::path& folder) {
  const fs::path root = fs::canonical(folder);
  std::error_code ignored;
  const bool has_train = fs::is_directory(root / "train", ignored);
  const fs::path train = has_train ? root / "train" : root;
  const bool class_folders = has_class_folders(train);
  if (const auto table = labels_in(train, class_folders)) return of_table(root, *table, !has_train);
  if (class_folders) {
    if (!has_train) check_no_splits(root);
    return of_class_folders(root, train);
  }
  if (has_train) {
    if (const auto table = labels_in(root, false)) return of_table(root, *table, true);
  }
  if (!files_in(root, is_tar).empty()) return of_shards(root);
  throw DataError(cat(folder.string(),
                      ": has neither class folders nor a table of labels. Make a folder for each "
                      "class (",
                      folder.string(), "/cat/1.jpg), or a table ", folder.string(),
                      "/labels.csv with the columns path and label"));
}

}  // namespace dtn::app
