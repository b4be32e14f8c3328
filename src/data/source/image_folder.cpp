#include <algorithm>
#include <filesystem>
#include <numeric>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "data/source/image_files.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/data/datasets.h"
#include "io/file.h"

namespace dtn {

namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

[[noreturn]] void fail_listing(const fs::path& folder, const std::error_code& error) {
  throw DataError(cat("cannot list ", folder.string(), ": ", error.message()));
}

// Names of the folders in `folder`, in byte order.
std::vector<std::string> class_folders(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (!is_hidden(it->path()) && it->is_directory(ignored)) {
      names.push_back(it->path().filename().string());
    }
  }
  if (error) fail_listing(folder, error);
  std::ranges::sort(names);
  return names;
}

std::string quoted_or_none(const std::vector<std::string>& names, std::size_t i) {
  return i < names.size() ? cat("'", names[i], "'") : std::string("nothing");
}

// Labels are positions in the list of classes, so the two splits must agree on it.
void check_same_classes(const std::vector<std::string>& val, const fs::path& val_folder,
                        const fs::path& train_folder) {
  std::error_code ignored;
  if (!fs::is_directory(train_folder, ignored)) return;
  std::vector<std::string> train = class_folders(train_folder);
  if (train.empty() || train == val) return;
  std::size_t i = 0;
  while (i < train.size() && i < val.size() && train[i] == val[i]) ++i;
  throw DataError(cat("the class folders of ", val_folder.string(), " and ", train_folder.string(),
                      " differ: class ", i, " is ", quoted_or_none(val, i), " in the former and ",
                      quoted_or_none(train, i),
                      " in the latter; both must have the same, or labels would be mixed up"));
}

class ImageFolder final : public Dataset {
 public:
  // Of `classes`, those that `labels` numbers have a folder; `kind` ends in a blank or is empty.
  ImageFolder(const fs::path& folder, std::vector<std::string> classes,
              std::span<const std::int64_t> labels, const std::string& kind)
      : folder_(folder.string()) {
    std::int64_t undecodable = 0;
    for (std::int64_t label : labels) {
      add_class(folder / classes[static_cast<std::size_t>(label)], label, undecodable);
    }
    class_names_ = std::move(classes);
    num_classes_ = static_cast<std::int64_t>(class_names_.size());
    description_ = cat(size(), " ", kind, "images of ", labels.size(), " classes in ", folder_);
    if (undecodable > 0) {
      log_warn(cat(folder_, ": left out ", undecodable,
                   " images in formats that cannot be read (.tif and .tiff)"));
    }
  }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    path_of(index, workspace.name);
    read_file_into(workspace.name, workspace.bytes);
    return {.encoded = workspace.bytes, .image = nullptr, .ready = {}};
  }

  std::string sample_name(std::int64_t index) const override {
    std::string path;
    path_of(index, path);
    return path;
  }

  std::string item_name(std::int64_t index) const override {
    return sample_name(index).substr(folder_.size() + 1);
  }

 private:
  void add_class(const fs::path& folder, std::int64_t label, std::int64_t& undecodable) {
    std::int64_t before = undecodable;
    std::vector<std::string> files = list_images(folder, undecodable);
    if (files.empty()) {
      throw DataError(cat(folder.string(),
                          ": the class folder has no images (.jpg, .jpeg, .png, "
                          ".webp, .bmp, .ppm or .pgm; ",
                          undecodable - before,
                          " in formats that cannot be read); fill it or remove it"));
    }
    for (const std::string& file : files) {
      starts_.push_back(names_.size());
      names_ += file;
      labels_.push_back(label);
    }
  }

  void path_of(std::int64_t index, std::string& path) const {
    std::size_t i = static_cast<std::size_t>(index);
    std::size_t end = i + 1 < starts_.size() ? starts_[i + 1] : names_.size();
    path.assign(folder_).append("/").append(class_names_[static_cast<std::size_t>(labels_[i])]);
    path.append("/").append(names_, starts_[i], end - starts_[i]);
  }

  std::string folder_;
  // File names below their class folder, one behind the other: a million strings would take
  // several times the memory.
  std::string names_;
  std::vector<std::size_t> starts_;
};

[[noreturn]] void fail_without_classes(const fs::path& folder) {
  throw DataError(cat(folder.string(), ": has no class folders; expected is ", folder.string(),
                      "/<class>/<image> (see data/README.md)"));
}

}  // namespace

std::vector<std::string> class_folders_of(const std::string& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw DataError(cat(folder,
                        fs::exists(folder, ignored) ? ": is not a folder" : ": no such folder",
                        "; expected is ", folder, "/<class>/<image> (see data/README.md)"));
  }
  std::vector<std::string> names = class_folders(folder);
  if (names.empty()) fail_without_classes(folder);
  return names;
}

std::unique_ptr<Dataset> open_class_folders(const std::string& folder,
                                            const std::vector<std::string>& classes) {
  std::unordered_map<std::string_view, std::int64_t> label_of;
  for (const std::string& name : classes) {
    label_of.emplace(name, static_cast<std::int64_t>(label_of.size()));
  }
  DTN_CHECK(label_of.size() == classes.size(), "a class is named twice");
  std::vector<std::int64_t> labels;
  for (const std::string& name : class_folders_of(folder)) {
    auto found = label_of.find(name);
    if (found == label_of.end()) {
      throw DataError(cat(folder, "/", name, ": '", name, "' is none of the ", classes.size(),
                          " classes, '", classes.front(), "' to '", classes.back(), "'"));
    }
    labels.push_back(found->second);
  }
  return std::make_unique<ImageFolder>(folder, classes, labels, "");
}

std::unique_ptr<Dataset> open_image_folder(const DataConfig& data, const ModelConfig& model,
                                           Split split) {
  fs::path root(data.root);
  fs::path train_folder = root / data.train.value_or("train");
  fs::path folder = split == Split::kTrain ? train_folder : root / data.val.value_or("val");
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw DataError(cat("no such folder: ", folder.string(), "; set data.root, and data.",
                        name_of(split), " if it is called otherwise; expected is ", folder.string(),
                        "/<class>/<image> (see data/README.md)"));
  }
  std::vector<std::string> classes = class_folders(folder);
  if (classes.empty()) fail_without_classes(folder);
  if (split == Split::kVal) check_same_classes(classes, folder, train_folder);
  std::size_t model_classes =
      model.num_classes > 0 ? static_cast<std::size_t>(model.num_classes) : classes.size();
  if (classes.size() > model_classes) {
    throw DataError(cat((folder / classes[model_classes]).string(), ": class index ", model_classes,
                        " is its label, outside [0, ", model_classes, "); there are ",
                        classes.size(), " class folders, set model.num_classes to that"));
  }
  if (classes.size() < model_classes) {
    log_warn(cat(folder.string(), ": has ", classes.size(), " classes, model.num_classes is ",
                 model_classes, "; labels number the folders that are there"));
  }
  std::vector<std::int64_t> labels(classes.size());
  std::iota(labels.begin(), labels.end(), std::int64_t{0});
  return std::make_unique<ImageFolder>(folder, std::move(classes), labels,
                                       cat(name_of(split), " "));
}

}  // namespace dtn
