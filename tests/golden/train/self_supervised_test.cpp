// Twelve steps of DINO and four of supervised contrastive learning, from given weights and views.
#include "self_supervised_runs.h"

namespace dtn::test {
namespace {

constexpr double kTolerance = 1e-4;  // of the largest value of a tensor

// Returns the values without the bias of the keys. It has no gradient but rounding, which AdamW
// enlarges.
Doubles without_key_bias(const std::string& name, const Tensor& tensor) {
  Doubles values = doubles(tensor);
  if (!name.ends_with("qkv.bias")) return values;
  const auto third = static_cast<std::ptrdiff_t>(values.size() / 3);
  values.erase(values.begin() + third, values.begin() + 2 * third);
  return values;
}

void expect_near(const NamedTensors& ours, const TensorFile& expected, const std::string& prefix) {
  std::size_t compared = 0;
  for (const auto& [name, tensor] : expected.tensors) {
    if (!name.starts_with(prefix)) continue;
    const std::string own = name.substr(prefix.size());
    EXPECT_LT(
        relative_distance(without_key_bias(own, named(ours, own)), without_key_bias(own, tensor)),
        kTolerance)
        << name;
    ++compared;
  }
  EXPECT_EQ(compared, ours.size()) << prefix;
}

class DinoSteps : public testing::TestWithParam<const char*> {};

TEST_P(DinoSteps, EqualThoseOfFloat64PyTorch) {
  const std::string name = cat("dino_", GetParam());
  const FinishedRun run = run_of(golden_config(name, "dino"));
  const TensorFile expected = read_safetensors(golden_file(name + "_expected.safetensors"));
  ASSERT_EQ(run.steps.size(), 12u);
  for (const char* figure : {"loss", "loss_global", "loss_local", "teacher_entropy", "lr",
                             "weight_decay", "teacher_momentum", "teacher_temp"}) {
    EXPECT_LT(relative_distance(run.logged(figure), doubles(named(expected.tensors, figure))),
              kTolerance)
        << figure;
  }
  expect_near(run.end.model, expected, "student.");
  expect_near(run.end.ema, expected, "teacher.");
  EXPECT_LT(relative_distance(doubles(named(run.end.state, "dino.center")),
                              doubles(named(expected.tensors, "center"))),
            kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Cases, DinoSteps, testing::Values("frozen", "trained", "late_token"),
                         [](const auto& each) { return std::string(each.param); });

TEST(SupconSteps, EqualThoseOfFloat64PyTorch) {
  const FinishedRun run = run_of(golden_config("supcon", "supcon"));
  const TensorFile expected = read_safetensors(golden_file("supcon_expected.safetensors"));
  ASSERT_EQ(run.steps.size(), 4u);
  EXPECT_LT(relative_distance(run.logged("loss"), doubles(named(expected.tensors, "loss"))), 1e-5);
  for (const auto& [name, tensor] : run.end.model) {
    EXPECT_LT(relative_distance(doubles(tensor), doubles(named(expected.tensors, name))),
              kTolerance)
        << name;
  }
}

}  // namespace
}  // namespace dtn::test
