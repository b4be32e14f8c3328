#include "io/weights_file.h"

#include <string_view>
#include <system_error>

#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {

namespace fs = std::filesystem;

namespace {

// Returns a shell command that converts the tensors of a checkpoint to safetensors.
std::string convert_command(const std::string& file) {
  const std::string to = fs::path(file).replace_extension(".safetensors").string();
  return cat(
      "python3 -c \"import sys, torch, safetensors.torch as s; "
      "d = torch.load(sys.argv[1], map_location='cpu'); "
      "d = next((d[k] for k in ('model', 'state_dict', 'teacher') if k in d), d); "
      "s.save_file({k: v.contiguous().clone() for k, v in d.items() if torch.is_tensor(v)}, "
      "sys.argv[2])\" ",
      shell_quoted(file), " ", shell_quoted(to));
}

}  // namespace

std::optional<fs::path> find_weights(const fs::path& named, WeightsKind kind) {
  std::error_code error;
  if (fs::is_regular_file(named, error)) return named;
  const char* name = kind == WeightsKind::kModel ? "model.safetensors" : "ema.safetensors";
  // A run that stops before its first evaluation has a last checkpoint but no best one.
  for (const fs::path& folder :
       {named, named / "checkpoints" / "best", named / "checkpoints" / "last"}) {
    if (fs::exists(folder / name, error)) return folder / name;
  }
  return {};
}

std::string describe_other_format(std::span<const char> start, const std::string& file) {
  const std::string_view text(start.data(), start.size());
  if (text.starts_with("version https://git-lfs.github.com/spec/")) {
    return "a Git LFS pointer instead of the file; run 'git lfs install' once and 'git lfs pull' "
           "in its folder, or fetch the model with dtn-get OWNER/REPO";
  }
  const bool zip = text.starts_with("PK\x03\x04");
  // Pickle protocols 2 to 5; torch.save() writes 2. The JSON of a safetensors file begins at byte
  // 8.
  const bool pickle =
      text.size() > 8 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5 && text[8] != '{';
  if (!zip && !pickle) return "";
  const char* what = pickle                                            ? "a Python pickle"
                     : text.find("data.pkl") != std::string_view::npos ? "a PyTorch checkpoint"
                                                                       : "a ZIP archive";
  return cat(what,
             ", not safetensors. Convert a file of torch.save() once with Python (pip install "
             "torch safetensors): ",
             convert_command(file), " (if torch.load refuses the file, see docs/weights.md)");
}

}  // namespace dtn
