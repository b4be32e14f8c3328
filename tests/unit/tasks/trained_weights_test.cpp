// The weights that a folder of a run or a checkpoint stands for.
#include "tasks/trained_weights.h"

#include "dtn/io/safetensors.h"
#include "temp_folder.h"
#include "texts.h"

namespace dtn::test {
namespace {

namespace fs = std::filesystem;

// Writes a checkpoint folder of a task.
void write_checkpoint(const fs::path& folder, const std::string& task, bool with_average) {
  fs::create_directories(folder);
  const StringMap metadata{{"config", cat("task: ", task, "\nunknown_key: 3\n")}};
  const NamedTensors tensors{{"x", Tensor::zeros({1}, DType::kFloat32)}};
  write_safetensors(folder / "model.safetensors", tensors, metadata);
  if (with_average) write_safetensors(folder / "ema.safetensors", tensors, metadata);
}

TEST(TrainedWeights, FolderOfTeacherGivesTheAverage) {
  const TaskRegistry& tasks = task_registry();
  const TempFolder folder;
  const fs::path& root = folder.path();
  write_checkpoint(root / "dino" / "checkpoints" / "last", "dino", true);
  EXPECT_EQ(find_trained_weights(root / "dino", tasks),
            root / "dino" / "checkpoints" / "last" / "ema.safetensors");
  const fs::path last = root / "dino" / "checkpoints" / "last";
  EXPECT_EQ(find_trained_weights(last, tasks), last / "ema.safetensors");
  // A file is taken as it is named.
  EXPECT_EQ(find_trained_weights(last / "model.safetensors", tasks), last / "model.safetensors");
  for (const char* task : {"classify", "supcon", "a_task_of_another_program"}) {
    write_checkpoint(root / task, task, true);
    EXPECT_EQ(find_trained_weights(root / task, tasks), root / task / "model.safetensors") << task;
  }
  EXPECT_EQ(find_trained_weights(root / "nothing", tasks), std::nullopt);
  write_checkpoint(root / "no_average", "dino", false);
  try {
    find_trained_weights(root / "no_average", tasks);
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& e) {
    expect_contains(e.what(), "has no ema.safetensors, the average of the task dino");
  }
}

}  // namespace
}  // namespace dtn::test
