// Finds the weights in what people name: a file, or a folder that holds them.
#pragma once

#include <filesystem>
#include <optional>

namespace dtn {

enum class WeightsKind { kModel, kAverage };  // model.safetensors, or ema.safetensors

// The file itself, or that of a checkpoint's folder, of the best or else last checkpoint of a run's, or of a
// model's folder from the Hugging Face hub. Nothing where there is none.
std::optional<std::filesystem::path> find_weights(const std::filesystem::path& named,
                                                  WeightsKind kind = WeightsKind::kModel);

}  // namespace dtn
