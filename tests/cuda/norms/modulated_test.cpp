// Normalizers with gains and shifts of samples on the device, with and without weight and bias:
// compared with the CPU, forward and backward. Also normalizers without weight and bias alone.
#include "cuda/twin.h"
#include "norm_cases.h"
#include "op_runs.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kBatch = 3, kChannels = 40;
const NormShape kShape{kChannels, 4, 1e-5, {5, 4}};

enum class Pass { kForward, kSum, kModulated, kGated };

// Returns the outputs and the gradients of all inputs and parameters.
std::vector<Doubles> run_pass(const NormConfig& config, bool affine, Pass pass, DType dtype,
                              Device device) {
  NormShape shape = kShape;
  shape.affine = affine;
  BuiltNorm built;
  built.norm = make_normalizer(config, shape, {built.store, "norm"});
  built.store.allocate(DType::kFloat32, device);
  built.store.values().copy_from(build_norm(config, shape, DType::kFloat32)->store.values());
  built.store.restart_buffers();
  if (dtype == DType::kBFloat16) built.store.enable_bfloat16();
  auto leaf = [&](const Shape& of, std::uint32_t stream, DType type) {
    return Variable(as(representable(random_tensor(of, stream, 1.5)), type).to(device), true);
  };
  const Shape tokens{kBatch, kShape.grid.tokens(), kChannels};
  const Variable x = leaf(tokens, 1, dtype), branch = leaf(tokens, 2, dtype),
                 gate = leaf({kBatch, kChannels}, 3, DType::kFloat32),
                 modulation = leaf({kBatch, 2 * kChannels}, 4, DType::kFloat32);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.mode.training = true;
  Variable sum, y;
  switch (pass) {
    case Pass::kForward: y = built.norm->forward(ctx, x, kShape.grid); break;
    case Pass::kSum: y = built.norm->forward_sum(ctx, x, branch, {}, kShape.grid, sum); break;
    case Pass::kModulated:
      y = built.norm->forward_modulated(ctx, x, modulation, kShape.grid);
      break;
    case Pass::kGated:
      y = built.norm->forward_gated_modulated(ctx, x, gate, branch, modulation, kShape.grid, sum);
      break;
  }
  tape.backward(y, as(representable(random_tensor(tokens, 77)), dtype).to(device));
  std::vector<Doubles> results = {doubles(y.value().to(kCpu))};
  for (const Variable* v : {&x, &branch, &gate, &modulation}) {
    if (v->grad().defined()) results.push_back(doubles(v->grad().to(kCpu)));
  }
  for (const Parameter& p : built.store.parameters()) {
    if (is_inert(p)) continue;
    results.push_back(doubles(ParameterStore::view(built.store.gradients(), p).to(kCpu)));
  }
  return results;
}

TEST(CudaModulatedNorms, MatchHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const NormSchema& schema : norm_registry().schemas()) {
    if (!schema.stands_alone()) continue;
    NormConfig config;
    config.type = schema.type;
    for (bool affine : {true, false}) {
      for (Pass pass : {Pass::kForward, Pass::kSum, Pass::kModulated, Pass::kGated}) {
        for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
          // The sum, y before and after the modulation, and dx may round in other directions.
          const int roundings = dtype == DType::kBFloat16 ? 4 : 0;
          const std::int64_t terms = kBatch * kShape.grid.tokens() * 4 + kChannels;
          expect_close(run_pass(config, affine, pass, dtype, kCuda),
                       run_pass(config, affine, pass, dtype, kCpu),
                       2 * float32_tolerance(terms) + roundings * unit_roundoff(DType::kBFloat16),
                       cat(schema.type, affine ? "" : " without affine", ", pass ",
                           static_cast<int>(pass), ", ", name_of(dtype)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
