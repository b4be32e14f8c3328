// Compares the emulator's tensor-core fragments with plain products, element by element.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "dtn/core/philox.h"
#include "dtn/core/tensor.h"
#include "kernels/cuda/tensor_core.cuh"

namespace dtn {
namespace {

float value(int matrix, int row, int column) {
  float u = philox_uniform({7, static_cast<std::uint32_t>(matrix), 0},
                           static_cast<std::uint64_t>(row * 64 + column));
  return cuda::to_float(bfloat16(2 * u - 1));  // exact in bfloat16 and in tf32
}

__global__ void bf16_kernel(float* c) {
  int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  auto a = [](int row, int k) {
    return cuda::pack_bfloat16(value(0, row, k), value(0, row, k + 1));
  };
  auto b = [](int k, int n) { return cuda::pack_bfloat16(value(1, k, n), value(1, k + 1, n)); };
  unsigned fa[4] = {a(g, 2 * t), a(g + 8, 2 * t), a(g, 2 * t + 8), a(g + 8, 2 * t + 8)};
  unsigned fb[2] = {b(2 * t, g), b(2 * t + 8, g)};
  float fc[4] = {0.5f, 0.5f, 0.5f, 0.5f};
  cuda::mma_bf16(fc, fa, fb);
  c[g * 8 + 2 * t] = fc[0], c[g * 8 + 2 * t + 1] = fc[1];
  c[(g + 8) * 8 + 2 * t] = fc[2], c[(g + 8) * 8 + 2 * t + 1] = fc[3];
}

__global__ void tf32_kernel(float* c) {
  int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  auto a = [](int row, int k) { return cuda::to_tf32(value(0, row, k)); };
  auto b = [](int k, int n) { return cuda::to_tf32(value(1, k, n)); };
  unsigned fa[4] = {a(g, t), a(g + 8, t), a(g, t + 4), a(g + 8, t + 4)};
  unsigned fb[2] = {b(t, g), b(t + 4, g)};
  float fc[4] = {0.5f, 0.5f, 0.5f, 0.5f};
  cuda::mma_tf32(fc, fa, fb);
  c[g * 8 + 2 * t] = fc[0], c[g * 8 + 2 * t + 1] = fc[1];
  c[(g + 8) * 8 + 2 * t] = fc[2], c[(g + 8) * 8 + 2 * t + 1] = fc[3];
}

void expect_product(void (*kernel)(float*), int depth) {
  Tensor c = Tensor::empty({16, 8}, DType::kFloat32, kCuda);
  launch(cuda_queue(), {"fragments"}, kernel, {1, 32}, static_cast<float*>(c.raw()));
  Tensor host = c.to(kCpu);
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 8; ++n) {
      double want = 0.5;
      for (int k = 0; k < depth; ++k) want += double{value(0, m, k)} * value(1, k, n);
      EXPECT_NEAR(host.data<float>()[m * 8 + n], want, 1e-5) << m << ", " << n;
    }
  }
}

TEST(EmulatorFragments, ProductsOfBfloat16) { expect_product(bf16_kernel, 16); }
TEST(EmulatorFragments, ProductsOfTf32) { expect_product(tf32_kernel, 8); }

TEST(EmulatorFragments, Tf32KeepsTenBitsAndRoundsToNearest) {
  EXPECT_EQ(__uint_as_float(cuda::to_tf32(1.0f + 0x1p-10f)), 1.0f + 0x1p-10f);
  EXPECT_EQ(__uint_as_float(cuda::to_tf32(1.0f + 0x1p-12f)), 1.0f);
  EXPECT_EQ(__uint_as_float(cuda::to_tf32(1.0f + 0x1.8p-11f)), 1.0f + 0x1p-10f);
  EXPECT_EQ(__uint_as_float(cuda::to_tf32(-INFINITY)), -INFINITY);
}

// The documented model of a tensor core: it truncates, and it drops digits far below the largest
// term.
TEST(EmulatorFragments, TruncatedSums) {
  const auto sum = [](float c, std::vector<float> products) {
    const std::vector<float> ones(products.size(), 1);
    return emu::add_truncating(c, products.data(), ones.data(), static_cast<int>(products.size()));
  };
  EXPECT_EQ(sum(0.5f, {0.25f, -3}), -2.25f);
  EXPECT_EQ(sum(1, {0x1.8p-24f}), 1.0f);  // rounding to nearest would give 1 + 2^-23
  EXPECT_EQ(sum(-1, {-0x1.8p-24f}), -1.0f);
  EXPECT_EQ(sum(1, {0x1p-24f, 0x1p-24f}), 1.0f + 0x1p-23f);   // both within the two extra digits
  EXPECT_EQ(sum(1, std::vector<float>(16, 0x1p-26f)), 1.0f);  // sum of the products: 2^-22
  EXPECT_EQ(sum(0, std::vector<float>(16, 0x1p-26f)), 0x1p-22f);
  EXPECT_EQ(sum(0, {}), 0.0f);
  EXPECT_EQ(sum(1, {INFINITY}), INFINITY);
  EXPECT_TRUE(std::isnan(sum(INFINITY, {-INFINITY})));
}

TEST(EmulatorFragments, TruncatesSumsLikeDevice) {
  for (int at_once : {8, 16}) {
    emu::DeviceModel model = emu::device_model();
    model.products_at_once = at_once;
    const emu::ScopedDeviceModel truncating(model);
    expect_product(bf16_kernel, 16);
    expect_product(tf32_kernel, 8);
  }
}

template <bool Transpose>
__global__ void matrices_kernel(unsigned* out) {
  DTN_SHARED(std::uint16_t, shared);
  int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 4 * 64; i += 32) shared[i] = static_cast<std::uint16_t>(i);
  __syncwarp();
  unsigned r[4];
  cuda::load_matrices<Transpose>(r, shared + lane * 8);
  for (int i = 0; i < 4; ++i) out[lane * 4 + i] = r[i];
}

TEST(EmulatorFragments, LoadsMatricesFromSharedMemory) {
  for (bool transpose : {false, true}) {
    Tensor out = Tensor::empty({32 * 4 * 4}, DType::kUInt8, kCuda);
    launch(cuda_queue(), {"matrices"}, transpose ? matrices_kernel<true> : matrices_kernel<false>,
           {1, 32, 512}, static_cast<unsigned*>(out.raw()));
    Tensor host = out.to(kCpu);
    auto* words = reinterpret_cast<const unsigned*>(host.data<std::uint8_t>());
    for (int lane = 0; lane < 32; ++lane) {
      int g = lane / 4, t = lane % 4;
      for (int i = 0; i < 4; ++i) {
        int low = transpose ? 2 * t * 8 + g : g * 8 + 2 * t;
        int high = transpose ? (2 * t + 1) * 8 + g : g * 8 + 2 * t + 1;
        auto want = static_cast<unsigned>(i * 64 + low) | static_cast<unsigned>(i * 64 + high)
                                                              << 16;
        EXPECT_EQ(words[lane * 4 + i], want);
      }
    }
  }
}

}  // namespace
}  // namespace dtn
