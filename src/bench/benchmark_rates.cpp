// The ceilings that everything else is held against: matrix products, and copies.
#include <algorithm>

#include "bench/benchmark.h"
#include "bench/timing.h"
#include "core/cuda_device.h"
#include "kernels/gemm/gemm.h"

namespace dtn {
namespace {

double measure_gemm(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype, Device device,
                    double seconds) {
  Tensor a = random_tensor({m, k}, dtype, 2, device), b = random_tensor({n, k}, dtype, 3, device);
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
  // A product on a device takes less than its launch may: several are timed together.
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

}  // namespace

std::vector<GemmRate> measure_gemms(const ModelConfig& model, std::int64_t batch, DType dtype,
                                    Device device, double seconds_each) {
  std::int64_t c = model.embed_dim, hidden = model.mlp_dim();
  std::int64_t rows = batch * (model.num_patches() + model.has_class_token());
  std::int64_t cube = device == kCpu ? 2048 : 8192;
  std::vector<GemmRate> rates = {{"cube", cube, cube, cube, 0},
                                 {"qkv", rows, 3 * c, c, 0},
                                 {"proj", rows, c, c, 0},
                                 {"fc1", rows, hidden, c, 0},
                                 {"fc2", rows, c, hidden, 0}};
  for (GemmRate& r : rates) r.gflops = measure_gemm(r.m, r.n, r.k, dtype, device, seconds_each);
  return rates;
}

double best_rate(const std::vector<GemmRate>& rates) {
  double best = 0;
  for (const GemmRate& r : rates) best = std::max(best, r.gflops);
  return best;
}

double measure_copy() {
  constexpr std::size_t kBytes = std::size_t{1} << 30;  // many times any cache
  auto from = cuda::allocate(kBytes), to = cuda::allocate(kBytes);
  // Not of zeros, which memory may handle faster.
  Tensor some = random_tensor({1 << 24}, DType::kFloat32, 1, kCuda);
  for (std::size_t at = 0; at < kBytes; at += some.nbytes()) {
    cuda::copy_on_device(from.get() + at, some.raw(), some.nbytes());
  }
  double best = 1e30;
  for (int i = 0; i < 20; ++i) {
    best = std::min(best,
                    seconds_of(kCuda, [&] { cuda::copy_on_device(to.get(), from.get(), kBytes); }));
  }
  return 2.0 * static_cast<double>(kBytes) / best / 1e9;
}

}  // namespace dtn
