#include "kernels/gemm/gemm_eigen.h"

#include <Eigen/Core>

#include "dtn/core/check.h"

namespace dtn::eigen {
namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using View = Eigen::Map<Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;
template <class T>
using ConstView = Eigen::Map<const Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;

template <class C, class A, class B>
void assign(C& c, const A& a, const B& b, bool accumulate) {
  if (accumulate) {
    c.noalias() += a * b;
  } else {
    c.noalias() = a * b;
  }
}

template <class T>
void multiply_as(const GemmTile& t) {
  auto view = [](const void* p, std::int64_t rows, std::int64_t cols, bool transpose,
                 std::int64_t ld) {
    return ConstView<T>(static_cast<const T*>(p), transpose ? cols : rows, transpose ? rows : cols,
                        Eigen::OuterStride<>(ld));
  };
  ConstView<T> a = view(t.a, t.m, t.k, t.transpose_a, t.lda);
  ConstView<T> b = view(t.b, t.k, t.n, t.transpose_b, t.ldb);
  View<T> c(static_cast<T*>(t.c), t.m, t.n, Eigen::OuterStride<>(t.ldc));
  if (t.transpose_a && t.transpose_b) {
    assign(c, a.transpose(), b.transpose(), t.accumulate);
  } else if (t.transpose_a) {
    assign(c, a.transpose(), b, t.accumulate);
  } else if (t.transpose_b) {
    assign(c, a, b.transpose(), t.accumulate);
  } else {
    assign(c, a, b, t.accumulate);
  }
}

}  // namespace

std::string library() {
  return cat("Eigen ", EIGEN_WORLD_VERSION, ".", EIGEN_MAJOR_VERSION, ".", EIGEN_MINOR_VERSION);
}

void multiply(const GemmTile& t) {
  t.dtype == DType::kFloat64 ? multiply_as<double>(t) : multiply_as<float>(t);
}

}  // namespace dtn::eigen
