// Figures of a run for programs: metrics.jsonl and TensorBoard events.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "dtn/io/image.h"
#include "dtn/models/backbone.h"
#include "io/json_lines.h"
#include "io/tensorboard.h"
#include "train/evaluator.h"
#include "train/run_periods.h"
#include "train/snapshot.h"

namespace dtn {

class MetricsWriter {
 public:
  // Drops lines after the step at which a run resumes, and evaluations after
  // progress.evaluated_step, which are still to be done.
  MetricsWriter(const std::filesystem::path& run, const RunProgress& progress,
                const RunPeriods& periods);

  void step(std::int64_t step, const StepReport& report, double lr, double samples_per_second);
  void evaluation(std::int64_t step, const std::string& split, const Evaluation& result);
  // Makes the written lines durable.
  void sync() { lines_.sync(); }

  // For TensorBoard only.
  void hyperparameters(const ExperimentConfig& config);
  void samples(std::int64_t step, std::span<const std::byte> png, const Image& image) {
    events_.add_png("samples", png, image.width, image.height, step);
  }
  // A picture that the task has drawn.
  void picture(std::int64_t step, std::span<const std::byte> png, const Image& image) {
    events_.add_png("generated", png, image.width, image.height, step);
    events_.flush();
  }
  void lambdas(std::int64_t step, const std::vector<LayerInfo>& layers, ParameterStore&);
  // `gradient_scale`: see Learner.
  void histograms(std::int64_t step, ParameterStore& parameters, double gradient_scale);

 private:
  const RunPeriods& periods_;
  JsonLinesWriter lines_;
  EventWriter events_;
};

}  // namespace dtn
