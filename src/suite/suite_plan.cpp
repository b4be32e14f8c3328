#include "suite/suite_plan.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>

#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/data/datasets.h"
#include "io/file.h"
#include "suite/suite_folders.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

using Names = std::set<std::string>;

std::vector<SuiteFolder> folders_of(const SuiteOptions& options) {
  if (options.suite == Suite::kImageNetC) return corruption_folders(options.root);
  return {{"renditions", options.root}};
}

Names class_folders(const std::vector<SuiteFolder>& folders) {
  Names names;
  for (const SuiteFolder& folder : folders) {
    for (std::string& name : class_folders_of(folder.path)) names.insert(std::move(name));
  }
  return names;
}

// A split of the config's data set, or null and why.
std::shared_ptr<const Dataset> try_open(const ExperimentConfig& config, Split split,
                                        const DataRegistries& registries, std::string& why) {
  try {
    return open_dataset(config.data, config.model, split, config.seed, registries.datasets);
  } catch (const DataError& e) {
    why = e.what();
    return nullptr;
  }
}

// Finds out what the model's classes are called.
class Classes {
 public:
  Classes(const ExperimentConfig& config, const SuiteOptions& options, const Names& folders)
      : config_(config), registries_(*options.registries), folders_(folders) {
    clean_ = try_open(config, Split::kVal, registries_, no_clean_);
    if (!options.classes.empty()) {
      use(read_class_list(options.classes, config.model.num_classes), options.classes.string());
    } else if (!use_dataset(clean_, true) && !use_training() && !use_imagenet() && !use_folders() &&
               !use_dataset(clean_, false)) {
      fail();
    }
    log_info(cat("classes: ", names_.size(), ", those of ", source_));
    check_folders();
  }

  std::vector<std::string>& names() { return names_; }
  const std::shared_ptr<const Dataset>& clean() const { return clean_; }
  const std::string& no_clean() const { return no_clean_; }

 private:
  void use(std::vector<std::string> names, const std::string& source) {
    names_ = std::move(names);
    source_ = source;
  }

  // One with fewer classes than the model may be a part of what the model was trained on.
  bool use_dataset(const std::shared_ptr<const Dataset>& dataset, bool all) {
    if (!dataset || dataset->class_names().empty()) return false;
    if (all && dataset->num_classes() != config_.model.num_classes) return false;
    use(dataset->class_names(), dataset->description());
    return true;
  }

  bool use_training() {
    std::string ignored;
    return !clean_ && use_dataset(try_open(config_, Split::kTrain, registries_, ignored), true);
  }

  bool use_imagenet() {
    const std::vector<std::string>& names = imagenet_class_names();
    if (config_.model.num_classes != static_cast<int>(names.size()) ||
        !std::ranges::includes(names, folders_)) {
      return false;
    }
    use(names, "ImageNet");
    return true;
  }

  bool use_folders() {
    if (static_cast<int>(folders_.size()) != config_.model.num_classes) return false;
    use({folders_.begin(), folders_.end()}, "the suite's folders in byte order");
    return true;
  }

  void check_folders() const {
    const Names known(names_.begin(), names_.end());
    for (const std::string& name : folders_) {
      if (known.contains(name)) continue;
      throw DataError(cat("class folder '", name, "': none of the ", names_.size(),
                          " classes is called so, which are those of ", source_,
                          "; set data.root to the model's data set, or list its classes with "
                          "--classes"));
    }
  }

  [[noreturn]] void fail() const {
    throw DataError(cat("which of the model's ", config_.model.num_classes,
                        " classes the folders '", *folders_.begin(), "' to '", *folders_.rbegin(),
                        "' stand for is not known. Set data.root to the data set the model was "
                        "trained on, or give a file with --classes that names its classes in the "
                        "order of their labels, one per line. (The data set: ",
                        no_clean_.empty() ? "it has no names of classes" : no_clean_, ")"));
  }

  const ExperimentConfig& config_;
  const DataRegistries& registries_;
  const Names& folders_;
  std::vector<std::string> names_;
  std::string source_, no_clean_;
  std::shared_ptr<const Dataset> clean_;
};

// The labels of the classes that have a folder, ascending.
std::vector<std::int64_t> labels_of(const Names& folders, const std::vector<std::string>& classes) {
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (folders.contains(classes[i])) labels.push_back(static_cast<std::int64_t>(i));
  }
  return labels;
}

// The validation images of the classes that the suite has, if they are there.
void add_clean(SuitePlan& plan, const Classes& classes, std::span<const std::int64_t> labels,
               double crop_pct) {
  std::shared_ptr<const Dataset> clean = classes.clean();
  if (!clean) {
    log_warn(cat("no figure for clean images: ", classes.no_clean()));
    return;
  }
  clean = only_classes(std::move(clean), plan.classes, labels);
  if (clean->size() > 0) {
    plan.cells.insert(plan.cells.begin(), {"clean", std::move(clean), crop_pct});
  } else {
    log_warn(cat("no figure for clean images: there are ", clean->description()));
  }
}

// Published folders are alike; one that is not is surely half unpacked.
void warn_uneven(const SuitePlan& plan) {
  std::int64_t most = 0, fewer = 0;
  std::string example;
  for (const SuiteCell& cell : plan.cells) most = std::max(most, cell.images->size());
  for (const SuiteCell& cell : plan.cells) {
    if (cell.images->size() == most) continue;
    if (fewer++ == 0) example = cat(cell.name, " has ", cell.images->size());
  }
  if (fewer == 0) return;
  log_warn(cat(fewer, " of ", plan.cells.size(), " folders have fewer images than the ", most,
               " of others (", example, "); is one not wholly unpacked?"));
}

}  // namespace

std::vector<std::string> read_class_list(const fs::path& file, std::int64_t num_classes) {
  constexpr std::int64_t kMostBytes = 64 << 20;
  const std::vector<std::byte> bytes = read_file(file.string(), kMostBytes);
  std::istringstream text(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::vector<std::string> names;
  Names seen;
  for (std::string line; std::getline(text, line);) {
    const char* blanks = " \t\r";
    const std::size_t begin = line.find_first_not_of(blanks);
    if (begin == line.npos) continue;
    names.push_back(line.substr(begin, line.find_last_not_of(blanks) + 1 - begin));
    if (!seen.insert(names.back()).second) {
      throw DataError(cat(file.string(), ": names the class '", names.back(), "' twice"));
    }
  }
  if (static_cast<std::int64_t>(names.size()) != num_classes) {
    throw DataError(cat(file.string(), ": names ", names.size(), " classes, the model has ",
                        num_classes, "; expected is one name per line, in the order of labels"));
  }
  return names;
}

SuitePlan plan_suite(const ExperimentConfig& config, const SuiteOptions& options) {
  const bool corrupted = options.suite == Suite::kImageNetC;
  log_info(cat(name_of(options.suite), ": listing ", options.root.string()));  // millions of files
  const std::vector<SuiteFolder> folders = folders_of(options);
  const Names folder_names = class_folders(folders);
  Classes classes(config, options, folder_names);
  SuitePlan plan;
  plan.classes = std::move(classes.names());
  const std::vector<std::int64_t> labels = labels_of(folder_names, plan.classes);
  if (!corrupted) plan.choice = labels;
  plan.crop_pct = options.crop_pct.value_or(corrupted ? 1 : config.data.crop_pct);
  for (const SuiteFolder& folder : folders) {
    plan.cells.push_back(
        {folder.name, open_class_folders(folder.path, plan.classes), plan.crop_pct});
  }
  warn_uneven(plan);
  if (options.clean) add_clean(plan, classes, labels, config.data.crop_pct);
  return plan;
}

}  // namespace dtn
