// Plan of one kind of matrix product: cuBLASLt's descriptors and algorithms.
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
#include "cuda/matmul_candidates.h"

namespace dtn::cuda {

// Workspace of the library, mostly for partial sums over k. One is enough: all products run one
// after the other in one stream.
inline constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;

// Everything that the library's choice may depend on.
struct Key {
  Matmul kind;  // without addresses, and a single product without strides
  bool adds_c, adds_bias, tf32;
  std::array<std::uint32_t, 5> alignments;  // of a, b, c, d, bias

  // True if all operands are aligned to the widest loads (16 bytes). More alignment changes nothing
  // that a table of times could show.
  bool aligned() const;
  auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr): generated code
};

Key key_of(const Matmul& p, bool tf32_allowed);

// Name of the kind of product, independent of the addresses of its operands.
std::string name_of_kind(const Matmul& p, const Key& key);
// Description for messages.
std::string describe(const Matmul& p);
// Name for a trace, with n (as it is) or t (transposed) for our A and B, as the library names them.
std::string short_name(const Matmul& p);
// Throws Error naming the call and the product if `status` is a failure.
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
  Layout a, b, d;                     // the library's A and B; C is laid out as D
  std::vector<Candidate> candidates;  // empty: the library has no algorithm
  std::size_t chosen = 0;             // index into `candidates`
  std::string name;                   // of the kind
  bool aligned = true;                // see Key
  Matmul example{};                   // a product of the kind; its addresses are stale
  std::int64_t uses = 0;
};

// Makes a plan with the first candidate as the choice.
Plan make_plan(cublasLtHandle_t handle, const Matmul& p, const Key& key);
// Sets the address of the bias, because products with different biases share a plan.
void set_bias(const Plan& plan, const Matmul& p);

}  // namespace dtn::cuda
