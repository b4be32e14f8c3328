// Ten steps of a small diffusion transformer, from given weights, images, time steps and noise.
#include "diffusion_runs.h"

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
  ASSERT_GT(ours.size(), 10u);
  for (const auto& [name, tensor] : ours) {
    EXPECT_LT(relative_distance(without_key_bias(name, tensor),
                                without_key_bias(name, named(expected.tensors, cat(prefix, name)))),
              kTolerance)
        << prefix << name;
  }
}

TEST(DiffusionSteps, EqualThoseOfFloat64PyTorch) {
  const FinishedRun run = run_of(diffusion_config());
  const TensorFile expected = read_safetensors(diffusion_file("dit_expected.safetensors"));
  ASSERT_EQ(run.steps.size(), 10u);
  for (const char* figure : {"loss", "mse", "vb"}) {
    EXPECT_LT(relative_distance(run.logged(figure), doubles(named(expected.tensors, figure))), 1e-5)
        << figure;
  }
  expect_near(run.end.model, expected, "model.");
  expect_near(run.end.ema, expected, "ema.");
}

// The positions are not trained, and averaging must not round them.
TEST(DiffusionSteps, PositionsStayBitForBit) {
  const FinishedRun run = run_of(diffusion_config());
  const TensorFile start = read_safetensors(diffusion_file("dit_init.safetensors"));
  EXPECT_TRUE(same_bits(named(run.end.model, "pos_embed"), *start.find("pos_embed")));
  EXPECT_TRUE(same_bits(named(run.end.ema, "pos_embed"), *start.find("pos_embed")));
}

}  // namespace
}  // namespace dtn::test
