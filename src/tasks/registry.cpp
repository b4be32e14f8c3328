#include "dtn/tasks/classify.h"
#include "dtn/tasks/registries.h"
#include "dtn/tasks/task.h"

namespace dtn {

const TaskRegistry& task_registry() {
  static const TaskRegistry rows("task", {{"classify", "classes of images, by cross-entropy",
                                           [](const TaskSetup& setup) -> std::unique_ptr<Task> {
                                             return std::make_unique<Classify>(setup);
                                           }}});
  return rows;
}

const Registries& standard_registries() {
  static const Registries ours;
  return ours;
}

}  // namespace dtn
