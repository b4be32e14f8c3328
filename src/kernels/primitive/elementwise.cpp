// Elementwise functions on short vectors; see elementwise.h.
//
// The threads take ranges of the output, block by block. A function only sees contiguous blocks. If
// an input is not dense, a block of it is gathered first, in the cache.
#include "kernels/primitive/elementwise.h"

#include <algorithm>
#include <cstring>

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/vector_math.h"

namespace dtn::DTN_ISA {
namespace {

constexpr std::int64_t kBlock = 1024, kChunk = 1 << 15;

#define DTN_FUNCTION(name, inputs, formula)                                       \
  struct name {                                                                   \
    static constexpr int kInputs = inputs;                                        \
    template <class V, class S>                                                   \
    static V of([[maybe_unused]] V x, [[maybe_unused]] V y, [[maybe_unused]] V z, \
                [[maybe_unused]] S a, [[maybe_unused]] S b) {                     \
      return formula;                                                             \
    }                                                                             \
  };
#include "kernels/primitive/elementwise_functions.inc"
#undef DTN_FUNCTION

template <class T>
void fill(T* to, std::int64_t n, T value) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = value;
}

// Reads the elements of one input in the order of the output.
template <class T>
class Reader {
 public:
  Reader(const void* data, const Extents& extents, const Strides& strides, std::int64_t begin)
      : data_(static_cast<const T*>(data)), extents_(extents), strides_(strides), at_(begin) {
    std::int64_t rest = begin, dense = 1;
    bool is_dense = true, is_scalar = true;
    for (int d = extents.rank - 1; d >= 0; --d) {
      index_[d] = rest % extents.size[d];
      rest /= extents.size[d];
      offset_ += index_[d] * strides.step[d];
      is_dense &= strides.step[d] == dense;
      is_scalar &= strides.step[d] == 0;
      dense *= extents.size[d];
    }
    kind_ = is_dense ? kDense : is_scalar ? kScalar : kStrided;
    if (kind_ == kScalar) fill(buffer_, kBlock, *data_);
  }

  // Returns the next n <= kBlock elements, valid until the next call.
  const T* next(std::int64_t n) {
    if (kind_ == kScalar) return buffer_;
    if (kind_ == kDense) {
      const T* here = data_ + at_;
      at_ += n;
      return here;
    }
    const int last = extents_.rank - 1;
    const std::int64_t step = strides_.step[last];
    std::int64_t run = std::min(n, extents_.size[last] - index_[last]);
    if (run == n && step == 1) {
      const T* here = data_ + offset_;
      advance(n);
      return here;
    }
    for (std::int64_t done = 0; done < n;) {
      run = std::min(n - done, extents_.size[last] - index_[last]);
      const T* from = data_ + offset_;
      if (step == 1) {
        std::memcpy(buffer_ + done, from, static_cast<std::size_t>(run) * sizeof(T));
      } else if (step == 0) {
        fill(buffer_ + done, run, *from);
      } else {
        for (std::int64_t i = 0; i < run; ++i) buffer_[done + i] = from[i * step];
      }
      advance(run);
      done += run;
    }
    return buffer_;
  }

 private:
  // Advances by `run`, which must not go past the end of the innermost dimension.
  void advance(std::int64_t run) {
    int d = extents_.rank - 1;
    index_[d] += run;
    offset_ += run * strides_.step[d];
    while (d > 0 && index_[d] == extents_.size[d]) {
      offset_ -= index_[d] * strides_.step[d];
      index_[d] = 0;
      --d;
      ++index_[d];
      offset_ += strides_.step[d];
    }
  }

  enum { kDense, kScalar, kStrided } kind_;
  const T* data_;
  const Extents& extents_;
  const Strides& strides_;
  std::int64_t at_, offset_ = 0, index_[kMaxDims] = {};
  T buffer_[kBlock];
};

template <class T>
struct Block {
  std::int64_t count;
  const T* in[3];
  T* out;
  AccumulatorOf<T> a, b;
};

template <class T, class F>
void compute(const Block<T>& block) {
  using V = Vec<AccumulatorOf<T>>;
  for_each_vector<AccumulatorOf<T>>(block.count, [&](std::int64_t i, auto count) {
    V v[3] = {};
    for (int k = 0; k < F::kInputs; ++k) v[k] = load_n(block.in[k] + i, count);
    store_n(block.out + i, F::of(v[0], v[1], v[2], block.a, block.b), count);
  });
}

template <class T>
struct Entry {
  void (*compute)(const Block<T>&);
  int inputs;
};
template <class T>
Entry<T> entry_of(Function function) {
  switch (function) {
#define DTN_FUNCTION(name, inputs, formula) \
  case Function::k##name:                   \
    return {compute<T, name>, inputs};
#include "kernels/primitive/elementwise_functions.inc"
#undef DTN_FUNCTION
  }
  return {};
}

template <class T, int kInputs>
void compute_range(const Elementwise& args, const Entry<T>& entry, std::int64_t begin,
                   std::int64_t end) {
  auto compute_blocks = [&](auto&... readers) {
    Block<T> block{};
    block.a = static_cast<AccumulatorOf<T>>(args.a);
    block.b = static_cast<AccumulatorOf<T>>(args.b);
    for (std::int64_t i = begin; i < end; i += kBlock) {
      block.count = std::min(kBlock, end - i);
      [[maybe_unused]] int k = 0;
      ((block.in[k++] = readers.next(block.count)), ...);
      block.out = static_cast<T*>(args.out) + i;
      entry.compute(block);
    }
  };
  auto reader = [&](int k) { return Reader<T>(args.in[k], args.extents, args.strides[k], begin); };
  if constexpr (kInputs == 0) {
    compute_blocks();
  } else if constexpr (kInputs == 1) {
    Reader<T> x = reader(0);
    compute_blocks(x);
  } else if constexpr (kInputs == 2) {
    Reader<T> x = reader(0), y = reader(1);
    compute_blocks(x, y);
  } else {
    Reader<T> x = reader(0), y = reader(1), z = reader(2);
    compute_blocks(x, y, z);
  }
}

}  // namespace

void run(CpuQueue&, const Elementwise& args) {
  std::int64_t count = 1;
  for (int d = 0; d < args.extents.rank; ++d) count *= args.extents.size[d];
  for_dtype("Elementwise", args.dtype, [&](auto t) {
    using T = decltype(t);
    const Entry<T> entry = entry_of<T>(args.function);
    parallel_ranges(count, kChunk, [&](std::int64_t begin, std::int64_t end) {
      switch (entry.inputs) {
        case 0: return compute_range<T, 0>(args, entry, begin, end);
        case 1: return compute_range<T, 1>(args, entry, begin, end);
        case 2: return compute_range<T, 2>(args, entry, begin, end);
        default: return compute_range<T, 3>(args, entry, begin, end);
      }
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(Elementwise)
