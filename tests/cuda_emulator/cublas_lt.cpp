// cuBLASLt for the emulator: checks requests against a strict reading of the documentation, and
// enqueues them. The products themselves are in blas_product.cpp.
#include <cublasLt.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <set>

#include "blas_product.h"

// --- descriptors ---------------------------------------------------------------------------------

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t ld;
  std::int32_t batch = 1;
  std::int64_t stride = 0;
  bool operator==(const cublasLtMatrixLayoutOpaque_t&) const = default;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment_a = 256, alignment_b = 256, alignment_c = 256, alignment_d = 256;
};

namespace {

std::mutex mutex;
std::set<const void*> alive;  // every descriptor and handle
emu::BlasCounts counts;
std::string last_error;

cublasStatus_t refuse(cublasStatus_t status, const char* why) {
  std::lock_guard lock(mutex);
  last_error = why;
  return status;
}
cublasStatus_t invalid(const char* why) { return refuse(CUBLAS_STATUS_INVALID_VALUE, why); }
cublasStatus_t unsupported(const char* why) { return refuse(CUBLAS_STATUS_NOT_SUPPORTED, why); }

template <class T>
cublasStatus_t create(T** out, T value) {
  if (!out) return invalid("nowhere to put a new descriptor");
  std::lock_guard lock(mutex);
  *out = new T(value);
  alive.insert(*out);
  ++counts.descriptors;
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t destroy(T* p) {
  {
    std::lock_guard lock(mutex);
    if (alive.erase(p)) {
      delete p;
      return CUBLAS_STATUS_SUCCESS;
    }
  }
  return invalid("destroying what is no descriptor, or no longer");
}
bool exists(const void* p) {
  std::lock_guard lock(mutex);
  return alive.count(p) != 0;
}

// Copies the value of an attribute if its size is right.
template <class T>
cublasStatus_t take(T& to, const void* value, std::size_t bytes) {
  if (!value || bytes != sizeof(T)) return invalid("an attribute of another size");
  std::memcpy(&to, value, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

// --- supported requests --------------------------------------------------------------------------

struct Request {
  const cublasLtMatmulDescOpaque_t& operation;
  const cublasLtMatrixLayoutOpaque_t &a, &b, &c, &d;
};

cublasStatus_t check_types(const Request& r) {
  bool tf32 = r.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if ((r.operation.compute != CUBLAS_COMPUTE_32F && !tf32) || r.operation.scale != CUDA_R_32F) {
    return unsupported("a compute or scale type that is not emulated");
  }
  if (r.a.type != r.b.type || r.c.type != r.d.type) return unsupported("types that do not match");
  bool bf16 =
      r.a.type == CUDA_R_16BF && !tf32 && (r.d.type == CUDA_R_16BF || r.d.type == CUDA_R_32F);
  bool f32 = r.a.type == CUDA_R_32F && r.d.type == CUDA_R_32F;
  return bf16 || f32 ? CUBLAS_STATUS_SUCCESS : unsupported("this combination of types");
}

bool is_transpose(std::int32_t t) { return t == CUBLAS_OP_N || t == CUBLAS_OP_T; }

cublasStatus_t check_layouts(const Request& r) {
  const auto& o = r.operation;
  if (!is_transpose(o.transpose_a) || !is_transpose(o.transpose_b)) {
    return invalid("an operation that is neither N nor T");
  }
  for (const auto* l : {&r.a, &r.b, &r.c, &r.d}) {
    constexpr std::uint64_t kMax = std::numeric_limits<std::int32_t>::max();
    if (l->rows == 0 || l->columns == 0 || l->rows > kMax || l->columns > kMax) {
      return invalid("an empty matrix, or one beyond 2^31");
    }
    if (l->ld < static_cast<std::int64_t>(l->rows)) return invalid("a leading dimension too short");
    if (l->batch < 1 || l->batch != r.d.batch) return invalid("batches that differ");
  }
  auto op_rows = [](const auto& l, std::int32_t t) {
    return t == CUBLAS_OP_N ? l.rows : l.columns;
  };
  auto op_columns = [](const auto& l, std::int32_t t) {
    return t == CUBLAS_OP_N ? l.columns : l.rows;
  };
  if (op_columns(r.a, o.transpose_a) != op_rows(r.b, o.transpose_b) ||
      op_rows(r.a, o.transpose_a) != r.d.rows || op_columns(r.b, o.transpose_b) != r.d.columns ||
      r.c.rows != r.d.rows || r.c.columns != r.d.columns) {
    return invalid("shapes that do not fit");
  }
  if (r.d.batch > 1 && r.d.stride == 0) return invalid("products of a batch in one place");
  return CUBLAS_STATUS_SUCCESS;
}

bool rows_are_aligned(const Request& r, const cublasLtMatmulPreferenceOpaque_t& preference) {
  constexpr std::int64_t kRow = 16;
  const auto is_aligned = [](const auto& l, std::uint32_t begin) {
    const std::int64_t element = l.type == CUDA_R_16BF ? 2 : 4;
    return l.ld * element % kRow == 0 && begin >= kRow;
  };
  return is_aligned(r.a, preference.alignment_a) && is_aligned(r.b, preference.alignment_b) &&
         is_aligned(r.c, preference.alignment_c) && is_aligned(r.d, preference.alignment_d);
}

std::int64_t depth(const Request& r) {
  return static_cast<std::int64_t>(r.operation.transpose_a == CUBLAS_OP_N ? r.a.columns : r.a.rows);
}

// The library promises fused biases in general, but not for every shape. Here the thinnest matrices
// have none, and callers must handle that. The library's kernels fault on a bias that is not
// 16-byte aligned.
cublasStatus_t check_epilogue(const Request& r) {
  const auto& o = r.operation;
  if (o.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_SUCCESS;
  if (o.epilogue != CUBLASLT_EPILOGUE_BIAS) return unsupported("an epilogue that is not emulated");
  if (!o.bias) return invalid("a bias epilogue without a bias");
  if (reinterpret_cast<std::uintptr_t>(o.bias) % 16) return invalid("a bias that is not aligned");
  if (r.d.batch > 1) return unsupported("a bias with a batch");
  if (r.d.rows == 1 || depth(r) == 1) return unsupported("a bias with so thin a matrix");
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check(const Request& r) {
  for (auto part : {check_types, check_layouts, check_epilogue}) {
    if (cublasStatus_t status = part(r); status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}

// --- algorithms ----------------------------------------------------------------------------------

// An algorithm stores the request that it was chosen for, and is valid for no other request.
struct Algorithm {
  std::uint64_t request;        // a digest of the request
  std::uint64_t parts;          // parts of k
  std::uint64_t alignments[4];  // promised for A, B, C, D
  std::uint64_t tile;           // number of the tile; has no effect
  std::uint64_t unsteady;       // see DeviceModel
};
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));

std::uint64_t digest(const Request& r) {
  std::uint64_t h = 1469598103934665603u;
  auto add = [&h](auto v) { h = (h ^ static_cast<std::uint64_t>(v)) * 1099511628211u; };
  add(r.operation.compute), add(r.operation.transpose_a), add(r.operation.transpose_b);
  add(r.operation.epilogue);
  for (const auto* l : {&r.a, &r.b, &r.c, &r.d}) {
    add(l->type), add(l->rows), add(l->columns), add(l->ld), add(l->batch), add(l->stride);
  }
  return h;
}

std::size_t workspace_for(const Request& r, std::uint64_t parts) {
  if (parts == 1) return 0;
  return parts * sizeof(float) * r.d.rows * r.d.columns * static_cast<std::size_t>(r.d.batch);
}

// Tiles, in the order in which the heuristic returns them.
struct CandidateTile {
  std::uint32_t number;
  std::uint64_t rows, columns;

  float waves(const Request& r) const {
    constexpr float kAtOnce = 8;  // multiprocessors
    const auto cuts = [](std::uint64_t n, std::uint64_t tile) { return (n + tile - 1) / tile; };
    return static_cast<float>(cuts(r.d.rows, rows) * cuts(r.d.columns, columns)) / kAtOnce;
  }
};
constexpr CandidateTile kTiles[] = {{CUBLASLT_MATMUL_TILE_128x256, 128, 256},
                                    {CUBLASLT_MATMUL_TILE_128x128, 128, 128},
                                    {CUBLASLT_MATMUL_TILE_216x128, 216, 128},
                                    {CUBLASLT_MATMUL_TILE_144x128, 144, 128},
                                    {CUBLASLT_MATMUL_TILE_64x64, 64, 64}};

bool is_aligned(const void* p, std::uint64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
}

emu::BlasMatrix matrix(const cublasLtMatrixLayoutOpaque_t& l, const void* p) {
  return {p, l.type == CUDA_R_16BF, l.ld, l.batch > 1 ? l.stride : 0};
}

}  // namespace

namespace emu {
BlasCounts blas_counts() {
  std::lock_guard lock(mutex);
  return counts;
}
std::string last_blas_error() {
  std::lock_guard lock(mutex);
  return last_error;
}
}  // namespace emu

// --- the library ---------------------------------------------------------------------------------

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return create(handle, cublasLtContext{});
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }
std::size_t cublasLtGetVersion() { return 0; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_OTHER";
  }
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  static thread_local std::string text;
  text = status == CUBLAS_STATUS_SUCCESS ? "success" : emu::last_blas_error();
  return text.c_str();
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  return create(operation, {compute, scale});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  return destroy(operation);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  if (!exists(operation)) return invalid("no operation descriptor");
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return take(operation->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return take(operation->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return take(operation->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return take(operation->bias, value, bytes);
    default: return unsupported("an attribute of the operation that is not emulated");
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t ld) {
  return create(layout, {type, rows, columns, ld});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
  if (!exists(layout)) return invalid("no layout descriptor");
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return take(layout->batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return take(layout->stride, value, bytes);
    default: return unsupported("an attribute of a layout that is not emulated");
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference, {});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  if (!exists(preference)) return invalid("no preference descriptor");
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return take(preference->workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return take(preference->reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return take(preference->alignment_a, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return take(preference->alignment_b, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return take(preference->alignment_c, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return take(preference->alignment_d, value, bytes);
    default: return unsupported("a preference that is not emulated");
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  for (const void* p :
       {static_cast<const void*>(handle), static_cast<const void*>(operation),
        static_cast<const void*>(a), static_cast<const void*>(b), static_cast<const void*>(c),
        static_cast<const void*>(d), static_cast<const void*>(preference)}) {
    if (!exists(p)) return invalid("a descriptor that does not exist");
  }
  if (requested < 1 || !results || !returned) return invalid("no room for an algorithm");
  *returned = 0;
  Request r{*operation, *a, *b, *c, *d};
  if (cublasStatus_t status = check(r); status != CUBLAS_STATUS_SUCCESS) return status;
  if (emu::device_model().wants_aligned_rows && !rows_are_aligned(r, *preference)) {
    return unsupported("rows that do not begin at multiples of 16 bytes");
  }
  // Long sums are cut in two where that is allowed, so that the workspace is really used.
  const bool may_cut = preference->reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE &&
                       workspace_for(r, 2) <= preference->workspace_bytes;
  const std::uint64_t parts = depth(r) >= 1024 && may_cut ? 2 : 1;
  const auto candidate = [&](const CandidateTile& tile, std::uint64_t cut, bool unsteady) {
    const Algorithm algorithm{digest(r),
                              cut,
                              {preference->alignment_a, preference->alignment_b,
                               preference->alignment_c, preference->alignment_d},
                              tile.number,
                              unsteady};
    cublasLtMatmulHeuristicResult_t& result = results[(*returned)++];
    result = {};
    std::memcpy(&result.algo, &algorithm, sizeof algorithm);
    result.workspaceSize = workspace_for(r, cut);
    result.wavesCount = tile.waves(r);
  };
  if (emu::device_model().unsteady_products) candidate(kTiles[0], 1, true);
  for (const CandidateTile& tile : kTiles) {
    if (*returned < requested) candidate(tile, parts, false);
  }
  if (parts == 2 && *returned < requested) candidate(kTiles[0], 1, false);
  std::lock_guard lock(mutex);
  ++counts.heuristics;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, std::size_t bytes,
                                                    std::size_t* written) {
  if (!algo || !value || !written) return invalid("a null argument");
  Algorithm algorithm;
  std::memcpy(&algorithm, algo, sizeof algorithm);
  const auto give = [&](auto attribute_value) {
    if (bytes != sizeof attribute_value) return invalid("an attribute of another size");
    std::memcpy(value, &attribute_value, bytes);
    *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID: return give(std::int32_t{1});
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM: return give(static_cast<std::int32_t>(algorithm.parts));
    case CUBLASLT_ALGO_CONFIG_TILE_ID: return give(static_cast<std::uint32_t>(algorithm.tile));
    case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION:
      return give(static_cast<std::uint32_t>(algorithm.unsteady));
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
      return give(static_cast<std::uint32_t>(algorithm.parts > 1
                                                 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                                 : CUBLASLT_REDUCTION_SCHEME_NONE));
    case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING:
    case CUBLASLT_ALGO_CONFIG_STAGES_ID: return give(std::uint32_t{0});
    case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID:
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID: return give(std::uint16_t{0});
  }
  return invalid("an attribute that does not exist");
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  for (const void* p : {static_cast<const void*>(handle), static_cast<const void*>(operation),
                        static_cast<const void*>(a_layout), static_cast<const void*>(b_layout),
                        static_cast<const void*>(c_layout), static_cast<const void*>(d_layout)}) {
    if (!exists(p)) return invalid("a descriptor that does not exist");
  }
  if (!alpha || !beta || !a || !b || !c || !d || !algo) return invalid("a null argument");
  Request r{*operation, *a_layout, *b_layout, *c_layout, *d_layout};
  if (cublasStatus_t status = check(r); status != CUBLAS_STATUS_SUCCESS) return status;

  Algorithm algorithm;
  std::memcpy(&algorithm, algo, sizeof algorithm);
  if (algorithm.request != digest(r)) return invalid("an algorithm chosen for another product");
  const void* matrices[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) {
    if (!is_aligned(matrices[i], algorithm.alignments[i])) {
      return invalid("a matrix less aligned than the algorithm was promised");
    }
  }
  std::size_t needed = workspace_for(r, algorithm.parts);
  if (needed > workspace_bytes || (needed && !workspace)) return invalid("too little workspace");
  if (!is_aligned(workspace, 256)) return invalid("a workspace that is not aligned to 256 bytes");
  if (c == d && !(r.c == r.d)) return invalid("C in D's place, but laid out otherwise");
  if (a == d || b == d) return invalid("a factor in D's place");

  emu::BlasProduct product{};
  product.rows = static_cast<std::int64_t>(r.d.rows);
  product.columns = static_cast<std::int64_t>(r.d.columns);
  product.depth = depth(r);
  product.batch = r.d.batch;
  product.a = matrix(r.a, a), product.b = matrix(r.b, b);
  product.c = matrix(r.c, c), product.d = matrix(r.d, d);
  product.transpose_a = operation->transpose_a == CUBLAS_OP_T;
  product.transpose_b = operation->transpose_b == CUBLAS_OP_T;
  product.tf32 = operation->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  product.alpha = *static_cast<const float*>(alpha);
  product.beta = *static_cast<const float*>(beta);
  product.bias = operation->epilogue == CUBLASLT_EPILOGUE_BIAS ? operation->bias : nullptr;
  product.parts = static_cast<std::int64_t>(algorithm.parts);
  product.workspace = static_cast<float*>(workspace);
  {
    std::lock_guard lock(mutex);
    if (algorithm.unsteady && counts.products % 2) product.alpha *= 1 + 0x1p-5f;
    ++counts.products;
  }
  emu::enqueue(stream, [product] {
    emu::multiply(product);
    return cudaSuccess;
  });
  return CUBLAS_STATUS_SUCCESS;
}
