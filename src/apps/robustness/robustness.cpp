#include "apps/robustness/robustness.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "apps/robustness/robustness_plan.h"
#include "apps/robustness/robustness_results.h"
#include "core/format.h"
#include "core/progress.h"
#include "core/seconds_since.h"
#include "core/stop_signal.h"
#include "data/feed/open_split.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/io/image.h"
#include "io/atomic_file.h"
#include "io/fingerprint.h"
#include "train/evaluator.h"

namespace dtn {
namespace {

// Fingerprint of the labels and of a few images, spread over the data set, to identify the images.
std::string fingerprint_of(const Dataset& images) {
  constexpr std::int64_t kProbes = 8;
  Fingerprint print;
  for (std::int64_t i = 0; i < images.size(); ++i) print.add(images.label(i));
  SampleWorkspace workspace;
  for (std::int64_t probe = 0; probe < kProbes; ++probe) {
    try {
      const Sample sample = images.load(probe * images.size() / kProbes, workspace);
      print.add(sample.encoded);
      print.add(std::as_bytes(sample.ready));
      if (sample.image) print.add(std::as_bytes(std::span(sample.image->pixels)));
    } catch (const DataError&) {
      print.add("unreadable");  // it will count as damaged
    }
  }
  return print.text();
}

RobustnessSettings settings_of(const ExperimentConfig& config, const RobustnessOptions& options,
                               const RobustnessPlan& plan) {
  ExperimentConfig model_only;
  model_only.model = config.model;
  model_only.model.init_weights.reset();
  model_only.model.init_image_size.reset();
  Fingerprint model, classes;
  model.add(to_yaml(model_only));
  for (const std::string& name : plan.classes) classes.add(name);
  for (std::int64_t label : plan.choice) classes.add(label);
  Normalization normalization = resolve_normalization(config.data, config.model.channels);
  return {.weights = options.weights,
          .model = model.text(),
          .classes = classes.text(),
          .precision = options.dtype == DType::kBFloat16 ? "bf16" : "fp32",
          .crop_pct = plan.crop_pct,
          .clean_crop_pct = config.data.crop_pct,
          .interpolation = config.data.interpolation,
          .resample = config.data.resample,
          .mean = std::move(normalization.mean),
          .std = std::move(normalization.std)};
}

ClassList classes_of(const Classify& task, const ExperimentConfig& config) {
  return task.classes().value_or(ClassList{"the model", {}, config.model.num_classes});
}

class Runner {
 public:
  Runner(Classify& task, const ExperimentConfig& config, const RobustnessOptions& options)
      : task_(task),
        config_(config),
        options_(options),
        plan_(plan_robustness(config, options, classes_of(task, config))) {
    report_.suite = options.suite;
    report_.settings = settings_of(config, options, plan_);
    const auto choice = static_cast<std::int64_t>(plan_.choice.size());
    report_.small_images = plan_.small_images;
    report_.num_classes = choice > 0 ? choice : static_cast<std::int64_t>(plan_.classes.size());
    describe();
    if (!options_.save.empty()) resume();
    note_completeness();
    if (!options_.save.empty()) save();  // fail now if saving is impossible, not after an hour
  }

  std::optional<RobustnessReport> run() {
    ProgressBar bar(name_of(options_.suite), images_to_do());
    for (RobustnessCell& cell : plan_.cells) {
      if (report_.scores.contains(cell.name)) continue;
      std::optional<RobustnessScore> score = evaluate_cell(cell, bar);
      bar.clear();
      if (!score) return stop();
      done_ += cell.images->size();
      log_info(cat(cell.name, ": ", text_of(*score), ", left ", bar.time_left(done_)));
      report_.scores.insert_or_assign(cell.name, std::move(*score));
      note_completeness();
      if (!options_.save.empty()) save();
      cell.images.reset();  // its list of files takes memory
    }
    return std::move(report_);
  }

 private:
  void describe() const {
    log_info(cat(name_of(options_.suite), ": ", counted(images_to_do(), "images"), " in ",
                 counted(plan_.cells.size(), "folders"), ", ",
                 counted(report_.num_classes, "classes")));
    const RobustnessCell& cell = plan_.cells.back();
    const ImageSize& size = config_.model.image_size;
    SampleWorkspace workspace;
    try {
      const Sample sample = cell.images->load(0, workspace);
      ImageInfo info;
      if (sample.image) {
        info.width = sample.image->width;
        info.height = sample.image->height;
      } else {
        info = read_image_info(sample.encoded, workspace.name);
      }
      const EvalGeometry g = eval_geometry(info.width, info.height, size, cell.crop_pct);
      log_info(cat("first image: ", info.width, " x ", info.height, ", ",
                   g.width == info.width && g.height == info.height
                       ? std::string("not resized")
                       : cat("resized to ", g.width, " x ", g.height),
                   ", centre crop of ", size));
    } catch (const DataError&) {
      // The loader reports and counts it.
    }
  }

  std::int64_t images_to_do() const {
    std::int64_t images = 0;
    for (const RobustnessCell& cell : plan_.cells) {
      if (!report_.scores.contains(cell.name)) images += cell.images->size();
    }
    return images;
  }

  std::size_t finished_folders() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        plan_.cells,
        [&](const RobustnessCell& cell) { return report_.scores.contains(cell.name); }));
  }

  void note_completeness() { report_.complete = finished_folders() == plan_.cells.size(); }

  // Takes over the results of the saved file, except for folders whose images have changed. Results
  // of folders that no longer exist still count: archives may be unpacked and removed in turn.
  void resume() {
    report_.scores = load_scores(options_.save, options_.suite, report_.settings);
    for (const RobustnessCell& cell : plan_.cells) {
      const std::string& images =
          images_.emplace(cell.name, fingerprint_of(*cell.images)).first->second;
      const RobustnessScore* kept = find_score(report_, cell.name);
      if (!kept || kept->images == images) continue;
      log_warn(cat(cell.name, ": the images have changed since the evaluation saved in ",
                   options_.save.string(), "; evaluating them again"));
      report_.scores.erase(cell.name);
    }
    if (!report_.scores.empty()) {
      log_info(cat(options_.save.string(), " has the results of ",
                   counted(report_.scores.size(), "folders"), "; ",
                   counted(images_to_do(), "images"), " left"));
    }
  }

  void save() const { write_file_atomic(options_.save, to_json(report_, 2) + "\n"); }

  Device device() const { return task_.model().parameters().device(); }

  std::optional<RobustnessScore> evaluate_cell(const RobustnessCell& cell, ProgressBar& bar) const {
    ExperimentConfig config = config_;
    config.data.crop_pct = cell.crop_pct;
    const auto split = open_split(
        image_samples_of(cell.images, config, Split::kVal, device(), *options_.registries), config,
        Split::kVal, {.device = device(), .batch_size = options_.batch_size});
    const auto start = std::chrono::steady_clock::now();
    AccuracyMeter meter(plan_.choice);
    EvalOptions eval;
    eval.compute = options_.dtype;
    eval.meter = &meter;
    eval.stop = stop_requested;
    eval.on_batch = [&](const DeviceBatch&, const Fields&, std::int64_t done) {
      const double rate = static_cast<double>(done) / seconds_since(start);
      bar.update(done_ + done, cat(cell.name, "  ", static_cast<std::int64_t>(rate), " images/s"));
    };
    const std::optional<Evaluation> result = evaluate(task_, split->feeder(), eval);
    if (!result) return std::nullopt;
    if (result->count == 0) {
      throw DataError(cat("all images are damaged: ", cell.images->description()));
    }
    const Metrics& m = result->metrics;
    const auto images = images_.find(cell.name);
    return RobustnessScore{
        {m.at("top1"), m.at("top5"), m.at("loss"), result->count, result->seconds},
        split->loader().report().bad_images,
        images == images_.end() ? "" : images->second,
        cell.stand_in};
  }

  static std::string text_of(const RobustnessScore& score) {
    const Accuracy& r = score.result;
    return format("top-1 error %.2f %%, %s, %.1f images/s", score.error(),
                  counted(r.count, "images").c_str(),
                  r.seconds > 0 ? static_cast<double>(r.count) / r.seconds : 0);
  }

  std::nullopt_t stop() const {
    const std::string results =
        cat("the results of ", finished_folders(), " of ", plan_.cells.size(), " folders are ");
    log_info(options_.save.empty()
                 ? cat("stopped by a signal; ", results, "lost; --save FILE keeps them")
                 : cat("stopped by a signal; ", results, "saved in ", options_.save.string(),
                       "; run the same command again to continue"));
    return std::nullopt;
  }

  Classify& task_;
  const ExperimentConfig& config_;
  const RobustnessOptions& options_;
  RobustnessPlan plan_;
  RobustnessReport report_;
  std::map<std::string, std::string> images_;  // fingerprints, if results are saved
  std::int64_t done_ = 0;                      // images of finished cells
};

}  // namespace

const char* name_of(Suite suite) {
  return suite == Suite::kImageNetC ? "imagenet-c" : "imagenet-r";
}

std::optional<RobustnessReport> evaluate_robustness(Classify& task, const ExperimentConfig& config,
                                                    const RobustnessOptions& options) {
  install_stop_signals();
  return Runner(task, config, options).run();
}

Accuracy overall(const RobustnessReport& report) {
  Accuracy all;
  for (const auto& [name, score] : report.scores) {
    const Corruption* corruption = find_corruption(name.substr(0, name.find('/')));
    if (name == "clean" || (corruption && !in_benchmark(*corruption))) continue;
    const auto n = static_cast<double>(score.result.count);
    all.top1 += n * score.result.top1;
    all.top5 += n * score.result.top5;
    all.loss += n * score.result.loss;
    all.count += score.result.count;
    all.seconds += score.result.seconds;
  }
  if (all.count == 0) return all;
  for (double* mean : {&all.top1, &all.top5, &all.loss}) *mean /= static_cast<double>(all.count);
  return all;
}

}  // namespace dtn
