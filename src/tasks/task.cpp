#include "dtn/tasks/task.h"

#include "dtn/models/weights.h"

namespace dtn {

std::vector<std::string> Task::load_weights(const std::string& file, WeightsUse) {
  load_exact(*stores().front().value, read_safetensors(file).tensors, file);
  return {};
}

void Task::reset_head(std::uint64_t seed) {
  stores().front().value->initialize_some(seed, [](const Parameter& p) { return p.head; });
}

Image Task::picture(DType) { throw Error("this task draws no picture"); }

std::shared_ptr<const SampleSource> validation_source(const Task& task, Device device) {
  if (auto source = task.source(Split::kVal, device)) return source;
  throw DataError("the config has no validation split; set data.val or data.split");
}

Complexity Task::cost() { return {.parameters = stores().front().value->count()}; }

}  // namespace dtn
