// The task translate: loss, outputs, warnings and pictures.
#include "dtn/models/presets.h"
#include "dtn/tasks/registries.h"
#include "dtn/tasks/translate.h"
#include "tensors.h"
#include "texts.h"
#include "tiny_unet.h"

namespace dtn {
namespace {

using namespace dtn::test;

ExperimentConfig translate_config() {
  ExperimentConfig config;
  config.task = "translate";
  config.model = tiny_unet();
  config.model.image_size = {12, 16};
  config.model.channels = 3;
  config.data.dataset = "synthetic";
  config.data.size = 6;
  config.data.corruptions = {"gaussian_noise/3"};
  return config;
}

std::unique_ptr<Translate> translate_of(const ExperimentConfig& config) {
  auto task = make_task({config, kCpu, standard_registries()});
  return std::unique_ptr<Translate>(dynamic_cast<Translate*>(task.release()));
}

Fields pairs(const ModelConfig& model, std::int64_t n) {
  const Shape shape{n, model.channels, model.image_size.height, model.image_size.width};
  return {{"input", as(random_tensor(shape, 1), DType::kFloat32)},
          {"target", as(random_tensor(shape, 2), DType::kFloat32)}};
}

TEST(TranslateTask, LossIsThatOfTheOutput) {
  ExperimentConfig config = translate_config();
  config.translate = {.l1 = 1, .l2 = 0.5};
  const auto task = translate_of(config);
  const Fields batch = pairs(config.model, 2);
  Context ctx;
  std::vector<Term> terms;
  const double loss = doubles(task->loss(ctx, batch, terms).value())[0];
  const Doubles y = doubles(task->outputs(ctx, batch).at("output")),
                t = doubles(batch.at("target"));
  double l1 = 0, l2 = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    l1 += std::abs(y[i] - t[i]) / static_cast<double>(y.size());
    l2 += (y[i] - t[i]) * (y[i] - t[i]) / static_cast<double>(y.size());
  }
  EXPECT_NEAR(loss, l1 + 0.5 * l2, 1e-6);
  ASSERT_EQ(terms.size(), 2u);
  EXPECT_EQ(terms[0].name, "l1");
  EXPECT_NEAR(doubles(terms[0].value)[0], l1, 1e-6);
  EXPECT_EQ(terms[1].name, "l2");
}

TEST(TranslateTask, WarnsOfARestorerThatIsWorseThanNothing) {
  const auto task = translate_of(translate_config());
  const RunLength run{.steps = 100};
  const auto warned = [&](double psnr, double input, std::int64_t step) {
    const Metrics metrics{.values = {{"psnr", psnr}, {"input_psnr", input}}, .primary = "psnr"};
    return task->evaluation_warning(metrics, step, run).has_value();
  };
  EXPECT_TRUE(warned(15, 16, 100));
  EXPECT_TRUE(warned(15, 16, 50));
  EXPECT_FALSE(warned(15, 16, 49)) << "it still learns";
  EXPECT_FALSE(warned(17, 16, 100));
  EXPECT_FALSE(warned(15, std::nan(""), 100)) << "no input to compare with";
  const Metrics worse{.values = {{"psnr", 15}, {"input_psnr", 16}}, .primary = "psnr"};
  EXPECT_TRUE(task->evaluation_warning(worse, 0, {}).has_value()) << "outside of a training";
}

TEST(TranslateTask, PictureShowsSamples) {
  const auto task = translate_of(translate_config());
  const Image picture = task->picture(DType::kFloat32);
  EXPECT_EQ(picture.width, 3 * 16);
  EXPECT_EQ(picture.height, 6 * 12);
  EXPECT_EQ(picture.pixels, task->picture(DType::kFloat32).pixels);
  EXPECT_TRUE(task->picture_period().has_value());
}

TEST(TranslateTask, NeedsAModelOfImages) {
  ExperimentConfig config = translate_config();
  config.model = preset_registry().at("vit_t").model;
  expect_error<ConfigError>([&] { translate_of(config); }, {"translate", "vit_t"});
}

}  // namespace
}  // namespace dtn
