#include "apps/robustness/robustness_plan.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>

#include "data/classes/class_list.h"
#include "data/classes/match_classes.h"
#include "data/corrupt/corrupt_folders.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

using Names = std::set<std::string>;

std::vector<RobustnessFolder> folders_of(const RobustnessOptions& options) {
  if (options.suite == Suite::kImageNetC) return corruption_folders(options.root);
  return {{"renditions", options.root}};
}

Names class_folders(const std::vector<RobustnessFolder>& folders) {
  Names names;
  for (const RobustnessFolder& folder : folders) {
    for (std::string& name : class_folders_of(folder.path)) names.insert(std::move(name));
  }
  return names;
}

// Opens a split of the config's data set, or returns null and sets `why`. If the model has class
// names, the data set may have any number of classes: they are matched later.
std::shared_ptr<const Dataset> try_open(const ExperimentConfig& config, Split split,
                                        const DataRegistries& registries, const ClassList& model,
                                        std::string& why) {
  ModelConfig wanted = config.model;
  if (!model.names.empty()) wanted.num_classes = 0;
  try {
    return open_dataset(config.data, wanted, split, config.seed, registries.datasets);
  } catch (const DataError& e) {
    why = e.what();
    return nullptr;
  }
}

// Determines the names of the model's classes.
class Classes {
 public:
  // `clean`: the validation images, or null with the reason in `no_clean`.
  Classes(const ExperimentConfig& config, const RobustnessOptions& options, const ClassList& model,
          const Names& folders, std::shared_ptr<const Dataset> clean, const std::string& no_clean)
      : config_(config),
        model_(model),
        registries_(*options.registries),
        folders_(folders),
        no_clean_(no_clean),
        clean_(std::move(clean)) {
    if (!options.classes.empty()) {
      use(read_class_list(options.classes, config.model.num_classes), options.classes.string());
      check_list();
    } else if (!use_checkpoint() && !use_dataset(clean_, true) && !use_training() &&
               !use_imagenet() && !use_folders() && !use_dataset(clean_, false)) {
      fail();
    }
    log_info(cat("classes: ", names_.size(), ", from ", source_));
    check_folders();
  }

  std::vector<std::string>& names() { return names_; }

 private:
  void use(std::vector<std::string> names, const std::string& source) {
    names_ = std::move(names);
    source_ = source;
  }

  // Outputs without a name in the checkpoint get a name that no folder can have.
  bool use_checkpoint() {
    if (model_.names.empty()) return false;
    std::vector<std::string> names = model_.names;
    while (static_cast<std::int64_t>(names.size()) < model_.count) {
      names.push_back(cat("class/", names.size()));
    }
    use(std::move(names), model_.owner);
    return true;
  }

  // A list may rename the classes of the checkpoint, but not reorder them.
  void check_list() const {
    for (std::size_t i = 0; i < model_.names.size(); ++i) {
      const auto listed = std::ranges::find(names_, model_.names[i]);
      if (listed == names_.end() || listed - names_.begin() == static_cast<std::ptrdiff_t>(i)) {
        continue;
      }
      throw DataError(cat("--classes ", source_, ": '", model_.names[i], "' has label ",
                          listed - names_.begin(), " in this file and ", i, " in ", model_.owner,
                          "; omit --classes to use the checkpoint's names"));
    }
  }

  // `all`: accept only as many classes as the model has. A data set with fewer classes may be a
  // subset of the model's training data.
  bool use_dataset(const std::shared_ptr<const Dataset>& dataset, bool all) {
    if (!dataset || dataset->class_names().empty()) return false;
    if (all && dataset->num_classes() != config_.model.num_classes) return false;
    use(dataset->class_names(), dataset->description());
    return true;
  }

  bool use_training() {
    std::string ignored;
    return !clean_ &&
           use_dataset(try_open(config_, Split::kTrain, registries_, model_, ignored), true);
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
    use({folders_.begin(), folders_.end()}, "the suite's folders, sorted by name");
    return true;
  }

  void check_folders() const {
    match_classes(named_classes("the suite", {folders_.begin(), folders_.end()}),
                  named_classes(source_, names_),
                  "set data.root to the data set that the model was trained on, or list its "
                  "classes with --classes");
  }

  [[noreturn]] void fail() const {
    throw DataError(cat("cannot match the folders '", *folders_.begin(), "' to '",
                        *folders_.rbegin(), "' with the ", config_.model.num_classes,
                        " classes of the model. Set data.root to the data set that the model was "
                        "trained on, or pass with --classes a file that lists the names of its "
                        "classes in the order of their labels, one per line. (",
                        no_clean_.empty() ? "data.root has no class names" : no_clean_, ")"));
  }

  const ExperimentConfig& config_;
  const ClassList& model_;
  const DataRegistries& registries_;
  const Names& folders_;
  const std::string& no_clean_;
  std::shared_ptr<const Dataset> clean_;
  std::vector<std::string> names_;
  std::string source_;
};

// Returns the labels of the classes that have a folder, in ascending order.
std::vector<std::int64_t> labels_of(const Names& folders, const std::vector<std::string>& classes) {
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (folders.contains(classes[i])) labels.push_back(static_cast<std::int64_t>(i));
  }
  return labels;
}

constexpr const char* kAdvice =
    "set data.root to the data set that the model was trained on, or skip the clean images with "
    "--no-clean";

// Returns the data set with the labels of the model.
std::shared_ptr<const Dataset> in_classes_of(const RobustnessPlan& plan,
                                             std::shared_ptr<const Dataset> dataset) {
  const ClassList model = named_classes("the model", plan.classes);
  const ClassMatch match = match_classes(class_list_of(*dataset), model, kAdvice);
  return relabelled(std::move(dataset), match, model);
}

// Adds the validation images of the suite's classes, if they exist.
void add_clean(RobustnessPlan& plan, std::shared_ptr<const Dataset> clean,
               const std::string& no_clean, std::span<const std::int64_t> labels, double crop_pct) {
  if (!clean) {
    log_warn(cat("cannot evaluate clean images: ", no_clean));
    return;
  }
  clean = in_classes_of(plan, std::move(clean));
  clean = only_classes(std::move(clean), plan.classes, labels);
  if (clean->size() > 0) {
    plan.cells.insert(plan.cells.begin(), {"clean", std::move(clean), crop_pct, false});
  } else {
    log_warn(cat("cannot evaluate clean images: ", clean->description()));
  }
}

// Published folders have equally many images; a smaller folder is probably only half unpacked.
void warn_uneven(const RobustnessPlan& plan) {
  std::int64_t most = 0, fewer = 0;
  std::string example;
  for (const RobustnessCell& cell : plan.cells) most = std::max(most, cell.images->size());
  for (const RobustnessCell& cell : plan.cells) {
    if (cell.images->size() == most) continue;
    if (fewer++ == 0) example = cat(cell.name, " has ", cell.images->size());
  }
  if (fewer == 0) return;
  log_warn(cat(fewer, " of ", plan.cells.size(), fewer == 1 ? " folders has" : " folders have",
               " fewer images than the others (", example, ", not ", most,
               "); check that the suite is completely unpacked"));
}

bool is_smaller(int width, int height) { return width < kCorruptedSide && height < kCorruptedSide; }

// True if several images, spread over the data set, are all smaller than ImageNet-C's.
bool are_small(const Dataset& images) {
  constexpr std::int64_t kProbes = 8;
  if (!images.has_pixels()) {
    throw ConfigError("a data set of tensors or sequences has no pixels to corrupt");
  }
  SampleWorkspace workspace;
  bool any = false;
  for (std::int64_t probe = 0; probe < kProbes; ++probe) {
    try {
      const Sample sample = images.load(probe * images.size() / kProbes, workspace);
      if (sample.image) {
        any = is_smaller(sample.image->width, sample.image->height);
      } else {
        const ImageInfo info = read_image_info(sample.encoded, workspace.name);
        any = is_smaller(info.width, info.height);
      }
      if (!any) return false;
    } catch (const DataError&) {
      // It will count as damaged.
    }
  }
  return any;
}

std::vector<const Corruption*> corruptions_for(const CorruptOnTheFly& options, bool small) {
  std::vector<const Corruption*> given =
      options.corruptions.empty() ? parse_corruptions(small ? "all" : "") : options.corruptions;
  if (!small) return given;
  std::vector<const Corruption*> fit;
  std::string left_out;
  for (const Corruption* c : given) {
    if (c->any_size) {
      fit.push_back(c);
    } else {
      left_out += cat(left_out.empty() ? "" : ", ", c->name);
    }
  }
  if (!left_out.empty() && !options.corruptions.empty()) {
    throw ConfigError(cat(
        "--corruption: the images are smaller than 224 x 224, the smallest size for ", left_out));
  }
  return fit;
}

RobustnessPlan plan_on_the_fly(const ExperimentConfig& config, const RobustnessOptions& options,
                               const ClassList& model) {
  const CorruptOnTheFly& how = *options.on_the_fly;
  std::shared_ptr<const Dataset> clean = open_for_classes(
      config.data, config.model, Split::kVal, config.seed, options.registries->datasets, model);
  RobustnessPlan plan;
  std::vector<std::int64_t> labels;
  if (clean->class_names().empty()) {
    for (int i = 0; i < config.model.num_classes; ++i) plan.classes.push_back(std::to_string(i));
    labels.resize(plan.classes.size());
    std::iota(labels.begin(), labels.end(), std::int64_t{0});
  } else {
    const Names names(clean->class_names().begin(), clean->class_names().end());
    plan.classes = std::move(Classes(config, options, model, names, clean, "").names());
    labels = labels_of(names, plan.classes);
  }
  plan.small_images = are_small(*clean);
  if (plan.small_images && config.model.channels != 3) {
    throw ConfigError(
        "images smaller than 224 x 224 are corrupted in colour; model.channels must be 3");
  }
  plan.crop_pct = options.crop_pct.value_or(plan.small_images ? config.data.crop_pct : 1);
  const std::shared_ptr<const Dataset> images = only_classes(clean, plan.classes, labels);
  std::shared_ptr<const FrostTextures> frost;
  for (const CorruptionCell& cell :
       cells_of(corruptions_for(how, plan.small_images), how.severities)) {
    const bool icy = is_frost(*cell.corruption);
    if (icy && !frost) {
      frost = how.frost_dir.empty() ? FrostTextures::stand_in()
                                    : FrostTextures::from_folder(how.frost_dir);
    }
    CorruptedOptions made{.cell = cell,
                          .seed = how.seed,
                          .source = CorruptSource::kCrop,
                          .format = how.format,
                          .frost = frost};
    if (plan.small_images) {
      made.source = CorruptSource::kAsItIs;
      made.format = CorruptFormat::kPng;
    }
    plan.cells.push_back(
        {cell.name(), corrupted_dataset(images, made), plan.crop_pct, icy && frost->is_stand_in()});
  }
  if (options.clean) add_clean(plan, clean, "", labels, config.data.crop_pct);
  return plan;
}

}  // namespace

std::vector<std::string> read_class_list(const fs::path& file, std::int64_t num_classes) {
  std::vector<std::string> names = read_class_list(file.string());
  if (static_cast<std::int64_t>(names.size()) == num_classes) return names;
  throw DataError(cat(file.string(), ": names ", names.size(), " classes, the model has ",
                      num_classes, "; expected one name per line, in the order of the labels"));
}

RobustnessPlan plan_robustness(const ExperimentConfig& config, const RobustnessOptions& options,
                               const ClassList& model) {
  if (options.on_the_fly) return plan_on_the_fly(config, options, model);
  const bool corrupted = options.suite == Suite::kImageNetC;
  // Listing may take long: a suite has millions of files.
  log_info(cat(name_of(options.suite), ": listing ", options.root.string()));
  const std::vector<RobustnessFolder> folders = folders_of(options);
  const Names folder_names = class_folders(folders);
  std::string no_clean;
  const auto clean = try_open(config, Split::kVal, *options.registries, model, no_clean);
  Classes classes(config, options, model, folder_names, clean, no_clean);
  RobustnessPlan plan;
  plan.classes = std::move(classes.names());
  const std::vector<std::int64_t> labels = labels_of(folder_names, plan.classes);
  if (!corrupted) plan.choice = labels;
  plan.crop_pct = options.crop_pct.value_or(corrupted ? 1 : config.data.crop_pct);
  const std::optional<CorruptRecord> made =
      corrupted ? read_corrupt_record(options.root) : std::nullopt;
  for (const RobustnessFolder& folder : folders) {
    const bool stand_in =
        made && made->frost == FrostTextures::kStandIn && folder.name.starts_with("frost/");
    plan.cells.push_back(
        {folder.name, open_class_folders(folder.path, plan.classes), plan.crop_pct, stand_in});
  }
  warn_uneven(plan);
  if (options.clean) add_clean(plan, clean, no_clean, labels, config.data.crop_pct);
  return plan;
}

}  // namespace dtn
