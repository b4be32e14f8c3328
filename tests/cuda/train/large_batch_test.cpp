// Compares whole steps of large batches with steps on the same images in chunks. The test needs no
// oracle, so a GPU can use the batch size and the model of real training. The emulator uses a small
// model.
//
// Our kernels process an image in a large batch as in a small one, bit for bit: see
// norms/large_batch_test.cpp. A library may split the sums of a product differently for other
// sizes. The results then differ by rounding, as between a GPU and the CPU. The bounds are those of
// learner_test.cpp.
#include <cstring>

#include "classify_learner.h"
#include "cuda/caching.h"
#include "cuda/twin.h"
#include "dtn/models/presets.h"
#include "tiny_vit.h"

namespace dtn::test {
namespace {

#ifdef DTN_CUDA_EMULATED
constexpr std::int64_t kBatch = 6, kChunk = 2;
constexpr bool kProductsDependOnRows = false;  // plain loops
#else
constexpr std::int64_t kBatch = 256, kChunk = 32;
constexpr bool kProductsDependOnRows = true;
#endif

struct Case {
  const char* norm;
  Precision precision;

  bool bf16() const { return precision == Precision::kBFloat16; }
  DType dtype() const { return bf16() ? DType::kBFloat16 : DType::kFloat32; }
  std::string name() const { return cat(norm, bf16() ? " bf16" : " fp32"); }
  double bound() const { return bf16() ? 0.03 : 2e-5; }
};
constexpr Case kCases[] = {{"ln", Precision::kFloat32},
                           {"ln", Precision::kBFloat16},
                           {"dtn", Precision::kFloat32},
                           {"dtn", Precision::kBFloat16}};

ExperimentConfig experiment(const Case& c) {
  ExperimentConfig config;
#ifdef DTN_CUDA_EMULATED
  config.model = paper_vit();
#else
  config.model = preset_registry().at("vit_s_star").model;
#endif
  config.model.norm.type = c.norm;
  config.model.drop_path = 0.2;  // each row of a step has separate masks, in any chunk
  config.train.precision = c.precision;
  config.train.batch_size = static_cast<int>(kBatch);
  config.optim.clip_grad_norm = 1.0;
  config.seed = 5;
  return config;
}

Fields samples(const ModelConfig& m) {
  const Tensor images =
      as(random_tensor({kBatch, m.channels, m.image_size.height, m.image_size.width}, 70),
         DType::kFloat32);
  Tensor labels = Tensor::empty({kBatch}, DType::kInt64);
  for (std::int64_t i = 0; i < kBatch; ++i) labels.data<std::int64_t>()[i] = i % m.num_classes;
  return {{"image", images.to(kCuda)}, {"label", labels.to(kCuda)}};
}

struct Steps {
  std::vector<double> losses, norms;
};

// Runs three steps; the last one is replayed from a graph.
Steps train(ExperimentConfig config, std::int64_t micro_batch) {
  config.train.micro_batch = static_cast<int>(micro_batch);
  ClassifyLearner learner(config, kCuda);
  perturb(learner.parameters(), 0.05);
  const Fields batch = samples(config.model);
  Steps steps;
  for (int i = 0; i < 3; ++i) {
    const StepReport report = learner.step(batch, i, 1e-4);
    EXPECT_TRUE(report.finite);
    steps.losses.push_back(report.loss);
    steps.norms.push_back(report.grad_norm);
  }
  return steps;
}

TEST(CudaLargeSteps, MicroBatchesGiveSameStep) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Caching caching;  // graphs need it
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name());
    const Steps whole = train(experiment(c), kBatch), chunks = train(experiment(c), kChunk);
    const double error = relative_error(chunks.losses, whole.losses);
    EXPECT_LE(error, c.bound()) << "losses";
    record_error("large_step", cat(kBatch, " in ", kChunk, "s, ", c.norm), c.dtype(), error,
                 c.bound());
    EXPECT_LE(relative_error(chunks.norms, whole.norms), c.bf16() ? 0.1 : 1e-4) << "norms";
    EXPECT_NE(whole.losses[1], whole.losses[2]);
  }
}

TEST(CudaLargeSteps, LogitsMatchChunkedBatch) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Caching caching;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name());
    const ExperimentConfig config = experiment(c);
    ClassifyLearner learner(config, kCuda);
    perturb(learner.parameters(), 0.05);
    const Tensor images = samples(config.model).at("image");
    const Tensor whole = predict(learner.model(), images, c.dtype());
    Tensor chunks = Tensor::empty(whole.shape(), whole.dtype());
    for (std::int64_t i = 0; i < kBatch; i += kChunk) {
      const Tensor some = predict(learner.model(), images.slice(i, i + kChunk), c.dtype());
      chunks.slice(i, i + kChunk).copy_from(some);
    }
    if (!kProductsDependOnRows) {
      EXPECT_TRUE(same_bits(chunks, whole));
    }
    const double error = relative_error(doubles(chunks), doubles(whole));
    EXPECT_LE(error, c.bound());
    record_error("large_batch_logits", cat(kBatch, " in ", kChunk, "s, ", c.norm), c.dtype(), error,
                 c.bound());
  }
}

}  // namespace
}  // namespace dtn::test
