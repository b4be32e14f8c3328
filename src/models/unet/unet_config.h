// Configuration of the family "unet": encoder-decoders whose input and output are images.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dtn/config/schemas.h"
#include "dtn/nn/normalizer.h"

namespace dtn {

// The two halves of the network, which may have different normalizers. The residual blocks between
// them have the decoder's.
enum class UNetHalf { kEncoder, kDecoder };

// Returns the normalizer of a half.
const NormConfig& unet_norm(const ModelConfig&, UNetHalf);
// Returns the sizes for which the normalizers of a half are built at a level, from 0, the finest.
NormShape unet_norm_shape(const ModelConfig&, UNetHalf, int level);
// Returns true if one of the halves uses the normalizer.
bool unet_uses(const ModelConfig&, const std::string& norm_type);
// Returns true if one of the halves has normalizers that read a vector for each sample.
bool unet_reads_vector(const ModelConfig&);
// Returns true if the decoder gets the moments of the encoder.
bool unet_carries_moments(const ModelConfig&);
// Returns true if the encoder has positional normalization.
bool unet_has_pono(const ModelConfig&);
// Returns true if moments are taken at the end of a level of the encoder: at those to which the
// decoder returns, and at the last before residual blocks.
bool unet_takes_moments(const ModelConfig&, int level);

// Returns a problem of the configuration, if there is one.
std::optional<ConfigProblem> check_unet(const ModelConfig&, const NormSchema&);
// The registry entry of the family, without its constructor.
ModelSchema unet_schema();

}  // namespace dtn
