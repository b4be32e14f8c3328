// Ten steps of small image-to-image models, from given weights and pairs of images.
#include "self_supervised_runs.h"

namespace dtn::test {
namespace {

std::string translate_file(const std::string& name) {
  return cat(DTN_TESTS_FOLDER "/golden/translate/", name);
}

// The config of a golden run, with its data and initial weights.
ExperimentConfig translate_config(const std::string& name) {
  const std::vector<std::string> files{
      "data.train=" + translate_file(name + "_data.safetensors"),
      "model.init_weights=" + translate_file(name + "_init.safetensors")};
  return load_experiment(translate_file(name + ".yaml"), files, standard_registries().schemas());
}

class TranslateSteps : public testing::TestWithParam<const char*> {};

TEST_P(TranslateSteps, EqualThoseOfFloat64PyTorch) {
  const std::string name = GetParam();
  const FinishedRun run = run_of(translate_config(name));
  const TensorFile expected = read_safetensors(translate_file(name + "_expected.safetensors"));
  ASSERT_EQ(run.steps.size(), 10u);
  EXPECT_LT(relative_distance(run.logged("loss"), doubles(named(expected.tensors, "loss"))), 1e-5);
  constexpr double kTolerance = 1e-4;  // of the largest value of a tensor
  ASSERT_EQ(run.end.model.size() + 1, expected.tensors.size());
  for (const auto& [tensor, value] : run.end.model) {
    const Doubles want = doubles(named(expected.tensors, "model." + tensor));
    EXPECT_LT(relative_distance(doubles(value), want), kTolerance) << tensor;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TranslateSteps, testing::Values("cbn_dms", "spade_ms"));

}  // namespace
}  // namespace dtn::test
