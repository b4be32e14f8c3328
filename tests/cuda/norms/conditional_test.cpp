// Compares every conditional normalizer on the device with the CPU, forward and backward. Its
// parameters, condition and buffers stay on the device, and no operation reads them back.
#include "conditional_cases.h"
#include "cuda/twin.h"
#include "dtn/ops/modulation.h"
#include "dtn/ops/tokens.h"
#include "op_runs.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kBatch = 3, kChannels = 40;
const TokenGrid kGrid{5, 4};

// Returns the output, the gradients of x, of the condition (if any) and of the parameters, and the
// running statistics.
std::vector<Doubles> run_case(const ConditionalCase& c, DType dtype, Device device) {
  BuiltConditional built;
  built.norm = c.make(built.store, kChannels);
  built.store.allocate(DType::kFloat32, device);
  auto host = build_conditional(c, kChannels, DType::kFloat32);
  built.store.values().copy_from(host->store.values());
  built.store.restart_buffers();
  if (dtype == DType::kBFloat16) built.store.enable_bfloat16();
  auto leaf = [&](const Tensor& t) { return Variable(as(t, dtype).to(device), true); };
  Variable x = leaf(representable(random_tensor({kBatch, kGrid.tokens(), kChannels}, 1, 2, 0.5)));
  Tensor values = condition_values(c, kBatch, kGrid.tokens(), kChannels);
  Variable v = values.defined() ? leaf(values) : Variable();
  Condition condition = make_condition(c, kBatch, v);
  if (condition.index.defined()) condition.index = condition.index.to(device);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.mode.training = c.training;
  Variable y = built.norm->forward(ctx, x, kGrid, condition);
  std::vector<Doubles> results = {doubles(y.value().to(kCpu))};
  tape.backward(y, as(representable(random_tensor(y.shape(), 77)), dtype).to(device));
  results.push_back(doubles(x.grad().to(kCpu)));
  if (v.defined()) results.push_back(doubles(v.grad().to(kCpu)));
  for (const Parameter& p : built.store.parameters()) {
    results.push_back(doubles(ParameterStore::view(built.store.gradients(), p).to(kCpu)));
  }
  for (const Buffer& b : built.store.buffers()) results.push_back(doubles(b.next.to(kCpu)));
  return results;
}

class CudaConditional : public testing::TestWithParam<ConditionalCase> {};

TEST_P(CudaConditional, MatchesHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  const ConditionalCase& c = GetParam();
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const auto host = run_case(c, dtype, kCpu), device = run_case(c, dtype, kCuda);
    // Both sides round. In bfloat16 the intermediate results of convolutions and summaries may
    // round in different directions.
    const bool chained = c.name.starts_with("spade") || c.name.starts_with("dln");
    const int roundings = dtype == DType::kBFloat16 ? (chained ? 6 : 2) : 0;
    const double bound = 2 * float32_tolerance(kBatch * kGrid.tokens() + kChannels) +
                         roundings * unit_roundoff(DType::kBFloat16);
    expect_close(device, host, bound, cat(c.name, ", ", name_of(dtype)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaConditional, testing::ValuesIn(conditional_cases()),
                         [](const auto& each) { return each.param.name; });

// The gate of adaLN-Zero, and the moments that an encoder passes to a decoder.
TEST(CudaConditionalParts, GateAndMomentShortcutsMatchHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  auto run_on_device = [](DType dtype, Device device) {
    ParameterStore store;
    AdaptiveLayerNorm norm({store, "norm"}, {.channels = kChannels, .condition = 6, .gate = true});
    DynamicMomentShortcut shortcut({store, "shortcut"}, {.channels = kChannels, .hidden = 5});
    store.allocate(DType::kFloat32, device);
    Tensor noise = random_tensor(store.values().shape(), 40, 0.5);
    store.values().copy_from(as(noise, DType::kFloat32));
    if (dtype == DType::kBFloat16) store.enable_bfloat16();
    auto leaf = [&](const Shape& shape, std::uint32_t stream) {
      return Variable(as(random_tensor(shape, stream), dtype).to(device), true);
    };
    Variable x = leaf({kBatch, kGrid.tokens(), kChannels}, 41), c = leaf({kBatch, 6}, 42);
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    const Condition condition = Condition::of_vector(c);
    Variable gate = norm.gate(ctx, condition);
    Variable gated = ops::gated_add(ctx, x, gate, norm.forward(ctx, x, kGrid, condition));
    auto [y, mean, std] = PositionalNorm().forward(ctx, gated);
    Variable z = moment_shortcut(ctx, shortcut.forward(ctx, y, kGrid, mean, std), mean, std);
    std::vector<Doubles> results = {doubles(z.value().to(kCpu))};
    tape.backward(z, as(random_tensor(z.shape(), 43), dtype).to(device));
    results.push_back(doubles(x.grad().to(kCpu)));
    results.push_back(doubles(c.grad().to(kCpu)));
    results.push_back(doubles(store.gradients().to(kCpu)));
    return results;
  };
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const double rounding = dtype == DType::kBFloat16 ? 10 * unit_roundoff(dtype) : 0;
    expect_close(run_on_device(dtype, kCuda), run_on_device(dtype, kCpu),
                 rounding + 4 * float32_tolerance(kBatch * kGrid.tokens() + 9 * 5 + kChannels),
                 name_of(dtype));
  }
}

}  // namespace
}  // namespace dtn::test
