// How one kind of matrix product is computed: cuBLASLt's descriptors and its algorithms.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "cuda/matmul.h"
#include "cuda/matmul_offers.h"

namespace dtn::cuda {

// What the library may use beside the factors, mostly for sums over parts of k. One is enough:
// products run one after the other in one stream.
inline constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;

// Everything the library's choice may depend on.
struct Key {
  DType dtype, d_dtype;
  bool transpose_a, transpose_b, adds_c, adds_bias, tf32;
  std::int64_t m, n, k, lda, ldb, ldd, batch, stride_a, stride_b, stride_d;
  std::array<std::uint32_t, 5> alignments;  // of a, b, c, d, bias

  // As wide as the widest loads: more changes nothing that a table of times could say.
  bool aligned() const;
  auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr): generated code
};

Key key_of(const Matmul& p, bool tf32_allowed);

// The kind of product in words, but for where its operands begin.
std::string name_of_kind(const Matmul& p, const Key& key);
// For messages.
std::string describe(const Matmul& p);
// For a trace; n and t as the library names what is transposed, of our A and B.
std::string short_name(const Matmul& p);
// Throws Error naming the call and the product unless all went well.
void check(cublasStatus_t status, const char* call, const Matmul& p);

// A descriptor of the library, destroyed with its owner.
template <class Handle, cublasStatus_t (*destroy)(Handle)>
struct Destroy {
  void operator()(Handle handle) const { (void)destroy(handle); }
};
template <class Handle, cublasStatus_t (*destroy)(Handle)>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<Handle, destroy>>;
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

struct Plan {
  Operation operation;
  Layout a, b, d;             // the library's A and B; C is laid out as D
  std::vector<Offer> offers;  // none: the library has no algorithm
  std::size_t chosen = 0;     // of them
  std::string name;           // of the kind
  bool aligned = true;        // see Key
  Matmul example{};           // of the kind; its addresses mean nothing any more
  std::int64_t uses = 0;
};

// With the first offer as the choice.
Plan make_plan(cublasLtHandle_t handle, const Matmul& p, const Key& key);
// Where the library reads the bias: plans are shared by products whose biases lie elsewhere.
void set_bias(const Plan& plan, const Matmul& p);

}  // namespace dtn::cuda
