// Compares models of padded sequences on the device with the CPU: logits, all gradients, and whole
// steps with dropout, also captured ones.
#include "cuda/train/learner_history.h"
#include "dtn/models/presets.h"
#include "dtn/tasks/registries.h"

namespace dtn::test {
namespace {

constexpr const char* kPresets[] = {"listops_dense", "listops_bigbird", "listops_reformer"};
constexpr std::int64_t kBatch = 3;

ExperimentConfig experiment(const char* preset, const std::string& norm) {
  ExperimentConfig c;
  c.model = preset_registry().at(preset).model;
  c.model.embed_dim = 24;
  c.model.depth = 2;
  c.model.num_heads = 4;
  c.model.mlp_ratio = 2;
  c.model.max_length = 31;
  c.model.norm.type = norm;
  if (c.model.attention.kind == SequenceAttentionKind::kBigBird) c.model.attention.block_size = 4;
  if (c.model.attention.kind == SequenceAttentionKind::kReformer) c.model.attention.buckets = 4;
  c.train.batch_size = kBatch;
  c.train.ema = 0.9;
  c.optim.clip_grad_norm = 1.0;
  c.seed = 3;
  return c;
}

// Content of the samples: the shortest length, and the token id in the padding.
struct Content {
  std::int64_t shortest = 1, pad = 0;
};

// Samples of three lengths; the longest has max_length tokens.
Fields samples(const ExperimentConfig& c, int step, const Content& content = {}) {
  const std::int64_t room = c.model.max_length;
  const std::vector<std::int64_t> lengths = {room, content.shortest + step % 3, room / 2 + step};
  Tensor ids = Tensor::empty({kBatch, room}, DType::kInt64);
  Tensor labels = Tensor::empty({kBatch}, DType::kInt64);
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t t = 0; t < room; ++t) {
      const bool counts = t < lengths[static_cast<std::size_t>(b)];
      ids.data<std::int64_t>()[b * room + t] =
          counts ? 1 + (7 * b + 5 * t + 3 * step) % 15 : content.pad;
    }
    labels.data<std::int64_t>()[b] = (3 * b + step) % c.model.num_classes;
  }
  return {
      {"tokens", ids}, {lengths_of("tokens"), Tensor::from(lengths, {kBatch})}, {"label", labels}};
}

History train(const ExperimentConfig& config, Device device, int steps = 4,
              const Content& content = {}) {
  return train_on([&](int step) { return samples(config, step, content); }, config, device, steps);
}

// Bounds the differences between two runs in their losses and gradient norms.
void expect_near(const History& got, const History& want, double bound) {
  const double error = relative_error(got.losses, want.losses);
  EXPECT_LE(error, bound) << "losses";
  EXPECT_LE(relative_error(got.norms, want.norms), 5 * bound) << "gradient norms";
  record_error("sequence_step", "losses", DType::kFloat32, error, bound);
}

using CudaSequence = CachingTest;

struct Results {
  Doubles logits, gradients;
};
Results results_of(const ExperimentConfig& config, Device device, DType dtype, std::int64_t pad) {
  Classifier exact(config.model, config.seed, DType::kFloat64);
  perturb(exact.parameters());
  Classifier model(config.model, config.seed, dtype, device);
  model.parameters().values().copy_from(as(exact.parameters().values(), dtype));
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.mode.compute = dtype;
  const Fields host = samples(config, 0, {1, pad});
  Fields batch = fields_on(device, host);
  put(host, batch);
  model.parameters().zero_gradients();
  const Variable logits = model.forward(ctx, batch);
  tape.backward(ops::cross_entropy(ctx, logits, {batch.at("label"), {}, 0.1}).mean);
  return {doubles(logits.value().to(kCpu)), doubles(model.parameters().gradients().to(kCpu))};
}

// The content of the padding must not matter.
TEST_F(CudaSequence, LogitsAndGradientsMatchCpu) {
  for (const char* preset : kPresets) {
    for (const std::string norm : {"ln", "dtn", "rms", "scale"}) {
      if (preset != kPresets[0] && norm != "dtn") continue;
      SCOPED_TRACE(cat(preset, " ", norm));
      ExperimentConfig config = experiment(preset, norm);
      config.model.dropout = config.model.attention.dropout = 0;
      const Results want = results_of(config, kCpu, DType::kFloat64, 0);
      const Results got = results_of(config, kCuda, DType::kFloat32, 0);
      EXPECT_LE(relative_error(got.logits, want.logits), 2e-5);
      EXPECT_LE(relative_error(got.gradients, want.gradients), 5e-5);
      const Results other = results_of(config, kCuda, DType::kFloat32, 99);
      EXPECT_EQ(got.logits, other.logits);
      EXPECT_EQ(got.gradients, other.gradients);
    }
  }
}

TEST_F(CudaSequence, MatchesCpu) {
  for (const char* preset : kPresets) {
    for (const char* norm : {"ln", "dtn"}) {
      SCOPED_TRACE(cat(preset, " ", norm));
      const ExperimentConfig config = experiment(preset, norm);
      const History cpu = train(config, kCpu), device = train(config, kCuda);
      expect_near(device, cpu, 2e-5);
      const Doubles first(cpu.losses.size(), cpu.losses[0]);
      EXPECT_GT(max_abs_difference(cpu.losses, first), 0.01);
    }
  }
}

TEST_F(CudaSequence, MatchesCpuInBfloat16) {
  for (const char* preset : kPresets) {
    SCOPED_TRACE(preset);
    ExperimentConfig config = experiment(preset, "dtn");
    config.train.precision = Precision::kBFloat16;
    expect_near(train(config, kCuda), train(config, kCpu), 0.03);
  }
}

// Options of DTN and of models, one at a time.
TEST_F(CudaSequence, MatchesCpuWithOptions) {
  const auto with = [](auto&& change) {
    ExperimentConfig config = experiment("listops_dense", "dtn");
    change(config);
    expect_near(train(config, kCuda, 3), train(config, kCpu, 3), 2e-5);
  };
  with([](ExperimentConfig& c) { c.model.class_token_at = 1; });
  with([](ExperimentConfig& c) { c.model.norm.options = {{"variant", std::string("official")}}; });
  with([](ExperimentConfig& c) { c.model.norm.options = {{"position", std::string("uniform")}}; });
  with([](ExperimentConfig& c) { c.model.norm.options = {{"init", std::string("local_1d")}}; });
  with([](ExperimentConfig& c) { c.model.drop_path = 0.3; });
  with([](ExperimentConfig& c) { c.train.micro_batch = 1; });
}

// A step gives the same bits captured or kernel by kernel, with saved or recomputed blocks.
TEST_F(CudaSequence, SameBitsWithoutGraphAndWithCheckpoints) {
  for (const char* preset : kPresets) {
    SCOPED_TRACE(preset);
    ExperimentConfig config = experiment(preset, "dtn");
    const History graph = train(config, kCuda);
    config.train.step_graph = false;
    config.train.checkpoint_blocks = true;
    expect_same_bits(train(config, kCuda), graph);
  }
}

// A step graph refuses normalizers that count tokens on the host. Without a graph they match the
// CPU.
TEST_F(CudaSequence, NormalizersThatReadLengthsOnHostNeedNoGraph) {
  int refused = 0;
  for (const NormSchema& schema : norm_registry().schemas()) {
    if (!schema.stands_alone()) continue;
    SCOPED_TRACE(schema.type);
    ExperimentConfig config = experiment("listops_dense", schema.type);
    try {
      ClassifyLearner learner(config, kCuda);
    } catch (const ConfigError& error) {
      ++refused;
      EXPECT_NE(std::string(error.what()).find(cat("'", schema.type, "'")), std::string::npos);
      config.train.step_graph = false;
      // The two tokens of a sample of length 1 may be almost equal; such a norm amplifies their
      // difference.
      const Content longer{9};
      expect_near(train(config, kCuda, 3, longer), train(config, kCpu, 3, longer), 2e-5);
    }
  }
  EXPECT_EQ(refused, 6);
}

}  // namespace
}  // namespace dtn::test
