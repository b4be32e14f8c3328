// Judges samples of the finished runs of a sweep of diffusion models: dtn-sample draws them, and
// dtn-eval --samples judges them by a classifier, which the sweep trains once. The sweep's folder
// holds
//
//   judge/                                    the run folder of the classifier
//   <run>/samples/guidance-<scale>.json       the result, and what it was computed from
//   <run>/samples/guidance-<scale>.log        the output of dtn-sample and dtn-eval
//   <run>/samples/grid.png                    of the first seed of a variant, with the last of the
//                                             guidance scales: a row for each class, at most 20
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "apps/sweep/sweep.h"
#include "apps/sweep/sweep_plan.h"

namespace dtn {

struct SampleScore {
  double agreement = 0;  // with the classes, in percent
  double distance = 0;   // Frechet distance to training images, in the judge's features
};

struct SampleResult {
  SampleScore samples;
  // References of the same judge: its accuracy on test images, noise, and a model before training.
  std::optional<SampleScore> test, noise, untrained;
  std::int64_t features = 0;         // of the judge
  std::int64_t training_images = 0;  // compared with
};

// Folder of a run's results, and the picture in it.
std::filesystem::path sample_folder(const SweepRun& run);
inline constexpr const char* kSampleGrid = "grid.png";
// Returns the path of a run's result with the i-th of SweepSamples::guidance.
std::filesystem::path sample_file(const SweepConfig& sweep, const SweepRun& run, std::size_t i);
// Returns the result of a finished run; nothing if it is not known, or was computed with other
// keys, by another judge or from another checkpoint.
std::optional<SampleResult> sample_result(const SweepConfig& sweep, const SweepRun& run,
                                          std::size_t i);

// Number of results that the selected runs lack. Archived runs have no weights and are not counted.
std::size_t samples_left(const SweepConfig& sweep, const std::vector<SweepRun>& runs);

// Throws ConfigError if a variant is no diffusion model or cannot draw the samples, or if the judge
// is no classifier of images of their size.
void check_samples(const SweepConfig& sweep, const Registries& registries);

// Throws ConfigError if the folder of the judge holds a run with another config.
void check_judge_folder(const SweepConfig& sweep, const SweepOptions& options);

// Trains the judge if a result is left, then evaluates the selected finished runs one after the
// other. Continues with the others after a failure. Throws as check_judge_folder() does.
SweepStatus judge_samples(const SweepConfig& sweep, const SweepOptions& options,
                          const std::vector<SweepRun>& runs);

}  // namespace dtn
