// Gradient norms of the parts of a model, and gradients.jsonl, where a run stores them at each
// evaluation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dtn/nn/parameters.h"
#include "io/json_lines.h"

namespace dtn {

// Returns the part of a model that a parameter belongs to: "blocks.3" for
// "blocks.3.attn.qkv.weight", "layers.0.blocks.1" in multi-stage models, "patch_embed" outside of
// blocks.
std::string part_of(const std::string& parameter);

// Returns the Euclidean norms of the gradients in memory times `scale`, by part, in the order of
// first appearance. Leaves out parts that are frozen.
std::vector<std::pair<std::string, double>> gradient_norms(ParameterStore& parameters,
                                                           double scale);

// Lines {"step", "epoch", "gradient_norm": {"patch_embed": 0.5, ...}}.
class GradientNormsWriter {
 public:
  // Drops lines after `resumed_at`, the step at which a run resumes.
  GradientNormsWriter(const std::filesystem::path& run, ParameterStore& parameters,
                      std::optional<std::int64_t> resumed_at);

  // Writes the norms of the current gradients, which are those of `step` after
  // Learner::gradient_scale().
  void write(std::int64_t step, double epoch, double scale);
  void sync() { lines_.sync(); }

 private:
  ParameterStore& parameters_;
  JsonLinesWriter lines_;
};

}  // namespace dtn
