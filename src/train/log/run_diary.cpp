#include "train/log/run_diary.h"

#include <algorithm>
#include <charconv>

#include "data/sample/preview.h"
#include "data/sample/transforms.h"
#include "dtn/config/load.h"
#include "dtn/core/log.h"
#include "dtn/data/datasets.h"
#include "io/atomic_file.h"
#include "io/image/image_encode.h"
#include "train/log/norm_log.h"

namespace dtn {
namespace {

// Returns the entries of a config, as numbers or bools if possible.
std::vector<EventWriter::Hyperparameter> hyperparameters_of(const ExperimentConfig& config) {
  std::vector<EventWriter::Hyperparameter> all;
  for (const auto& [key, text] : config_entries(config)) {
    double number = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
    if (end.ec == std::errc() && end.ptr == text.data() + text.size()) {
      all.push_back({key, number});
    } else if (text == "true" || text == "false") {
      all.push_back({key, text == "true"});
    } else {
      all.push_back({key, text});
    }
  }
  return all;
}

// Returns the first images of a batch after augmentation. Nothing if the samples are not images.
std::optional<Image> samples_of(const Fields& fields, const ExperimentConfig& config,
                                const DatasetRegistry& datasets) {
  constexpr std::int64_t kMax = 16;
  constexpr int kColumns = 8;
  const Tensor* batch = fields.find("image");
  if (!batch || batch->rank() != 4 || batch->dtype() != DType::kFloat32) return std::nullopt;
  const std::int64_t channels = batch->dim(1), count = std::min(kMax, batch->dim(0));
  const Tensor images = batch->slice(0, count).to(kCpu);
  Normalization normal;
  if (channels == 1 || channels == 3) {
    normal = resolve_normalization(config.data, static_cast<int>(channels), datasets);
  }
  const ImageSize size{static_cast<int>(images.dim(2)), static_cast<int>(images.dim(3))};
  std::vector<Image> previews;
  for (std::int64_t i = 0; i < count; ++i) {
    previews.push_back(
        preview_of(images.slice(i, i + 1).data<float>(), channels, size, normal.mean, normal.std));
  }
  return mosaic_of(previews, kColumns);
}

}  // namespace

RunDiary::RunDiary(Run& run, const TrainerOptions& options) : run_(run), options_(options) {
  if (!run.ranks.is_root()) return;
  gradients_.emplace(run.output, run.learner.parameters(), run.resumed_at);
}

void RunDiary::begin(const DeviceBatch& batch) {
  if (begun_ || !run_.ranks.is_root()) return;
  begun_ = true;
  EventWriter* events = run_.log->events();
  const std::filesystem::path file = run_.output / "samples.png";
  if (!events || std::filesystem::exists(file)) return;
  events->add_hyperparameters(hyperparameters_of(run_.config));
  const auto samples = samples_of(batch.fields, run_.config, options_.registries->datasets);
  if (!samples) return;
  std::vector<std::byte> png;
  encode_png(*samples, png);
  events->add_png("samples", png, samples->width, samples->height, run_.progress.step);
  write_file_atomic(file, {reinterpret_cast<const char*>(png.data()), png.size()});
}

bool RunDiary::wants(std::int64_t step) const {
  const auto& histograms = run_.config.train.log_histograms;
  return run_.evaluation_due(step) || (histograms && run_.due(*histograms, step));
}

void RunDiary::after_step(std::int64_t step, const StepReport& report) {
  if (!run_.ranks.is_root() || !wants(step)) return;
  if (run_.evaluation_due(step)) {
    gradients_->write(step, static_cast<double>(step) / static_cast<double>(run_.steps_per_epoch),
                      report.grad_norm);
    add_lambdas(step);
  }
  const auto& histograms = run_.config.train.log_histograms;
  if (histograms && run_.due(*histograms, step)) add_histograms(step);
}

void RunDiary::add_lambdas(std::int64_t step) {
  const Backbone* backbone = run_.task->backbone();
  EventWriter* events = run_.log->events();
  if (!backbone || !events) return;
  const std::vector<LayerInfo> layers = backbone->layers();
  const auto add = [&](const char* kind, const SiteLambdas& lambdas) {
    for (std::size_t l = 0; l < lambdas.size(); ++l) {
      for (std::size_t site = 0; site < lambdas[l].size(); ++site) {
        if (!lambdas[l][site]) continue;
        const std::vector<double>& heads = *lambdas[l][site];
        for (std::size_t h = 0; h < heads.size(); ++h) {
          events->add_scalar(cat(kind, "/", layers[l].norms[site].path, "/head", h), heads[h],
                             step);
        }
      }
    }
  };
  add("lambda_mean", mean_lambdas(layers, run_.learner.parameters()));
  add("lambda_var", var_lambdas(layers, run_.learner.parameters()));
}

void RunDiary::add_histograms(std::int64_t step) {
  EventWriter* events = run_.log->events();
  if (!events) return;
  ParameterStore& parameters = run_.learner.parameters();
  const Tensor values = parameters.values().to(kCpu), gradients = parameters.gradients().to(kCpu);
  for (const Parameter& p : parameters.parameters()) {
    events->add_histogram("weights/" + p.name, ParameterStore::view(values, p).values<float>(),
                          step);
    if (p.frozen) continue;
    events->add_histogram("gradients/" + p.name, ParameterStore::view(gradients, p).values<float>(),
                          step);
  }
}

void RunDiary::renew_report() {
  if (!run_.ranks.is_root() || !options_.report) return;
  try {
    options_.report(run_.output);
  } catch (const std::exception& e) {  // must not stop the training
    if (!report_failed_) run_.log->warn(cat("cannot write the report of the run: ", e.what()));
    report_failed_ = true;
  }
}

void RunDiary::sync() {
  if (gradients_) gradients_->sync();
}

}  // namespace dtn
