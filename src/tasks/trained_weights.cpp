#include "tasks/trained_weights.h"

#include <system_error>

#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/io/safetensors.h"
#include "io/weights_file.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

// Returns the entry of the task that trained the weights; null if the file does not say.
const TaskEntry* task_of(const fs::path& weights, const TaskRegistry& tasks) {
  const StringMap metadata =
      read_safetensors(weights, {.verify_checksums = false, .map = true}).metadata;
  const auto config = metadata.find("config");
  return config == metadata.end() ? nullptr : tasks.find(task_of_config(config->second));
}

}  // namespace

std::optional<fs::path> find_trained_weights(const fs::path& named, const TaskRegistry& tasks) {
  const auto model = find_weights(named);
  std::error_code error;
  if (!model || !fs::is_directory(named, error)) return model;
  const TaskEntry* task = task_of(*model, tasks);
  if (!task || !task->schema.uses_average) return model;
  const fs::path folder = model->parent_path();
  if (fs::exists(folder / "ema.safetensors", error)) return folder / "ema.safetensors";
  throw ConfigError(cat(folder.string(), " has no ema.safetensors, the average of the task ",
                        task->name(), "; name ", model->string(),
                        " itself to use the weights that were trained"));
}

}  // namespace dtn
