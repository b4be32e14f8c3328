// Gains and shifts of elements, samples and rows; see modulate.h. Each kernel passes over memory
// once.
#include "kernels/pointwise/modulate.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/set_sums.h"
#include "kernels/pointwise/gate_rows.h"

namespace dtn::DTN_ISA {
namespace {

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
void modulate_samples(const ModulateSamplesForward& args) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.channels;
  for_each_row(args.batch * args.tokens, channels, [&](std::int64_t r) {
    const T* x = static_cast<const T*>(args.x) + r * channels;
    const A* shift = static_cast<const A*>(args.modulation) + r / args.tokens * 2 * channels;
    const A* scale = shift + channels;
    T* y = static_cast<T*>(args.y) + r * channels;
    for_each_vector<A>(channels, [=](std::int64_t c, auto count) {
      const Vec<A> v = load_n(x + c, count);
      const Vec<A> product = v * load_n(scale + c, count) + v;
      store_n(y + c, Vec<A>(product + load_n(shift + c, count)), count);
    });
  });
}

// Computes dx of a row, and adds the row to dshift and dscale.
template <class T>
void modulate_samples_backward_row(const ModulateSamplesBackward& args, std::int64_t row,
                                   AccumulatorOf<T>* dshift, AccumulatorOf<T>* dscale) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.channels, at = row * channels;
  const A* scale =
      static_cast<const A*>(args.modulation) + (2 * (row / args.tokens) + 1) * channels;
  const T* x = static_cast<const T*>(args.x) + at;
  const T* dy = static_cast<const T*>(args.dy) + at;
  const T* add = args.dx_add ? static_cast<const T*>(args.dx_add) + at : nullptr;
  T* dx = args.dx ? static_cast<T*>(args.dx) + at : nullptr;
  for_each_vector<A>(channels, [=](std::int64_t c, auto count) {
    const Vec<A> g = load_n(dy + c, count);
    store_n(dshift + c, Vec<A>(load_n(dshift + c, count) + g), count);
    store_n(dscale + c, Vec<A>(load_n(dscale + c, count) + g * load_n(x + c, count)), count);
    if (!dx) return;
    Vec<A> d = g * load_n(scale + c, count) + g;
    if (add) d += load_n(add + c, count);
    store_n(dx + c, d, count);
  });
}

template <class T>
void modulate_samples_backward(CpuQueue& queue, const ModulateSamplesBackward& args) {
  using A = AccumulatorOf<T>;
  A* dmodulation = static_cast<A*>(args.dmodulation);
  sum_set_rows<A, 2>(
      queue, args.batch, args.tokens, args.channels,
      [&](std::int64_t begin, std::int64_t end, A* const(&sums)[2]) {
        for (std::int64_t row = begin; row < end; ++row) {
          modulate_samples_backward_row<T>(args, row, sums[0], sums[1]);
        }
      },
      [&](std::int64_t sample, int k, std::int64_t c, auto count, Vec<A> sum) {
        if (dmodulation) store_n(dmodulation + (2 * sample + k) * args.channels + c, sum, count);
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
    T* y = static_cast<T*>(args.y) + at;
    if (args.residual) {
      gate_row<true>(channels, x, gain, static_cast<const T*>(args.residual) + at, y);
    } else {
      gate_row<false, T>(channels, x, gain, nullptr, y);
    }
  });
}

template <class T, bool kDx, bool kDgain>
void gate_backward(CpuQueue& queue, const GateBackward& args) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.channels;
  sum_set_rows<A, 1>(
      queue, args.batch, args.tokens, channels,
      [&](std::int64_t begin, std::int64_t end, A* const(&sums)[1]) {
        const A* gain = static_cast<const A*>(args.gain) + begin / args.tokens * channels;
        for_each_group<kGateRows>(begin, end, [&](std::int64_t row, auto rows) {
          const std::int64_t at = row * channels;
          gate_backward_rows<rows, kDx, kDgain>(channels, static_cast<const T*>(args.x) + at, gain,
                                                static_cast<const T*>(args.dy) + at,
                                                static_cast<T*>(args.dx) + at, sums[0]);
        });
      },
      [&](std::int64_t sample, int, std::int64_t c, auto count, Vec<A> sum) {
        if (kDgain) store_n(static_cast<A*>(args.dgain) + sample * channels + c, sum, count);
      });
}

template <class T>
void gate_backward(CpuQueue& queue, const GateBackward& args) {
  if (args.dx && args.dgain) return gate_backward<T, true, true>(queue, args);
  if (args.dx) return gate_backward<T, true, false>(queue, args);
  if (args.dgain) gate_backward<T, false, true>(queue, args);
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
void run(CpuQueue&, const ModulateSamplesForward& args) {
  for_dtype("ModulateSamplesForward", args.dtype,
            [&](auto t) { modulate_samples<decltype(t)>(args); });
}
void run(CpuQueue& queue, const ModulateSamplesBackward& args) {
  for_dtype("ModulateSamplesBackward", args.dtype,
            [&](auto t) { modulate_samples_backward<decltype(t)>(queue, args); });
}
void run(CpuQueue&, const GateForward& args) {
  for_dtype("GateForward", args.dtype, [&](auto t) { gate<decltype(t)>(args); });
}
void run(CpuQueue& queue, const GateBackward& args) {
  for_dtype("GateBackward", args.dtype, [&](auto t) { gate_backward<decltype(t)>(queue, args); });
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
DTN_DISPATCH(ModulateSamplesForward)
DTN_DISPATCH(ModulateSamplesBackward)
DTN_DISPATCH(GateForward)
DTN_DISPATCH(GateBackward)
DTN_DISPATCH(ScaleShiftRowsForward)
DTN_DISPATCH(ScaleShiftRowsBackward)
