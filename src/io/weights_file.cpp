#include "io/weights_file.h"

#include <system_error>

namespace dtn {

namespace fs = std::filesystem;

std::optional<fs::path> find_weights(const fs::path& named, WeightsKind kind) {
  std::error_code error;
  if (fs::is_regular_file(named, error)) return named;
  const char* name = kind == WeightsKind::kModel ? "model.safetensors" : "ema.safetensors";
  // A run that was stopped before its first evaluation has a last checkpoint and no best.
  for (const fs::path& folder :
       {named, named / "checkpoints" / "best", named / "checkpoints" / "last"}) {
    if (fs::exists(folder / name, error)) return folder / name;
  }
  return {};
}

}  // namespace dtn
