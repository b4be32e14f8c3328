// `features:` of a sweep file, and `paper_features:` of a variant.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/sweeps/sweep_config.h"
#include "config/sweeps/sweep_paper.h"

namespace dtn::config {

// Value of `features:`.
struct FeaturesFile {
  std::vector<SweepEvaluation> evaluations;
  std::vector<Written<int>> epochs;
  Where where;
};
FeaturesFile read_features(const Node& node);

// The paper's figures for an evaluation, one for each point of the training.
struct PaperFeatures {
  std::string evaluation;
  std::vector<Written<double>> figures;
  Where where;
};
// Reads the value of `paper_features:`, a map; null: none.
std::vector<PaperFeatures> read_paper_features(const Node& node);

// Sets the paper's figures of a variant. Throws an error for an evaluation that the sweep does not
// have, or if an evaluation has another number of points.
void set_paper_features(const std::vector<PaperFeatures>& paper, const SweepFeatures& features,
                        SweepVariant& variant);

// Makes the runs of a config keep the checkpoints that are evaluated: sets train.keep_every if the
// config does not. Throws an error if the runs do not write these checkpoints, or if their model
// has no features of images.
void keep_evaluated_checkpoints(const FeaturesFile& features, ExperimentConfig& config);

}  // namespace dtn::config
