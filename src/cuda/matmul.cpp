// cuBLASLt thinks in columns: a row-major [r, c] matrix is to it a [c, r] one. A row-major product
// is therefore asked for transposed, D^T = op(B)^T op(A)^T: the library's A is our B and the other
// way round, their transposes stay as they are, its m is our n. The bias of a row of ours is one of
// a column of its, which is what its epilogue adds.
#include "cuda/matmul.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>

#include "core/cuda_device.h"
#include "cuda/check.h"
#include "kernels/cuda/trace.h"

namespace dtn::cuda {
namespace {

// What the library may use beside the factors, mostly for sums over parts of k. One is enough:
// products run one after the other in one stream.
constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;

std::atomic<bool> tf32_allowed{false};

std::string describe(const Matmul& p) {
  return cat(name_of(p.dtype), " [", p.m, ", ", p.k, "] x [", p.k, ", ", p.n, "] into ",
             name_of(p.d_dtype), p.transpose_a ? ", A transposed" : "",
             p.transpose_b ? ", B transposed" : "", p.c ? ", added to C" : "",
             p.bias ? ", with a bias" : "", ", row strides ", p.lda, ", ", p.ldb, ", ", p.ldd,
             p.batch > 1 ? cat(", ", p.batch, " products") : "");
}

// For a trace; n and t as the library names what is transposed, of our A and B.
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

// A descriptor of the library, destroyed with its owner.
template <class Handle, cublasStatus_t (*destroy)(Handle)>
struct Destroy {
  void operator()(Handle handle) const { (void)destroy(handle); }
};
template <class Handle, cublasStatus_t (*destroy)(Handle)>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<Handle, destroy>>;
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
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

// What the library calls bytes of alignment: the largest power of two, up to 256.
std::uint32_t alignment_of(const void* p) {
  auto address = reinterpret_cast<std::uintptr_t>(p) | 256;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

// Everything the library's choice may depend on.
struct Key {
  DType dtype, d_dtype;
  bool transpose_a, transpose_b, adds_c, adds_bias, tf32;
  std::int64_t m, n, k, lda, ldb, ldd, batch, stride_a, stride_b, stride_d;
  std::array<std::uint32_t, 5> alignments;  // of a, b, c, d, bias

  auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr): generated code
};

Key key_of(const Matmul& p) {
  bool many = p.batch > 1;
  return {p.dtype,
          p.d_dtype,
          p.transpose_a,
          p.transpose_b,
          p.c != nullptr,
          p.bias != nullptr,
          p.dtype == DType::kFloat32 && tf32_allowed.load(std::memory_order_relaxed),
          p.m,
          p.n,
          p.k,
          p.lda,
          p.ldb,
          p.ldd,
          p.batch,
          many ? p.stride_a : 0,
          many ? p.stride_b : 0,
          many ? p.stride_d : 0,
          {alignment_of(p.a), alignment_of(p.b), alignment_of(p.c ? p.c : p.d), alignment_of(p.d),
           alignment_of(p.bias)}};
}

struct Plan {
  Operation operation;
  Layout a, b, d;  // the library's A and B; C is laid out as D
  cublasLtMatmulAlgo_t algorithm{};
  bool exists = false;  // otherwise the library has no algorithm
};

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
  // Parts of k may be summed apart, but in float32 and added in a fixed order by a kernel of their
  // own: partial sums rounded to the type of D would cost bfloat16 its accuracy.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE), p);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignments[1], p);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignments[0], p);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignments[2], p);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignments[3], p);
  return preference;
}

// The handle, the workspace and the plans of the process. Never destroyed: at exit the driver may
// be gone before any static object.
class Library {
 public:
  static Library& instance() {
    static Library* library = new Library;
    return *library;
  }

  bool run(CudaQueue& queue, const Matmul& p) {
    std::lock_guard lock(mutex_);
    Plan& plan = plan_for(p);
    if (!plan.exists) return false;
    // Plans are shared by products whose biases lie elsewhere.
    if (p.bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias, p);
    const TracedLaunch traced([&] { return short_name(p); });
    const float one = 1, beta = p.c ? 1 : 0;
    check(cublasLtMatmul(handle_, plan.operation.get(), &one, p.b, plan.a.get(), p.a, plan.b.get(),
                         &beta, p.c ? p.c : p.d, plan.d.get(), p.d, plan.d.get(), &plan.algorithm,
                         workspace_.get(), kWorkspaceBytes,
                         static_cast<cudaStream_t>(queue.stream())),
          "cublasLtMatmul", p);
    return true;
  }

  std::size_t plan_count() {
    std::lock_guard lock(mutex_);
    return plans_.size();
  }

 private:
  Library() : workspace_(allocate(kWorkspaceBytes)) {
    if (cublasStatus_t status = cublasLtCreate(&handle_); status != CUBLAS_STATUS_SUCCESS) {
      throw Error(cat("CUDA: cublasLtCreate: ", cublasLtGetStatusString(status)));
    }
  }

  Plan& plan_for(const Matmul& p) {
    Key key = key_of(p);
    auto found = plans_.find(key);
    if (found == plans_.end()) found = plans_.emplace(key, make_plan(p, key)).first;
    return found->second;
  }

  Plan make_plan(const Matmul& p, const Key& key) {
    Plan plan;
    plan.operation = make_operation(p, key);
    plan.a = make_layout(p.dtype, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb,
                         p.batch, p.stride_b, p);
    plan.b = make_layout(p.dtype, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda,
                         p.batch, p.stride_a, p);
    plan.d = make_layout(p.d_dtype, p.m, p.n, p.ldd, p.batch, p.stride_d, p);
    Preference preference = make_preference(p, key);

    std::array<cublasLtMatmulHeuristicResult_t, 8> offers{};
    int count = 0;
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, plan.operation.get(), plan.a.get(), plan.b.get(), plan.d.get(), plan.d.get(),
        preference.get(), static_cast<int>(offers.size()), offers.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return plan;
    check(status, "cublasLtMatmulAlgoGetHeuristic", p);
    for (int i = 0; i < count && !plan.exists; ++i) {
      const cublasLtMatmulHeuristicResult_t& offer = offers[static_cast<std::size_t>(i)];
      if (offer.state != CUBLAS_STATUS_SUCCESS || offer.workspaceSize > kWorkspaceBytes) continue;
      plan.algorithm = offer.algo;
      plan.exists = true;
    }
    return plan;
  }

  std::mutex mutex_;
  cublasLtHandle_t handle_ = nullptr;
  std::shared_ptr<std::byte> workspace_;
  std::map<Key, Plan> plans_;
};

void check_product(const Matmul& p) {
  auto is_supported = [](DType t) { return t == DType::kFloat32 || t == DType::kBFloat16; };
  if (!is_supported(p.dtype) || !is_supported(p.d_dtype) ||
      (p.d_dtype != p.dtype && p.d_dtype != DType::kFloat32)) {
    throw Error(cat("a matrix product of ", name_of(p.dtype), " into ", name_of(p.d_dtype),
                    " is not computed on CUDA devices; float32 and bfloat16 are, into the same "
                    "type or float32"));
  }
  DTN_CHECK(p.m > 0 && p.n > 0 && p.k > 0 && p.batch > 0, "an empty product, ", describe(p));
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  DTN_CHECK(std::max({p.m, p.n, p.k, p.batch}) <= kMost, "sizes beyond 2^31 in ", describe(p));
  DTN_CHECK(
      p.lda >= (p.transpose_a ? p.m : p.k) && p.ldb >= (p.transpose_b ? p.k : p.n) && p.ldd >= p.n,
      "a row stride is shorter than the row in ", describe(p));
  DTN_CHECK(!p.bias || p.batch == 1, "a bias takes a single product, not ", describe(p));
  DTN_CHECK(reinterpret_cast<std::uintptr_t>(p.bias) % kBiasAlignment == 0,
            "the bias is not aligned to ", kBiasAlignment, " bytes in ", describe(p));
}

}  // namespace

void allow_tf32(bool on) { tf32_allowed = on; }

bool try_multiply(CudaQueue& queue, const Matmul& p) {
  check_product(p);
  return Library::instance().run(queue, p);
}

void multiply(CudaQueue& queue, const Matmul& p) {
  if (try_multiply(queue, p) || try_multiply_padded(queue, p)) return;
  throw Error(cat("CUDA: cuBLASLt has no algorithm for the product ", describe(p)));
}

std::size_t matmul_plan_count() { return Library::instance().plan_count(); }

}  // namespace dtn::cuda
