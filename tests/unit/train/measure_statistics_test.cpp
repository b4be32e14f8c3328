#include "train/measure_statistics.h"

#include <gtest/gtest.h>

#include "data/feed/open_split.h"
#include "dtn/core/check.h"
#include "dtn/tasks/registries.h"
#include "dtn/tasks/task.h"
#include "tensors.h"
#include "tiny_unet.h"
#include "unit/train/small_run.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kBatch = 12;

ExperimentConfig config_of(const std::string& norm) {
  ExperimentConfig c = small_run(norm, kBatch);
  c.model.channels = 3;
  c.data.dataset = "synthetic";
  c.data.size = 3 * kBatch;
  c.data.workers = 0;
  return c;
}

// The buffers that training mode writes for each batch of the first epoch.
std::vector<std::vector<double>> written(const Tensor& weights, const ExperimentConfig& config,
                                         std::int64_t batches) {
  const auto task = make_task({config, kCpu, standard_registries()});
  ParameterStore& store = *task->stores().front().value;
  store.values().copy_from(weights);
  const auto split =
      open_split(task->source(Split::kTrain, kCpu), config, Split::kTrain, {.batch_size = kBatch});
  split->feeder().start(0);
  std::vector<std::vector<double>> all;
  DeviceBatch batch;
  for (std::int64_t i = 0; i < batches; ++i) {
    EXPECT_TRUE(split->feeder().next(batch));
    store.restart_buffers();
    Context ctx;
    ctx.mode.training = true;
    ctx.rng.seed = config.seed;  // of dropout
    ctx.rng.step = static_cast<std::uint32_t>(i);
    task->outputs(ctx, batch.fields);
    all.push_back(doubles(store.next_buffers()));
  }
  return all;
}

// Training moves a statistic r by a batch's b to 0.9 r + 0.1 b.
void expect_mean_of_batches(const ExperimentConfig& config) {
  const auto task = make_task({config, kCpu, standard_registries()});
  ParameterStore& store = *task->stores().front().value;
  store.initialize(5);
  perturb(store);
  const Tensor weights = store.values().clone();
  const auto before = doubles(weights);
  const auto flat = static_cast<std::size_t>(store.flat_size());
  for (std::int64_t batches : {1, 2}) {
    const auto moved = written(weights, config, batches);
    std::int64_t said = 0;
    const auto measured =
        doubles(measure_statistics(weights, config, kCpu, standard_registries(), batches,
                                   [&](std::int64_t done) { said = done; }));
    EXPECT_EQ(said, batches);
    ASSERT_EQ(measured.size(), before.size());
    for (std::size_t i = 0; i < flat; ++i) ASSERT_EQ(measured[i], before[i]);
    for (std::size_t i = flat; i < before.size(); ++i) {
      double want = 0;
      for (const auto& each : moved) want += (each[i - flat] - 0.9 * before[i]) / 0.1;
      want /= static_cast<double>(batches);
      ASSERT_NEAR(measured[i], want, 1e-5 * (1 + std::abs(before[i]) + std::abs(want))) << i;
    }
  }
}

TEST(MeasureStatistics, IsTheMeanOfTheBatches) { expect_mean_of_batches(config_of("bn")); }

ExperimentConfig unet_config(const std::string& norm, const std::string& decoder_norm) {
  ExperimentConfig c;
  c.seed = 3;
  c.task = "translate";
  c.model = tiny_unet(norm);
  c.model.decoder_norm.emplace().type = decoder_norm;
  c.model.condition.size = 4;
  c.data.dataset = "synthetic";
  c.data.size = 3 * kBatch;
  c.data.workers = 0;
  c.train.batch_size = kBatch;
  return c;
}

TEST(MeasureStatistics, CoversBothHalvesOfAUNet) {
  expect_mean_of_batches(unet_config("bn", "bn"));
  expect_mean_of_batches(unet_config("in", "bn"));
  expect_mean_of_batches(unet_config("bn", "spade"));
}

TEST(MeasureStatistics, GoesThroughSeveralEpochs) {
  const ExperimentConfig config = config_of("bn");
  const auto task = make_task({config, kCpu, standard_registries()});
  ParameterStore& store = *task->stores().front().value;
  store.initialize(5);
  const auto measure = [&](std::int64_t batches) {
    return measure_statistics(store.values(), config, kCpu, standard_registries(), batches);
  };
  EXPECT_FALSE(same_bits(measure(3), measure(5)));
}

TEST(MeasureStatistics, SaysWhyNot) {
  const auto problem = [](const ExperimentConfig& c) {
    return statistics_problem(c, standard_registries());
  };
  EXPECT_EQ(problem(config_of("bn")), "");
  EXPECT_EQ(problem(config_of("ln")),
            "the model has no running statistics that can be measured; its norm is ln");
  EXPECT_EQ(problem(unet_config("bn", "power")),
            "the running statistics of the normalizer power cannot be measured");
  ExperimentConfig views = config_of("bn");
  views.task = "supcon";
  EXPECT_EQ(problem(views),
            "the task supcon trains on views of images, so running statistics cannot be measured");
  const auto task = make_task({config_of("ln"), kCpu, standard_registries()});
  EXPECT_THROW(measure_statistics(task->stores().front().value->values(), config_of("ln"), kCpu,
                                  standard_registries(), 1),
               ConfigError);
}

}  // namespace
}  // namespace dtn::test
