// Peak rates for comparison: matrix products and copies.
#include <algorithm>

#include "apps/bench/benchmark.h"
#include "apps/bench/random_values.h"
#include "apps/estimate/timing.h"
#include "kernels/gemm/gemm.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

double measure_gemm(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype, Device device,
                    double seconds) {
  RandomValues values;
  Tensor a = values.tensor({m, k}, dtype, device), b = values.tensor({n, k}, dtype, device);
  Tensor c = Tensor::empty({m, n}, dtype, device);
  Gemm gemm{};
  gemm.dtype = gemm.c_dtype = dtype;
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  gemm.a = a.raw();
  gemm.b = b.raw();
  gemm.c = c.raw();
  gemm.lda = gemm.ldb = k;
  gemm.ldc = n;
  gemm.transpose_b = true;
  run_on(device, gemm);
  // On a device, a product may take less time than its launch, so several are timed together.
  int together = device == kCpu ? 1 : 10;
  double best = 1e30, spent = 0;
  while (spent < seconds) {
    double t = seconds_of(device, [&] {
      for (int i = 0; i < together; ++i) run_on(device, gemm);
    });
    best = std::min(best, t / together);
    spent += t;
  }
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / best /
         1e9;
}

// Adds the linear layers of one block of a stage. The grid halves from stage to stage.
void add_stage(const ModelConfig& model, int stage, std::int64_t batch,
               std::vector<GemmRate>& rates) {
  const std::int64_t c = model.embed_dim.at(stage),
                     stride = std::int64_t{model.patch_size} << stage;
  const auto hidden = static_cast<std::int64_t>(static_cast<double>(c) * model.mlp_ratio.at(stage));
  const std::int64_t patches = std::max<std::int64_t>(1, model.image_size.height / stride) *
                               std::max<std::int64_t>(1, model.image_size.width / stride);
  const bool last = stage + 1 == model.stages();
  const std::int64_t rows = batch * (patches + (last ? model.prefix_tokens() : 0));
  const std::string which = model.stages() == 1 ? "" : cat(" of stage ", stage + 1);
  rates.push_back({"qkv" + which, rows, 3 * c, c, 0});
  rates.push_back({"proj" + which, rows, c, c, 0});
  rates.push_back({"fc1" + which, rows, hidden, c, 0});
  rates.push_back({"fc2" + which, rows, c, hidden, 0});
}

}  // namespace

std::vector<GemmRate> measure_gemms(const ModelConfig& model, std::int64_t batch, DType dtype,
                                    Device device, std::int64_t cube) {
  constexpr double kSecondsEach = 0.3;
  if (cube == 0) cube = device == kCpu ? 2048 : 8192;
  std::vector<GemmRate> rates = {{"cube", cube, cube, cube, 0}};
  for (int stage = 0; stage < model.stages(); ++stage) add_stage(model, stage, batch, rates);
  for (GemmRate& r : rates) r.gflops = measure_gemm(r.m, r.n, r.k, dtype, device, kSecondsEach);
  return rates;
}

double best_rate(const std::vector<GemmRate>& rates) {
  double best = 0;
  for (const GemmRate& r : rates) best = std::max(best, r.gflops);
  return best;
}

double measure_copy(Device device, std::int64_t bytes) {
  constexpr std::int64_t kRows = 256;  // shared out among the threads
  const Tensor from = RandomValues().tensor({kRows, bytes / 4 / kRows}, DType::kFloat32, device);
  Tensor to = Tensor::empty_like(from);
  auto copy = [&] {
    if (device != kCpu) return to.copy_from(from);
    run(cpu_queue(),
        CopyRows{from.dtype(), kRows, from.dim(1), from.raw(), from.dim(1), to.raw(), to.dim(1)});
  };
  double best = 1e30;
  for (int i = 0; i < 20; ++i) {
    best = std::min(best, seconds_of(device, copy));
  }
  return 2.0 * static_cast<double>(from.nbytes()) / best / 1e9;
}

}  // namespace dtn
