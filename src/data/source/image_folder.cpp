#include "data/source/image_folder.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/format.h"
#include "data/classes/class_order.h"
#include "data/source/name_list.h"
#include "data/source/split_folders.h"
#include "data/table/listed_images.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/data/datasets.h"
#include "io/file.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 16;  // nested folders

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

[[noreturn]] void fail_listing(const fs::path& folder, const std::error_code& error) {
  throw DataError(cat("cannot list ", folder.string(), ": ", error.message()));
}

// Throws DataError for a link whose target does not exist.
void check_link(const fs::directory_entry& entry) {
  std::error_code ignored;
  if (!entry.is_symlink(ignored) || fs::exists(entry.path(), ignored)) return;
  throw DataError(cat(entry.path().string(), ": is a link to ",
                      fs::read_symlink(entry.path(), ignored).string(),
                      ", which does not exist; restore that file, or remove the link"));
}

// Returns "train ", or nothing if data.split divides the images later.
std::string kind_of(const DataConfig& data, Split split) {
  return data.split ? "" : cat(name_of(split), " ");
}

// Returns the names of the folders in `folder`, in byte order.
std::vector<std::string> class_folders(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (is_hidden(it->path())) continue;
    if (it->is_directory(ignored)) names.push_back(it->path().filename().string());
    check_link(*it);
  }
  if (error) fail_listing(folder, error);
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::vector<std::string> list_images(const fs::path& folder, LeftOut& left_out) {
  std::vector<std::string> files;
  std::error_code error;
  const std::string& name = folder.native();
  const std::size_t prefix = name.size() + (name.ends_with('/') ? 0 : 1);
  fs::recursive_directory_iterator it(folder, fs::directory_options::follow_directory_symlink,
                                      error);
  for (fs::recursive_directory_iterator end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const fs::path& path = it->path();
    if (is_hidden(path)) {
      it.disable_recursion_pending();
    } else if (it.depth() > kMaxDepth) {
      throw DataError(cat(path.string(), ": more than ", kMaxDepth,
                          " folders deep; does a link lead in a circle?"));
    } else if (it->is_regular_file(ignored)) {
      if (is_image_name(path.native())) {
        files.push_back(path.native().substr(prefix));
      } else {
        left_out.add_file(path.native());
      }
    } else {
      check_link(*it);
    }
  }
  if (error) fail_listing(folder, error);
  std::ranges::sort(files, comes_before);
  return files;
}

namespace {

// Counts the images beside the class folders, which belong to no class.
void count_loose_images(const fs::path& folder, LeftOut& left_out) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const bool is_image = !is_hidden(it->path()) && is_image_name(it->path().native());
    if (!is_image || !it->is_regular_file(ignored)) continue;
    left_out.add("image outside a class folder", "images outside a class folder");
  }
}

// The treatment of class folders without an image.
enum class EmptyClasses { kAreErrors, kAreNoted };

class ImageFolder final : public Dataset {
 public:
  // Reads the folders of the classes `labels`, which are in byte order of the class names. `kind`
  // is empty or ends with a blank.
  ImageFolder(const fs::path& folder, std::vector<std::string> classes,
              std::span<const std::int64_t> labels, const std::string& kind, EmptyClasses empty)
      : folder_(folder.string()) {
    LeftOut left_out;
    count_loose_images(folder, left_out);
    std::vector<std::string> without;
    for (std::int64_t label : labels) {
      const std::string& name = classes[static_cast<std::size_t>(label)];
      if (add_files(folder / name, label, left_out)) continue;
      if (empty == EmptyClasses::kAreErrors) fail_empty(folder / name, left_out);
      without.push_back(name);
    }
    if (labels_.empty()) fail_empty(folder, left_out);
    class_names_ = std::move(classes);
    num_classes_ = static_cast<std::int64_t>(class_names_.size());
    const std::size_t filled = labels.size() - without.size();
    description_ = cat(size(), " ", kind, size() == 1 ? "image of " : "images of ",
                       counted(static_cast<std::int64_t>(filled), "classes"), " in ", folder_);
    if (!without.empty()) {
      log_info(cat(folder_, ": ", without.size(),
                   without.size() == 1 ? " class folder has" : " class folders have",
                   " no images: ", listed_names(without)));
    }
    if (left_out.count() > 0) log_warn_once(left_out.warning(folder_));
  }

  // Reads the images directly in the folder, which have no class.
  ImageFolder(const fs::path& folder, const std::string& kind) : folder_(folder.string()) {
    LeftOut left_out;
    if (!add_files(folder, 0, left_out)) fail_empty(folder, left_out);
    has_labels_ = false;
    num_classes_ = 1;
    description_ = cat(size(), " ", kind, size() == 1 ? "image" : "images", " in ", folder_);
    if (left_out.count() > 0) log_warn_once(left_out.warning(folder_));
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
  // Adds the images in a folder. Returns false if it has none.
  bool add_files(const fs::path& folder, std::int64_t label, LeftOut& left_out) {
    const std::vector<std::string> files = list_images(folder, left_out);
    for (const std::string& file : files) {
      names_.add(file);
      labels_.push_back(label);
    }
    return !files.empty();
  }

  [[noreturn]] static void fail_empty(const fs::path& folder, const LeftOut& left_out) {
    const std::string kinds = left_out.kinds();
    throw DataError(cat(folder.string(), ": the folder has no images (", kImageEndings,
                        kinds.empty() ? "" : "; left out: ", kinds, "); fill it or remove it"));
  }

  void path_of(std::int64_t index, std::string& path) const {
    const auto i = static_cast<std::size_t>(index);
    path.assign(folder_).append("/");
    if (has_labels_) path.append(class_names_[static_cast<std::size_t>(labels_[i])]).append("/");
    path.append(names_[i]);
  }

  std::string folder_;
  NameList names_;  // of files below their class folder, or below folder_ if there are no classes
};

[[noreturn]] void fail_without_classes(const fs::path& folder) {
  throw DataError(cat(folder.string(), ": has no class folders; expected ", folder.string(),
                      "/<class>/<image> (see data/README.md)"));
}

// Returns the labels of the class folders `names` in `folder`, in their order. Throws DataError for
// a name that is not one of `classes`, the classes of `owner`.
std::vector<std::int64_t> labels_of_folders(const fs::path& folder,
                                            const std::vector<std::string>& names,
                                            const std::vector<std::string>& classes,
                                            const std::string& owner) {
  std::unordered_map<std::string_view, std::int64_t> label_of;
  for (const std::string& name : classes) {
    label_of.emplace(name, static_cast<std::int64_t>(label_of.size()));
  }
  DTN_CHECK(label_of.size() == classes.size(), "two classes have the same name");
  std::vector<std::int64_t> labels;
  for (const std::string& name : names) {
    const auto found = label_of.find(name);
    if (found == label_of.end()) {
      throw DataError(cat((folder / name).string(), ": '", name, "' is not among the ",
                          counted(static_cast<std::int64_t>(classes.size()), "classes"), " of ",
                          owner, "; rename the folder, or remove it"));
    }
    labels.push_back(found->second);
  }
  return labels;
}

// Logs the classes of the training split for which the validation split has no folder.
void note_missing_folders(const fs::path& folder, const std::vector<std::string>& classes,
                          std::span<const std::int64_t> labels) {
  std::vector<bool> has_folder(classes.size());
  for (std::int64_t label : labels) has_folder[static_cast<std::size_t>(label)] = true;
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (!has_folder[i]) missing.push_back(classes[i]);
  }
  if (missing.empty()) return;
  log_info(cat(folder.string(), ": has folders for ", labels.size(), " of the ", classes.size(),
               " classes of the training split, but none for ", listed_names(missing)));
}

void check_folder_count(const fs::path& folder, const std::vector<std::string>& classes,
                        const ModelConfig& model) {
  const auto of_model = static_cast<std::size_t>(model.num_classes);
  if (of_model > 0 && classes.size() > of_model) {
    throw DataError(cat((folder / classes[of_model]).string(), ": its label ", of_model,
                        " is outside [0, ", of_model, "); the data set has ", classes.size(),
                        " class folders, so set model.num_classes: ", classes.size()));
  }
  check_class_count(static_cast<std::int64_t>(classes.size()), model, folder.string());
}

}  // namespace

std::vector<std::string> class_folders_of(const std::string& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw DataError(cat(folder,
                        fs::exists(folder, ignored) ? ": is not a folder" : ": no such folder",
                        "; expected ", folder, "/<class>/<image> (see data/README.md)"));
  }
  std::vector<std::string> names = class_folders(folder);
  if (names.empty()) fail_without_classes(folder);
  return names;
}

std::unique_ptr<Dataset> open_class_folders(const std::string& folder,
                                            const std::vector<std::string>& classes) {
  const std::vector<std::int64_t> labels =
      labels_of_folders(folder, class_folders_of(folder), classes, "the model");
  return std::make_unique<ImageFolder>(folder, classes, labels, "", EmptyClasses::kAreErrors);
}

std::unique_ptr<Dataset> open_unlabelled_folder(const DataConfig& data, const ModelConfig& model,
                                                Split split) {
  if (data.labels) return open_listed_images(data, model, split);
  const fs::path folder = folder_of(data, split);
  if (!class_folders(folder).empty()) return open_image_folder(data, model, split);
  return std::make_unique<ImageFolder>(folder, kind_of(data, split));
}

std::unique_ptr<Dataset> open_image_folder(const DataConfig& data, const ModelConfig& model,
                                           Split split) {
  if (data.labels) return open_listed_images(data, model, split);
  const fs::path train_folder = train_folder_of(data), folder = folder_of(data, split);
  std::error_code ignored;
  const std::vector<std::string> folders = class_folders(folder);
  if (folders.empty()) fail_without_classes(folder);
  // The class folders of the training split decide the labels, if there are any.
  std::vector<std::string> classes;
  const bool is_val = split == Split::kVal && !data.split;
  if (is_val && fs::is_directory(train_folder, ignored)) classes = class_folders(train_folder);
  const bool by_train = !classes.empty();
  if (!by_train) classes = folders;
  const fs::path& deciding = by_train ? train_folder : folder;
  warn_of_class_order(classes, data, deciding.string());
  sort_class_names(classes, data.class_order.value_or(ClassOrder::kBytes));
  check_folder_count(deciding, classes, model);
  const std::vector<std::int64_t> labels = labels_of_folders(
      folder, folders, classes, cat("the training split, ", train_folder.string()));
  if (by_train) note_missing_folders(folder, classes, labels);
  return std::make_unique<ImageFolder>(folder, std::move(classes), labels, kind_of(data, split),
                                       is_val ? EmptyClasses::kAreNoted : EmptyClasses::kAreErrors);
}

}  // namespace dtn
