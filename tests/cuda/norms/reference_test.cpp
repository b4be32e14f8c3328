// Normalizers without kernels for the device: every reference, and a normalizer that a user wrote
// with primitive operations and trains.
#include <set>

#include "cuda/twin.h"
#include "dtn/ops/primitive.h"
#include "norm_cases.h"
#include "op_runs.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kBatch = 2, kChannels = 24;
const TokenGrid kGrid{4, 3};
const NormShape kShape{kChannels, 4, 1e-5, kGrid};

// Returns the output and the gradients of x and of the parameters, from a normalizer's reference.
std::vector<Doubles> run_reference(const NormCase& c, DType dtype, Device device) {
  const DType acc = accumulator_of(dtype);
  BuiltNorm built;
  built.norm = make_normalizer(c.config, kShape, {built.store, "norm"});
  built.store.allocate(acc, device);
  built.store.values().copy_from(build_norm(c.config, kShape, acc)->store.values());
  built.store.restart_buffers();
  const Tensor values =
      representable(random_tensor({kBatch, kGrid.tokens(), kChannels}, 1, 2, 0.5));
  const Variable x(as(values, dtype).to(device), true);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.mode.training = c.training;
  const Variable y = built.norm->reference(ctx, x, kGrid);
  EXPECT_EQ(y.dtype(), dtype);
  std::vector<Doubles> results = {doubles(y.value().to(kCpu))};
  tape.backward(y, as(representable(random_tensor(y.shape(), 77)), dtype).to(device));
  results.push_back(doubles(x.grad().to(kCpu)));
  for (const Parameter& p : built.store.parameters()) {
    if (is_inert(p)) continue;
    results.push_back(doubles(ParameterStore::view(built.store.gradients(), p).to(kCpu)));
  }
  return results;
}

TEST(CudaReferences, NormalizersMatchFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  std::set<std::pair<std::string, bool>> seen;
  for (const NormCase& c : norm_cases()) {
    if (!fits(c, kShape)) continue;
    // Uses the first options that fit, usually the default ones.
    if (!seen.emplace(c.config.type, c.training).second) continue;
    const auto want = run_reference(c, DType::kFloat64, kCpu);
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const double rounding = dtype == DType::kBFloat16 ? bfloat16_tolerance(1) : 0;
      // Position weights depend on all pairs of tokens.
      const std::int64_t terms = kBatch * kGrid.tokens() * kGrid.tokens() + kChannels;
      expect_close(run_reference(c, dtype, kCuda), want, rounding + 2 * float32_tolerance(terms),
                   cat(c.name, ", ", name_of(dtype)));
    }
  }
}

// Divides the deviation of each token by its mean absolute deviation:
//    y = weight (x - mean) / (mean |x - mean| + eps) + bias
class DeviationNorm : public Normalizer {
 public:
  explicit DeviationNorm(ParameterStore& store)
      : weight_(store.add("norm.weight", {kChannels}, InitKind::kOnes, Decay::kNo)),
        bias_(store.add("norm.bias", {kChannels}, InitKind::kZeros, Decay::kNo)) {}

  Variable forward(Context& ctx, const Variable& x, const TokenGrid&) override {
    namespace p = primitive;
    const Variable wide = p::upcast(ctx, x);
    const Variable centred = p::sub(ctx, wide, p::mean(ctx, wide, -1));
    const Variable deviation = p::mean(ctx, p::abs(ctx, centred), -1);
    const Variable y = p::div(ctx, centred, p::affine(ctx, deviation, 1, 1e-5));
    return p::cast(ctx, p::add(ctx, p::mul(ctx, y, weight_->variable), bias_->variable), x.dtype());
  }
  Variable reference(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    return forward(ctx, x, grid);
  }

 private:
  Parameter *weight_, *bias_;
};

// Returns the losses of a few steps of gradient descent towards random targets.
Doubles losses_of_training(DType dtype, Device device) {
  namespace p = primitive;
  ParameterStore store;
  DeviationNorm norm(store);
  Parameter* mix = store.add("mix", {kChannels, kChannels}, InitKind::kTruncatedNormal, Decay::kNo);
  store.allocate(DType::kFloat32, device);
  store.initialize(3);
  if (dtype == DType::kBFloat16) store.enable_bfloat16();
  auto input = [&](std::uint32_t stream) {
    const Shape shape{kBatch, kGrid.tokens(), kChannels};
    return Variable(as(representable(random_tensor(shape, stream)), dtype).to(device));
  };
  const Variable x = input(1), target = input(2);
  Doubles losses;
  for (int step = 0; step < 8; ++step) {
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    ctx.mode.training = true;
    const Variable y =
        p::matmul(ctx, norm.forward(ctx, x, kGrid), p::cast(ctx, mix->variable, dtype));
    const Variable error = p::sub(ctx, p::upcast(ctx, y), p::upcast(ctx, target));
    const Variable loss = p::mean(ctx, p::mul(ctx, error, error), {0, 1, 2});
    losses.push_back(element(loss.value().to(kCpu), 0));
    store.gradients().zero();
    tape.backward(loss, p::full(loss.shape(), loss.dtype(), device, 1).value());
    // value -= 2 gradient
    Tensor values = store.values().to(kCpu).clone(), gradients = store.gradients().to(kCpu);
    for (std::int64_t i = 0; i < store.flat_size(); ++i) {
      values.data<float>()[i] -= 2 * gradients.data<float>()[i];
    }
    store.values().copy_from(values);
    if (store.has_bfloat16()) store.refresh_bfloat16();
  }
  return losses;
}

TEST(CudaReferences, NormalizerOfPrimitivesTrains) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Doubles exact = losses_of_training(DType::kFloat32, kCpu);
  EXPECT_LT(exact.back(), 0.9 * exact.front());
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (Device device : {kCpu, kCuda}) {
      const Doubles losses = losses_of_training(dtype, device);
      ASSERT_EQ(losses.size(), exact.size());
      for (std::size_t i = 0; i < losses.size(); ++i) {
        // The roundings of a step affect the next step; those of all earlier steps may add up.
        const double rounding = dtype == DType::kBFloat16 ? bfloat16_tolerance(2) : 0;
        const double bound =
            static_cast<double>(i + 1) * (rounding + float32_tolerance(kChannels * kGrid.tokens()));
        EXPECT_NEAR(losses[i], exact[i], bound * exact[i])
            << "step " << i << ", " << name_of(dtype) << " on " << to_string(device);
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
