// Parameter counts and multiply-adds of the presets.
#include "dtn/config/load.h"
#include "dtn/models/complexity.h"
#include "tiny_vit.h"

namespace dtn {
namespace {

ModelConfig preset(const std::string& name, const std::string& norm) {
  ModelConfig c = model_preset(name);
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
  // DeiT's, as timm counts them.
  EXPECT_EQ(complexity_of(preset("deit_tiny", "ln")).parameters, 5717416);
  EXPECT_EQ(complexity_of(preset("deit_small", "ln")).parameters, 22050664);
  EXPECT_EQ(complexity_of(preset("deit_base", "ln")).parameters, 86567656);
}

TEST(ModelSize, PositionsInTheAttentionCostTheirWeights) {
  ModelConfig c = preset("vit_s_star", "ln");
  Complexity without = complexity_of(c);
  c.mhsa_position = true;
  EXPECT_EQ(complexity_of(c).parameters, without.parameters + 10 * 9 * 3);
  EXPECT_EQ(complexity_of(c).multiply_adds, without.multiply_adds);
}

TEST(ModelSize, CountsWhatAModelHolds) {
  for (const ModelConfig& c :
       {test::paper_vit(), test::deit_vit(), test::mean_vit(), test::biased_vit()}) {
    Classifier model(c, 0);
    EXPECT_EQ(complexity_of(c).parameters, model.parameters().count()) << c.preset;
  }
}

struct Cost {
  const char* name;
  const char* norm;
  double giga;  // Table 1
};

TEST(ModelSize, MultiplyAddsAreThoseOfTable1) {
  for (Cost want :
       {Cost{"vit_t", "ln", 1.26}, Cost{"vit_t_star", "ln", 1.26}, Cost{"vit_t_star", "dtn", 1.40},
        Cost{"vit_s", "ln", 4.60}, Cost{"vit_s", "dtn", 4.88}, Cost{"vit_s_star", "ln", 5.77},
        Cost{"vit_s_star", "dtn", 6.08}, Cost{"vit_b", "ln", 17.58}, Cost{"vit_b", "dtn", 18.13},
        Cost{"vit_b_star", "ln", 17.58}, Cost{"vit_b_star", "dtn", 18.13}}) {
    double got = complexity_of(preset(want.name, want.norm)).paper_multiply_adds / 1e9;
    EXPECT_NEAR(got, want.giga, 0.015 * want.giga) << want.name << " " << want.norm;
  }
}

// Two statistics, two passes of 14 each, instead of one product with 196 columns: 56 for 196.
TEST(ModelSize, SeparableStatisticsCostWhatTheyDo) {
  Complexity ln = complexity_of(preset("vit_s_star", "ln"));
  Complexity dtn = complexity_of(preset("vit_s_star", "dtn"));
  EXPECT_EQ(ln.paper_multiply_adds, ln.multiply_adds);
  EXPECT_DOUBLE_EQ(dtn.paper_multiply_adds - ln.multiply_adds, 20.0 * 196 * 196 * 432);
  EXPECT_DOUBLE_EQ(dtn.multiply_adds - ln.multiply_adds, 20.0 * 56 * 196 * 432);
  EXPECT_GT(dtn.activation_bytes_fp32, dtn.activation_bytes_bf16);
}

// Of the last block the class token alone needs a query, the projection and the MLP, and only where
// the norm before the MLP can do without the others.
TEST(ModelSize, TheLastBlockIsComputedForItsClassToken) {
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
  for (const char* type : {"dtn", "bn", "in"}) {
    mixing.norm.type = type;
    EXPECT_EQ(left_out(mixing), 0) << type;
  }
}

}  // namespace
}  // namespace dtn
