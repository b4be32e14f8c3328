// Packs one head's q, k, v and dout for the products of microkernel.h. S is the storage type in
// memory, E the element type of the product.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/microkernel.h"
#include "kernels/cpu/transpose.h"

namespace dtn::DTN_ISA {

// The element type in which values of a storage type are multiplied.
#if defined(DTN_ISA_avx512)
template <class S>
using ElementFor = std::conditional_t<std::is_same_v<S, bfloat16>, Bf16Pair, S>;
#else
template <class S>
using ElementFor = std::conditional_t<std::is_same_v<S, bfloat16>, float, S>;
#endif

// The rows of one head in an array of tokens, for tokens 0, 1, 2, ...
template <class S>
struct StridedRows {
  S* first;
  std::int64_t ld;

  S* operator()(std::int64_t i) const { return first + i * ld; }
  StridedRows from(std::int64_t i) const { return {first + i * ld, ld}; }
};
// The rows of a head for any tokens in any order.
template <class S>
struct MappedRows {
  S* first;
  std::int64_t ld;
  const std::int64_t* tokens;

  S* operator()(std::int64_t i) const { return first + tokens[i] * ld; }
  MappedRows from(std::int64_t i) const { return {first, ld, tokens + i}; }
};
// Like MappedRows, but all tokens from `limit` on share one spare row.
template <class S>
struct PickedRows {
  S* first;
  std::int64_t ld, limit;
  S* spare;
  const std::int64_t* tokens;

  S* operator()(std::int64_t i) const { return tokens[i] < limit ? first + tokens[i] * ld : spare; }
  PickedRows from(std::int64_t i) const { return {first, ld, limit, spare, tokens + i}; }
};
// Rows of sums to which products are added, in whole vectors.
template <class A>
struct AddedRows {
  static constexpr bool kAdds = true;
  A* first;
  std::int64_t ld;
  const std::int64_t* tokens;

  A* operator()(std::int64_t i) const { return first + tokens[i] * ld; }
  AddedRows from(std::int64_t i) const { return {first, ld, tokens + i}; }
};

// Elements [k, k + lanes) of a row of `dim` values; 0 past its end. k counts elements.
template <class E, class S>
inline Vec<Accumulator<E>> load_elements(const S* row, std::int64_t k, std::int64_t dim) {
#if defined(DTN_ISA_avx512)
  if constexpr (std::is_same_v<E, Bf16Pair>) {
    std::int64_t left = dim - 2 * k;
    __mmask32 mask = left >= 32 ? ~__mmask32{0} : static_cast<__mmask32>((1ull << left) - 1);
    return (VecF)_mm512_maskz_loadu_epi16(mask, row + 2 * k);
  } else
#endif
  {
    std::int64_t left = dim - k;
    return left >= kWidth<E> ? load(row + k) : load_partial(row + k, static_cast<int>(left));
  }
}

// Transposes kWidth rows of src [rows, dim] into kWidth columns of dst
// [divide_up(dim, kDepth)][step]. Columns from `rows` on are zero.
template <class E, class Rows>
inline void transpose_group(const Rows& src, std::int64_t rows, std::int64_t dim, E* dst,
                            std::int64_t step) {
  using V = Vec<Accumulator<E>>;
  constexpr int L = kWidth<E>;
  std::int64_t elements = divide_up(dim, kDepth<E>);
  for (std::int64_t k = 0; k < elements; k += L) {
    V x[L];
    if (rows >= L) {
#pragma GCC unroll 16
      for (int i = 0; i < L; ++i) x[i] = load_elements<E>(src(i), k, dim);
    } else {
#pragma GCC unroll 16
      for (int i = 0; i < L; ++i) x[i] = i < rows ? load_elements<E>(src(i), k, dim) : V{};
    }
    transpose_lanes(x);
    int count = static_cast<int>(elements - k < L ? elements - k : L);
#pragma GCC unroll 16
    for (int i = 0; i < L; ++i) {
      if (i < count) std::memcpy(dst + (k + i) * step, &x[i], sizeof(V));
    }
  }
}

// Packs src [rows, dim], transposed, as the panels of a right operand of `vectors` x kWidth
// columns.
template <class E, class Rows>
inline void pack_panels(const Rows& src, std::int64_t rows, std::int64_t vectors, std::int64_t dim,
                        E* dst) {
  std::int64_t steps = divide_up(dim, kDepth<E>);
  for_each_panel(vectors, [&](std::int64_t first, auto panel_vectors) {
    constexpr int V = decltype(panel_vectors)::value;
    for (int v = 0; v < V; ++v) {
      std::int64_t row = (first + v) * kWidth<E>;
      transpose_group(src.from(row), rows - row, dim,
                      dst + first * kWidth<E> * steps + v * kWidth<E>, std::int64_t{V} * kWidth<E>);
    }
  });
}

// Packs src [rows, dim], transposed, as a left operand [divide_up(dim, kDepth)][step] with `padded`
// columns, a multiple of kWidth.
template <class E, class Rows>
inline void pack_columns(const Rows& src, std::int64_t rows, std::int64_t padded, std::int64_t dim,
                         E* dst, std::int64_t step) {
  for (std::int64_t row = 0; row < padded; row += kWidth<E>) {
    transpose_group(src.from(row), rows - row, dim, dst + row, step);
  }
}

// Packs src [rows, dim] as a row-major right operand [divide_up(rows, kDepth)][padded_dim].
template <class E, class Rows>
inline void pack_rows(const Rows& src, std::int64_t rows, std::int64_t dim, std::int64_t padded_dim,
                      E* dst) {
  for (std::int64_t row = 0; row < rows; row += kDepth<E>) {
    const auto* p = src(row);
    for (std::int64_t d = 0; d < padded_dim; d += kWidth<E>, dst += kWidth<E>) {
      auto x = load_elements<Accumulator<E>>(p, d, dim);
#if defined(DTN_ISA_avx512)
      if constexpr (std::is_same_v<E, Bf16Pair>) {  // low half: this row, high half: the next
        VecU high{};
        if (row + 1 < rows) high = (VecU)load_elements<float>(src(row + 1), d, dim);
        VecU pair = ((VecU)x >> 16) | high;
        std::memcpy(dst, &pair, sizeof pair);
        continue;
      }
#endif
      std::memcpy(dst, &x, sizeof x);
    }
  }
}

}  // namespace dtn::DTN_ISA
