// Parameter counts, multiply-adds and memory of models.
#include <algorithm>

#include "core/allocator.h"
#include "dtn/models/complexity.h"
#include "dtn/models/presets.h"
#include "tiny_vit.h"

namespace dtn {
namespace {

ModelConfig preset(const std::string& name, const std::string& norm) {
  ModelConfig c = preset_registry().at(name).model;
  c.norm.type = norm;
  return c;
}

struct Count {
  const char* name;
  std::int64_t ln, dtn;
};

TEST(ModelSize, ParametersAreExact) {
  for (Count want : {Count{"vit_t", 5710312, 5710672}, Count{"vit_t_star", 5710312, 5710792},
                     Count{"vit_s", 22036456, 22037176}, Count{"vit_s_star", 27776872, 27777952},
                     Count{"vit_b", 86539240, 86540680}, Count{"vit_b_star", 86539240, 86541160}}) {
    EXPECT_EQ(complexity_of(preset(want.name, "ln")).parameters, want.ln) << want.name;
    EXPECT_EQ(complexity_of(preset(want.name, "dtn")).parameters, want.dtn) << want.name;
  }
  // Ten blocks with two sites each: without LayerNorm's 768 values, and with 73,792 in their place.
  EXPECT_EQ(complexity_of(preset("vit_s", "pono")).parameters, 22021096);
  EXPECT_EQ(complexity_of(preset("vit_s", "dln")).parameters, 23512296);
  // DeiT's, as counted by timm.
  EXPECT_EQ(complexity_of(preset("deit_tiny", "ln")).parameters, 5717416);
  EXPECT_EQ(complexity_of(preset("deit_small", "ln")).parameters, 22050664);
  EXPECT_EQ(complexity_of(preset("deit_base", "ln")).parameters, 86567656);
}

// As counted by timm; the first two without a head.
TEST(ModelSize, PublicModelsMatchParametersOfTimm) {
  const auto parameters = [](const char* name, int classes) {
    ModelConfig c = preset_registry().at(name).model;
    c.num_classes = classes;
    return complexity_of(c).parameters;
  };
  EXPECT_EQ(parameters("vit_giant_patch14_dinov2", 0), 1136479232);
  EXPECT_EQ(parameters("vit_giant_patch14_reg4_dinov2", 0), 1136483840);
  EXPECT_EQ(parameters("vit_large_patch14_clip_336", 768), 304294656);
  EXPECT_EQ(parameters("deit3_huge_patch14_224", 1000), 632126440);
  EXPECT_EQ(parameters("deit_base_distilled_patch16_384", 1000), 87630032);
  EXPECT_EQ(parameters("vit_medium_patch16_gap_384", 1000), 39025128);
  EXPECT_EQ(parameters("vit_betwixt_patch16_reg4_gap_256", 1000), 60398440);
  EXPECT_EQ(parameters("vit_base_patch16_224_miil", 11221), 94399957);
}

TEST(ModelSize, AttentionPositionsAddOnlyTheirWeights) {
  ModelConfig c = preset("vit_s_star", "ln");
  Complexity without = complexity_of(c);
  c.mhsa_position = true;
  EXPECT_EQ(complexity_of(c).parameters, without.parameters + 10 * 9 * 3);
  EXPECT_EQ(complexity_of(c).multiply_adds, without.multiply_adds);
}

TEST(ModelSize, MatchesParametersOfModel) {
  for (const ModelConfig& c : {test::paper_vit(), test::deit_vit(), test::mean_vit(),
                               test::biased_vit(), test::prefix_vit(), test::wide_vit()}) {
    Classifier model(c, 0);
    EXPECT_EQ(complexity_of(c).parameters, model.parameters().count()) << c.preset;
  }
}

struct Cost {
  const char* name;
  const char* norm;
  double giga;  // Table 1
};

TEST(ModelSize, MultiplyAddsMatchTable1) {
  for (Cost want :
       {Cost{"vit_t", "ln", 1.26}, Cost{"vit_t_star", "ln", 1.26}, Cost{"vit_t_star", "dtn", 1.40},
        Cost{"vit_s", "ln", 4.60}, Cost{"vit_s", "dtn", 4.88}, Cost{"vit_s_star", "ln", 5.77},
        Cost{"vit_s_star", "dtn", 6.08}, Cost{"vit_b", "ln", 17.58}, Cost{"vit_b", "dtn", 18.13},
        Cost{"vit_b_star", "ln", 17.58}, Cost{"vit_b_star", "dtn", 18.13}}) {
    double got = complexity_of(preset(want.name, want.norm)).paper_multiply_adds / 1e9;
    EXPECT_NEAR(got, want.giga, 0.015 * want.giga) << want.name << " " << want.norm;
  }
}

// Multiply-adds of a vision transformer by formula, with all blocks computed completely.
double by_formula(const ModelConfig& c) {
  const double channels = c.embed_dim, patches = c.num_patches();
  const double both_layers = (c.mlp == MlpKind::kSwigluPacked ? 1.5 : 2) * c.mlp_dim();
  double sum =
      static_cast<double>(c.channels) * c.image_size.height * c.image_size.width * channels +
      channels * c.num_classes * (1 + c.distilled);
  const bool in_front = c.pos_embed == PosEmbed::kAll || c.class_token_at == 0;
  for (int i = 0; i < c.depth; ++i) {
    const bool joined = in_front || i >= c.class_token_at;
    const double tokens = patches + (joined ? c.prefix_tokens() : 0);
    sum += tokens * channels * (4 * channels + both_layers) + 2 * tokens * tokens * channels;
  }
  return sum;
}

TEST(ModelSize, MultiplyAddsMatchFormula) {
  for (const PresetSchema& preset : preset_registry()) {
    const ModelConfig& c = preset.model;
    if (c.family != "vit" || !preset.releases.empty()) continue;
    ModelConfig plain = c;
    plain.norm.type = "ln";
    EXPECT_EQ(complexity_of(plain).multiply_adds, by_formula(plain)) << c.preset;
  }
  std::vector<ModelConfig> tiny = test::checkpoint_vits();
  for (const ModelConfig& c : {test::paper_vit(), test::deit_vit(), test::mean_vit(),
                               test::biased_vit(), test::prefix_vit(), test::wide_vit()}) {
    tiny.push_back(c);
  }
  for (const ModelConfig& c : tiny) {
    ModelConfig plain = c;
    plain.norm.type = "ln";
    EXPECT_EQ(complexity_of(plain).multiply_adds, by_formula(plain)) << c.preset;
  }
}

// Operations keep the same tensors on the meta device and on the CPU. There each tensor ends at a
// cache line, so it has up to 63 bytes more.
TEST(ModelSize, ActivationBytesMatchRealPass) {
  for (const char* type : {"dtn", "ln", "bn", "in", "gn", "rms", "sn", "power", "scale"}) {
    for (const DType compute : {DType::kFloat32, DType::kBFloat16}) {
      ModelConfig c = test::paper_vit();
      c.embed_dim = 80;
      c.image_size = 80;
      c.patch_size = 10;
      c.norm.type = type;
      Classifier model(c, 0);
      if (compute == DType::kBFloat16) model.parameters().enable_bfloat16();
      const auto kept = [&](std::int64_t samples) {
        const Tensor images = Tensor::zeros({samples, 2, 80, 80}, DType::kFloat32);
        const std::size_t before = allocator_stats().bytes_in_use;
        Tape tape;
        Context ctx;
        ctx.tape = &tape;
        ctx.mode = {.training = true, .compute = compute};
        const Variable logits = model.forward(ctx, images);
        return static_cast<double>(allocator_stats().bytes_in_use - before);
      };
      // A thread allocates scratch memory on its first share of the work, and keeps it.
      const auto least_kept = [&](std::int64_t samples) {
        return std::min({kept(samples), kept(samples), kept(samples), kept(samples)});
      };
      const double real = least_kept(8) - least_kept(4);
      const Complexity cost = complexity_of(c);
      const double counted = 4 * (compute == DType::kFloat32 ? cost.activation_bytes_fp32
                                                             : cost.activation_bytes_bf16);
      EXPECT_NEAR(counted, real, 0.01 * real) << type << " " << name_of(compute);
      EXPECT_GT(counted, 0);
    }
  }
}

TEST(ModelSize, CountsEveryNormalizer) {
  for (const NormEntry& row : norm_registry()) {
    if (!row.schema.stands_alone()) continue;
    ModelConfig c = test::paper_vit();
    c.norm.type = row.name();
    const double beyond = complexity_of(c).multiply_adds - by_formula(c);
    const double want = row.name() == "dtn"   ? 2 * 2 * 2.0 * (3 + 3) * 9 * 20
                        : row.name() == "dln" ? 2 * 2 * (9 * 20 * 64 + 64 * 2.0 * 20)
                                              : 0;
    EXPECT_EQ(beyond, want) << row.name();
  }
}

// Two statistics in two passes of 14 terms each are 56 terms, instead of 196 for the full product.
TEST(ModelSize, CountsSeparableStatistics) {
  Complexity ln = complexity_of(preset("vit_s_star", "ln"));
  Complexity dtn = complexity_of(preset("vit_s_star", "dtn"));
  EXPECT_EQ(ln.paper_multiply_adds, ln.multiply_adds);
  EXPECT_DOUBLE_EQ(dtn.paper_multiply_adds - ln.multiply_adds, 20.0 * 196 * 196 * 432);
  EXPECT_DOUBLE_EQ(dtn.multiply_adds - ln.multiply_adds, 20.0 * 56 * 196 * 432);
  EXPECT_GT(dtn.activation_bytes_fp32, dtn.activation_bytes_bf16);
}

// In the last block only the class token needs a query, the projection and the MLP, provided that
// the norm before the MLP does not need the other tokens.
TEST(ModelSize, CountsLastBlockForClassTokenOnly) {
  const Complexity c = complexity_of(preset("vit_s_star", "dtn"));
  EXPECT_DOUBLE_EQ(c.multiply_adds - c.computed_multiply_adds,
                   196.0 * (2 * 432 * 432 + 2 * 432 * 1728) + 2.0 * 196 * 197 * 432);
  auto left_out = [](const ModelConfig& config) {
    const Complexity cost = complexity_of(config);
    return cost.multiply_adds - cost.computed_multiply_adds;
  };
  EXPECT_GT(left_out(test::deit_vit()), 0);
  EXPECT_EQ(left_out(test::mean_vit()), 0);
  ModelConfig late = test::paper_vit();
  late.class_token_at = late.depth;
  EXPECT_EQ(left_out(late), 0);
  ModelConfig mixing = test::deit_vit();
  mixing.norm.layers = mixing.depth;
  EXPECT_GT(left_out(mixing), 0);
  mixing.norm.type = "rms";
  EXPECT_GT(left_out(mixing), 0);
  for (const char* type : {"bn", "in"}) {
    mixing.norm.type = type;
    EXPECT_EQ(left_out(mixing), 0) << type;
  }
  mixing.norm.type = "dtn";
  EXPECT_THROW(complexity_of(mixing), ConfigError) << "the class token is not in its grid";
  mixing = test::prefix_vit();
  EXPECT_EQ(left_out(mixing), 0) << "the patches are pooled";
  mixing.pool = Pooling::kCls;
  EXPECT_GT(left_out(mixing), 0) << "what becomes of the class token is its own there";
}

}  // namespace
}  // namespace dtn
