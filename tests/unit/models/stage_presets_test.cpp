// The presets of models with several stages.
#include <gtest/gtest.h>

#include "dtn/models/presets.h"

namespace dtn {
namespace {

TEST(StagePresets, HavePublishedShapes) {
  struct Row {
    const char *name, *family;
    PerStage<int> embed_dim, depth, num_heads;
    PerStage<double> mlp_ratio;
    Pooling pool;
    double eps;
  };
  const PerStage<int> pyramid = {64, 128, 320, 512}, swin = {96, 192, 384, 768};
  const PerStage<int> pyramid_heads = {1, 2, 5, 8}, swin_heads = {3, 6, 12, 24};
  const PerStage<double> ratios = {8, 8, 4, 4};
  for (const Row& row : {
           Row{"pvt_tiny",
               "pvt",
               pyramid,
               {2, 2, 2, 2},
               pyramid_heads,
               ratios,
               Pooling::kCls,
               1e-6},
           Row{"pvt_small",
               "pvt",
               pyramid,
               {3, 4, 6, 3},
               pyramid_heads,
               ratios,
               Pooling::kCls,
               1e-6},
           Row{"pvt_medium",
               "pvt",
               pyramid,
               {3, 4, 18, 3},
               pyramid_heads,
               ratios,
               Pooling::kCls,
               1e-6},
           Row{"pvt_large",
               "pvt",
               pyramid,
               {3, 8, 27, 3},
               pyramid_heads,
               ratios,
               Pooling::kCls,
               1e-6},
           Row{"pvt_v2_b3",
               "pvt_v2",
               pyramid,
               {3, 4, 18, 3},
               pyramid_heads,
               ratios,
               Pooling::kMean,
               1e-6},
           Row{"swin_t", "swin", swin, {2, 2, 6, 2}, swin_heads, 4.0, Pooling::kMean, 1e-5},
           Row{"swin_s", "swin", swin, {2, 2, 18, 2}, swin_heads, 4.0, Pooling::kMean, 1e-5},
       }) {
    SCOPED_TRACE(row.name);
    const ModelConfig& m = preset_registry().at(row.name).model;
    EXPECT_EQ(m.family, row.family);
    EXPECT_EQ(m.embed_dim, row.embed_dim);
    EXPECT_EQ(m.depth, row.depth);
    EXPECT_EQ(m.num_heads, row.num_heads);
    EXPECT_EQ(m.mlp_ratio, row.mlp_ratio);
    EXPECT_EQ(m.pool, row.pool);
    EXPECT_EQ(m.eps, row.eps);
    EXPECT_EQ(m.patch_size, 4);
    EXPECT_TRUE(m.qkv_bias);
    EXPECT_EQ(m.norm_pool, PerStage<std::int64_t>({4, 2, 1, 1}));
    EXPECT_EQ(m.window, m.family == "swin" ? std::optional(7) : std::nullopt);
    EXPECT_EQ(m.reduction.has_value(), m.family != "swin");
  }
}

}  // namespace
}  // namespace dtn
