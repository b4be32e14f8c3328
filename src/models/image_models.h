// What families of models of images share.
#pragma once

#include <string>

#include "dtn/models/backbone.h"

namespace dtn {

// The normalizer norm.type of the scope's registry.
const NormSchema& norm_schema_of(const ModelConfig&, const Scope&);
// The configuration, if the check of its family finds nothing wrong with it. Throws ConfigError.
const ModelConfig& checked(const ModelConfig&, ModelCheck check, const Scope&);

// The eps of norm.type in a family whose LayerNorms or BatchNorms have model.eps: DTN has one of its
// own unless norm.eps is set.
double norm_eps_of(const ModelConfig&);

// What is wrong where a side of the images is not a multiple of `of`, for that reason: "its stem
// halves the grid four times".
std::optional<ModelProblem> image_size_problem(const ModelConfig&, int of,
                                               const std::string& reason);

// The field "image" that the model reads.
std::vector<FieldSpec> image_inputs(const ModelConfig&);
// Its value, [B, channels, height, width]. Throws Error when it is of another size.
const Tensor& image_of(const ModelConfig&, const Fields&);

// Keys of the section `model` that belong to attention and to tokens of vision transformers.
std::vector<std::string> keys_of_transformers();

}  // namespace dtn
