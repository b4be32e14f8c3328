// Evaluates the features of the finished runs of a sweep: `dtn-eval --task` on their checkpoints.
// The folder of a run holds for each evaluation
//
//   features/<evaluation>-<epoch>.json    the result, and what it was computed from; "last" in
//                                         place of the epoch without `features.epochs`
//
//   features/<evaluation>-<epoch>.log     the output of dtn-eval
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/sweep/sweep.h"
#include "apps/sweep/sweep_plan.h"

namespace dtn {

// One of the sweep's evaluations, of the checkpoint after one of its epochs.
struct FeaturePoint {
  std::size_t evaluation = 0;  // index in SweepFeatures::evaluations
  std::size_t index = 0;       // in SweepFeatures::epochs; 0 if that is empty
  std::optional<int> epoch;    // unset: the last checkpoint
};

// Returns all points, by evaluation and epoch.
std::vector<FeaturePoint> feature_points(const SweepFeatures& features);

// Returns for instance "linear, epoch 20".
std::string point_title(const SweepFeatures& features, const FeaturePoint& point);

// Returns the keys of an evaluation that its task reads.
nlohmann::ordered_json keys_json(const FeatureEvaluation& evaluation);

// Returns the path of a run's result at a point.
std::filesystem::path feature_file(const SweepConfig& sweep, const SweepRun& run,
                                   const FeaturePoint& point);

// Returns the top-1 of a finished run in percent; nothing if it is not known, or was computed with
// other keys or from another checkpoint.
std::optional<double> feature_result(const SweepConfig& sweep, const SweepRun& run,
                                     const FeaturePoint& point);

// Number of evaluations of the selected runs without a result. Archived runs have no weights to
// evaluate and are not counted.
std::size_t features_left(const SweepConfig& sweep, const std::vector<SweepRun>& runs);

// Throws ConfigError if the model of a variant does not have the features of an evaluation.
void check_features(const SweepConfig& sweep, const Registries& registries);

// Evaluates the selected finished runs, one after the other, at the points without a result.
// Continues with the others after a failure.
SweepStatus evaluate_features(const SweepConfig& sweep, const SweepOptions& options,
                              const std::vector<SweepRun>& runs);

}  // namespace dtn
