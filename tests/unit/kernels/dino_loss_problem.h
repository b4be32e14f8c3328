// Inputs of the self-distillation loss, and the loss written out for every pair in long double.
#pragma once

#include <algorithm>

#include "kernels/loss/dino_loss.h"
#include "unit/kernels/each_isa.h"

namespace dtn::test {

// Figures of a loss in the order of DinoLossForward.
enum DinoFigure { kLoss, kLossGlobal, kLossLocal, kTeacherEntropy, kCenterNorm, kDinoFigures };

// Results in float64 with the largest rounding errors of a computation whose numbers are accurate
// to `eps`. The argument of a softmax is rounded in proportion to its size, and the exponential
// turns this into a relative error.
struct DinoOracle {
  Doubles figures, figure_errors;
  Doubles dlogits, dlogit_errors;  // without the rounding to the storage type
  Doubles column_sums, column_sum_errors;
};

using Exact = std::vector<long double>;

template <class T>
struct DinoProblem {
  using A = AccumulatorOf<T>;
  std::int64_t samples, local_views, outputs;
  std::vector<T> student, teacher;
  std::vector<A> student_scale, teacher_scale, center;
  double student_temp = 0.1, teacher_temp = 0.04;
  A upstream = static_cast<A>(-0.75);

  DinoProblem(std::int64_t n, std::int64_t L, std::int64_t K, double spread = 0.3)
      : samples(n),
        local_views(L),
        outputs(K),
        student(normal_values<T>((2 + L) * n * K, 1, 0, spread)),
        teacher(normal_values<T>(2 * n * K, 2, 0, spread)),
        student_scale(normal_values<A>(K, 3, 1, 0.1)),
        teacher_scale(normal_values<A>(K, 4, 1, 0.1)),
        center(normal_values<A>(K, 5, 0, 0.1)) {}

  DinoLossInputs inputs() const {
    return {.dtype = DTypeOf<T>::value,
            .samples = samples,
            .local_views = local_views,
            .outputs = outputs,
            .student = student.data(),
            .teacher = teacher.data(),
            .student_scale = student_scale.data(),
            .teacher_scale = teacher_scale.data(),
            .center = center.data(),
            .student_temp = student_temp,
            .teacher_temp = &teacher_temp};
  }

  struct Result {
    std::vector<A> figures, student_lse, teacher_lse, column_sums;
    std::vector<T> dlogits;
    bool operator==(const Result& o) const {
      return same_bits(figures, o.figures) && same_bits(student_lse, o.student_lse) &&
             same_bits(teacher_lse, o.teacher_lse) && same_bits(column_sums, o.column_sums) &&
             same_bits(dlogits, o.dlogits);
    }
  };

  // The arguments of the softmax of one row.
  Exact teacher_arguments(std::int64_t row) const {
    Exact u;
    for (std::int64_t k = 0; k < outputs; ++k) {
      const auto i = static_cast<std::size_t>(k), at = static_cast<std::size_t>(row * outputs + k);
      u.push_back((static_cast<long double>(teacher_scale[i]) * as_double(teacher[at]) -
                   as_double(center[i])) /
                  teacher_temp);
    }
    return u;
  }
  Exact student_arguments(std::int64_t row) const {
    Exact w;
    for (std::int64_t k = 0; k < outputs; ++k) {
      const auto i = static_cast<std::size_t>(k), at = static_cast<std::size_t>(row * outputs + k);
      w.push_back(static_cast<long double>(student_scale[i]) * as_double(student[at]) /
                  student_temp);
    }
    return w;
  }
  DinoOracle oracle() const;
};

inline long double log_sum_exp(const Exact& x) {
  const long double largest = *std::ranges::max_element(x);
  long double sum = 0;
  for (long double v : x) sum += std::exp(v - largest);
  return largest + std::log(sum);
}

inline double largest_of(const Exact& x) {
  long double largest = 0;
  for (long double v : x) largest = std::max(largest, std::abs(v));
  return static_cast<double>(largest);
}

template <class T>
DinoOracle DinoProblem<T>::oracle() const {
  const double eps = epsilon_of<A>(), root = std::sqrt(static_cast<double>(outputs)) + 4;
  const std::int64_t views = 2 + local_views;
  const auto K = static_cast<std::size_t>(outputs);
  const double pairs = static_cast<double>(samples * (2 * views - 2));
  // Relative error of exp(x - lse): three roundings of x, those of lse, and the sum in it.
  const auto softmax_error = [&](const Exact& x, double largest_term) {
    return eps * (3 * largest_term + std::abs(static_cast<double>(log_sum_exp(x))) + root);
  };
  DinoOracle o;
  o.figures = o.figure_errors = Doubles(kDinoFigures);
  o.dlogits = o.dlogit_errors = Doubles(student.size());
  o.column_sums = o.column_sum_errors = Doubles(K);
  Doubles column_sizes(K);
  const auto add = [&](DinoFigure to, double value, double error, double terms) {
    o.figures[to] += value / terms;
    o.figure_errors[to] += error / terms;
  };
  double offset = 0;  // the center is subtracted from the teacher's logits
  for (A c : center) offset = std::max(offset, std::abs(as_double(c)) / teacher_temp);
  for (std::int64_t i = 0; i < samples; ++i) {
    Exact us[2];
    long double lses[2];
    double q_errors[2];
    for (int a = 0; a < 2; ++a) {
      const Exact& u = us[a] = teacher_arguments(2 * i + a);
      lses[a] = log_sum_exp(u);
      q_errors[a] = softmax_error(u, largest_of(u) + offset);
      long double sum = 0;
      for (long double x : u) sum += std::exp(x - lses[a]) * (lses[a] - x);
      const auto entropy = static_cast<double>(sum);
      add(kTeacherEntropy, entropy, (2 * entropy + 1) * q_errors[a],
          static_cast<double>(2 * samples));
    }
    for (std::int64_t v = 0; v < views; ++v) {
      const std::int64_t row = inputs().student_row(i, v);
      const Exact w = student_arguments(row);
      const long double lse = log_sum_exp(w);
      const double p_error = softmax_error(w, largest_of(w));
      for (int a = 0; a < 2; ++a) {
        if (a == v) continue;
        long double sum = 0;
        for (std::size_t k = 0; k < K; ++k) sum += std::exp(us[a][k] - lses[a]) * (lse - w[k]);
        const auto loss = static_cast<double>(sum);
        const double error = loss * (2 * q_errors[a] + eps * root) + 2 * p_error;
        add(kLoss, loss, error, pairs);
        add(v < 2 ? kLossGlobal : kLossLocal, loss, error,
            static_cast<double>(samples * (v < 2 ? 2 : 2 * local_views)));
        for (std::size_t k = 0; k < K; ++k) {
          const auto p = static_cast<double>(std::exp(w[k] - lse));
          const auto q = static_cast<double>(std::exp(us[a][k] - lses[a]));
          const double factor = as_double(upstream) / (student_temp * pairs);
          const double ds = factor * (p - q);
          const double error_of_ds =
              std::abs(factor) * (p * (p_error + 4 * eps) + q * (q_errors[a] + 4 * eps));
          const std::size_t at = static_cast<std::size_t>(row) * K + k;
          const double scale = as_double(student_scale[k]), z = as_double(student[at]);
          o.dlogits[at] += scale * ds;
          o.dlogit_errors[at] += std::abs(scale) * error_of_ds;
          o.column_sums[k] += ds * z;
          o.column_sum_errors[k] += std::abs(z) * error_of_ds;
          column_sizes[k] += std::abs(ds * z);
        }
      }
    }
  }
  long double squares = 0;
  for (A c : center) squares += as_double(c) * as_double(c);
  o.figures[kCenterNorm] = static_cast<double>(std::sqrt(squares));
  o.figure_errors[kCenterNorm] = eps * root * o.figures[kCenterNorm];
  const double rows = std::sqrt(static_cast<double>(samples * views)) + 4;
  for (std::size_t k = 0; k < K; ++k) o.column_sum_errors[k] += eps * rows * column_sizes[k];
  return o;
}

}  // namespace dtn::test
