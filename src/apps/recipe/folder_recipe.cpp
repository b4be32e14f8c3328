#include "apps/recipe/folder_recipe.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <memory>
#include <sstream>

#include "apps/common/weights_source.h"
#include "apps/estimate/run_size.h"
#include "apps/recipe/folder_summary.h"
#include "apps/recipe/recipe_text.h"
#include "core/format.h"
#include "core/progress.h"
#include "core/quiet_log.h"
#include "data/classes/class_counts.h"
#include "data/sample/normalization.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/core/parallel.h"
#include "dtn/data/datasets.h"

namespace dtn::app {
namespace {

// Models from scratch, the largest first.
constexpr ScratchModel kModels[] = {{224, 16, 192, 12, 3},
                                    {128, 16, 192, 9, 3},
                                    {96, 12, 160, 8, 4},
                                    {64, 8, 128, 6, 4},
                                    {32, 4, 96, 6, 4}};
constexpr int kMostEpochs = 300, kMostEpochsFromWeights = 30;

// Returns the epochs that a model from scratch should have: few images need many.
double wanted_epochs(std::int64_t images) {
  return std::clamp(2e5 / static_cast<double>(images), 15.0, 150.0);
}

// The smallest model for images smaller than its own.
ScratchModel for_tiny(int short_side) {
  ScratchModel model = kModels[std::size(kModels) - 1];
  model.image_size = std::min(model.image_size, std::max(8, short_side / 4 * 4));
  return model;
}

// Speed and size of a run with the config of a recipe.
class Trial {
 public:
  Trial(const Recipe& recipe, Device device, const Registries& registries)
      : device_(device),
        registries_(registries),
        config_(
            parse_experiment(recipe_text(recipe), "the chosen config", {}, registries.schemas())),
        task_(make_task({config_, kMeta, registries})),
        data_(open_run_data(*task_, device)),
        cost_(task_->cost()) {}

  std::int64_t steps_per_epoch() const { return size(1).steps_per_epoch; }

  // Seconds for a training step per sample.
  double step_seconds() const {
    return profile_seconds_per_sample(config_, data_.train, cost_.multiply_adds, device_,
                                      registries_);
  }
  // Seconds of a run of `epochs`, evaluations included.
  double run_seconds(int epochs, double step) const {
    const RunSize size = this->size(epochs);
    return time_of_run(config_, size, step, load_seconds(), device_).total();
  }
  double memory(int micro_batch) const {
    ExperimentConfig config = config_;
    config.train.micro_batch = micro_batch;
    const StepProfile step =
        profile_step(config, data_.train, cost_.multiply_adds, device_, registries_);
    return memory_of_run(config, data_, cost_.parameters, step, device_, registries_.optimizers)
        .total();
  }

 private:
  RunSize size(int epochs) const {
    ExperimentConfig config = config_;
    config.schedule.epochs = epochs;
    return size_of_run(config, data_, registries_.schedules);
  }
  double load_seconds() const {
    if (!loading_) {
      constexpr double kSeconds = 0.25;
      loading_ = 1 / measure_loading(data_.train, config_, config_.train.batch_size, Split::kTrain,
                                     kSeconds, device_)
                         .samples_per_second;
    }
    return *loading_;
  }

  Device device_;
  const Registries& registries_;
  ExperimentConfig config_;
  std::unique_ptr<Task> task_;
  RunData data_;
  Complexity cost_;
  mutable std::optional<double> loading_;
};

class RecipeChooser {
 public:
  RecipeChooser(const FolderTraining& training, Device device, const Registries& registries)
      : training_(training), device_(device), registries_(registries) {}

  std::string choose() {
    look();
    if (!training_.weights.empty()) take_weights();
    log_info("measuring this machine on these images");
    {
      const QuietLog quiet;  // each trial opens the data again
      choose_batch();
      if (!recipe_.start) choose_model();
      choose_precision();
      choose_epochs();
      choose_micro_batch();
    }
    say_length();
    recipe_.heading = heading();
    return recipe_text(recipe_);
  }

 private:
  void look() {
    recipe_.layout = find_layout(training_.folder);
    recipe_.name = std::filesystem::path(recipe_.layout.data.root).filename().string();
    if (recipe_.name.empty()) recipe_.name = "images";
    for (const std::string& note : recipe_.layout.notes) log_info(note);
    const DataConfig& data = recipe_.layout.data;
    ModelConfig any;
    any.num_classes = 0;
    const auto open = recipe_.layout.task == "multilabel" ? open_multilabel : open_dataset;
    const std::unique_ptr<Dataset> dataset =
        open(data, any, Split::kTrain, 0, registries_.datasets);
    recipe_.classes = dataset->num_classes();
    images_ = dataset->size();
    if (recipe_.layout.task == "classify" && recipe_.classes < 2) {
      throw DataError(
          cat(dataset->description(), ": a classifier needs images of two classes at least"));
    }
    spread_ = class_spread(class_counts(labels_of(*dataset)));
    recipe_.balanced = spread_.is_uneven();
    summary_ = summarize(*dataset);
    if (summary_.gray) recipe_.channels = 1;
    log_info(cat("images: ", summary_.width, " x ", summary_.height, " (median), ",
                 summary_.gray ? "grey" : "with colours",
                 summary_.turned > 0 ? cat("; ", summary_.turned, " of ", summary_.looked_at,
                                           " are turned by their EXIF orientation")
                                     : ""));
  }

  void choose_batch() {
    const std::int64_t fits = images_ / 20;
    recipe_.batch_size = static_cast<int>(std::clamp<std::int64_t>(images_, 1, 16));
    while (recipe_.batch_size < 128 && recipe_.batch_size <= fits) recipe_.batch_size *= 2;
    if (recipe_.start) recipe_.batch_size = std::min(recipe_.batch_size, 64);
  }

  // Takes the largest model that the images fill and for which there is time.
  void choose_model() {
    for (const ScratchModel& model : kModels) {
      const bool is_last = &model == std::end(kModels) - 1;
      if (!is_last && model.image_size > summary_.short_side) continue;
      recipe_.scratch = is_last ? for_tiny(summary_.short_side) : model;
      recipe_.size_reason = cat("the images are ", summary_.width, " x ", summary_.height,
                                tried_.empty() ? "" : "; " + tried_);
      recipe_.epochs = 1;
      const Trial trial(recipe_, device_, registries_);
      const int epochs = epochs_in_time(trial, trial.step_seconds(), kMostEpochs);
      if (epochs >= wanted_epochs(images_)) return;
      tried_ =
          cat(model.image_size, " pixels leave time for ", counted(epochs, "epochs"), " alone");
    }
  }

  void take_weights() {
    WeightsOptions options;
    options.checkpoint = training_.weights;
    const std::filesystem::path file = options.trained_file(registries_);
    const TensorFile header = read_safetensors(file, {.verify_checksums = false, .map = true});
    const ExperimentConfig of = options.config_of(header, registries_.schemas());
    if (of.model.max_length > 0) {
      throw ConfigError(cat("--weights ", training_.weights, ": the model reads sequences"));
    }
    recipe_.channels = of.model.channels;
    const Normalization usual =
        resolve_normalization(of.data, of.model.channels, registries_.datasets);
    StartingModel start{.file = std::filesystem::canonical(file).string(),
                        .section = model_lines(of),
                        .mean = {usual.mean.begin(), usual.mean.end()},
                        .std = {usual.std.begin(), usual.std.end()},
                        .crop_pct = of.data.crop_pct,
                        .interpolation = interpolation_of(of)};
    recipe_.start = std::move(start);
    log_info(cat("weights: ", recipe_.start->file));
  }

  // Returns the entries of the section `model` of a config as lines of YAML, nested ones included.
  static std::vector<std::string> model_entries(const ExperimentConfig& config) {
    std::vector<std::string> entries;
    std::istringstream text(to_yaml(config));
    bool inside = false;
    for (std::string line; std::getline(text, line);) {
      if (!line.starts_with(' ')) {
        inside = line == "model:";
      } else if (inside && line.ends_with(": null")) {
        continue;
      } else if (inside && line.starts_with("   ")) {
        entries.back() += line + "\n";
      } else if (inside) {
        entries.push_back(line + "\n");
      }
    }
    return entries;
  }
  // Returns what makes the model of a config, without its head and its weights: its preset, the
  // size of its images, and what differs from the preset.
  std::string model_lines(const ExperimentConfig& config) const {
    const ExperimentConfig usual =
        parse_experiment(cat("model: {preset: ", config.model.preset, "}\n"), "the preset", {},
                         registries_.schemas());
    const std::vector<std::string> known = model_entries(usual);
    const auto starts = [](const std::string& entry, std::initializer_list<const char*> names) {
      return std::ranges::any_of(
          names, [&](const char* name) { return entry.starts_with(cat("  ", name)); });
    };
    std::string lines;
    for (const std::string& entry : model_entries(config)) {
      if (starts(entry, {"num_classes:", "init_"})) continue;
      if (starts(entry, {"preset:", "image_size:"}) ||
          std::ranges::find(known, entry) == known.end()) {
        lines += entry;
      }
    }
    return lines;
  }
  static std::string interpolation_of(const ExperimentConfig& config) {
    for (const auto& [key, value] : config_entries(config)) {
      if (key == "data.interpolation") return value;
    }
    return "bicubic";
  }

  // Measures both number formats and takes the faster one.
  void choose_precision() {
    double best = 0;
    std::string chosen = "fp32";
    for (const char* precision : {"fp32", "bf16"}) {
      recipe_.precision = precision;
      const double seconds = Trial(recipe_, device_, registries_).step_seconds();
      if (best == 0 || seconds < best) best = seconds, chosen = precision;
    }
    recipe_.precision = chosen;
    step_ = best;
  }

  int epochs_in_time(const Trial& trial, double step, int most) const {
    const double seconds = 60 * training_.minutes;
    int low = 1, high = most;  // the last is chosen if all fit
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (trial.run_seconds(middle, step) <= seconds) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  void choose_epochs() {
    const Trial trial(recipe_, device_, registries_);
    recipe_.epochs = epochs_in_time(trial, step_, most_epochs());
    recipe_.steps_per_epoch = trial.steps_per_epoch();
    seconds_ = trial.run_seconds(recipe_.epochs, step_);
    recipe_.epochs_reason = cat("about ", format_duration(seconds_), " on this machine");
  }

  int most_epochs() const { return recipe_.start ? kMostEpochsFromWeights : kMostEpochs; }

  // Says how long the run is, and what is wrong with that.
  void say_length() const {
    log_info(cat("length: ", counted(recipe_.epochs, "epochs"), ", ", recipe_.epochs_reason));
    if (seconds_ > 60 * training_.minutes) {
      log_warn(format("one epoch takes more than the %g minutes of --minutes", training_.minutes));
    } else if (recipe_.epochs < most_epochs() && !recipe_.start &&
               recipe_.epochs < wanted_epochs(images_)) {
      log_warn(
          format("%d epochs are few for so few images; a larger --minutes gives a better "
                 "model, and --weights needs fewer",
                 recipe_.epochs));
    }
  }

  void choose_micro_batch() {
    constexpr double kShare = 0.6;
    const Trial trial(recipe_, device_, registries_);
    const double room = kShare * machine_bytes(device_);
    int micro = recipe_.batch_size;
    while (micro > 1 && trial.memory(micro) > room) micro /= 2;
    if (micro < recipe_.batch_size) recipe_.micro_batch = micro;
  }

  std::string heading() const {
    const std::string where =
        device_ == kCpu ? counted(max_threads(), "threads of a CPU") : std::string("a GPU");
    std::string text = cat("# Chosen by dtn-train for ", counted(images_, "training images"),
                           " of ", counted(recipe_.classes, "classes"));
    if (spread_.most > 0) {
      text += spread_.fewest == spread_.most
                  ? cat(" (", spread_.most, " of each class)")
                  : cat(" (", spread_.fewest, " to ", spread_.most, " of a class)");
    }
    return cat(text, ",\n# for ", format("%g", training_.minutes), " minutes on ", where,
               ". Change what you like, and train with --config.\n");
  }

  const FolderTraining& training_;
  Device device_;
  const Registries& registries_;
  Recipe recipe_;
  std::int64_t images_ = 0;
  ClassSpread spread_;
  FolderSummary summary_;
  std::string tried_;
  double step_ = 0, seconds_ = 0;
};

}  // namespace

std::string choose_recipe(const FolderTraining& training, Device device,
                          const Registries& registries) {
  return RecipeChooser(training, device, registries).choose();
}

}  // namespace dtn::app
