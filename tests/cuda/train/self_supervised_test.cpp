// Runs of DINO and of supervised contrastive learning on the device, compared with the same runs on
// the CPU. From the third step on a step is captured: with the teacher, the center, the clipping of
// each tensor, the late last layer and the scheduled values.
#include "self_supervised_runs.h"

namespace dtn::test {
namespace {

void expect_near(const NamedTensors& device, const NamedTensors& host) {
  ASSERT_EQ(device.size(), host.size());
  for (std::size_t i = 0; i < host.size(); ++i) {
    EXPECT_LT(relative_distance(doubles(device[i].second), doubles(host[i].second)), 1e-3)
        << host[i].first;
  }
}

void compare(const std::string& name, const std::string& views,
             const std::vector<std::string>& overrides) {
  SCOPED_TRACE(name);
  std::vector<std::string> all{"optim.name=sgd", "optim.lr=0.05"};  // AdamW amplifies rounding
  all.insert(all.end(), overrides.begin(), overrides.end());
  const ExperimentConfig config = golden_config(name, views, all);
  const FinishedRun host = run_of(config), device = run_of(config, nullptr, kCuda);
  ASSERT_EQ(device.steps.size(), host.steps.size());
  for (const char* figure : {"loss", "grad_norm"}) {
    EXPECT_LT(relative_distance(device.logged(figure), host.logged(figure)), 1e-4) << figure;
  }
  expect_near(device.end.model, host.end.model);
  expect_near(device.end.ema, host.end.ema);
  if (views != "dino") return;
  EXPECT_EQ(device.logged("teacher_temp"), host.logged("teacher_temp"));
  expect_near({{"center", named(device.end.state, "dino.center")}},
              {{"center", named(host.end.state, "dino.center")}});
}

TEST(CudaSelfSupervised, DinoMatchesCpu) {
  compare("dino_frozen", "dino", {"schedule.epochs=2"});  // the last layer learns in the second
  compare("dino_late_token", "dino", {"schedule.epochs=2", "train.micro_batch=2"});
}

TEST(CudaSelfSupervised, SupconMatchesCpu) {
  compare("supcon", "supcon", {});
  compare("supcon", "supcon", {"train.micro_batch=2"});
}

}  // namespace
}  // namespace dtn::test
