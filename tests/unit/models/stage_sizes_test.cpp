// Exact parameters and multiply-adds of models with several stages at 224 x 224.
#include "dtn/models/complexity.h"
#include "dtn/models/presets.h"
#include "tiny_stages.h"

namespace dtn {
namespace {

struct Size {
  const char* preset;
  std::int64_t parameters, parameters_dtn, multiply_adds, by_paper, real;
};

// PVT and PVTv2 have the heads of the code released with the DTN paper.
constexpr Size kSizes[] = {
    {"pvt_tiny", 13229288, 13229600, 1932911616, 2011587584, 1955390464},
    {"pvt_small", 24485864, 24486560, 3815701504, 4017308672, 3873303552},
    {"pvt_medium", 44208104, 44209520, 6659175424, 7155817472, 6801073152},
    {"pvt_large", 61369320, 61371468, 9813765632, 10571021824, 10030124544},
    {"pvt_v2_b3", 45238696, 45240112, 6897303552, 7393945600, 7039201280},
    {"swin_t", 28288354, 28290010, 4490566656, 4719218688, 4558003200},
    {"swin_s", 49606258, 49609642, 8740875264, 9323569152, 8909466624},
};

ModelConfig with_norm(const char* preset, const char* norm) {
  ModelConfig c = preset_registry().at(preset).model;
  c.norm.type = norm;
  return c;
}

TEST(StageSizes, WithLayerNormAreExact) {
  for (const Size& want : kSizes) {
    SCOPED_TRACE(want.preset);
    const Complexity got = complexity_of(with_norm(want.preset, "ln"));
    EXPECT_EQ(got.parameters, want.parameters);
    EXPECT_EQ(got.multiply_adds, static_cast<double>(want.multiply_adds));
    EXPECT_EQ(got.paper_multiply_adds, got.multiply_adds);
  }
}

TEST(StageSizes, WithDtnAreExact) {
  for (const Size& want : kSizes) {
    SCOPED_TRACE(want.preset);
    ModelConfig c = with_norm(want.preset, "dtn");
    if (c.family != "swin") c.num_heads = {4, 4, 5, 8};
    const Complexity got = complexity_of(c);
    EXPECT_EQ(got.parameters, want.parameters_dtn);
    EXPECT_EQ(got.paper_multiply_adds, static_cast<double>(want.by_paper));
    EXPECT_EQ(got.multiply_adds, static_cast<double>(want.real));
  }
}

// The heads of PVT's own release are fewer. They change the parameters of DTN only.
TEST(StageSizes, WithFewerHeadsAreExact) {
  struct Count {
    const char* preset;
    std::int64_t dtn;
  };
  for (const Count& want :
       {Count{"pvt_tiny", 13229480}, Count{"pvt_small", 24486356}, Count{"pvt_medium", 44209316},
        Count{"pvt_large", 61371168}, Count{"pvt_v2_b3", 45239908}}) {
    EXPECT_EQ(complexity_of(with_norm(want.preset, "dtn")).parameters, want.dtn) << want.preset;
  }
}

// Only dtn and dln have matrix products of their own.
TEST(StageSizes, CountEveryNormalizer) {
  for (const char* preset : {"pvt_tiny", "pvt_v2_b3", "swin_t"}) {
    const double plain = complexity_of(with_norm(preset, "ln")).multiply_adds;
    for (const NormEntry& row : norm_registry()) {
      if (!row.schema.stands_alone() || row.name() == "dtn" || row.name() == "dln") {
        continue;
      }
      EXPECT_EQ(complexity_of(with_norm(preset, row.name().c_str())).multiply_adds, plain)
          << preset << ", " << row.name();
    }
  }
}

// In the last block of PVT only the class token needs a query, the projection and the MLP.
TEST(StageSizes, CountLastBlockOfPvtForClassTokenOnly) {
  const Complexity c = complexity_of(with_norm("pvt_tiny", "dtn"));
  EXPECT_EQ(c.multiply_adds - c.computed_multiply_adds,
            49.0 * (2 * 512 * 512 + 2 * 512 * 2048) + 2.0 * 49 * 50 * 512);
  const Complexity v2 = complexity_of(with_norm("pvt_v2_b3", "dtn"));
  EXPECT_EQ(v2.multiply_adds, v2.computed_multiply_adds);
}

TEST(StageSizes, MatchParametersOfModel) {
  for (const ModelConfig& c : test::staged_models()) {
    Classifier model(c, 0);
    EXPECT_EQ(complexity_of(c).parameters, model.parameters().count()) << c.preset;
  }
}

}  // namespace
}  // namespace dtn
