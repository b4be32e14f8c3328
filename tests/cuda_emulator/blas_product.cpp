// Products in tiles that stay in the first-level cache. Sums are in float32, as on a device. One
// thread computes each tile in one fixed order.
#include "blas_product.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "device_model.h"
#include "dtn/core/dtype.h"

namespace emu {
namespace {

constexpr std::int64_t kTile = 64;   // rows and columns of D
constexpr std::int64_t kDepth = 64;  // depth of the factors upcast at a time

float load(const BlasMatrix& m, std::int64_t offset) {
  return m.is_bfloat16 ? static_cast<float>(static_cast<const dtn::bfloat16*>(m.values)[offset])
                       : static_cast<const float*>(m.values)[offset];
}
void store(const BlasMatrix& m, std::int64_t offset, float v) {
  void* values = const_cast<void*>(m.values);
  if (m.is_bfloat16) {
    static_cast<dtn::bfloat16*>(values)[offset] = dtn::bfloat16(v);
  } else {
    static_cast<float*>(values)[offset] = v;
  }
}

// Returns the nearest number with 10 fraction bits, ties away from zero. Keeps infinities and NaN.
float to_tf32(float v) {
  auto bits = std::bit_cast<std::uint32_t>(v);
  if ((bits & 0x7f800000u) == 0x7f800000u) return v;
  return std::bit_cast<float>((bits + 0x1000u) & 0xffffe000u);
}

struct Tile {
  std::int64_t batch, row, column, rows, columns;
};

using Panel = float[kDepth][kTile];  // [k][row of A, or column of B], zero beyond the edge

// panel[k][i] = factor(i, k), where i counts along D.
void upcast(const BlasMatrix& m, bool along_ld, bool tf32, std::int64_t batch, std::int64_t first,
            std::int64_t count, std::int64_t k, std::int64_t depth, Panel& panel) {
  std::int64_t begin = batch * m.stride;
  for (std::int64_t q = 0; q < depth; ++q) {
    for (std::int64_t i = 0; i < kTile; ++i) {
      float v = 0;
      if (i < count) {
        v = load(m, begin + (along_ld ? (first + i) * m.ld + k + q : first + i + (k + q) * m.ld));
      }
      panel[q][i] = tf32 ? to_tf32(v) : v;
    }
  }
}

// Adds products as tensor cores do, `at_once` products at a time.
void add_products_truncating(std::int64_t depth, int at_once, const Panel& a, const float* b,
                             float* sum) {
  for (std::int64_t i = 0; i < kTile; ++i) {
    for (std::int64_t q = 0; q < depth; q += at_once) {
      const int n = static_cast<int>(std::min<std::int64_t>(at_once, depth - q));
      float column[16];
      for (int k = 0; k < n; ++k) column[k] = a[q + k][i];
      sum[i] = add_truncating(sum[i], column, b + q, n);
    }
  }
}

// sums[j][i] += A[i, k] B[k, j] for k in [begin, end).
void add_products(const BlasProduct& p, const Tile& t, std::int64_t begin, std::int64_t end,
                  float (&sums)[kTile][kTile]) {
  alignas(64) static thread_local Panel a, b;
  for (std::int64_t k = begin; k < end; k += kDepth) {
    std::int64_t depth = std::min(kDepth, end - k);
    upcast(p.a, p.transpose_a, p.tf32, t.batch, t.row, t.rows, k, depth, a);
    upcast(p.b, !p.transpose_b, p.tf32, t.batch, t.column, t.columns, k, depth, b);
    const bool on_tensor_cores = p.a.is_bfloat16 || p.tf32;
    const int at_once = device_model().products_at_once / (p.a.is_bfloat16 ? 1 : 2);
    for (std::int64_t j = 0; j < t.columns; ++j) {
      float* sum = sums[j];
      if (on_tensor_cores && at_once > 0) {
        float row[kDepth];
        for (std::int64_t q = 0; q < depth; ++q) row[q] = b[q][j];
        add_products_truncating(depth, at_once, a, row, sum);
        continue;
      }
      for (std::int64_t q = 0; q < depth; ++q) {
        const float factor = b[q][j];
        const float* row = a[q];
#pragma omp simd
        for (std::int64_t i = 0; i < kTile; ++i) sum[i] += row[i] * factor;
      }
    }
  }
}

void finish(const BlasProduct& p, const Tile& t, const float (&sums)[kTile][kTile]) {
  BlasMatrix bias{p.bias, p.d.is_bfloat16, 0, 0};
  for (std::int64_t j = 0; j < t.columns; ++j) {
    for (std::int64_t i = 0; i < t.rows; ++i) {
      std::int64_t row = t.row + i, column = t.column + j;
      float v = p.alpha * sums[j][i];
      if (p.beta != 0) v += p.beta * load(p.c, t.batch * p.c.stride + row + column * p.c.ld);
      if (p.bias) v += load(bias, row);
      store(p.d, t.batch * p.d.stride + row + column * p.d.ld, v);
    }
  }
}

void compute_tile(const BlasProduct& p, const Tile& t) {
  alignas(64) static thread_local float sums[kTile][kTile];
  auto clear = [&] { std::fill_n(&sums[0][0], kTile * kTile, 0.0f); };
  clear();
  if (p.parts == 1) {
    add_products(p, t, 0, p.depth, sums);
    return finish(p, t, sums);
  }
  std::int64_t step = (p.depth + p.parts - 1) / p.parts;
  auto partial = [&](std::int64_t part, std::int64_t i, std::int64_t j) -> float& {
    return p
        .workspace[((part * p.batch + t.batch) * p.columns + t.column + j) * p.rows + t.row + i];
  };
  auto for_each = [&](auto&& f) {
    for (std::int64_t j = 0; j < t.columns; ++j) {
      for (std::int64_t i = 0; i < t.rows; ++i) f(i, j);
    }
  };
  for (std::int64_t part = 0; part < p.parts; ++part) {
    add_products(p, t, part * step, std::min(p.depth, (part + 1) * step), sums);
    for_each([&](std::int64_t i, std::int64_t j) { partial(part, i, j) = sums[j][i]; });
    clear();
  }
  for (std::int64_t part = 0; part < p.parts; ++part) {
    for_each([&](std::int64_t i, std::int64_t j) { sums[j][i] += partial(part, i, j); });
  }
  finish(p, t, sums);
}

}  // namespace

void multiply(const BlasProduct& p) {
  std::int64_t tile_rows = (p.rows + kTile - 1) / kTile;
  std::int64_t tile_columns = (p.columns + kTile - 1) / kTile;
#pragma omp parallel for schedule(dynamic, 1)
  for (std::int64_t n = 0; n < p.batch * tile_rows * tile_columns; ++n) {
    Tile t{n / (tile_rows * tile_columns), n % tile_rows * kTile,
           n / tile_rows % tile_columns * kTile, 0, 0};
    t.rows = std::min(kTile, p.rows - t.row);
    t.columns = std::min(kTile, p.columns - t.column);
    compute_tile(p, t);
  }
}

}  // namespace emu
