// Finds weights at a path to a file or folder. Recognises other formats taken for safetensors.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace dtn {

enum class WeightsKind { kModel, kAverage };  // model.safetensors, or ema.safetensors

// Returns the file itself, or that of a folder: of a checkpoint, of a run (its best or else its
// last checkpoint), or of a model from the Hugging Face hub. Returns nothing if there is no file.
std::optional<std::filesystem::path> find_weights(const std::filesystem::path& named,
                                                  WeightsKind kind = WeightsKind::kModel);

// Returns a description of the file and a remedy, for a message, from its first bytes: a Git LFS
// pointer, a checkpoint of torch.save() or another ZIP archive. Empty for all other files. A pickle
// may begin like a safetensors file, so call this only for a file that is not one.
std::string describe_other_format(std::span<const char> start, const std::string& file);

inline constexpr std::size_t kFormatBytes = 64;  // enough for describe_other_format()

}  // namespace dtn
