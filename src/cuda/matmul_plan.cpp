// cuBLASLt is column-major: it sees a row-major [r, c] matrix as a [c, r] matrix. A row-major
// product is therefore computed transposed, D^T = op(B)^T op(A)^T. The library's A is our B and its
// B is our A, their transposes stay as they are, and its m is our n. A bias for each column of our
// D is a bias for each row of the library's D, which is the bias that its epilogue adds.
#include "cuda/matmul_plan.h"

#include <algorithm>

#include "cuda/check.h"
#include "dtn/core/check.h"

namespace dtn::cuda {
namespace {

using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class T>
void set(const Operation& o, cublasLtMatmulDescAttributes_t attribute, const T& value,
         const Matmul& p) {
  check(cublasLtMatmulDescSetAttribute(o.get(), attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute", p);
}
template <class T>
void set(const Layout& l, cublasLtMatrixLayoutAttribute_t attribute, const T& value,
         const Matmul& p) {
  check(cublasLtMatrixLayoutSetAttribute(l.get(), attribute, &value, sizeof value),
        "cublasLtMatrixLayoutSetAttribute", p);
}
template <class T>
void set(const Preference& f, cublasLtMatmulPreferenceAttributes_t attribute, const T& value,
         const Matmul& p) {
  check(cublasLtMatmulPreferenceSetAttribute(f.get(), attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute", p);
}

// Alignment in bytes as the library defines it: the largest power of two, up to 256.
std::uint32_t alignment_of(const void* p) {
  auto address = reinterpret_cast<std::uintptr_t>(p) | 256;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

cudaDataType type_of(DType t) { return t == DType::kBFloat16 ? CUDA_R_16BF : CUDA_R_32F; }

// A row-major matrix as the library sees it.
Layout make_layout(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                   std::int64_t batch, std::int64_t stride, const Matmul& p) {
  cublasLtMatrixLayout_t raw = nullptr;
  check(cublasLtMatrixLayoutCreate(&raw, type_of(dtype), static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), ld),
        "cublasLtMatrixLayoutCreate", p);
  Layout layout(raw);
  if (batch > 1) {
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch), p);
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride, p);
  }
  return layout;
}

Operation make_operation(const Matmul& p, const Key& key) {
  cublasLtMatmulDesc_t raw = nullptr;
  check(cublasLtMatmulDescCreate(&raw, key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F),
        "cublasLtMatmulDescCreate", p);
  Operation operation(raw);
  auto transpose = [](bool on) -> std::int32_t { return on ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, transpose(p.transpose_b), p);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, transpose(p.transpose_a), p);
  if (p.bias) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
        static_cast<std::uint32_t>(CUBLASLT_EPILOGUE_BIAS), p);
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias, p);
  }
  return operation;
}

Preference make_preference(const Matmul& p, const Key& key) {
  cublasLtMatmulPreference_t raw = nullptr;
  check(cublasLtMatmulPreferenceCreate(&raw), "cublasLtMatmulPreferenceCreate", p);
  Preference preference(raw);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspaceBytes}, p);
  // Partial sums over k stay in float32, and a separate kernel adds them in a fixed order. Partial
  // sums rounded to the type of D would cost bfloat16 accuracy.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE), p);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignments[1], p);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignments[0], p);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignments[2], p);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignments[3], p);
  return preference;
}

}  // namespace

std::string describe(const Matmul& p) {
  return cat(name_of(p.dtype), " [", p.m, ", ", p.k, "] x [", p.k, ", ", p.n, "] into ",
             name_of(p.d_dtype), p.transpose_a ? ", A transposed" : "",
             p.transpose_b ? ", B transposed" : "", p.c ? ", added to C" : "",
             p.bias ? ", with a bias" : "", ", row strides ", p.lda, ", ", p.ldb, ", ", p.ldd,
             p.batch > 1 ? cat(", ", p.batch, " products") : "");
}

std::string short_name(const Matmul& p) {
  return cat("matmul ", p.transpose_a ? 't' : 'n', p.transpose_b ? "t " : "n ", p.m, " x ", p.n,
             " x ", p.k, p.batch > 1 ? cat(" x ", p.batch) : "");
}

void check(cublasStatus_t status, const char* call, const Matmul& p) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  throw Error(cat("CUDA: ", call, " for the product ", describe(p), ": ",
                  cublasLtGetStatusString(status), " (", cublasLtGetStatusName(status), ")"));
}

Key key_of(const Matmul& p, bool tf32_allowed) {
  Key key{p,
          p.c != nullptr,
          p.bias != nullptr,
          p.dtype == DType::kFloat32 && tf32_allowed,
          {alignment_of(p.a), alignment_of(p.b), alignment_of(p.c ? p.c : p.d), alignment_of(p.d),
           alignment_of(p.bias)}};
  Matmul& kind = key.kind;
  kind.a = kind.b = kind.c = kind.bias = kind.d = nullptr;
  if (p.batch == 1) kind.stride_a = kind.stride_b = kind.stride_d = 0;
  return key;
}

bool Key::aligned() const {
  return std::ranges::all_of(alignments, [](std::uint32_t bytes) { return bytes >= 16; });
}

std::string name_of_kind(const Matmul& p, const Key& key) {
  std::string name = cat(key.tf32 ? "tf32" : name_of(p.dtype), " to ", name_of(p.d_dtype), ", ",
                         p.m, " x ", p.n, " x ", p.k, " ", p.transpose_a ? 't' : 'n',
                         p.transpose_b ? 't' : 'n', ", rows of ", p.lda, " ", p.ldb, " ", p.ldd);
  if (p.c) name += ", added to";
  if (p.bias) name += ", bias";
  if (p.batch > 1) {
    name += cat(", ", p.batch, " of them ", p.stride_a, " ", p.stride_b, " ", p.stride_d, " apart");
  }
  if (!key.aligned()) name += ", unaligned";
  return name;
}

Plan make_plan(cublasLtHandle_t handle, const Matmul& p, const Key& key) {
  Plan plan;
  plan.name = name_of_kind(p, key);
  plan.aligned = key.aligned();
  plan.example = p;
  plan.operation = make_operation(p, key);
  plan.a = make_layout(p.dtype, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb,
                       p.batch, p.stride_b, p);
  plan.b = make_layout(p.dtype, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda,
                       p.batch, p.stride_a, p);
  plan.d = make_layout(p.d_dtype, p.m, p.n, p.ldd, p.batch, p.stride_d, p);
  Preference preference = make_preference(p, key);

  std::array<cublasLtMatmulHeuristicResult_t, 32> results{};
  int count = 0;
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, plan.operation.get(), plan.a.get(), plan.b.get(), plan.d.get(), plan.d.get(),
      preference.get(), static_cast<int>(results.size()), results.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return plan;
  check(status, "cublasLtMatmulAlgoGetHeuristic", p);
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS || result.workspaceSize > kWorkspaceBytes) continue;
    plan.candidates.push_back(read_candidate(result));
  }
  return plan;
}

void set_bias(const Plan& plan, const Matmul& p) {
  set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias, p);
}

}  // namespace dtn::cuda
