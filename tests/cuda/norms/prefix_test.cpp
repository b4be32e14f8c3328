// Compares DTN with prefix tokens on the device, by every path, with its reference in float64.
#include "cuda/twin.h"
#include "kernels/dtn/dtn_norm_cuda.h"
#include "norm_cases.h"
#include "op_runs.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kBatch = 3, kChannels = 48, kHeads = 3;

struct PrefixCase {
  const char* name;
  const char* position;
  bool plain;  // CUDA cores, even if tensor cores are possible
};

std::vector<Doubles> run_norm(const NormConfig& config, const TokenGrid& grid, DType dtype,
                              Device device, bool reference) {
  const DType acc = accumulator_of(dtype);
  const NormShape shape{kChannels, kHeads, 1e-5, grid};
  BuiltNorm built;
  built.norm = make_normalizer(config, shape, {built.store, "norm"});
  built.store.allocate(acc, device);
  built.store.values().copy_from(build_norm(config, shape, acc)->store.values());
  const Tensor values = representable(random_tensor({kBatch, grid.tokens(), kChannels}, 1, 2, 0.5));
  const Variable x(as(values, dtype).to(device), true);
  // x already has a gradient, as along a residual.
  x.sink()->set(as(representable(random_tensor(values.shape(), 3)), dtype).to(device));
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const Variable y =
      reference ? built.norm->reference(ctx, x, grid) : built.norm->forward(ctx, x, grid);
  std::vector<Doubles> results = {doubles(y.value().to(kCpu))};
  tape.backward(y, as(representable(random_tensor(y.shape(), 77)), dtype).to(device));
  results.push_back(doubles(x.grad().to(kCpu)));
  for (const Parameter& p : built.store.parameters()) {
    if (is_inert(p)) continue;
    results.push_back(doubles(ParameterStore::view(built.store.gradients(), p).to(kCpu)));
  }
  return results;
}

TEST(CudaPrefix, PrefixTokensMatchCpu) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const PrefixCase& c : {PrefixCase{"tensor cores", "relative", false},
                              {"CUDA cores", "relative", true},
                              {"a full matrix", "free", false}}) {
    force_plain_dtn(c.plain);
    for (const TokenGrid& grid : {TokenGrid{4, 3, 1}, TokenGrid{3, 5, 6}}) {
      NormConfig config;
      config.type = "dtn";
      config.options = {{"position", std::string(c.position)}, {"prefix", std::string("ln")}};
      const auto want = run_norm(config, grid, DType::kFloat64, kCpu, true);
      for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const double rounding = dtype == DType::kBFloat16 ? 2 * bfloat16_tolerance(1) : 0;
        const std::int64_t terms = kBatch * grid.tokens() * grid.tokens() + kChannels;
        expect_close(run_norm(config, grid, dtype, kCuda, false), want,
                     rounding + 2 * float32_tolerance(terms),
                     cat(c.name, ", ", name_of(dtype), ", ", grid.prefix, " ahead"));
      }
    }
  }
  force_plain_dtn(false);
}

}  // namespace
}  // namespace dtn::test
