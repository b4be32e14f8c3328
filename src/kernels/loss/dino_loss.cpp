// Self-distillation between views; see dino_loss.h for the formulas. u_ak and w_bk are arguments of
// the softmax of the teacher and the student. The forward pass reads the logits from memory once. A
// block of columns of a sample gives sums relative to the largest values u_a and w_b in the block:
//    sum_k e_ak,    e_ak = e^(u_ak - u_a)
//    sum_k e^(w_bk - w_b)
//    sum_k e_ak (w_b - w_bk)
// The blocks are added in order, each with the weight e^(u_a - lse_a). All terms are positive, so
// nothing cancels.
//
// The backward pass computes q_0, q_1 and their sum for a block of columns of a sample, then all
// rows of the student.
#include "kernels/loss/dino_loss.h"

#include <algorithm>

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {
namespace {

// Columns of a block: a few rows of a block stay in the nearest cache.
constexpr std::int64_t kDinoColumns = 1024;

struct DinoColumns {
  std::int64_t first, count;
};

// Sums over a block of columns of one row, relative to its largest argument there.
template <class A>
struct DinoPart {
  A max;
  A sum;      // of e^(x - max)
  A dots[2];  // of e_a (max - x): teacher row a and a student row; or [0], a teacher row and itself
};

// Returns v with the lanes from `count` on set to `fill`.
template <class V, class N, class A>
inline V fill_after(V v, N count, A fill) {
  if constexpr (std::is_same_v<N, int>) {
    for (unsigned i = static_cast<unsigned>(count); i < sizeof(V) / sizeof(A); ++i) v[i] = fill;
  }
  return v;
}

// Writes the arguments x of a softmax and returns the largest; argument(k, count) gives a vector.
template <class A, class F>
A write_arguments(std::int64_t columns, A* x, F&& argument) {
  constexpr A kLowest = -static_cast<A>(__builtin_inf());
  Vec<A> largest = broadcast(kLowest);
  for_each_vector<A>(columns, [&](std::int64_t k, auto count) {
    const Vec<A> value = argument(k, count);
    store_n(x + k, value, count);
    largest = max(largest, fill_after(value, count, kLowest));
  });
  return reduce_max(largest);
}

// Writes (scale t - center) / teacher_temp of a row.
template <class T, class A = AccumulatorOf<T>>
A teacher_arguments(const DinoLossInputs& in, std::int64_t row, DinoColumns c, A* u) {
  const T* t = static_cast<const T*>(in.teacher) + row * in.outputs + c.first;
  const A* scale = static_cast<const A*>(in.teacher_scale) + c.first;
  const A* center = static_cast<const A*>(in.center) + c.first;
  const A inverse_temp = static_cast<A>(1 / *in.teacher_temp);
  return write_arguments(c.count, u, [=](std::int64_t k, auto count) -> Vec<A> {
    return (load_n(scale + k, count) * load_n(t + k, count) - load_n(center + k, count)) *
           inverse_temp;
  });
}

// The same columns of the next row, to be fetched ahead: a row of a block is too short for the
// prefetchers of the processor. Returns `columns` itself in the last row.
template <class T>
const T* next_student_row(const DinoLossInputs& in, std::int64_t row, const T* columns) {
  return row + 1 < in.views() * in.samples ? columns + in.outputs : columns;
}

// Writes scale z / student_temp of a row.
template <class T, class A = AccumulatorOf<T>>
A student_arguments(const DinoLossInputs& in, std::int64_t row, DinoColumns c, A* w) {
  const T* z = static_cast<const T*>(in.student) + row * in.outputs + c.first;
  const T* next = next_student_row(in, row, z);
  const A* scale = static_cast<const A*>(in.student_scale) + c.first;
  const A inverse_temp = static_cast<A>(1 / in.student_temp);
  return write_arguments(c.count, w, [=](std::int64_t k, auto count) -> Vec<A> {
    __builtin_prefetch(next + k);
    return load_n(scale + k, count) * load_n(z + k, count) * inverse_temp;
  });
}

// Replaces the arguments u by the exponentials e.
template <class A>
DinoPart<A> teacher_part(A max, std::int64_t columns, A* u) {
  Vec<A> sum{}, dot{};
  for_each_vector<A>(columns, [&](std::int64_t k, auto count) {
    const Vec<A> below = max - load_n(u + k, count);
    const Vec<A> e = keep_n(exp(-below), count);
    sum = sum + e;
    dot = dot + e * below;
    store_n(u + k, e, count);
  });
  return {max, reduce_add(sum), {reduce_add(dot), A(0)}};
}

template <class A>
DinoPart<A> student_part(A max, std::int64_t columns, const A* w, const A* e_0, const A* e_1) {
  Vec<A> sum{}, dot_0{}, dot_1{};
  for_each_vector<A>(columns, [&](std::int64_t k, auto count) {
    const Vec<A> below = max - load_n(w + k, count);
    sum = sum + keep_n(exp(-below), count);
    dot_0 = dot_0 + load_n(e_0 + k, count) * below;
    dot_1 = dot_1 + load_n(e_1 + k, count) * below;
  });
  return {max, reduce_add(sum), {reduce_add(dot_0), reduce_add(dot_1)}};
}

// Parts of a sample in one block: the two rows of the teacher, then the views of the student.
template <class T, class A = AccumulatorOf<T>>
void sample_parts(const DinoLossInputs& in, std::int64_t sample, DinoColumns c,
                  DinoPart<A>* parts) {
  alignas(64) A e[2][kDinoColumns], w[kDinoColumns];
  for (int a = 0; a < 2; ++a) {
    const A max = teacher_arguments<T>(in, 2 * sample + a, c, e[a]);
    parts[a] = teacher_part(max, c.count, e[a]);
  }
  for (std::int64_t v = 0; v < in.views(); ++v) {
    const A max = student_arguments<T>(in, in.student_row(sample, v), c, w);
    parts[2 + v] = student_part(max, c.count, w, e[0], e[1]);
  }
}

// Parts of one row, one for each block of columns.
template <class A>
struct DinoRowParts {
  const DinoPart<A>* first;
  std::int64_t stride, blocks;
  const DinoPart<A>& operator[](std::int64_t block) const { return first[block * stride]; }

  A log_sum_exp() const {
    double max = first->max, sum = 0;
    for (std::int64_t s = 1; s < blocks; ++s) max = std::max<double>(max, (*this)[s].max);
    for (std::int64_t s = 0; s < blocks; ++s)
      sum += (*this)[s].sum * std::exp((*this)[s].max - max);
    return static_cast<A>(max + std::log(sum));
  }
};

// Sums over the rows or pairs of one sample.
struct DinoSampleSums {
  double entropy, loss_global, loss_local;
};

// Writes the lse of the rows of a sample. `weights` [2, blocks] is scratch memory.
template <class A>
DinoSampleSums add_sample_parts(const DinoLossForward& args, std::int64_t sample,
                                const DinoPart<A>* parts, std::int64_t blocks, double* weights) {
  const auto parts_of = [=, rows = 2 + args.views()](std::int64_t row) {
    return DinoRowParts<A>{parts + row, rows, blocks};
  };
  // Adds sum_k e_ak (lse - x_k) of the blocks, where `lse` and x belong to `row`.
  const auto weighted_sum = [=](int a, const DinoRowParts<A>& row, int dot, double lse) {
    double sum = 0;
    for (std::int64_t s = 0; s < blocks; ++s) {
      const double rest = parts_of(a)[s].sum * (lse - row[s].max);
      sum += weights[a * blocks + s] * (row[s].dots[dot] + rest);
    }
    return sum;
  };
  DinoSampleSums sums{};
  for (int a = 0; a < 2; ++a) {
    const A lse = parts_of(a).log_sum_exp();
    static_cast<A*>(args.teacher_lse)[2 * sample + a] = lse;
    for (std::int64_t s = 0; s < blocks; ++s) {
      weights[a * blocks + s] = std::exp(static_cast<double>(parts_of(a)[s].max) - lse);
    }
    sums.entropy += weighted_sum(a, parts_of(a), 0, lse);
  }
  for (std::int64_t v = 0; v < args.views(); ++v) {
    const A lse = parts_of(2 + v).log_sum_exp();
    static_cast<A*>(args.student_lse)[args.student_row(sample, v)] = lse;
    for (int a = 0; a < 2; ++a) {
      if (a == v) continue;
      (v < 2 ? sums.loss_global : sums.loss_local) += weighted_sum(a, parts_of(2 + v), a, lse);
    }
  }
  return sums;
}

template <class A>
A length_of_center(const DinoLossInputs& in) {
  const A* center = static_cast<const A*>(in.center);
  Vec<A> squares{};
  for_each_vector<A>(in.outputs, [&](std::int64_t k, auto count) {
    const Vec<A> c = load_n(center + k, count);
    squares = squares + c * c;
  });
  return std::sqrt(reduce_add(squares));
}

template <class A>
void write_losses(const DinoLossForward& args, const DinoSampleSums* samples) {
  DinoSampleSums all{};
  for (std::int64_t i = 0; i < args.samples; ++i) {
    all.entropy += samples[i].entropy;
    all.loss_global += samples[i].loss_global;
    all.loss_local += samples[i].loss_local;
  }
  const auto n = static_cast<double>(args.samples);
  const auto local_pairs = static_cast<double>(2 * args.local_views);
  const auto write = [](void* to, double value) { *static_cast<A*>(to) = static_cast<A>(value); };
  write(args.teacher_entropy, all.entropy / (2 * n));
  write(args.loss_global, all.loss_global / (2 * n));
  write(args.loss_local, args.local_views > 0 ? all.loss_local / (local_pairs * n) : 0);
  write(args.loss, (all.loss_global + all.loss_local) / (static_cast<double>(args.pairs()) * n));
  *static_cast<A*>(args.center_norm) = length_of_center<A>(args);
}

template <class T>
void dino_forward(CpuQueue& queue, const DinoLossForward& args) {
  using A = AccumulatorOf<T>;
  const std::int64_t blocks = (args.outputs + kDinoColumns - 1) / kDinoColumns;
  const std::int64_t rows = 2 + args.views();
  Scratch::Scope scope(queue.scratch());
  auto* parts = scope.take<DinoPart<A>>(args.samples * blocks * rows);
  auto* weights = scope.take<double>(args.samples * 2 * blocks);
  auto* sums = scope.take<DinoSampleSums>(args.samples);
  parallel_for(args.samples * blocks, [&](std::int64_t i) {
    const std::int64_t first = i % blocks * kDinoColumns;
    const DinoColumns columns{first, std::min(kDinoColumns, args.outputs - first)};
    sample_parts<T>(args, i / blocks, columns, parts + i * rows);
  });
  parallel_for(args.samples, [&](std::int64_t i) {
    sums[i] =
        add_sample_parts(args, i, parts + i * blocks * rows, blocks, weights + i * 2 * blocks);
  });
  write_losses<A>(args, sums);
}

// Targets Q of the student's rows in a block of columns of a sample.
template <class A>
struct DinoTargets {
  alignas(64) A q[2][kDinoColumns];
  alignas(64) A both[kDinoColumns];

  // A global view is compared with the other global view only.
  const A* of_view(std::int64_t v) const { return v < 2 ? q[1 - v] : both; }
};

template <class T, class A = AccumulatorOf<T>>
void write_targets(const DinoLossBackward& args, std::int64_t sample, DinoColumns c,
                   DinoTargets<A>& targets) {
  for (int a = 0; a < 2; ++a) {
    A* q = targets.q[a];
    teacher_arguments<T>(args, 2 * sample + a, c, q);
    const A lse = static_cast<const A*>(args.teacher_lse)[2 * sample + a];
    for_each_vector<A>(c.count, [=](std::int64_t k, auto count) {
      store_n(q + k, exp(load_n(q + k, count) - lse), count);
    });
  }
  for_each_vector<A>(c.count, [&](std::int64_t k, auto count) {
    store_n(targets.both + k, load_n(targets.q[0] + k, count) + load_n(targets.q[1] + k, count),
            count);
  });
}

// Gradient of one row of the student; `mass` is the sum of its targets over all columns.
template <class T, class A = AccumulatorOf<T>>
void backward_part(const DinoLossBackward& args, std::int64_t row, DinoColumns c, const A* target,
                   A mass) {
  const T* z = static_cast<const T*>(args.student) + row * args.outputs + c.first;
  const T* next = next_student_row(args, row, z);
  T* dz = static_cast<T*>(args.dstudent) + row * args.outputs + c.first;
  const A* scale = static_cast<const A*>(args.student_scale) + c.first;
  A* sums = static_cast<A*>(args.column_sums) + c.first;
  const A lse = static_cast<const A*>(args.student_lse)[row];
  const A inverse_temp = static_cast<A>(1 / args.student_temp);
  const double terms = static_cast<double>(args.samples * args.pairs());
  const A factor =
      *static_cast<const A*>(args.upstream) * static_cast<A>(1 / (args.student_temp * terms));
  for_each_vector<A>(c.count, [=](std::int64_t k, auto count) {
    __builtin_prefetch(next + k);
    const Vec<A> logit = load_n(z + k, count), s = load_n(scale + k, count);
    const Vec<A> p = exp(s * logit * inverse_temp - lse);
    const Vec<A> ds = factor * (mass * p - load_n(target + k, count));
    store_n(dz + k, s * ds, count);
    store_n(sums + k, load_n(sums + k, count) + ds * logit, count);
  });
}

template <class T>
void dino_backward_block(const DinoLossBackward& args, DinoColumns c) {
  using A = AccumulatorOf<T>;
  A* sums = static_cast<A*>(args.column_sums) + c.first;
  for (std::int64_t k = 0; k < c.count; ++k) sums[k] = 0;
  DinoTargets<A> targets;
  for (std::int64_t i = 0; i < args.samples; ++i) {
    write_targets<T>(args, i, c, targets);
    for (std::int64_t v = 0; v < args.views(); ++v) {
      backward_part<T>(args, args.student_row(i, v), c, targets.of_view(v), A(v < 2 ? 1 : 2));
    }
  }
}

// Blocks of the backward pass. A narrow output has narrow blocks, so that there are several.
std::int64_t dino_backward_columns(std::int64_t outputs) {
  constexpr std::int64_t kStep = 64;
  return std::clamp(outputs / 64 / kStep * kStep, kStep, kDinoColumns);
}

template <class T>
void dino_center_block(const DinoCenterStep& args, DinoColumns c) {
  using A = AccumulatorOf<T>;
  alignas(64) A sums[kDinoColumns] = {};
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const T* t = static_cast<const T*>(args.teacher) + row * args.outputs + c.first;
    for_each_vector<A>(c.count, [&](std::int64_t k, auto count) {
      store_n(sums + k, load_n(sums + k, count) + load_n(t + k, count), count);
    });
  }
  const A* scale = static_cast<const A*>(args.scale) + c.first;
  const A* center = static_cast<const A*>(args.center) + c.first;
  A* next = static_cast<A*>(args.next) + c.first;
  const A share = static_cast<A>(args.share);
  const A inverse_rows = static_cast<A>(1 / static_cast<double>(args.rows));
  for_each_vector<A>(c.count, [&](std::int64_t k, auto count) {
    const Vec<A> mean = load_n(scale + k, count) * load_n(sums + k, count) * inverse_rows;
    const Vec<A> step = share * (mean - load_n(center + k, count));
    store_n(next + k, load_n(next + k, count) + step, count);
  });
}

}  // namespace

void run(CpuQueue& queue, const DinoLossForward& args) {
  for_dtype("DinoLossForward", args.dtype, [&](auto t) { dino_forward<decltype(t)>(queue, args); });
}

void run(CpuQueue&, const DinoLossBackward& args) {
  for_dtype("DinoLossBackward", args.dtype, [&](auto t) {
    parallel_ranges(args.outputs, dino_backward_columns(args.outputs),
                    [&](std::int64_t first, std::int64_t end) {
                      dino_backward_block<decltype(t)>(args, {first, end - first});
                    });
  });
}

void run(CpuQueue&, const DinoCenterStep& args) {
  for_dtype("DinoCenterStep", args.dtype, [&](auto t) {
    parallel_ranges(args.outputs, kDinoColumns, [&](std::int64_t first, std::int64_t end) {
      dino_center_block<decltype(t)>(args, {first, end - first});
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(DinoLossForward)
DTN_DISPATCH(DinoLossBackward)
DTN_DISPATCH(DinoCenterStep)
