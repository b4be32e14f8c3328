// The size estimates of a dry run, from given measurements.
#include "apps/estimate/run_size.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "classify_learner.h"
#include "core/allocator.h"
#include "data/feed/loader.h"
#include "data/feed/open_split.h"
#include "dtn/config/load.h"
#include "dtn/core/parallel.h"
#include "dtn/data/datasets.h"
#include "dtn/models/complexity.h"
#include "unit/data/samples.h"

namespace dtn {
namespace {

ExperimentConfig small() {
  ExperimentConfig c;
  c.model.image_size = 16;
  c.model.patch_size = 4;
  c.model.embed_dim = 48;
  c.model.depth = 4;
  c.model.num_heads = 4;
  c.model.num_classes = 10;
  c.model.class_token_at = 2;
  c.model.norm.type = "dtn";
  c.data.dataset = "synthetic";
  c.data.size = 400;
  c.data.workers = 2;
  c.schedule.steps = 10;
  c.train.batch_size = 64;
  c.train.micro_batch = 32;
  return c;
}

TEST(RunSize, Evaluations) {
  RunSize size;
  size.steps_per_epoch = 5;
  size.steps = 23;
  size.evaluated_samples = 1;
  TrainConfig train;
  const auto with = [&](Period period, bool ema) {
    train.eval_every = period;
    train.ema = ema ? std::optional(0.9) : std::nullopt;
    return evaluations_of(train, size);
  };
  EXPECT_EQ(with({1, true}, false), 5);  // after 5, 10, 15, 20 and 23 steps
  EXPECT_EQ(with({1, true}, true), 10);
  EXPECT_EQ(with({4, false}, false), 6);
  EXPECT_EQ(with({0, false}, false), 1);
  size.steps = 20;
  EXPECT_EQ(with({1, true}, false), 4);
}

// The teacher and the center take memory, and evaluations also run over the training images.
TEST(RunSize, CountsTeacherAndReferences) {
  const ExperimentConfig c = parse_experiment(R"(
task: dino
model: {preset: vit_t, image_size: 16, patch_size: 4, embed_dim: 24, depth: 3, num_heads: 4}
dino: {out_dim: 256, hidden_dim: 16, bottleneck_dim: 8, local_crops: 2, local_size: 8}
data: {dataset: synthetic, size: 40, workers: 0}
augment: dino
schedule: {name: dino, steps: 10}
train: {batch_size: 8}
)",
                                              "config", {}, standard_registries().schemas());
  const std::unique_ptr<Task> task = make_task({c, kMeta, standard_registries()});
  const RunData data = open_run_data(*task);
  EXPECT_EQ(data.references, 40);
  EXPECT_GT(data.evaluation_share, 0.01);
  EXPECT_LT(data.evaluation_share, 0.2) << "one view, where a step has four and a teacher";
  const Complexity cost = task->cost();
  const StepProfile profile = profile_step(c, data.train, cost.multiply_adds);
  const RunMemory memory = memory_of_run(c, data, cost.parameters, profile, kCpu);
  EXPECT_GE(memory.teacher, memory.weights + 256 * 4);
  EXPECT_LT(memory.teacher, 1.5 * memory.weights);
  const RunSize size = size_of_run(c, data, standard_registries().schedules);
  EXPECT_EQ(size.evaluated_samples, data.val->size() + 40);
  EXPECT_EQ(evaluations_of(c.train, RunSize{}), 0) << "without validation samples";
}

// Ten pictures of 4 images in 5 steps, each with two passes of the model, where a training step on
// one image counts as three.
TEST(RunSize, CountsPictures) {
  const ExperimentConfig c = parse_experiment(R"(
task: diffusion
model: {preset: dit_tiny, depth: 1, label_dropout: 0.1}
diffusion: {sample_count: 4, sample_steps: 5, sample_guidance: 2, sample_every: 3}
data: {dataset: synthetic, size: 40, workers: 0}
augment: none
schedule: {name: constant, steps: 28}
train: {batch_size: 8}
)",
                                              "config", {}, standard_registries().schemas());
  const std::unique_ptr<Task> task = make_task({c, kMeta, standard_registries()});
  const RunSize size = size_of_run(c, open_run_data(*task), standard_registries().schedules);
  EXPECT_EQ(size.pictures, 10);
  EXPECT_DOUBLE_EQ(size.picture_share, 4 * 5 * 2 / 3.0);
  const RunTime time = time_of_run(c, size, 0.3, 0, kCpu);
  EXPECT_DOUBLE_EQ(time.pictures, 10 * 4 * 5 * 2 * 0.1);
  EXPECT_DOUBLE_EQ(time.total(), time.training + time.evaluation + time.pictures);
}

TEST(RunSize, Time) {
  ExperimentConfig c = small();
  RunSize size;
  size.steps_per_epoch = size.steps = 10;
  size.evaluated_samples = 100;
  const int threads = max_threads();
  const auto per_sample = [&](int workers, double load, Device device) {
    c.data.workers = workers;
    return time_of_run(c, size, 0.3, load, device).per_sample;
  };
  set_num_threads(4);
  EXPECT_DOUBLE_EQ(per_sample(0, 0.1, kCpu), 0.4);   // sequential
  EXPECT_DOUBLE_EQ(per_sample(2, 0.1, kCpu), 0.35);  // half of the cores for 0.1 s
  EXPECT_DOUBLE_EQ(per_sample(16, 0.1, kCpu), 0.4);  // at most all cores
  EXPECT_DOUBLE_EQ(per_sample(1, 0.5, kCpu), 0.5);   // loading is the bottleneck
  EXPECT_DOUBLE_EQ(per_sample(2, 0.1, kCuda), 0.3);
  EXPECT_DOUBLE_EQ(per_sample(2, 0.7, kCuda), 0.7);
  c.data.workers = 2;
  const RunTime time = time_of_run(c, size, 0.3, 0.1, kCpu);
  EXPECT_DOUBLE_EQ(time.training, 0.35 * 10 * 64);
  EXPECT_DOUBLE_EQ(time.evaluation, (0.1 + 0.05) * 100);
  set_num_threads(threads);
}

// Batches hold sequences of similar length, so some batches are short and some long. The estimate
// is for the longest sequences, in any order of the batches.
TEST(RunSize, MemoryForLongestSequences) {
  ExperimentConfig c = parse_experiment(R"(
model: {preset: listops_dense, max_length: 300, embed_dim: 32, num_heads: 2, depth: 2}
data: {dataset: synthetic, size: 400, workers: 0}
schedule: {steps: 10}
train: {batch_size: 8}
)",
                                        "config", {}, standard_registries().schemas());
  std::vector<double> bytes, lengths;
  for (c.seed = 1; c.seed <= 4; ++c.seed) {
    const std::unique_ptr<Task> task = make_task({c, kMeta, standard_registries()});
    const RunData data = open_run_data(*task);
    const auto split = open_split(data.train, c, Split::kTrain, {.device = kCpu, .batch_size = 8});
    DeviceBatch batch;
    split->feeder().start(0);
    split->feeder().next(batch);
    lengths.push_back(static_cast<double>(
        data.train->lengths()[static_cast<std::size_t>(batch.indices.front())]));
    bytes.push_back(profile_step(c, data.train, task->cost().multiply_adds).bytes_per_sample);
  }
  EXPECT_GT(std::ranges::max(lengths), 1.5 * std::ranges::min(lengths)) << "nothing to tell apart";
  EXPECT_LT(std::ranges::max(bytes), 1.2 * std::ranges::min(bytes));
}

// The estimate against the peak memory of training: a learner, a loader for each split, batches.
TEST(RunSize, Memory) {
  for (Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    ExperimentConfig c = small();
    c.train.precision = precision;
    c.train.ema = 0.9;
    const std::unique_ptr<Task> task = make_task({c, kMeta, standard_registries()});
    const RunData data = open_run_data(*task);
    const Complexity cost = task->cost();
    // The first step allocates buffers that threads keep. Neither figure includes them.
    profile_step(c, data.train, cost.multiply_adds);
    const StepProfile profile = profile_step(c, data.train, cost.multiply_adds);
    EXPECT_GT(profile.seconds_per_sample, 0);
    const RunMemory memory = memory_of_run(c, data, cost.parameters, profile, kCpu);
    EXPECT_EQ(memory.moments, 2 * memory.gradients);
    EXPECT_EQ(memory.host_batches, 0);

    release_cached_memory();
    const auto before = allocator_stats().bytes_in_use;
    reset_peak_bytes();
    test::ClassifyLearner learner(c);
    const auto loader = [&](Split split, int batch) {
      LoaderOptions options;
      options.batch_size = batch;
      options.workers = workers_of(c.data, kCpu);
      Transform transform(c.data, c.augment, c.model.image_size, c.model.channels, false);
      return std::make_unique<Loader>(
          test::samples(open_dataset(c.data, c.model, split, 0), transform), options);
    };
    auto train = loader(Split::kTrain, c.train.batch_size), val = loader(Split::kVal, 32);
    Batch batch, other;
    val->start(0);
    val->next(other);
    train->start(0);
    for (int i = 0; i < 3; ++i) {
      train->next(batch);
      learner.step(batch.fields, i, 1e-4);
    }
    const double found = static_cast<double>(allocator_stats().peak_bytes - before);
    EXPECT_NEAR(memory.total() / found, 1, 0.1) << memory.total() << " " << found;
  }
}

TEST(RunSize, Description) {
  ExperimentConfig c = small();
  c.optim.lr = 5e-4;
  c.optim.lr_scale_batch = 512;
  const std::string text = describe_run(c, "runs/x", kCpu);
  for (const char* part :
       {"\nsteps per epoch: 6\n", "\nsteps: 10\n",
        "\neffective learning rate: 6.25e-05 (0.0005 x 64 / 512), down to 1e-05\n",
        "\nmemory: about ", "\nspeed: about ",
        "multiply-adds per sample: ", " images/s (the model alone ",
        "\ntime on this machine: about ", " 2 evaluations ", "\noutput: runs/x\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("average"), std::string::npos) << text;
}

// A batch of a million ViT-B images exceeds the memory; micro-batches make it fit.
TEST(RunSize, WarnsIfMemoryIsTooSmall) {
  ExperimentConfig c = parse_experiment(
      "model: {preset: vit_b}\ndata: {dataset: synthetic}\ntrain: {batch_size: 1000000}\n", "test",
      {}, standard_registries().schemas());
  const std::string warning = memory_warning(c, kCpu, 1, 1, standard_registries());
  for (const char* part :
       {"the run needs about ", " GiB, more than the available ", "train.micro_batch"}) {
    EXPECT_NE(warning.find(part), std::string::npos) << warning;
  }
  EXPECT_NE(memory_warning(c, kCpu, 4, 4, standard_registries()).find("per process"),
            std::string::npos);
  c.train.micro_batch = 1;
  EXPECT_EQ(memory_warning(c, kCpu, 1, 1, standard_registries()), "");
}

}  // namespace
}  // namespace dtn
