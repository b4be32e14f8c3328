// Elementwise kernels, limited by memory bandwidth: one pass, in chunks that fit the cache.
// See pointwise.h for the formulas.
#include "kernels/pointwise/pointwise.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/pointwise/map_values.h"

namespace dtn::DTN_ISA {
namespace {

template <class To, class From>
void cast_range(const From* x, To* y, std::int64_t n) {
  if constexpr (std::is_same_v<From, To>) {
    if (x != y) std::memcpy(y, x, static_cast<std::size_t>(n) * sizeof(To));
  } else if constexpr (!std::is_same_v<From, double> && !std::is_same_v<To, double>) {
    for_each_vector<float>(
        n, [&](std::int64_t i, auto count) { store_n(y + i, load_n(x + i, count), count); });
  } else if constexpr (std::is_same_v<To, bfloat16>) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = bfloat16(static_cast<float>(x[i]));
  } else {
    for (std::int64_t i = 0; i < n; ++i)
      y[i] = static_cast<To>(static_cast<AccumulatorOf<From>>(x[i]));
  }
}

template <class T>
void scale_rows(const ScaleRows& args) {
  using A = AccumulatorOf<T>;
  auto* scale = static_cast<const A*>(args.scale);
  auto* x = static_cast<const T*>(args.x);
  auto* residual = static_cast<const T*>(args.residual);
  auto* y = static_cast<T*>(args.y);
  parallel_ranges(args.count, kMapChunk, [=, &args](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      std::int64_t row = begin / args.per_scale;
      std::int64_t left = (row + 1) * args.per_scale - begin;
      std::int64_t n = left < end - begin ? left : end - begin;
      Vec<A> s = broadcast(scale[row]);
      for_each_vector<A>(n, [&](std::int64_t i, auto count) {
        i += begin;
        Vec<A> v = s * load_n(x + i, count);
        if (residual) v = v + load_n(residual + i, count);
        store_n(y + i, v, count);
      });
      begin += n;
    }
  });
}

template <class T>
void patchify(const Patchify& args) {
  using A = AccumulatorOf<T>;
  const std::int64_t p = args.patch, grid_h = args.height / p, grid_w = args.width / p;
  const std::int64_t patch_size = args.channels * p * p;
  auto* images = static_cast<const A*>(args.images);
  auto* patches = static_cast<T*>(args.patches);
  parallel_for(args.batch * grid_h, [=, &args](std::int64_t row_of_patches) {
    std::int64_t b = row_of_patches / grid_h, gy = row_of_patches % grid_h;
    T* out = patches + row_of_patches * grid_w * patch_size;
    for (std::int64_t line = 0; line < args.channels * p; ++line) {  // (c, py)
      std::int64_t c = line / p, py = line % p;
      const A* x = images + ((b * args.channels + c) * args.height + gy * p + py) * args.width;
      for (std::int64_t gx = 0; gx < grid_w; ++gx) {
        T* y = out + gx * patch_size + line * p;
        if (p == 1) {  // channels become innermost
          *y = static_cast<T>(x[gx]);
          continue;
        }
        for_each_vector<A>(p, [=](std::int64_t i, auto count) {
          store_n(y + i, load_n(x + gx * p + i, count), count);
        });
      }
    }
  });
}

template <class A>
void sigmoid(const Sigmoid& args) {
  auto* x = static_cast<const A*>(args.x);
  auto* y = static_cast<A*>(args.y);
  for (std::int64_t i = 0; i < args.count; ++i) y[i] = 1 / (1 + std::exp(-x[i]));
}

}  // namespace

void run(CpuQueue&, const Cast& args) {
  for_dtype("Cast", args.from, [&](auto from) {
    for_dtype("Cast", args.to, [&](auto to) {
      auto* x = static_cast<const decltype(from)*>(args.x);
      auto* y = static_cast<decltype(to)*>(args.y);
      parallel_ranges(args.count, kMapChunk, [=](std::int64_t begin, std::int64_t end) {
        cast_range(x + begin, y + begin, end - begin);
      });
    });
  });
}

void run(CpuQueue&, const Add& args) {
  for_dtype("Add", args.dtype, [&](auto t) {
    map_values<decltype(t)>(
        args.count, [](auto a, auto b) { return a + b; }, args.y, args.a, args.b);
  });
}

void run(CpuQueue&, const ScaleRows& args) {
  for_dtype("ScaleRows", args.dtype, [&](auto t) { scale_rows<decltype(t)>(args); });
}

void run(CpuQueue&, const Patchify& args) {
  for_dtype("Patchify", args.dtype, [&](auto t) { patchify<decltype(t)>(args); });
}

void run(CpuQueue&, const Sigmoid& args) {
  for_accumulator_dtype("Sigmoid", args.dtype, [&](auto t) { sigmoid<decltype(t)>(args); });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(Cast)
DTN_DISPATCH(Add)
DTN_DISPATCH(ScaleRows)
DTN_DISPATCH(Patchify)
DTN_DISPATCH(Sigmoid)
