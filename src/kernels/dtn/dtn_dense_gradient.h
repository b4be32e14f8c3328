// Gradient of a full position matrix: dP = sum over images and channels of dM Z^T, for one head and
// some images. The data of each lane group are transposed, so that the channels become the inner
// dimension of a matrix product. Several lane groups share one product, so that dP is loaded and
// stored less often.
#pragma once

#include "kernels/attention/attention_pack.h"
#include "kernels/dtn/dtn_norm_parts.h"

namespace dtn::DTN_ISA {

template <class A>
class DensePositionGradient {
  static constexpr int lanes = kLanes<A>;
  static constexpr std::int64_t kDepthOfProduct = 128;
  // Rows of dP that share a transposed dM. kStep leaves room for the last tile to write beyond
  // kBlock. It is not a power of two, because then a column would use only few cache sets.
  static constexpr std::int64_t kBlock = 504, kStep = 528;
  static_assert(kBlock % kRowAlign == 0 && kStep >= kBlock + kRowAlign);

 public:
  // Stride of the rows of dP [n, stride], and its size in elements with padding.
  static std::int64_t stride(std::int64_t n) {
    const std::int64_t vectors = divide_up(n, lanes);
    return (vectors | 1) * lanes;  // an odd number of vectors, for the same reason as kStep
  }
  static std::int64_t size(std::int64_t n) { return (n + kRowAlign) * stride(n); }

  DensePositionGradient(std::int64_t n, A* dp, Scratch::Scope& scope)
      : n_(n),
        stride_(stride(n)),
        dp_(dp),
        left_(scope.take<A>(divide_up(n, kBlock) * kDepthOfProduct * kStep)),
        right_(scope.take<A>(kDepthOfProduct * stride_)) {}

  // Adds dm1 x^T + dm2 (x^2)^T for one lane group of planes.
  void add(const A* dm1, const A* dm2, const A* x) {
    const std::int64_t padded = round_up(n_, lanes);
    for (std::int64_t row = 0; row < n_; row += kBlock) {
      const std::int64_t rows = n_ - row < kBlock ? n_ - row : kBlock;
      A* to = left_ + row / kBlock * kDepthOfProduct * kStep + depth_ * kStep;
      const std::int64_t at = row * lanes;
      const std::int64_t rounded = round_up(rows, lanes);
      pack_columns<A>(groups(dm1 + at), rows, rounded, lanes, to, kStep);
      pack_columns<A>(groups(dm2 + at), rows, rounded, lanes, to + lanes * kStep, kStep);
    }
    A* to = right_ + depth_ * stride_;
    pack_columns<A>(groups(x), n_, padded, lanes, to, stride_);
    for (std::int64_t k = 0; k < lanes; ++k, to += stride_) {
      for (std::int64_t j = 0; j < padded; j += lanes) {
        const Vec<A> v = load(to + j);
        store(to + lanes * stride_ + j, v * v);
      }
    }
    depth_ += std::int64_t{2} * lanes;
    if (depth_ + std::int64_t{2} * lanes > kDepthOfProduct) flush();
  }

  // Adds the remaining lane groups; call it last.
  void flush() {
    if (depth_ == 0) return;
    for (std::int64_t row = 0; row < n_; row += kBlock) {
      const A* left = left_ + row / kBlock * kDepthOfProduct * kStep;
      product(left, row, n_ - row < kBlock ? n_ - row : kBlock);
    }
    depth_ = 0;
    first_ = false;
  }

 private:
  // One vector per cell.
  static StridedRows<const A> groups(const A* first) { return {first, lanes}; }

  void product(const A* left, std::int64_t first_row, std::int64_t rows) const {
    A* dp = dp_ + first_row * stride_;
    multiply<A, 1, kStep>(
        left, right_, {depth_, stride_}, rows, divide_up(n_, lanes),
        [&]<int R, int V>(Vec<A>(&acc)[R][V], std::int64_t row, std::int64_t column) {
          if (first_) return FromZero{}(acc, row, column);
#pragma GCC unroll 24
          for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) {
              acc[r][v] = load(dp + (row + r) * stride_ + column + v * lanes);
            }
          }
        },
        [&]<int R, int V>(Vec<A>(&acc)[R][V], std::int64_t row, std::int64_t column) {
          store_tile(acc, dp + row * stride_ + column, stride_, rows - row, stride_ - column);
        });
  }

  std::int64_t n_, stride_, depth_ = 0;
  bool first_ = true;  // true until the first product is in dp
  A* dp_;
  A* left_;   // [blocks of rows, kDepthOfProduct, kStep]
  A* right_;  // [kDepthOfProduct, stride]
};

}  // namespace dtn::DTN_ISA
