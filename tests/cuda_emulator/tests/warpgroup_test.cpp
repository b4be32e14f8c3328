// Compares the emulator's warpgroup products with plain products, and tests the mistakes that it
// detects.
#include "kernels/cuda/warpgroup.cuh"

#include <gtest/gtest.h>

#include <cmath>

#include "dtn/core/philox.h"
#include "dtn/core/tensor.h"

namespace dtn {
namespace {

using cuda::Depth;

constexpr int kColumns = 48, kDepth = 32;

float value(int matrix, int row, int column) {
  const float u = philox_uniform({7, static_cast<std::uint32_t>(matrix), 0},
                                 static_cast<std::uint64_t>(row * 256 + column));
  return cuda::to_float(bfloat16(2 * u - 1));
}

// Writes the values (i, k) of an operand: row i of the left one, or column i of the right one.
void fill(bfloat16* to, int matrix, int count, Depth depth) {
  for (int i = static_cast<int>(threadIdx.x); i < count * kDepth; i += 128) {
    const int other = i / kDepth, k = i % kDepth;
    const bool along = depth == Depth::kColumns;
    to[cuda::core_offset(along ? other : k, along ? k : other, along ? kDepth : count)] =
        bfloat16(value(matrix, other, k));
  }
}

void store(float* c, const float (&d)[kColumns / 8][4]) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  for (int n = 0; n < kColumns / 8; ++n) {
    for (int i = 0; i < 4; ++i) {
      const int row = thread / 32 * 16 + lane / 4 + i / 2 * 8;
      c[row * kColumns + 8 * n + lane % 4 * 2 + i % 2] = d[n][i];
    }
  }
}

// Two kernels that compute c = 1 + a b. The first accumulates, the second overwrites.
template <Depth kA, Depth kB>
__global__ void shared_kernel(float* c) {
  DTN_SHARED(bfloat16, a);
  bfloat16* b = a + 64 * kDepth;
  fill(a, 0, 64, kA);
  fill(b, 1, kColumns, kB);
  cuda::sync_for_products();
  const cuda::SharedOperand<kA> left(a, kA == Depth::kColumns ? kDepth : 64);
  const cuda::SharedOperand<kB> right(b, kB == Depth::kColumns ? kDepth : kColumns);
  float d[kColumns / 8][4];
  for (auto& fragment : d) std::fill_n(fragment, 4, 1.0f);
  cuda::WarpgroupProducts products;
  products.begin();
  for (int k = 0; k < kDepth / 16; ++k) products.multiply(d, left.after(k), right.after(k), true);
  products.commit();
  products.wait<0>(d);
  store(c, d);
}

template <Depth kB>
__global__ void register_kernel(float* c) {
  DTN_SHARED(bfloat16, b);
  fill(b, 1, kColumns, kB);
  cuda::sync_for_products();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  unsigned a[kDepth / 16][4];
  for (int k = 0; k < kDepth / 16; ++k) {
    for (int i = 0; i < 4; ++i) {
      const int row = thread / 32 * 16 + lane / 4 + i % 2 * 8;
      const int column = 16 * k + lane % 4 * 2 + i / 2 * 8;
      a[k][i] = cuda::pack_bfloat16(value(0, row, column), value(0, row, column + 1));
    }
  }
  const cuda::SharedOperand<kB> right(b, kB == Depth::kColumns ? kDepth : kColumns);
  float d[kColumns / 8][4];
  cuda::WarpgroupProducts products;
  products.begin();
  for (int k = 0; k < kDepth / 16; ++k) products.multiply(d, a[k], right.after(k), k > 0);
  products.commit();
  products.wait<0>(d);
  for (auto& fragment : d) {
    for (float& v : fragment) v += 1;
  }
  store(c, d);
}

Tensor result_of(void (*kernel)(float*)) {
  Tensor c = Tensor::empty({64, kColumns}, DType::kFloat32, kCuda);
  launch(cuda_queue(), {"warpgroup"}, kernel, {1, 128, (64 + kColumns) * kDepth * 2},
         static_cast<float*>(c.raw()));
  return c.to(kCpu);
}

void expect_product(void (*kernel)(float*)) {
  const Tensor c = result_of(kernel);
  for (int m = 0; m < 64; ++m) {
    for (int n = 0; n < kColumns; ++n) {
      double want = 1;
      for (int k = 0; k < kDepth; ++k) want += double{value(0, m, k)} * value(1, n, k);
      EXPECT_NEAR(c.data<float>()[m * kColumns + n], want, 1e-5) << m << ", " << n;
    }
  }
}

TEST(EmulatorWarpgroup, Products) {
  expect_product(shared_kernel<Depth::kColumns, Depth::kColumns>);
  expect_product(shared_kernel<Depth::kColumns, Depth::kRows>);
  expect_product(shared_kernel<Depth::kRows, Depth::kColumns>);
  expect_product(shared_kernel<Depth::kRows, Depth::kRows>);
  expect_product(register_kernel<Depth::kColumns>);
  expect_product(register_kernel<Depth::kRows>);
}

TEST(EmulatorWarpgroup, TruncatesSumsLikeDevice) {
  emu::DeviceModel model = emu::device_model();
  model.products_at_once = 16;
  const emu::ScopedDeviceModel truncating(model);
  expect_product(shared_kernel<Depth::kColumns, Depth::kRows>);
}

enum class Mistake { kNone, kReadsEarly, kOverwrites, kForgetsToCommit, kWaitsForTooFew };

template <Mistake kMistake>
__global__ void mistaken_kernel(float* c) {
  DTN_SHARED(bfloat16, b);
  fill(b, 1, kColumns, Depth::kColumns);
  cuda::sync_for_products();
  const cuda::SharedOperand<Depth::kColumns> right(b, kDepth);
  unsigned a[4];
  for (unsigned& pair : a) pair = cuda::pack_bfloat16(1, 1);
  float d[kColumns / 8][4];
  cuda::WarpgroupProducts products;
  products.begin();
  products.multiply(d, a, right, false);
  if (kMistake != Mistake::kForgetsToCommit) products.commit();
  if (kMistake == Mistake::kOverwrites) a[0] = cuda::pack_bfloat16(NAN, 1);
  if (kMistake == Mistake::kReadsEarly) store(c, d);
  if (kMistake == Mistake::kWaitsForTooFew) {
    products.wait<1>(d);
  } else {
    products.wait<0>(d);
  }
  if (kMistake != Mistake::kReadsEarly) store(c, d);
}

bool has_nan(void (*kernel)(float*)) {
  const Tensor c = result_of(kernel);
  return std::any_of(c.data<float>(), c.data<float>() + c.numel(),
                     [](float v) { return std::isnan(v); });
}

TEST(EmulatorWarpgroup, DetectsSynchronizationMistakes) {
  EXPECT_FALSE(has_nan(mistaken_kernel<Mistake::kNone>));
  EXPECT_TRUE(has_nan(mistaken_kernel<Mistake::kReadsEarly>));
  EXPECT_TRUE(has_nan(mistaken_kernel<Mistake::kOverwrites>));
  EXPECT_TRUE(has_nan(mistaken_kernel<Mistake::kForgetsToCommit>));
  EXPECT_TRUE(has_nan(mistaken_kernel<Mistake::kWaitsForTooFew>));
}

// wgmma.fence must precede the first product and follow each wait.
__global__ void unfenced_kernel(float*) {
  DTN_SHARED(bfloat16, b);
  const cuda::SharedOperand<Depth::kColumns> right(b, kDepth);
  const unsigned a[4] = {};
  float d[kColumns / 8][4];
  cuda::WarpgroupProducts products;
  products.multiply(d, a, right, false);
}

TEST(EmulatorWarpgroup, ProductWithoutFenceIsError) {
  EXPECT_THROW(result_of(unfenced_kernel), Error);
}

}  // namespace
}  // namespace dtn
