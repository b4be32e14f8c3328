#include "tasks/judging/sample_file.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/format.h"
#include "data/classes/class_order.h"
#include "data/classes/match_classes.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "tasks/class_names.h"

namespace dtn {
namespace {

constexpr const char* kJudgeAdvice = "judge the samples by a classifier of the same classes";

const Tensor& tensor_in(const TensorFile& file, const std::string& path, const char* name) {
  if (const Tensor* tensor = file.find(name)) return *tensor;
  throw DataError(
      cat(path, ": has no tensor `", name, "`; write the file with dtn-sample --save-samples"));
}

void check_samples(const Tensor& samples, const std::string& path) {
  if (samples.rank() != 4 || samples.dtype() != DType::kFloat32 || samples.dim(0) == 0) {
    throw DataError(cat(path, ": `samples` is ", to_string(samples.shape()), " ",
                        name_of(samples.dtype()), ", expected [N, C, H, W] float32"));
  }
  const std::int64_t n = samples.dim(0), each = samples.numel() / n;
  const float* values = samples.data<float>();
  std::int64_t damaged = 0;
  for (std::int64_t i = 0; i < n; ++i, values += each) {
    damaged += !std::all_of(values, values + each, [](float v) { return std::isfinite(v); });
  }
  if (damaged == 0) return;
  throw DataError(cat(path, ": ", damaged, " of ", counted(n, "samples"),
                      damaged == 1 ? " has" : " have",
                      " values that are not finite; the training of their model diverged"));
}

void check_labels(const Tensor& labels, std::int64_t count, const std::string& path) {
  if (labels.shape() == Shape{count} && labels.dtype() == DType::kInt64) return;
  throw DataError(cat(path, ": `labels` is ", to_string(labels.shape()), " ",
                      name_of(labels.dtype()), ", expected [", count, "] int64, one for each of ",
                      "`samples`"));
}

// Throws DataError for a label outside [0, count).
void check_range(const SampleFile& file, std::int64_t count, const std::string& owner) {
  for (const std::int64_t label : file.labels.values<std::int64_t>()) {
    if (0 <= label && label < count) continue;
    throw DataError(cat(file.path, ": label ", label, " is no class of ", owner, ", which has ",
                        count, ": 0 to ", count - 1, "; ", kJudgeAdvice));
  }
}

}  // namespace

SampleFile read_sample_file(const std::filesystem::path& path) {
  const TensorFile file = read_safetensors(path);
  SampleFile samples{.path = path.string(),
                     .samples = tensor_in(file, path.string(), "samples"),
                     .labels = tensor_in(file, path.string(), "labels"),
                     .metadata = file.metadata};
  check_samples(samples.samples, samples.path);
  check_labels(samples.labels, samples.samples.dim(0), samples.path);
  return samples;
}

void match_sample_labels(const ClassList& model, SampleFile& file) {
  if (!file.has_classes()) return;
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  ClassList classes = named_classes(file.path, stored_class_names(file.metadata, kAny));
  if (classes.names.empty() || model.names.empty()) {
    check_range(file, model.count, model.owner);
    const bool one_is_named = !classes.names.empty() || !model.names.empty();
    if (!one_is_named) return;
    const ClassList& named = classes.names.empty() ? model : classes;
    log_info(cat("classes: ", classes.names.empty() ? file.path : model.owner,
                 " does not name its classes; they are assumed to have the order of ", named.owner,
                 ": ", listed_names(named.names)));
    return;
  }
  check_range(file, classes.count, "its own metadata");
  const ClassMatch match = match_classes(classes, model, kJudgeAdvice);
  if (!match.note.empty()) log_info(match.note);
  file.labels = file.labels.clone();
  for (std::int64_t i = 0; i < file.labels.numel(); ++i) {
    std::int64_t& label = file.labels.data<std::int64_t>()[i];
    label = match.labels[static_cast<std::size_t>(label)];
  }
}

}  // namespace dtn
