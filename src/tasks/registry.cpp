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

namespace {

template <class Rows>
std::vector<NameSchema> names_of(const Rows& rows) {
  std::vector<NameSchema> names;
  for (const auto& row : rows) names.push_back({row.name(), row.doc});
  return names;
}

}  // namespace

ConfigSchemas Registries::schemas() const {
  return {norms.schemas(), datasets.schemas(), augmentations.schemas(), names_of(optimizers),
          names_of(tasks)};
}

const Registries& standard_registries() {
  static const Registries ours;
  return ours;
}

}  // namespace dtn
