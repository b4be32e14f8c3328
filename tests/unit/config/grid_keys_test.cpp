// The keys that determine the sizes of position tables, as stored in weight files.
#include "dtn/config/grid_keys.h"

#include "unit/config/helpers.h"

namespace dtn {
namespace {

using testing::parse;

GridKeys grid_keys_of(const std::string& text) {
  return dtn::grid_keys_of(text, {preset_registry().begin(), preset_registry().end()});
}

TEST(GridKeys, ReadFromResolvedConfig) {
  const GridKeys keys = grid_keys_of(to_yaml(
      parse("model: {preset: vit_t, image_size: [96, 192], patch_size: 8, init_image_size: 224}")));
  EXPECT_EQ(keys.image_size, ImageSize(96, 192));
  EXPECT_EQ(keys.patch_size, 8);
  EXPECT_FALSE(keys.window);
  EXPECT_EQ(keys.init_image_size, ImageSize(224));
  EXPECT_FALSE(keys.norm_pool);
  EXPECT_EQ(grid_keys_of("model: {preset: swin_t, window: 3}").window, 3);
}

// A config of another version or another program has keys that this program does not know.
TEST(GridKeys, ReadDespiteUnknownKeys) {
  const GridKeys keys = grid_keys_of(
      "task: mine\nmodel: {preset: mine, image_size: 32, other: 1, norm: {pool: [4, 2]}}");
  EXPECT_EQ(keys.image_size, ImageSize(32));
  EXPECT_FALSE(keys.patch_size);
  EXPECT_EQ(keys.norm_pool, PerStage<int>({4, 2}));
}

TEST(GridKeys, DefaultToPreset) {
  const GridKeys keys = grid_keys_of("model: {preset: swin_t}");
  EXPECT_EQ(keys.image_size, ImageSize(224));
  EXPECT_EQ(keys.patch_size, 4);
  EXPECT_EQ(keys.window, 7);
}

TEST(GridKeys, EmptyForInvalidConfig) {
  for (const char* text : {"", "{", "model: 7", "[1, 2]", "{\"architectures\": [\"ViT\"]}",
                           "model: {preset: vit_t, image_size: big}"}) {
    EXPECT_FALSE(grid_keys_of(text).image_size) << text;
  }
}

}  // namespace
}  // namespace dtn
