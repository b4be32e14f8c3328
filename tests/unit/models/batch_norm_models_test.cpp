// Models whose BatchNorms get a single value per channel refuse to train, but can be evaluated.
#include "dtn/models/complexity.h"
#include "tiny_convolutional.h"

namespace dtn {
namespace {

TEST(BatchNormModels, RejectTrainingOnSingleValue) {
  const auto run = [](const ModelConfig& c, std::int64_t batch, bool training) {
    Classifier model(c, 1);
    Context ctx;
    ctx.mode.training = training;
    return model.forward(ctx, test::some_images(c, batch, DType::kFloat32));
  };
  // LeViT's head gets one vector per image, at any image size.
  ModelConfig resnet = test::tiny_resnet();
  resnet.image_size = {8, 8};  // 1 x 1 after the stem and in the last stage
  for (const ModelConfig& c : {test::tiny_levit("ln"), test::tiny_levit("bn"), resnet}) {
    SCOPED_TRACE(c.preset + ", " + c.norm.type);
    try {
      run(c, 1, true);
      ADD_FAILURE() << "trained on a single value";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find("more than one value per channel"), std::string::npos);
    }
    EXPECT_NO_THROW(run(c, 1, false));
    EXPECT_NO_THROW(run(c, 2, true));
  }
  EXPECT_NO_THROW(run(test::tiny_resnet(), 1, true));  // a larger grid
  EXPECT_NO_THROW(run(test::tiny_levit("ln"), 2, true));
}

// The meta device finds this before a run starts, and still gives the sizes of these models.
TEST(BatchNormModels, AreCheckedOnMetaDevice) {
  const ModelConfig levit = test::tiny_levit();
  EXPECT_THROW(try_training_pass(levit, 1), ConfigError);
  EXPECT_NO_THROW(try_training_pass(levit, 2));
  EXPECT_NO_THROW(try_training_pass(test::deit_vit(), 1));
  EXPECT_GT(complexity_of(levit).activation_bytes_fp32, 0);
}

}  // namespace
}  // namespace dtn
