// A captured pass over images of two sizes: the constants of both grids stay on the device.
#include "two_sizes.h"

#include "core/cuda_stream.h"
#include "cuda/caching.h"
#include "cuda/twin.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kSamples = 2;

struct Sample {
  Sample(const ModelConfig& config, const ImageSize& size, Device device)
      : images(some_images(config, kSamples, DType::kFloat32, size).to(device)),
        targets(some_labels(config, kSamples)) {
    targets.labels = targets.labels.to(device);
  }
  Tensor images;
  ops::Targets targets;
};

Variable loss_of(Context& ctx, Classifier& model, const Sample& sample) {
  return ops::cross_entropy(ctx, model.forward(ctx, sample.images), sample.targets).mean;
}

// Returns the gradients after a pass; on the device, after a captured one.
Doubles gradients_on(Device device, const SizedModel& m) {
  Classifier model(m.config, 1, DType::kFloat32, device);
  perturb(model.parameters());
  const Sample own(m.config, m.config.image_size, device), other(m.config, m.other, device);
  const Tensor one = Tensor::full({1}, DType::kFloat32, 1.0).to(device);
  const auto pass = [&] {
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    ctx.mode.compute = DType::kFloat32;
    model.parameters().zero_gradients();
    const Variable first = loss_of(ctx, model, own), second = loss_of(ctx, model, other);
    tape.backward(primitive::add(ctx, first, second), one);
  };
  cuda::MemoryPool pool;
  const cuda::MemoryPool::Scope scope(pool);
  pass();
  if (device == kCpu) return doubles(model.parameters().gradients());
  const Doubles before = doubles(model.parameters().gradients().to(kCpu));
  pass();
  cuda::Graph graph;
  graph.capture(pass);
  Tensor gradients = model.parameters().gradients();
  gradients.copy_from(Tensor::full(gradients.shape(), gradients.dtype(), 7.0));
  graph.launch();
  const Doubles after = doubles(gradients.to(kCpu));
  EXPECT_EQ(before, after);
  return after;
}

TEST(CudaTwoSizes, CapturedGradientsMatchCpu) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Caching caching;
  for (const SizedModel& m :
       {SizedModel{paper_vit(), {10, 20}}, SizedModel{biased_vit(), {10, 20}},
        SizedModel{tiny_pvt_with_positions(), {24, 18}}, SizedModel{tiny_swin("dtn"), {24, 24}},
        SizedModel{tiny_t2t(), {16, 32}}}) {
    SCOPED_TRACE(title_of(m.config));
    const Doubles want = gradients_on(kCpu, m), got = gradients_on(kCuda, m);
    EXPECT_LE(max_abs_difference(got, want), 1e-4 * max_abs(want));
  }
}

}  // namespace
}  // namespace dtn::test
