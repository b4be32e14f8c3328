// Presets that do not go with the task are errors that say what to set.
#include "tasks/view_checks.h"

#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/tasks/registries.h"
#include "texts.h"

namespace dtn {
namespace {

// The message for a config of a small model; empty: no error.
std::string problem_of(const std::string& rest) {
  try {
    parse_experiment("model: {preset: vit_t}\n" + rest, "t.yaml", {},
                     standard_registries().schemas());
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(ViewChecks, ClassificationTakesOneView) {
  for (const char* preset : {"dino", "supcon"}) {
    test::expect_contains(
        problem_of(cat("augment: {preset: ", preset, "}")),
        "t.yaml:2:19: augment.preset makes several views of each image, but the task classify "
        "takes one; set augment.preset: deit, light or none, or set task: dino or supcon");
  }
  for (const char* preset : {"none", "light", "deit", "official", "deit3"}) {
    EXPECT_EQ(problem_of(cat("augment: {preset: ", preset, "}")), "");
  }
}

TEST(ViewChecks, TasksOfViewsNeedTheirPreset) {
  for (const std::string task : {"dino", "supcon"}) {
    for (const std::string preset : {"none", "deit", "dino", "supcon"}) {
      SCOPED_TRACE(cat(task, " ", preset));
      const std::string problem =
          problem_of(cat("task: ", task, "\naugment: {preset: ", preset, "}\n"));
      if (preset == task) {
        EXPECT_EQ(problem, "");
      } else {
        test::expect_contains(problem, cat("t.yaml:3:19: augment.preset does not make the views of "
                                           "the task ",
                                           task, "; set augment.preset: ", task));
      }
      // Views may be given.
      EXPECT_EQ(problem_of(cat("task: ", task, "\naugment: {preset: ", preset,
                               "}\ndata: {dataset: tensors}\n")),
                "");
    }
    test::expect_contains(problem_of(cat("task: ", task)), cat("set augment.preset: ", task));
  }
}

// The error names a section only if the task reads it.
TEST(ViewChecks, AreasOfDinoAreInItsSection) {
  test::expect_contains(
      problem_of("task: dino\naugment: {preset: dino, scale: [0.5, 1]}"),
      "t.yaml:3:32: augment.scale means nothing for the task dino; set dino.global_scale and "
      "dino.local_scale");
  EXPECT_EQ(problem_of("augment: {preset: dino, scale: [0.5, 1]}").find("dino.global_scale"),
            std::string::npos);
  EXPECT_EQ(problem_of("task: supcon\naugment: {preset: supcon, scale: [0.5, 1]}"), "");
}

}  // namespace
}  // namespace dtn
