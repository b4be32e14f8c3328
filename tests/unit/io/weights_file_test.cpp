#include "io/weights_file.h"

#include <gtest/gtest.h>

#include "temp_folder.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

class WeightsFile : public testing::Test {
 protected:
  fs::path touch(const std::string& name) const { return temporary_.write(name, "x"); }

  const test::TempFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(WeightsFile, FindsFileOrModelInFolder) {
  const fs::path file = touch("any.safetensors"), model = touch("hub/model.safetensors");
  EXPECT_EQ(find_weights(file), file);
  EXPECT_EQ(find_weights(folder_ / "hub"), model);
  EXPECT_EQ(find_weights(folder_ / "hub", WeightsKind::kAverage), std::nullopt);
  EXPECT_EQ(find_weights(folder_), std::nullopt);
  EXPECT_EQ(find_weights(folder_ / "absent"), std::nullopt);
}

TEST_F(WeightsFile, FindsBestCheckpointOfRun) {
  const fs::path step = touch("run/checkpoints/step-00000001/model.safetensors");
  EXPECT_EQ(find_weights(folder_ / "run"), std::nullopt);
  fs::create_symlink("step-00000001", folder_ / "run/checkpoints/best");
  const auto found = find_weights(folder_ / "run");
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(fs::equivalent(*found, step));
  const fs::path ema = touch("run/checkpoints/best/ema.safetensors");
  EXPECT_EQ(find_weights(folder_ / "run", WeightsKind::kAverage), ema);
}

}  // namespace
}  // namespace dtn
