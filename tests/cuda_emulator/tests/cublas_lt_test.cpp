// Tests that the emulator's cuBLASLt refuses requests that the real library refuses or may compute
// incorrectly. Otherwise a mistake would show only on a GPU.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace emu {
namespace {

constexpr cublasStatus_t kDone = CUBLAS_STATUS_SUCCESS, kInvalid = CUBLAS_STATUS_INVALID_VALUE,
                         kUnsupported = CUBLAS_STATUS_NOT_SUPPORTED;

// A product as a program would set it up. Tests can damage each part.
struct Asked {
  std::int64_t m = 24, n = 16, k = 40;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F, ab = CUDA_R_16BF, cd = CUDA_R_16BF;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::uint32_t alignment = 256, reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  std::uint64_t workspace = 1 << 20;
  std::int32_t batch = 1;
  std::int64_t ld_a = 24;

  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const void* bias = nullptr;

  cublasStatus_t plan() {
    EXPECT_EQ(cublasLtCreate(&handle), kDone);
    EXPECT_EQ(cublasLtMatmulDescCreate(&operation, compute, scale), kDone);
    auto set = [&](auto attribute, auto value) {
      EXPECT_EQ(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value), kDone);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, transpose_a);
    set(CUBLASLT_MATMUL_DESC_TRANSB, transpose_b);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    auto lay_out = [&](cublasLtMatrixLayout_t* l, cudaDataType_t t, std::int64_t r, std::int64_t c,
                       std::int64_t ld) {
      EXPECT_EQ(cublasLtMatrixLayoutCreate(l, t, static_cast<std::uint64_t>(r),
                                           static_cast<std::uint64_t>(c), ld),
                kDone);
      EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(*l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                                 sizeof batch),
                kDone);
    };
    lay_out(&a, ab, m, k, ld_a);
    lay_out(&b, ab, k, n, k);
    lay_out(&d, cd, m, n, m);
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference), kDone);
    auto prefer = [&](auto attribute, auto value) {
      EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
                kDone);
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
    for (auto side :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(side, alignment);
    }
    return cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, d, d, preference, 1, &found,
                                          &count);
  }
  cublasStatus_t multiply(const void* pa, const void* pb, const void* pc, void* pd, void* ws,
                          std::size_t ws_bytes, float beta = 0) {
    float one = 1;
    return cublasLtMatmul(handle, operation, &one, pa, a, pb, b, &beta, pc, d, pd, d, &found.algo,
                          ws, ws_bytes, nullptr);
  }
  ~Asked() {
    if (a) (void)cublasLtMatrixLayoutDestroy(a);
    if (b) (void)cublasLtMatrixLayoutDestroy(b);
    if (d) (void)cublasLtMatrixLayoutDestroy(d);
    if (preference) (void)cublasLtMatmulPreferenceDestroy(preference);
    if (operation) (void)cublasLtMatmulDescDestroy(operation);
    if (handle) (void)cublasLtDestroy(handle);
  }
};

TEST(EmulatedCublasLt, PlansSupportedProductsOnly) {
  alignas(256) static float memory[64];
  struct Change {
    const char* what;
    void (*apply)(Asked&);
    cublasStatus_t status;
  };
  const Change changes[] = {
      {"nothing", [](Asked&) {}, kDone},
      {"float32 result", [](Asked& s) { s.cd = CUDA_R_32F; }, kDone},
      {"float32", [](Asked& s) { s.ab = s.cd = CUDA_R_32F; }, kDone},
      {"tf32",
       [](Asked& s) {
         s.ab = s.cd = CUDA_R_32F;
         s.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
       },
       kDone},
      {"bias",
       [](Asked& s) {
         s.epilogue = CUBLASLT_EPILOGUE_BIAS;
         s.bias = memory;
       },
       kDone},
      {"float32 into bfloat16", [](Asked& s) { s.ab = CUDA_R_32F; }, kUnsupported},
      {"tf32 of bfloat16", [](Asked& s) { s.compute = CUBLAS_COMPUTE_32F_FAST_TF32; },
       kUnsupported},
      {"float64", [](Asked& s) { s.ab = s.cd = CUDA_R_64F; }, kUnsupported},
      {"scale type", [](Asked& s) { s.scale = CUDA_R_16BF; }, kUnsupported},
      {"short rows", [](Asked& s) { s.ld_a = 23; }, kInvalid},
      {"shapes", [](Asked& s) { s.transpose_a = CUBLAS_OP_T; }, kInvalid},
      {"no such transpose", [](Asked& s) { s.transpose_b = 7; }, kInvalid},
      {"batch in one place", [](Asked& s) { s.batch = 2; }, kInvalid},
      {"no bias", [](Asked& s) { s.epilogue = CUBLASLT_EPILOGUE_BIAS; }, kInvalid},
      {"unaligned bias",
       [](Asked& s) {
         s.epilogue = CUBLASLT_EPILOGUE_BIAS;
         s.bias = memory + 1;
       },
       kInvalid},
      {"another epilogue", [](Asked& s) { s.epilogue = 32; }, kUnsupported},
      {"nothing in it", [](Asked& s) { s.n = 0; }, kInvalid},
  };
  for (const Change& change : changes) {
    Asked s;
    change.apply(s);
    EXPECT_EQ(s.plan(), change.status) << change.what << ": " << last_blas_error();
    EXPECT_EQ(s.count, change.status == kDone ? 1 : 0) << change.what;
  }
}

TEST(EmulatedCublasLt, AlgorithmServesOnlyItsProduct) {
  alignas(256) static std::byte memory[1 << 18];
  std::byte *a = memory, *b = memory + (1 << 14), *d = memory + (1 << 15), *ws = memory + (1 << 16);
  constexpr std::size_t kRoom = 1 << 17;
  Asked s;
  ASSERT_EQ(s.plan(), kDone);
  EXPECT_EQ(s.multiply(a, b, d, d, ws, kRoom), kDone);
  EXPECT_EQ(s.multiply(a + 128, b, d, d, ws, kRoom), kInvalid) << "less aligned than promised";
  EXPECT_EQ(s.multiply(a, b, d, d, ws + 128, kRoom), kInvalid) << "workspace alignment";
  EXPECT_EQ(s.multiply(a, b, d, a, ws, kRoom), kInvalid) << "a factor in D's place";
  EXPECT_EQ(s.multiply(nullptr, b, d, d, ws, kRoom), kInvalid);
  Asked other;
  other.n = 8;
  ASSERT_EQ(other.plan(), kDone);
  s.found = other.found;
  EXPECT_EQ(s.multiply(a, b, d, d, ws, kRoom), kInvalid) << "another product's algorithm";

  Asked deep;
  deep.k = 2048;
  ASSERT_EQ(deep.plan(), kDone);
  EXPECT_GT(deep.found.workspaceSize, 0u);
  EXPECT_EQ(deep.multiply(a, b, d, d, ws, deep.found.workspaceSize - 1), kInvalid);
  Asked in_one_piece;
  in_one_piece.k = 2048;
  in_one_piece.reductions = CUBLASLT_REDUCTION_SCHEME_NONE;
  ASSERT_EQ(in_one_piece.plan(), kDone);
  EXPECT_EQ(in_one_piece.found.workspaceSize, 0u);
  cudaDeviceSynchronize();
}

TEST(EmulatedCublasLt, ChecksDescriptors) {
  Asked s;
  ASSERT_EQ(s.plan(), kDone);
  std::int64_t wide = 0;
  EXPECT_EQ(
      cublasLtMatmulDescSetAttribute(s.operation, CUBLASLT_MATMUL_DESC_TRANSA, &wide, sizeof wide),
      kInvalid)
      << "an attribute of 4 bytes";
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(s.operation, CUBLASLT_MATMUL_DESC_FILL_MODE, &wide, 4),
            kUnsupported);
  cublasLtMatrixLayout_t gone = nullptr;
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&gone, CUDA_R_32F, 1, 1, 1), kDone);
  ASSERT_EQ(cublasLtMatrixLayoutDestroy(gone), kDone);
  EXPECT_EQ(cublasLtMatrixLayoutDestroy(gone), kInvalid);
  EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(s.handle, s.operation, gone, s.b, s.d, s.d, s.preference,
                                           1, &s.found, &s.count),
            kInvalid);
}

}  // namespace
}  // namespace emu
