// Dropout and drop path. The random words are those of core/philox.h, so a mask is the same on
// every instruction set and device. Here several groups of four words are drawn at a time.
#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/philox_lanes.h"
#include "kernels/pointwise/drop_threshold.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn::DTN_ISA {
namespace {

constexpr int kGroups = kPhiloxGroups;

// Stores a[0], b[0], a[1], b[1], ...
inline void interleave(VecU64 a, VecU64 b, std::uint32_t* words) {
#if defined(DTN_ISA_avx512)
  store(words, (VecU)__builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11));
  store(words + 16, (VecU)__builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15));
#elif defined(DTN_ISA_avx2)
  store(words, (VecU)__builtin_shufflevector(a, b, 0, 4, 1, 5));
  store(words + 8, (VecU)__builtin_shufflevector(a, b, 2, 6, 3, 7));
#else
  store(words, (VecU)__builtin_shufflevector(a, b, 0, 2));
  store(words + 4, (VecU)__builtin_shufflevector(a, b, 1, 3));
#endif
}

// words[4 k + j] = word j of group `group + k`, for k in [0, kGroups).
inline void philox_groups(const PhiloxKey& key, std::uint64_t group, std::uint32_t* words) {
  VecU64 c[4];
  philox_lanes(key, group, c);
  interleave((c[0] & 0xffffffffu) | (c[1] << 32), (c[2] & 0xffffffffu) | (c[3] << 32), words);
}

constexpr std::int64_t kBlock = 1024;         // elements per batch of random words
constexpr std::int64_t kChunk = 32 * kBlock;  // elements per task

// y = x scale if the word's top 24 bits reach the threshold, else 0.
template <class T>
void apply_mask(const T* x, T* y, std::int64_t n, const std::uint32_t* words,
                std::uint32_t threshold, double scale) {
  if constexpr (std::is_same_v<T, double>) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = (words[i] >> 8) >= threshold ? x[i] * scale : 0.0;
  } else {
    VecF factor = broadcast(static_cast<float>(scale));
    VecI limit = broadcast(static_cast<std::int32_t>(threshold));
    for_each_vector<float>(n, [=](std::int64_t i, auto count) {
      VecI top = (VecI)(load(words + i) >> 8);
      VecF v = load_n(x + i, count) * factor;
      store_n(y + i, top >= limit ? v : VecF{}, count);
    });
  }
}

template <class T>
void dropout(const ElementDropout& args) {
  auto* x = static_cast<const T*>(args.x);
  auto* y = static_cast<T*>(args.y);
  const PhiloxKey key = key_at_step(args.key, args.step);
  const std::uint32_t threshold = drop_threshold(args.p);
  const double scale = 1.0 / (1.0 - args.p);
  parallel_ranges(args.count, kChunk, [=, &args](std::int64_t begin, std::int64_t end) {
    // Space for up to 3 words before the block, a full vector at its end, and whole batches.
    alignas(64) std::uint32_t words[kBlock + 4 * kGroups + kLanes<std::uint32_t> + 4];
    for (std::int64_t n = 0; begin < end; begin += n) {
      n = end - begin < kBlock ? end - begin : kBlock;
      std::uint64_t element = args.first + static_cast<std::uint64_t>(begin);
      if (args.by_rows()) {  // up to the end of the row
        const std::int64_t row = begin / args.per_row, column = begin % args.per_row;
        n = n < args.per_row - column ? n : args.per_row - column;
        element = args.number_of(row) + static_cast<std::uint64_t>(column);
      }
      int skip = static_cast<int>(element % 4);
      for (std::int64_t k = 0; 4 * k < n + skip; k += kGroups) {
        philox_groups(key, element / 4 + static_cast<std::uint64_t>(k), words + 4 * k);
      }
      apply_mask(x + begin, y + begin, n, words + skip, threshold, scale);
    }
  });
}

template <class A>
void drop_path_scales(const DropPathScales& args) {
  auto* scale = static_cast<A*>(args.scale);
  const PhiloxKey key = key_at_step(args.key, args.step);
  const std::uint32_t threshold = drop_threshold(args.p);
  const A kept = static_cast<A>(1.0 / (1.0 - args.p));
  std::uint32_t words[4 * kGroups];
  for (std::int64_t b = 0; b < args.count; ++b) {
    std::uint64_t element = args.rows ? static_cast<std::uint64_t>(args.rows[b])
                                      : args.first + static_cast<std::uint64_t>(b);
    philox_groups(key, element / 4, words);
    scale[b] = (words[element % 4] >> 8) >= threshold ? kept : A(0);
  }
}

}  // namespace

void run(CpuQueue&, const ElementDropout& args) {
  for_dtype("dropout", args.dtype, [&](auto t) { dropout<decltype(t)>(args); });
}

void run(CpuQueue&, const DropPathScales& args) {
  for_dtype("DropPathScales", accumulator_of(args.dtype),
            [&](auto t) { drop_path_scales<AccumulatorOf<decltype(t)>>(args); });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(ElementDropout)
DTN_DISPATCH(DropPathScales)
