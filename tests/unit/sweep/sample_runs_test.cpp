// Judged samples in sweeps: what is drawn and judged, kept and shown.
#include "apps/sweep/sample_runs.h"

#include <nlohmann/json.hpp>

#include "apps/sweep/known_runs.h"
#include "apps/sweep/sweep_report.h"
#include "apps/sweep/sweep_size.h"
#include "dtn/io/safetensors.h"
#include "texts.h"
#include "train/checkpoint.h"
#include "unit/sweep/sweep_folder.h"

namespace dtn {
namespace {
namespace fs = std::filesystem;
using test::error_of;
using test::expect_contains;

// The programs are scripts. dtn-sample copies a file of four samples; the agreement depends on the
// guidance and the seed.
class SweepSampleRuns : public test::SweepFolder {
 protected:
  SweepSampleRuns() {
    write("judge.yaml",
          "model: {preset: vit_t, image_size: 16, patch_size: 4, embed_dim: 24, depth: 2,\n"
          "        num_heads: 4, num_classes: 10}\n"
          "data: {dataset: synthetic, size: 80}\nschedule: {epochs: 1}\n"
          "train: {batch_size: 16}\n");
    const fs::path samples = folder_ / "four.safetensors";
    write_safetensors(samples,
                      {{"samples", Tensor::zeros({4, 1, 2, 2}, DType::kFloat32)},
                       {"labels", Tensor::from(std::vector<std::int64_t>{0, 1, 0, 1}, {4})}});
    options_.device = "cpu";
    options_.output = out();
    options_.trainer =
        script("trainer.sh", "echo trained >> " + (folder_ / "trained.txt").string() +
                                 "\necho '{\"top1\":88,\"steps\":5}' > $4/summary.json\n"
                                 "mkdir -p $4/checkpoints/last\n");
    options_.sampler = {script("sampler.sh",
                               "echo \"$@\"\nwhile [ \"$1\" != --save-samples ]; do shift; done\n"
                               "cp " +
                                   samples.string() + " \"$2\"\n")};
    options_.evaluator = {
        script("evaluator.sh",
               "echo \"$@\"\ncase \"$*\" in *guidance-2.s*) a=80;; *) a=60;; esac\n"
               "case \"$*\" in *seed-1*) a=$((a + 2));; esac\n"
               "echo '{\"agreement\":'$a',\"frechet_distance\":12.5,\"features\":24,"
               "\"training_images\":80,\"references\":{\"test_images\":{\"accuracy\":88,"
               "\"frechet_distance\":8.6},\"noise\":{\"agreement\":10,\"frechet_distance\":458},"
               "\"samples\":{\"agreement\":9.5,\"frechet_distance\":235}}}'\n")};
  }

  std::string script(const char* name, const std::string& text) const {
    const std::string path = write(name, "#!/bin/sh\n" + text);
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
  SweepConfig samples(const std::string& keys = "count: 4, guidance: [1, 2]") const {
    return load("samples: {judge: judge.yaml, " + keys + "}\n");
  }
  // Returns the runs; those of `ln` are finished.
  std::vector<SweepRun> runs_of(const SweepConfig& sweep) const {
    std::vector<SweepRun> runs = plan_runs(sweep, out(), {});
    for (SweepRun* run : {&runs[0], &runs[1]}) {
      finish(*run, {30, 35, 40, 45, 50, 55});
      fs::create_directories(checkpoint_path(run->folder, 30));
      fs::create_directory_symlink("step-00000030", run->folder / "checkpoints" / "last");
      update_state(*run);
    }
    return runs;
  }
  SweepReport report(const SweepConfig& sweep, const std::vector<SweepRun>& runs) const {
    return {sweep, collect_results(sweep, runs, costs_of(sweep, standard_registries())), "out",
            "dtn-sweep"};
  }
  std::string folder(int seed) const { return cat("out/ln/seed-", seed, "/samples/"); }

  SweepOptions options_;
};

TEST_F(SweepSampleRuns, AreJudgedOnceByOneJudge) {
  const SweepConfig sweep = samples();
  const std::vector<SweepRun> runs = runs_of(sweep);
  EXPECT_EQ(samples_left(sweep, runs), 6u) << "two of each run, also of the one to do";
  EXPECT_EQ(judge_samples(sweep, options_, runs), SweepStatus::kFinished);
  EXPECT_EQ(samples_left(sweep, runs), 2u);
  EXPECT_EQ(read("trained.txt"), "trained\n");
  EXPECT_EQ(sample_result(sweep, runs[0], 0)->samples.agreement, 60);
  EXPECT_EQ(sample_result(sweep, runs[1], 1)->samples.agreement, 82);
  EXPECT_EQ(sample_result(sweep, runs[1], 1)->untrained->distance, 235);
  const std::string log = read(folder(0) + "guidance-2.log");
  expect_contains(log, "checkpoints/last --count 4 --seed 0 --sampler ddim --steps 50");
  expect_contains(log, "--cfg-scale 2 --device cpu --threads 1");
  expect_contains(log, "judge/checkpoints/last --samples ");
  expect_contains(log, "--references 5000 --reference-samples ");
  expect_contains(read("out/judge/untrained.log"), "--cfg-scale 1 --untrained");
  EXPECT_FALSE(fs::exists(folder_ / folder(0) / "guidance-2.safetensors"));
  EXPECT_FALSE(fs::exists(out() / "judge" / "untrained.safetensors"));
  EXPECT_TRUE(fs::exists(folder_ / folder(0) / kSampleGrid));
  EXPECT_FALSE(fs::exists(folder_ / folder(1) / kSampleGrid)) << "only of the first seed";
  options_.sampler = options_.evaluator = {"false"};
  EXPECT_EQ(judge_samples(sweep, options_, runs), SweepStatus::kFinished);
}

TEST_F(SweepSampleRuns, OtherKeysJudgeAgain) {
  SweepConfig sweep = samples();
  const std::vector<SweepRun> runs = runs_of(sweep);
  EXPECT_EQ(judge_samples(sweep, options_, runs), SweepStatus::kFinished);
  for (auto change : {+[](SweepSamples& s) { s.count = 5; }, +[](SweepSamples& s) { s.seed = 1; },
                      +[](SweepSamples& s) { s.judge->optim.lr = 0.1; }}) {
    SweepConfig other = sweep;
    change(other.samples);
    EXPECT_EQ(samples_left(other, runs), 6u);
  }
  sweep.samples.guidance = {1, 3};
  EXPECT_EQ(samples_left(sweep, runs), 4u);
  sweep.samples.judge->optim.lr = 0.1;
  write("out/judge/config.yaml", to_yaml(*samples().samples.judge));
  expect_contains(error_of([&] { judge_samples(sweep, options_, runs); }),
                  "judge was run with another config: optim.lr");
}

TEST_F(SweepSampleRuns, AFailureStopsNoOther) {
  const SweepConfig sweep = samples();
  const std::vector<SweepRun> runs = runs_of(sweep);
  const auto evaluator = options_.evaluator;
  options_.evaluator = {script(
      "some.sh", "case \"$*\" in *seed-0*) exit 3;; esac\nexec " + evaluator[0] + " \"$@\"\n")};
  EXPECT_EQ(judge_samples(sweep, options_, runs), SweepStatus::kFailed);
  EXPECT_EQ(samples_left(sweep, runs), 2u + 2u);
  EXPECT_FALSE(fs::exists(folder_ / folder(0) / kSampleGrid));
  options_.evaluator = evaluator;
  EXPECT_EQ(judge_samples(sweep, options_, runs), SweepStatus::kFinished);
  EXPECT_EQ(samples_left(sweep, runs), 2u);
  EXPECT_EQ(read("trained.txt"), "trained\n");
  fs::remove_all(out() / "judge");
  fs::remove_all(folder_ / folder(0));
  options_.trainer = "/bin/false";
  EXPECT_EQ(judge_samples(sweep, options_, runs), SweepStatus::kFailed);
}

TEST_F(SweepSampleRuns, ResultsAreKeptWithoutWeights) {
  const SweepConfig sweep = samples();
  const std::vector<SweepRun> runs = runs_of(sweep);
  EXPECT_EQ(judge_samples(sweep, options_, runs), SweepStatus::kFinished);
  for (const SweepRun* run : {&runs[0], &runs[1]}) keep_result(sweep, *run, folder_ / "kept");
  EXPECT_TRUE(fs::exists(folder_ / "kept" / "ln" / "seed-0" / "samples" / kSampleGrid));
  auto others = plan_runs(sweep, folder_ / "other", {});
  adopt_kept_results(others, folder_ / "kept", standard_registries().schemas());
  EXPECT_EQ(samples_left(sweep, others), 2u) << "of the run to do; the rest has no weights";
  const auto results = collect_results(sweep, others, costs_of(sweep, standard_registries()));
  ASSERT_EQ(results[0].samples.size(), 2u);
  EXPECT_EQ(results[0].samples[1].agreement->mean, 81);
}

TEST_F(SweepSampleRuns, TableBeginsWithTheReferences) {
  const SweepConfig sweep = samples();
  const std::vector<SweepRun> runs = runs_of(sweep);
  EXPECT_EQ(judge_samples(sweep, options_, runs), SweepStatus::kFinished);
  SweepReport all = report(sweep, runs);
  all.grids[0] = "ln/seed-0/samples/grid.png";
  EXPECT_EQ(sample_markdown(all),
            R"(## Samples

| images          | agreement (%), guidance 1 | Frechet distance, guidance 1 | agreement (%), guidance 2 | Frechet distance, guidance 2 |
| :-------------- | ------------------------: | ---------------------------: | ------------------------: | ---------------------------: |
| test images     |                     88.00 |                          8.6 |                     88.00 |                          8.6 |
| noise           |                     10.00 |                        458.0 |                     10.00 |                        458.0 |
| untrained model |                      9.50 |                        235.0 |                      9.50 |                        235.0 |
| LayerNorm       |              61.00 ± 1.41 |                   12.5 ± 0.0 |              81.00 ± 1.41 |                   12.5 ± 0.0 |
| dtn             |                         - |                            - |                         - |                            - |

- Agreement: share of 4 samples that the judge, a classifier, sees as the class that was asked for; of test images its accuracy. DDIM, 50 steps.
- Frechet distance: between the judge's 24 features of the images and of 80 training images. It depends on the judge and on the number of images: compare it only within this table.

![samples of LayerNorm](ln/seed-0/samples/grid.png)
)");
  expect_contains(to_markdown(all), "\n\n## Samples");
  const auto json = nlohmann::json::parse(to_json(all));
  EXPECT_EQ(json["samples"]["guidance"][1]["scale"], 2);
  EXPECT_EQ(json["samples"]["guidance"][1]["noise"]["frechet_distance"], 458);
  EXPECT_EQ(json["variants"][0]["samples"][1]["agreement"]["mean"], 81);
  EXPECT_EQ(json["variants"][0]["samples"][1]["values"][1]["agreement"], 82);
  expect_contains(to_csv(all),
                  ",agreement_guidance_1,frechet_distance_guidance_1,agreement_guidance_2,"
                  "frechet_distance_guidance_2\n");
  expect_contains(to_csv(all), ",61.0,12.5,81.0,12.5\n");
}

TEST_F(SweepSampleRuns, VariantsMustDrawSamples) {
  const SweepConfig sweep = samples();
  expect_contains(error_of([&] { check_samples(sweep, standard_registries()); }),
                  "samples: variant 'ln': the task classify draws no samples");
}

}  // namespace
}  // namespace dtn
