// Gains and shifts of elements, samples and rows; see modulate.h. Each kernel passes over memory
// once.
#include "kernels/pointwise/modulate.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/row_sums.h"

namespace dtn::DTN_ISA {
namespace {

// Channels per task of a sum over tokens: the sums stay in the first-level cache.
constexpr std::int64_t kChannels = 512;

template <class T>
void modulate(const ModulateForward& args) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.channels;
  for_each_row(args.rows, channels, [&](std::int64_t r) {
    const T* x = static_cast<const T*>(args.x) + r * channels;
    const T* shift = static_cast<const T*>(args.modulation) + r * 2 * channels;
    const T* gain = shift + channels;
    T* y = static_cast<T*>(args.y) + r * channels;
    for_each_vector<A>(channels, [=](std::int64_t c, auto count) {
      const Vec<A> v = load_n(x + c, count);
      const Vec<A> product = v * load_n(gain + c, count) + v;
      store_n(y + c, Vec<A>(product + load_n(shift + c, count)), count);
    });
  });
}

template <class T>
void modulate_backward(const ModulateBackward& args) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.channels;
  for_each_row(args.rows, channels, [&](std::int64_t r) {
    const T* x = static_cast<const T*>(args.x) + r * channels;
    const T* gain = static_cast<const T*>(args.modulation) + (2 * r + 1) * channels;
    const T* dy = static_cast<const T*>(args.dy) + r * channels;
    const T* add = args.dx_add ? static_cast<const T*>(args.dx_add) + r * channels : nullptr;
    T* dx = args.dx ? static_cast<T*>(args.dx) + r * channels : nullptr;
    T* dshift = args.dmodulation ? static_cast<T*>(args.dmodulation) + r * 2 * channels : nullptr;
    for_each_vector<A>(channels, [=](std::int64_t c, auto count) {
      const Vec<A> g = load_n(dy + c, count);
      if (dshift) {
        store_n(dshift + c, g, count);
        store_n(dshift + channels + c, Vec<A>(g * load_n(x + c, count)), count);
      }
      if (!dx) return;
      Vec<A> d = g * load_n(gain + c, count) + g;
      if (add) d += load_n(add + c, count);
      store_n(dx + c, d, count);
    });
  });
}

template <class T>
void gate(const GateForward& args) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.channels;
  for_each_row(args.batch * args.tokens, channels, [&](std::int64_t r) {
    const std::int64_t at = r * channels;
    const T* x = static_cast<const T*>(args.x) + at;
    const A* gain = static_cast<const A*>(args.gain) + r / args.tokens * channels;
    const T* residual = args.residual ? static_cast<const T*>(args.residual) + at : nullptr;
    T* y = static_cast<T*>(args.y) + at;
    for_each_vector<A>(channels, [=](std::int64_t c, auto count) {
      Vec<A> v = load_n(x + c, count) * load_n(gain + c, count);
      if (residual) v += load_n(residual + c, count);
      store_n(y + c, v, count);
    });
  });
}

// Each task processes some channels of all tokens of a sample.
template <class T>
void gate_backward(const GateBackward& args) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.channels, tokens = args.tokens;
  const std::int64_t blocks = (channels + kChannels - 1) / kChannels;
  parallel_for(args.batch * blocks, [&](std::int64_t task) {
    const std::int64_t b = task / blocks, first = task % blocks * kChannels;
    const std::int64_t n = channels - first < kChannels ? channels - first : kChannels;
    alignas(64) A sum[kChannels] = {};
    alignas(64) A gain[kChannels];
    std::memcpy(gain, static_cast<const A*>(args.gain) + b * channels + first,
                static_cast<std::size_t>(n) * sizeof(A));
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t at = (b * tokens + t) * channels + first;
      const T* x = static_cast<const T*>(args.x) + at;
      const T* dy = static_cast<const T*>(args.dy) + at;
      T* dx = args.dx ? static_cast<T*>(args.dx) + at : nullptr;
      for_each_vector<A>(n, [&](std::int64_t c, auto count) {
        const Vec<A> g = load_n(dy + c, count);
        if (args.dgain) store(sum + c, Vec<A>(load(sum + c) + g * load_n(x + c, count)));
        if (dx) store_n(dx + c, Vec<A>(g * load_n(gain + c, count)), count);
      });
    }
    if (!args.dgain) return;
    std::memcpy(static_cast<A*>(args.dgain) + b * channels + first, sum,
                static_cast<std::size_t>(n) * sizeof(A));
  });
}

template <class T>
void scale_shift_rows(const ScaleShiftRowsForward& args) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.channels;
  for_each_row(args.rows, channels, [&](std::int64_t r) {
    const T* x = static_cast<const T*>(args.x) + r * channels;
    T* y = static_cast<T*>(args.y) + r * channels;
    const A gain = static_cast<const A*>(args.gain)[r];
    const Vec<A> shift = broadcast(static_cast<const A*>(args.shift)[r]);
    for_each_vector<A>(channels, [=](std::int64_t c, auto count) {
      store_n(y + c, Vec<A>(load_n(x + c, count) * gain + shift), count);
    });
  });
}

template <class T>
void scale_shift_rows_backward(const ScaleShiftRowsBackward& args) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.channels;
  for_each_row(args.rows, channels, [&](std::int64_t r) {
    const T* x = static_cast<const T*>(args.x) + r * channels;
    const T* dy = static_cast<const T*>(args.dy) + r * channels;
    T* dx = args.dx ? static_cast<T*>(args.dx) + r * channels : nullptr;
    const A gain = static_cast<const A*>(args.gain)[r];
    Vec<A> sum{}, dot{};
    for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
      const Vec<A> g = load_n(dy + c, count);
      sum += g;
      dot += g * load_n(x + c, count);
      if (dx) store_n(dx + c, Vec<A>(g * gain), count);
    });
    if (args.dgain) static_cast<A*>(args.dgain)[r] = reduce_add(dot);
    if (args.dshift) static_cast<A*>(args.dshift)[r] = reduce_add(sum);
  });
}

}  // namespace

void run(CpuQueue&, const ModulateForward& args) {
  for_dtype("ModulateForward", args.dtype, [&](auto t) { modulate<decltype(t)>(args); });
}
void run(CpuQueue&, const ModulateBackward& args) {
  for_dtype("ModulateBackward", args.dtype, [&](auto t) { modulate_backward<decltype(t)>(args); });
}
void run(CpuQueue&, const GateForward& args) {
  for_dtype("GateForward", args.dtype, [&](auto t) { gate<decltype(t)>(args); });
}
void run(CpuQueue&, const GateBackward& args) {
  for_dtype("GateBackward", args.dtype, [&](auto t) { gate_backward<decltype(t)>(args); });
}
void run(CpuQueue&, const ScaleShiftRowsForward& args) {
  for_dtype("ScaleShiftRowsForward", args.dtype,
            [&](auto t) { scale_shift_rows<decltype(t)>(args); });
}
void run(CpuQueue&, const ScaleShiftRowsBackward& args) {
  for_dtype("ScaleShiftRowsBackward", args.dtype,
            [&](auto t) { scale_shift_rows_backward<decltype(t)>(args); });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(ModulateForward)
DTN_DISPATCH(ModulateBackward)
DTN_DISPATCH(GateForward)
DTN_DISPATCH(GateBackward)
DTN_DISPATCH(ScaleShiftRowsForward)
DTN_DISPATCH(ScaleShiftRowsBackward)
