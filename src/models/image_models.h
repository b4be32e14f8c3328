// Helpers that the image model families share.
#pragma once

#include <string>

#include "dtn/models/backbone.h"

namespace dtn {

// Returns the schema of norm.type from the scope's registry.
const NormSchema& norm_schema_of(const ModelConfig&, const Scope&);
// Returns the configuration. Throws ConfigError if the family's check finds a problem.
const ModelConfig& checked(const ModelConfig&, ModelCheck check, const Scope&);

// Returns the eps of norm.type in a family whose LayerNorms or BatchNorms use model.eps. DTN uses
// kDefaultNormEps unless norm.eps is set.
double norm_eps_of(const ModelConfig&);

// Returns a problem if norm.affine is false, in a family whose residual branches end in norm.type
// with a weight that starts at 0. `family` begins the sentence: "LeViT".
std::optional<ConfigProblem> zero_weight_problem(const ModelConfig&, const char* family);
// Returns a problem if norm.type ends after the last block of a model of one stage, if no block of
// it honours norm.affine, or, with `joins`, if the class token joins after it.
std::optional<ConfigProblem> last_block_problem(const ModelConfig&, bool joins = true);
// Returns a problem if a side of the images is not a multiple of `of`. `reason` is a part of the
// message, such as "the stem halves the grid four times".
std::optional<ConfigProblem> image_size_problem(const ModelConfig&, int of,
                                                const std::string& reason);

// The largest number of rows or columns of a grid of tokens.
inline constexpr std::int64_t kMaxGrid = 512;
// Returns the reason why a grid is too small or too large for any model, as the end of a sentence.
// Empty: it is not.
std::string grid_limit_problem(const TokenGrid&);
// Returns the reason why images of this size are not divisible into tokens of `of` x `of` pixels,
// as the end of a sentence. Empty: they are.
std::string division_problem(const ImageSize&, std::int64_t of);

// A backbone that reads "image" [B, channels, height, width] of model.image_size, or of another
// size that size_problem() allows.
class ImageBackbone : public Backbone {
 public:
  std::vector<FieldSpec> inputs() const override;

 protected:
  // Throws ConfigError if the family's check finds a problem.
  ImageBackbone(const Scope& scope, const ModelConfig& config, ModelCheck check)
      : config_(checked(config, check, scope)) {}

  // Returns the images. Throws Error if the number of channels differs, ConfigError if the model
  // cannot process their size.
  const Tensor& image_of(const Fields&) const;

  ModelConfig config_;
};

}  // namespace dtn
