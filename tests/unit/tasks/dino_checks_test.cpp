#include "tasks/dino_checks.h"

#include <algorithm>

#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/tasks/registries.h"
#include "texts.h"

namespace dtn {
namespace {

// The registries' schemas, with a task that reads the section dino and checks it.
ConfigSchemas with_dino() {
  ConfigSchemas schemas = standard_registries().schemas();
  std::erase_if(schemas.tasks, [](const TaskSchema& task) { return task.name == "dino"; });
  schemas.tasks.push_back(
      {.name = "dino", .doc = "", .figures = {}, .sections = {"dino"}, .check = dino_problem});
  return schemas;
}

std::string error_of(const std::string& text) {
  try {
    parse_experiment(text, "t.yaml", {}, with_dino());
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(DinoChecks, PatchMustDivideLocalSize) {
  const std::string vit = "model: {preset: vit_t}\ntask: dino\naugment: dino\n";
  EXPECT_EQ(error_of(vit + "dino: {local_size: 96}"), "");
  test::expect_contains(error_of(vit + "dino: {local_size: 100}"),
                        "t.yaml:4:20: dino.local_size 100 is not divisible by model.patch_size 16; "
                        "the nearest local_size that is: 96 or 112");
  test::expect_contains(error_of(vit + "dino: {local_size: 9}"), "that is: 16");
  EXPECT_EQ(error_of(vit + "dino: {local_size: 100, local_crops: 0}"), "");
  // Other models may cut off or pad a remainder.
  EXPECT_EQ(
      error_of("model: {preset: resnet50}\ntask: dino\naugment: dino\ndino: {local_size: 100}"),
      "");
}

TEST(DinoChecks, AreasMustAscend) {
  const std::string vit = "model: {preset: vit_t}\ntask: dino\n";
  test::expect_contains(error_of(vit + "dino: {local_scale: [0.5, 0.4]}"),
                        "t.yaml:3:21: dino.local_scale: the least comes first");
  test::expect_contains(error_of(vit + "dino: {global_scale: [0, 0.4]}"), "t.yaml:3:");
  test::expect_contains(error_of(vit + "dino: {global_scale: [0.5, 1.1]}"), "t.yaml:3:");
  test::expect_contains(error_of(vit + "dino: {local_crops: -1}"), "t.yaml:3:");
  test::expect_contains(error_of(vit + "dino: {local_size: 0}"), "t.yaml:3:");
}

}  // namespace
}  // namespace dtn
