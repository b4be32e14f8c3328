#include "train/record/run_recorder.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "core/format.h"
#include "data/sample/normalization.h"
#include "data/sample/preview.h"
#include "data/sample/transforms.h"
#include "dtn/config/load.h"
#include "dtn/core/log.h"
#include "dtn/core/version.h"
#include "io/atomic_file.h"
#include "io/image/image_encode.h"
#include "tasks/frozen/neighbor_sheet.h"
#include "train/record/detections_writer.h"
#include "train/record/split_lists.h"
#include "train/record/step_pictures.h"
#include "train/run_setup.h"

namespace dtn {
namespace {

// Writes the config to the run folder. If an earlier config differs, keeps it as config.yaml.<n>.
void write_config(const std::filesystem::path& folder, const std::string& text) {
  const std::filesystem::path file = folder / "config.yaml";
  if (std::ifstream old(file); old) {
    const std::string before(std::istreambuf_iterator<char>(old), {});
    if (before == text) return;
    int number = 1;
    const auto kept = [&] { return folder / cat("config.yaml.", number); };
    while (std::filesystem::exists(kept())) ++number;
    std::filesystem::copy_file(file, kept());
    log_info(cat("saved the previous config as ", kept().string()));
  }
  write_file_atomic(file, text);
}

// Returns the images of a field [n, ..., C, H, W] of samples [0, count): a list for each sample.
std::vector<std::vector<Image>> images_of(const Tensor& field, std::int64_t count,
                                          const Normalization& normal) {
  const int rank = field.rank();
  const std::int64_t channels = field.dim(rank - 3);
  const ImageSize size{static_cast<int>(field.dim(rank - 2)),
                       static_cast<int>(field.dim(rank - 1))};
  const std::int64_t each = channels * size.height * size.width;
  std::vector<std::vector<Image>> images;
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensor sample = field.slice(i, i + 1).to(kCpu);
    std::vector<Image>& views = images.emplace_back();
    for (std::int64_t at = 0; at < sample.numel(); at += each) {
      views.push_back(
          preview_of(sample.data<float>() + at, channels, size, normal.mean, normal.std));
    }
  }
  return images;
}

// Returns the first samples of a batch after augmentation: images in a mosaic, or a row of views
// for each image, or of input and target. Nothing if the samples are not images.
std::optional<Image> samples_of(const Fields& fields, const DataConfig& config,
                                const DatasetRegistry& datasets) {
  constexpr std::int64_t kMaxImages = 16, kMaxRows = 4;
  constexpr int kColumns = 8;
  const auto find = [&](const char* name, int rank) {
    const Tensor* field = fields.find(name);
    return field && field->rank() == rank && field->dtype() == DType::kFloat32 ? field : nullptr;
  };
  const auto normalization_of = [&](const Tensor& field) -> Normalization {
    const std::int64_t channels = field.dim(field.rank() - 3);
    if (channels != 1 && channels != 3) return {};
    // The images of diffusion models, which come with noise, are pixels in [-1, 1].
    return resolve_normalization(fields.has("noise") ? symmetric_pixels(config) : config,
                                 static_cast<int>(channels), datasets);
  };
  if (const Tensor* images = find("image", 4)) {
    std::vector<Image> all;
    for (auto& image :
         images_of(*images, std::min(kMaxImages, images->dim(0)), normalization_of(*images))) {
      all.push_back(std::move(image.front()));
    }
    return mosaic_of(all, kColumns);
  }
  std::vector<std::vector<Image>> rows;
  const Normalization unit_pixels{{0, 0, 0}, {1, 1, 1}};  // of image-to-image models
  for (const char* name : {"global", "local", "views", "input", "target"}) {
    const Tensor* views = find(name, 5);
    const Tensor* pictures = views ? nullptr : find(name, 4);
    if (!views && !pictures) continue;
    const Tensor& field = views ? *views : *pictures;
    auto images = images_of(field, std::min(kMaxRows, field.dim(0)),
                            views ? normalization_of(field) : unit_pixels);
    rows.resize(images.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::ranges::move(images[i], std::back_inserter(rows[i]));
    }
  }
  if (rows.empty()) return std::nullopt;
  return sheet_of(rows);
}

}  // namespace

RunRecorder::RunRecorder(const ExperimentConfig& config, const TrainerOptions& options,
                         Learner& learner, const RunProgress& progress, const RunPeriods& periods,
                         const std::string& noun, const Communicator& ranks)
    : config_(config),
      options_(options),
      learner_(learner),
      progress_(progress),
      periods_(periods),
      noun_(noun),
      clock_(config.train.batch_size) {
  if (!ranks.is_root()) return;
  const std::filesystem::path& folder = options.output;
  write_config(folder, to_yaml(config));
  const Attempt attempt{.started = {},
                        .from_step = progress.step,
                        .training = {},
                        .device = device_text(learner.device(), ranks),
                        .version = version(),
                        .commit = options.commit};
  remove_step_pictures_after(folder, progress.resumed_at.value_or(-1));
  ParameterStore& parameters = learner.parameters();
  parts_.reset(new Parts{AttemptsFile(folder, progress.resumed_at.has_value(), attempt),
                         MetricsWriter(folder, progress, periods),
                         ConsoleLog(periods, progress.resumed_at.value_or(0), noun),
                         GradientNormsWriter(folder, parameters, progress.resumed_at),
                         WarningsWriter(folder, progress.resumed_at),
                         {}});
  if (config.train.log_norms) {
    parts_->lambdas.emplace(folder, learner.task().backbone(), parameters, progress.resumed_at);
  }
}

void RunRecorder::begin() {
  if (!parts_) return;
  log_to_file((options_.output / "train.log").string());
  remove_diverged_summary(options_.output);
}

void RunRecorder::splits(const SampleSource& training, const SampleSource* validation) {
  if (!parts_ || !config_.data.split) return;
  for (const std::string& list :
       write_split_lists(options_.output, training, validation, config_.data.label_sets.empty())) {
    warn(cat("the files of the data set have changed since the run began; ", list,
             " now has those of today"));
  }
}

void RunRecorder::batch(const DeviceBatch& batch) {
  if (begun_ || !parts_) return;
  begun_ = true;
  const std::filesystem::path file = options_.output / "samples.png";
  if (std::filesystem::exists(file)) return;
  parts_->metrics.hyperparameters(config_);
  const auto samples = samples_of(batch.fields, config_.data, options_.registries->datasets);
  if (!samples) return;
  std::vector<std::byte> png;
  encode_png(*samples, png);
  parts_->metrics.samples(progress_.step, png, *samples);
  write_file_atomic(file, {reinterpret_cast<const char*>(png.data()), png.size()});
}

void RunRecorder::step(const StepReport& report, double lr, double data_wait) {
  if (!parts_) return;
  const std::int64_t step = progress_.step;
  clock_.add_step(data_wait, report.idle_seconds);
  if (periods_.log_due(step)) {
    parts_->metrics.step(step, report, lr, clock_.samples_per_second());
  }
  parts_->console.step(step, report, lr, clock_);
  parts_->warnings.add(report);
  if (periods_.log_due(step)) {
    clock_.start_window();
    look_for_problems(step);
  }
  if (periods_.lambdas_due(step)) lambdas();
  if (periods_.gradients_due(step)) {
    parts_->gradients.write(step, periods_.epoch_at(step), learner_.gradient_scale());
    if (const Backbone* backbone = learner_.task().backbone()) {
      parts_->metrics.lambdas(step, backbone->layers(), learner_.parameters());
    }
  }
  if (periods_.histograms_due(step)) {
    parts_->metrics.histograms(step, learner_.parameters(), learner_.gradient_scale());
  }
}

RunLength RunRecorder::length() const {
  return {periods_.total_steps(), periods_.steps_per_epoch()};
}

void RunRecorder::look_for_problems(std::int64_t step) {
  const auto problem = parts_->warnings.check(learner_.task(), step, length());
  if (problem) warn(cat("step ", step, ": ", *problem));
}

void RunRecorder::look_for_problems_in(const Metrics& metrics) {
  const std::int64_t step = progress_.step;
  const auto problem = parts_->warnings.report(
      learner_.task().evaluation_warning(metrics, step, length()), step, length());
  if (problem) warn(cat("step ", step, ": ", *problem));
}

void RunRecorder::lambdas() {
  if (!parts_ || !parts_->lambdas) return;
  parts_->lambdas->write(progress_.step, periods_.epoch_at(progress_.step));
}

void RunRecorder::evaluations(const Evaluations& results, const Evaluation& judged, bool best) {
  if (!parts_) return;
  const auto add = [&](const char* split, const Evaluation& result) {
    parts_->metrics.evaluation(progress_.step, split, result);
    parts_->console.evaluation(progress_.step, split, result);
  };
  add("val", results.weights);
  if (results.average) add("val_ema", *results.average);
  parts_->console.judged(progress_.step, judged.metrics, best);
  look_for_problems_in(judged.metrics);
}

void RunRecorder::neighbors(const Meter& meter, const SampleSource& evaluated,
                            const SampleSource* references) {
  if (!parts_ || !references) return;
  try {
    const std::vector<NeighborExample> examples = meter.examples();
    if (examples.empty()) return;
    const NeighborSheet sheet =
        draw_neighbors(examples, shown_images(evaluated), shown_images(*references),
                       shown_normalization(evaluated, config_, options_.registries->datasets));
    write_file_atomic(options_.output / "neighbors.png", sheet.png);
    write_file_atomic(options_.output / "neighbors.json", sheet.json);
  } catch (const std::exception& e) {  // must not stop the training
    if (!pictures_failed_) warn(cat("cannot draw the nearest neighbours: ", e.what()));
    pictures_failed_ = true;
  }
}

void RunRecorder::detections(const Meter& meter, const SampleSource& evaluated) {
  if (!parts_) return;
  try {
    const auto examples = meter.detections();
    if (examples) write_detections(options_.output, progress_.step, *examples, evaluated);
  } catch (const std::exception& e) {  // must not stop the training
    if (!pictures_failed_) warn(cat("cannot write the pictures of detections: ", e.what()));
    pictures_failed_ = true;
  }
}

void RunRecorder::picture(const Image& image) {
  if (!parts_) return;
  std::vector<std::byte> png;
  encode_png(image, png);
  write_step_picture(options_.output, progress_.step, png);
  parts_->metrics.picture(progress_.step, png, image);
}

void RunRecorder::sync() {
  if (!parts_) return;
  parts_->metrics.sync();
  if (parts_->lambdas) parts_->lambdas->sync();
  parts_->gradients.sync();
  parts_->warnings.sync();
  parts_->attempts.save(progress_.step, clock_.total());
}

void RunRecorder::update_report() {
  if (!parts_ || !options_.report) return;
  try {
    options_.report(options_.output);
  } catch (const std::exception& e) {  // must not stop the training
    if (!report_failed_) warn(cat("cannot write the report of the run: ", e.what()));
    report_failed_ = true;
  }
}

RunResults RunRecorder::results(const Evaluations& last) const {
  return {options_.output, config_.train.best, progress_, last, parts_->attempts};
}

void RunRecorder::finish(const Evaluations& last, const LoaderReport& data) {
  if (!parts_) return;
  parts_->attempts.save(progress_.step, clock_.total());
  write_summary(results(last));
  log_times(data);
  update_report();
}

void RunRecorder::diverge(const Evaluations& last, const Retreat& retreat) {
  if (!parts_) return;
  sync();
  write_diverged_summary(results(last), retreat);
  update_report();
}

void RunRecorder::log_times(const LoaderReport& data) {
  const std::size_t attempts = parts_->attempts.count();
  info(cat("trained and evaluated for ", format_duration(parts_->attempts.seconds()),
           attempts > 1 ? cat(" in ", attempts, " attempts; the last one") : ";", " waited ",
           format_duration(data.wait_seconds), " for training ", noun_));
  if (data.bad_images) {
    warn(cat("skipped ", counted(data.bad_images, "damaged training " + noun_)));
  }
}

}  // namespace dtn
