// Loss of a diffusion model, image by image; see diffusion_loss.h for the formulas.
#include "kernels/loss/diffusion_loss.h"

#include <numbers>

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {
namespace {

constexpr std::int64_t kImagesPerTask = 1;

template <class T>
using Accumulator = AccumulatorOf<T>;

// The rows of one image.
template <class T>
struct ImageRows {
  using A = Accumulator<T>;
  const T *mean, *variance;  // e', v
  const A *noise, *start;
  DiffusionStep step;
  bool first;

  ImageRows(const DiffusionLossInputs& in, std::int64_t b)
      : mean(static_cast<const T*>(in.output) + b * in.outputs()),
        variance(mean + in.values),
        noise(static_cast<const A*>(in.noise) + b * in.values),
        start(static_cast<const A*>(in.start) + (in.learned_variance ? b * in.values : 0)),
        step(in.schedule[in.time[b]]),
        first(in.time[b] == 0) {}

  A difference(std::int64_t i) const { return static_cast<A>(mean[i]) - noise[i]; }
  BoundTerm<A> bound(std::int64_t i) const {
    const A d = difference(i), v = static_cast<A>(variance[i]);
    if (!first) return divergence_term(step, d, v);
    const BoundTerm<double> term = decoder_term(step, start[i], d, v);
    return {static_cast<A>(term.value), static_cast<A>(term.slope)};
  }
};

template <class T>
void diffuse(const DiffuseImages& args, std::int64_t b) {
  const std::int64_t first = b * args.values, t = args.time[b];
  const bool valid = t >= 0 && t < args.steps;
  const T nan = static_cast<T>(__builtin_nan(""));
  const T signal = valid ? static_cast<T>(args.schedule[t].signal) : nan;
  const T noise = valid ? static_cast<T>(args.schedule[t].noise) : nan;
  const T* x = static_cast<const T*>(args.start) + first;
  const T* e = static_cast<const T*>(args.noise) + first;
  T* y = static_cast<T*>(args.noisy) + first;
  for (std::int64_t i = 0; i < args.values; ++i) y[i] = signal * x[i] + noise * e[i];
}

template <class T>
void measure(const DiffusionLossForward& args, std::int64_t b) {
  using A = Accumulator<T>;
  const double count = static_cast<double>(args.values);
  double mse = __builtin_nan(""), bound = mse;
  if (args.has_time(b)) {
    const ImageRows<T> rows(args, b);
    mse = bound = 0;
    for (std::int64_t i = 0; i < args.values; ++i) {
      const double d = rows.difference(i);
      mse += d * d;
    }
    for (std::int64_t i = 0; args.bound && i < args.values; ++i) bound += rows.bound(i).value;
  }
  static_cast<A*>(args.mse)[b] = static_cast<A>(mse / count);
  if (!args.bound) return;
  static_cast<A*>(args.bound)[b] = static_cast<A>(bound / (count * std::numbers::ln2));
}

template <class T>
void write_gradient(const DiffusionLossBackward& args, std::int64_t b) {
  using A = Accumulator<T>;
  T* out = static_cast<T*>(args.doutput) + b * args.outputs();
  const bool valid = args.has_time(b);
  const double upstream =
      valid ? static_cast<double>(*static_cast<const A*>(args.upstream)) : __builtin_nan("");
  const double each =
      upstream / (static_cast<double>(args.values) * static_cast<double>(args.batch));
  if (!valid) {
    for (std::int64_t i = 0; i < args.outputs(); ++i) out[i] = T(static_cast<A>(each));
    return;
  }
  const ImageRows<T> rows(args, b);
  const A of_mean = static_cast<A>(2 * each), of_bound = static_cast<A>(each / std::numbers::ln2);
  for (std::int64_t i = 0; i < args.values; ++i) {
    const A d = rows.difference(i);
    // The output may be overwritten, so v is read first.
    if (args.learned_variance) out[args.values + i] = T(of_bound * rows.bound(i).slope);
    out[i] = T(of_mean * d);
  }
}

}  // namespace

void run(CpuQueue&, const DiffuseImages& args) {
  for_accumulator_dtype("DiffuseImages", args.dtype, [&](auto zero) {
    parallel_ranges(args.batch, kImagesPerTask, [&](std::int64_t b, std::int64_t end) {
      for (; b < end; ++b) diffuse<decltype(zero)>(args, b);
    });
  });
}

void run(CpuQueue&, const DiffusionLossForward& args) {
  for_dtype("DiffusionLossForward", args.dtype, [&](auto zero) {
    using A = Accumulator<decltype(zero)>;
    parallel_ranges(args.batch, kImagesPerTask, [&](std::int64_t b, std::int64_t end) {
      for (; b < end; ++b) measure<decltype(zero)>(args, b);
    });
    A* figures = static_cast<A*>(args.figures);
    constexpr int kFigures = static_cast<int>(sizeof(DiffusionFigures<A>) / sizeof(A));
    for (int i = 0; i < kFigures; ++i) figures[i] = diffusion_figure<A>(args, i);
    *static_cast<A*>(args.loss) = figures[0] + figures[1];
  });
}

void run(CpuQueue&, const DiffusionLossBackward& args) {
  for_dtype("DiffusionLossBackward", args.dtype, [&](auto zero) {
    parallel_ranges(args.batch, kImagesPerTask, [&](std::int64_t b, std::int64_t end) {
      for (; b < end; ++b) write_gradient<decltype(zero)>(args, b);
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(DiffuseImages)
DTN_DISPATCH(DiffusionLossForward)
DTN_DISPATCH(DiffusionLossBackward)
