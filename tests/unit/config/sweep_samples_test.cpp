// `samples:` of sweep files.
#include "config/sweeps/sweep_config.h"
#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

class SweepSampleKeys : public ::testing::Test {
 protected:
  SweepSampleKeys() {
    folder_.write("base.yaml",
                  "model: {preset: vit_t, norm: ln}\nschedule: {epochs: 100}\n"
                  "data: {dataset: imagefolder, root: here}\n");
    folder_.write("judge.yaml",
                  "name: other\nseed: 7\nmodel: {preset: vit_s, num_classes: 10}\n"
                  "schedule: {epochs: 2}\ndata: {dataset: imagefolder, root: there}\n");
  }

  SweepConfig load(const std::string& text, const std::vector<std::string>& set = {}) {
    return load_sweep(folder_.write("s.yaml", text), set, fake_schemas());
  }
  // A sweep of one variant. The value of `samples:` is in the second line.
  SweepConfig with(const std::string& samples, const std::vector<std::string>& set = {},
                   const std::string& variant = "a") {
    return load("base: base.yaml\nsamples: " + samples + "\nvariants: [{name: " + variant + "}]\n",
                set);
  }

  TempFolder folder_;
};

TEST_F(SweepSampleKeys, HaveDefaults) {
  const SweepSamples s = with("{judge: judge.yaml}").samples;
  ASSERT_TRUE(s.judge);
  EXPECT_EQ(s.judge->model.preset, "vit_s");
  EXPECT_EQ(s.judge->name, "judge");
  EXPECT_EQ(s.judge->seed, 7u);
  EXPECT_TRUE(s.judge_sets_num_classes);
  EXPECT_EQ(s.count, 500);
  EXPECT_EQ(s.steps, 50);
  EXPECT_EQ(s.sampler, "ddim");
  EXPECT_EQ(s.guidance, std::vector<double>{1});
  EXPECT_EQ(s.references, 5000);
  EXPECT_EQ(s.seed, 0u);
  EXPECT_FALSE(load("base: base.yaml\nvariants: [{name: a}]\n").samples.judge);
  EXPECT_FALSE(with("null").samples.judge);
}

TEST_F(SweepSampleKeys, AreRead) {
  const SweepSamples s = with(
                             "{judge: judge.yaml, count: 200, steps: 25, sampler: ddpm, "
                             "guidance: [1, 2.5], references: 300, seed: 3}")
                             .samples;
  EXPECT_EQ(s.count, 200);
  EXPECT_EQ(s.steps, 25);
  EXPECT_EQ(s.sampler, "ddpm");
  EXPECT_EQ(s.guidance, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(s.references, 300);
  EXPECT_EQ(s.seed, 3u);
}

TEST_F(SweepSampleKeys, OnlyOverridesOfDataReachTheJudge) {
  const SweepConfig sweep =
      with("{judge: judge.yaml}", {"data.root=elsewhere", "schedule.epochs=5"});
  EXPECT_EQ(sweep.samples.judge->data.root, "elsewhere");
  EXPECT_EQ(sweep.samples.judge->schedule.epochs, 2);
  EXPECT_EQ(sweep.variants[0].config.schedule.epochs, 5);
  EXPECT_EQ(with("{judge: judge.yaml}").samples.judge->data.root, "there");
}

TEST_F(SweepSampleKeys, AnInheritedValueIsReplaced) {
  folder_.write("parent.yaml",
                "base: base.yaml\nsamples: {judge: judge.yaml, count: 9}\nvariants: [{name: a}]\n");
  const std::string child = "base_sweep: parent.yaml\n";
  EXPECT_EQ(load(child).samples.count, 9);
  EXPECT_EQ(load(child + "samples: {judge: judge.yaml}\n").samples.count, 500);
  EXPECT_FALSE(load(child + "samples: null\n").samples.judge);
}

TEST_F(SweepSampleKeys, ErrorsNameLineAndColumn) {
  const std::pair<const char*, std::vector<const char*>> cases[] = {
      {"3", {"s.yaml:2:10", "samples is a map of judge, count"}},
      {"{count: 3}", {"s.yaml:2:10", "samples has no judge"}},
      {"{judge: absent.yaml}", {"s.yaml:2:18", "absent.yaml"}},
      {"{judge: judge.yaml, cout: 3}", {"s.yaml:2:30", "did you mean 'count'?"}},
      {"{judge: judge.yaml, count: 1}", {"s.yaml:2:37", "samples.count"}},
      {"{judge: judge.yaml, sampler: euler}", {"s.yaml:2:39", "ddim", "ddpm"}},
      {"{judge: judge.yaml, guidance: [1, -1]}", {"s.yaml:2:", "samples.guidance"}},
      {"{judge: judge.yaml, guidance: [1, 2, 1]}", {"s.yaml:2:40", "1 is there twice"}},
      {"{judge: judge.yaml, guidance: []}", {"s.yaml:2:", "samples.guidance"}},
  };
  for (const auto& [text, parts] : cases) {
    const std::string error = error_of([&] { with(text); });
    for (const char* part : parts) expect_contains(error, part);
  }
  expect_contains(error_of([&] { with("{judge: judge.yaml}", {}, "judge"); }),
                  "'judge' is the folder of the judge");
}

}  // namespace
}  // namespace dtn::testing
