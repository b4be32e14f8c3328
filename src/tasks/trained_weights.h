// Finds the weights of a trained model, by the task that trained it.
#pragma once

#include <filesystem>
#include <optional>

#include "dtn/tasks/task.h"

namespace dtn {

// find_weights(), but a run or checkpoint folder of a task whose average is the model to use, such
// as DINO's teacher, gives ema.safetensors. The task is that of the stored config. Throws
// ConfigError if the folder lacks that file.
std::optional<std::filesystem::path> find_trained_weights(const std::filesystem::path& named,
                                                          const TaskRegistry& tasks);

}  // namespace dtn
