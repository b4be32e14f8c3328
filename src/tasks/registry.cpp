#include "dtn/tasks/classify.h"
#include "dtn/tasks/registries.h"
#include "dtn/tasks/task.h"

namespace dtn {

const TaskRegistry& task_registry() {
  static const TaskRegistry entries(
      "task",
      {{{.name = "classify",
         .doc = "classes of images, by softmax or binary cross-entropy",
         .figures = {{.name = "top1", .title = "top-1", .percent = true},
                     {.name = "top5", .title = "top-5", .percent = true},
                     {.name = "loss", .title = "loss", .higher_is_better = false}},
         .sections = {"distill"}},
        [](const TaskSetup& setup) -> std::unique_ptr<Task> {
          return std::make_unique<Classify>(setup);
        }}});
  return entries;
}

std::unique_ptr<Task> make_task(const TaskSetup& setup) {
  return setup.registries.tasks.at(setup.config.task).make(setup);
}

ConfigSchemas Registries::schemas() const {
  return {norms.schemas(),         datasets.schemas(),
          augmentations.schemas(), optimizers.schemas(),
          schedules.schemas(),     tasks.schemas(),
          models.schemas(),        {presets.begin(), presets.end()}};
}

const Registries& standard_registries() {
  static const Registries ours;
  return ours;
}

}  // namespace dtn
