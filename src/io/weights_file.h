// Finds the weights in what people name: a file, or a folder that holds them. Recognises files that
// people take for safetensors.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace dtn {

enum class WeightsKind { kModel, kAverage };  // model.safetensors, or ema.safetensors

// The file itself, or that of a checkpoint's folder, of the best or else last checkpoint of a run's, or of a
// model's folder from the Hugging Face hub. Nothing where there is none.
std::optional<std::filesystem::path> find_weights(const std::filesystem::path& named,
                                                  WeightsKind kind = WeightsKind::kModel);

// Returns what the file is and what to do about it, for a message, judged by its first bytes: a Git
// LFS pointer or a checkpoint of torch.save(). Empty for all others. A pickle may begin as a
// safetensors file does, so ask only about a file that is none.
std::string describe_other_format(std::span<const char> start, const std::string& file);

inline constexpr std::size_t kFormatBytes = 64;  // that it looks at

}  // namespace dtn
