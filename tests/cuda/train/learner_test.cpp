// Compares whole optimizer steps on the device with the same steps on the CPU: every kernel, the
// matrix products, the graph, and the scalars that change from step to step.
#include "cuda/matmul.h"
#include "cuda/train/learner_history.h"
#include "dtn/config/load.h"
#include "dtn/models/weights.h"
#include "dtn/tasks/registries.h"
#include "temp_folder.h"

namespace dtn::test {
namespace {

constexpr int kSteps = 20;

ExperimentConfig experiment(const std::string& norm) {
  ExperimentConfig c;
  c.model = paper_vit();
  c.model.embed_dim = 48;
  c.model.num_heads = 3;
  c.model.norm.type = norm;
  c.model.drop_path = 0.3;
  c.train.batch_size = 4;
  c.train.label_smoothing = 0.1;
  c.train.ema = 0.9;
  c.optim.clip_grad_norm = 1.0;
  c.seed = 3;
  return c;
}

Fields samples(const ExperimentConfig& c, int step) {
  Fields batch = labelled_images(c, step);
  if (!c.augment.mixes()) return batch;
  const std::int64_t n = c.train.batch_size;
  Tensor share = Tensor::empty({n}, DType::kFloat32), partners = Tensor::empty({n}, DType::kInt64);
  for (std::int64_t i = 0; i < n; ++i) {
    share.data<float>()[i] = 1 / static_cast<float>(1 + i + step % 3);
    partners.data<std::int64_t>()[i] = batch.at("label").data<std::int64_t>()[n - 1 - i];
  }
  batch["partner_label"] = partners;
  batch["label_share"] = share;
  return batch;
}

History train(const ExperimentConfig& config, Device device, int steps = kSteps) {
  return train_on([&](int step) { return samples(config, step); }, config, device, steps);
}

using CudaLearner = CachingTest;

// Every normalizer of the registry. Two of them run longer, and in bfloat16 too.
TEST_F(CudaLearner, MatchesCpu) {
  for (const NormSchema& schema : norm_registry().schemas()) {
    if (!schema.stands_alone()) continue;
    const std::string& norm = schema.type;
    bool long_run = norm == "ln" || norm == "dtn";
    int steps = long_run ? kSteps : 6;
    for (Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
      if (precision == Precision::kBFloat16 && !long_run) continue;
      ExperimentConfig config = experiment(norm);
      config.train.precision = precision;
      bool bf16 = precision == Precision::kBFloat16;
      SCOPED_TRACE(cat(norm, bf16 ? " bf16" : " fp32"));
      History cpu = train(config, kCpu, steps), gpu = train(config, kCuda, steps);
      EXPECT_EQ(gpu.updates, steps);
      // Rounding differs in every product; the differences grow with the steps.
      double bound = bf16 ? 0.03 : 2e-5;
      double error = relative_error(gpu.losses, cpu.losses);
      EXPECT_LE(error, bound) << "losses";
      record_error("train_step", cat(steps, " losses, ", norm),
                   bf16 ? DType::kBFloat16 : DType::kFloat32, error, bound);
      EXPECT_LE(relative_error(gpu.norms, cpu.norms), bf16 ? 0.1 : 1e-4) << "gradient norms";
      Doubles first(cpu.losses.size(), cpu.losses[0]);
      EXPECT_GT(max_abs_difference(cpu.losses, first), long_run ? 0.05 : 0.01);
    }
  }
}

// Gains and shifts from an index, which a captured step reads from the batch.
TEST_F(CudaLearner, MatchesCpuWithCondition) {
  ExperimentConfig config = experiment("adaln");
  config.model.norm.layers = 3;
  config.model.condition.from = ConditionFrom::kIndex;
  config.model.condition.size = 6;
  config.model.condition.styles = 5;
  const auto batch_of = [&](int step) {
    Fields batch = samples(config, step);
    batch["style"] = Tensor::from(std::vector<std::int64_t>{step % 5, 4, 0, (step + 2) % 5}, {4});
    return batch;
  };
  for (Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    config.train.precision = precision;
    config.train.step_graph = true;
    const bool bf16 = precision == Precision::kBFloat16;
    const History cpu = train_on(batch_of, config, kCpu, 6);
    const History gpu = train_on(batch_of, config, kCuda, 6);
    EXPECT_EQ(gpu.updates, 6);
    EXPECT_LE(relative_error(gpu.losses, cpu.losses), bf16 ? 0.03 : 2e-5);
    config.train.step_graph = false;
    expect_same_bits(gpu, train_on(batch_of, config, kCuda, 6));
  }
}

// Lion steps by the sign of the gradient, and rounding can flip a sign, so its bound is wider.
TEST_F(CudaLearner, MatchesCpuWithEveryOptimizer) {
  for (const OptimizerEntry& row : optimizer_registry()) {
    SCOPED_TRACE(row.name());
    ExperimentConfig config = experiment("dtn");
    config.optim.name = row.name();
    config.optim.layer_decay = 0.75;
    History cpu = train(config, kCpu, 4), gpu = train(config, kCuda, 4);
    EXPECT_EQ(gpu.updates, 4);
    EXPECT_LE(relative_error(gpu.losses, cpu.losses), row.name() == "lion" ? 2e-3 : 2e-5);
    config.train.step_graph = false;
    expect_same_bits(gpu, train(config, kCuda, 4));
  }
}

// Binary cross-entropy with adaptive gradient clipping, and a teacher with another image mean, hard
// and soft.
TEST_F(CudaLearner, MatchesCpuWithEveryLossAndTeacher) {
  const TempFolder folder;
  const std::string file = (folder.path() / "teacher.safetensors").string();
  const ExperimentConfig teacher = parse_experiment(
      "model: {preset: vit_t, image_size: 15, patch_size: 5, channels: 1, num_classes: 7,"
      " embed_dim: 24, depth: 2, num_heads: 2, class_token_at: 1}\ndata: {mean: 0.4, std: 0.3}",
      "teacher", {}, standard_registries().schemas());
  Classifier model(teacher.model, 1);
  perturb(model.parameters());
  write_safetensors(file, named_values(model.parameters()), {{"config", to_yaml(teacher)}});
  for (DistillType type : {DistillType::kHard, DistillType::kSoft}) {
    ExperimentConfig config = experiment("ln");
    config.model = deit_vit();
    config.model.channels = 1;
    config.model.distilled = true;
    config.data.mean = config.data.std = {0.5};
    config.augment.mixup = 1;
    config.train.loss = LossKind::kBinary;
    config.train.bce_target_threshold = 0.2;
    config.optim.clip_adaptive = 0.02;
    config.distill.teacher = file;
    config.distill.type = type;
    config.distill.temperature = 3;
    History cpu = train(config, kCpu, 6), gpu = train(config, kCuda, 6);
    EXPECT_LE(relative_error(gpu.losses, cpu.losses), 2e-5);
    EXPECT_LE(relative_error(gpu.norms, cpu.norms), 1e-4);
    config.train.step_graph = false;
    expect_same_bits(gpu, train(config, kCuda, 6));
    config.train.precision = Precision::kBFloat16;
    EXPECT_LE(relative_error(train(config, kCuda, 6).losses, train(config, kCpu, 6).losses), 0.03);
  }
}

// The sum of the weights of all micro-batches comes before the first one, in the graph too.
TEST_F(CudaLearner, MatchesCpuWithClassWeightsAndFocalLoss) {
  for (LossKind loss : {LossKind::kCrossEntropy, LossKind::kFocal}) {
    for (bool mixed : {false, true}) {
      ExperimentConfig config = experiment("ln");
      config.train.loss = loss;
      config.train.class_weights.values = {0.25, 3, 1, 0.5, 2, 0.75, 1.5};
      config.train.micro_batch = 2;
      if (mixed) config.augment.mixup = 1;
      History cpu = train(config, kCpu, 6), gpu = train(config, kCuda, 6);
      EXPECT_EQ(gpu.updates, 6);
      EXPECT_LE(relative_error(gpu.losses, cpu.losses), 2e-5);
      EXPECT_LE(relative_error(gpu.norms, cpu.norms), 1e-4);
      config.train.step_graph = false;
      expect_same_bits(gpu, train(config, kCuda, 6));
    }
  }
}

// Options of public checkpoints; each option occurs in one of the models.
TEST_F(CudaLearner, MatchesCpuWithOptionsOfPublicCheckpoints) {
  for (const ModelConfig& model : checkpoint_vits()) {
    for (Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
      const bool bf16 = precision == Precision::kBFloat16;
      SCOPED_TRACE(cat(model.preset, bf16 ? " bf16" : " fp32"));
      ExperimentConfig config = experiment("ln");
      config.model = model;
      config.model.drop_path = 0.3;
      config.model.num_classes = 7;
      config.train.precision = precision;
      const History cpu = train(config, kCpu, 4), gpu = train(config, kCuda, 4);
      EXPECT_EQ(gpu.updates, 4);
      EXPECT_LE(relative_error(gpu.losses, cpu.losses), bf16 ? 0.03 : 2e-5) << "losses";
      EXPECT_LE(relative_error(gpu.norms, cpu.norms), bf16 ? 0.1 : 1e-4) << "gradient norms";
    }
  }
}

// A class token and a register token precede the grid that DTN normalizes.
TEST_F(CudaLearner, MatchesCpuWithPrefixTokens) {
  for (Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    const bool bf16 = precision == Precision::kBFloat16;
    ExperimentConfig config = experiment("dtn");
    config.model = prefix_vit();
    config.train.precision = precision;
    const History cpu = train(config, kCpu, 4), gpu = train(config, kCuda, 4);
    EXPECT_EQ(gpu.updates, 4);
    EXPECT_LE(relative_error(gpu.losses, cpu.losses), bf16 ? 0.03 : 2e-5);
    EXPECT_LE(relative_error(gpu.norms, cpu.norms), bf16 ? 0.1 : 1e-4);
  }
}

TEST_F(CudaLearner, KeepsFrozenParameters) {
  for (const FreezeConfig& freeze :
       {FreezeConfig{true, {}}, FreezeConfig{false, {"*norm*", "*.qkv.*"}}}) {
    ExperimentConfig config = experiment("dtn");
    config.model.drop_path = 0.3;
    config.train.freeze = freeze;
    config.train.ema = 0.9;
    const History cpu = train(config, kCpu, 4), gpu = train(config, kCuda, 4);
    EXPECT_EQ(gpu.updates, 4);
    EXPECT_LE(relative_error(gpu.losses, cpu.losses), 2e-5);
    EXPECT_LE(relative_error(gpu.norms, cpu.norms), 1e-4);
    config.train.step_graph = false;
    expect_same_bits(gpu, train(config, kCuda, 4));
  }
}

// Labels of mixed images, different in every step, in micro-batches and in a graph.
TEST_F(CudaLearner, MatchesCpuOnMixedImages) {
  ExperimentConfig config = experiment("ln");
  History plain = train(config, kCpu, 6);
  config.augment.mixup = 0.8;
  History cpu = train(config, kCpu, 6), gpu = train(config, kCuda, 6);
  EXPECT_LE(relative_error(gpu.losses, cpu.losses), 2e-5);
  EXPECT_LE(relative_error(gpu.norms, cpu.norms), 1e-4);
  EXPECT_GT(max_abs_difference(cpu.losses, plain.losses), 0.01);
  config.train.micro_batch = 2;
  History small = train(config, kCpu, 6), small_gpu = train(config, kCuda, 6);
  EXPECT_LE(relative_error(small.losses, cpu.losses), 2e-5);
  EXPECT_LE(relative_error(small_gpu.losses, cpu.losses), 2e-5);
}

TEST_F(CudaLearner, GraphMatchesEagerExecution) {
  for (const char* norm : {"ln", "dtn", "power"}) {
    SCOPED_TRACE(norm);
    ExperimentConfig config = experiment(norm);
    if (norm == std::string("dtn")) config.augment.mixup = 1, config.train.ema_warmup = true;
    config.model.dropout = 0.1;
    config.train.micro_batch = 2;
    History graph = train(config, kCuda, 6);
    config.train.step_graph = false;
    History eager = train(config, kCuda, 6);
    expect_same_bits(graph, eager);
    if (config.train.ema_warmup) {  // the captured decay must change too
      EXPECT_LE(relative_error(doubles(graph.average), doubles(train(config, kCpu, 6).average)),
                1e-4);
    }
    // The masks change from step to step; a frozen counter would repeat them.
    EXPECT_NE(graph.losses[3], graph.losses[4]);
  }
}

TEST_F(CudaLearner, CheckpointedBlocksAndRepeatedRunsGiveSameBits) {
  for (const char* norm : {"dtn", "sn", "power"}) {
    SCOPED_TRACE(norm);
    ExperimentConfig config = experiment(norm);
    History once = train(config, kCuda, 5), twice = train(config, kCuda, 5);
    expect_same_bits(once, twice);
    config.train.checkpoint_blocks = true;
    expect_same_bits(once, train(config, kCuda, 5));
  }
}

TEST_F(CudaLearner, SkipsNonFiniteUpdate) {
  ExperimentConfig config = experiment("bn");  // also covers running statistics
  ClassifyLearner learner(config, kCuda);
  Fields s = samples(config, 0), batch = fields_on(kCuda, s);
  put(s, batch);
  for (int i = 0; i < 5; ++i) {  // step 3, a replayed one, gets a NaN
    if (i == 3) s.at("image").data<float>()[7] = NAN;
    if (i == 4) s = samples(config, 0);
    batch.at("image").copy_from(s.at("image"));
    Tensor before = learner.parameters().values().to(kCpu).clone();
    StepReport report = learner.step(batch, i, 1e-3);
    EXPECT_EQ(report.finite, i != 3);
    EXPECT_EQ(same_bits(before, learner.parameters().values().to(kCpu)), i == 3);
  }
  EXPECT_EQ(learner.updates(), 4);
}

TEST_F(CudaLearner, AllocatesNothingAfterSecondStep) {
  ExperimentConfig config = experiment("dtn");
  for (bool graph : {true, false}) {
    config.train.step_graph = graph;
    ClassifyLearner learner(config, kCuda);
    Fields batch = fields_on(kCuda, samples(config, 0));
    put(samples(config, 0), batch);
    for (int i = 0; i < 2; ++i) learner.step(batch, i, 1e-3);
    std::uint64_t misses = cuda::allocator_stats().misses;
    for (int i = 2; i < 5; ++i) learner.step(batch, i, 1e-3);
    EXPECT_EQ(cuda::allocator_stats().misses, misses) << (graph ? "graph" : "eager");
  }
}

// The products of a layer are planned once for any number of equal layers. Parameters are aligned
// so that the library cannot tell the layers apart.
TEST_F(CudaLearner, EqualLayersSharePlans) {
  const auto plans_after = [](int depth) {
    ExperimentConfig config = experiment("ln");
    config.train.precision = Precision::kBFloat16;
    config.model.depth = depth;
    config.model.class_token_at = 0;
    train(config, kCuda, 1);
    return cuda::matmul_plan_count();
  };
  const std::size_t of_three = plans_after(3);
  EXPECT_GT(of_three, 0u);
  EXPECT_EQ(plans_after(6), of_three);
}

}  // namespace
}  // namespace dtn::test
