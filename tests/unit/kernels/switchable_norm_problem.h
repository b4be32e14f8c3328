// Switchable normalization: inputs and outputs of its kernels, and the formulas in float64.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "kernels/norm/switchable_norm.h"
#include "unit/kernels/errors.h"

DTN_RUN_ON_EACH_ISA(SwitchableNormStatistics)
DTN_RUN_ON_EACH_ISA(SwitchableNormForward)
DTN_RUN_ON_EACH_ISA(SwitchableNormBackwardSums)
DTN_RUN_ON_EACH_ISA(SwitchableNormBackward)

namespace dtn::test {

struct Sizes {
  std::int64_t batch, tokens, channels;
  std::int64_t count() const { return batch * tokens * channels; }
};

enum class Mode { kTraining, kEvaluation };

// Inputs and outputs of the four kernels.
template <class T>
struct SwitchableProblem {
  using A = AccumulatorOf<T>;
  Sizes n;
  Mode mode;
  std::vector<std::int64_t> lengths;  // one per sample; empty: all tokens are valid
  double eps = 1e-5, momentum = 0.25;
  std::vector<T> x, y, dy, add, dx;
  std::vector<A> weight, bias, mean_weight, var_weight, running_mean, running_var;
  Doubles token_mean, image_mean, batch_mean;
  std::vector<A> token_var, image_var, batch_var, next_mean, next_var;
  std::vector<A> token_dmean, token_dvar, image_dmean, image_dvar, batch_dmean, batch_dvar;
  std::vector<A> dweight, dbias, dmean_weight, dvar_weight;

  SwitchableProblem(Sizes sizes, Mode m, double x_mean = 0)
      : n(sizes),
        mode(m),
        x(normal_values<T>(n.count(), 1, x_mean)),
        y(n.count()),
        dy(normal_values<T>(n.count(), 2)),
        add(normal_values<T>(n.count(), 3)),
        dx(n.count()),
        weight(normal_values<A>(n.channels, 4, 1, 0.3)),
        bias(normal_values<A>(n.channels, 5)),
        mean_weight(normal_values<A>(3, 6)),
        var_weight(normal_values<A>(3, 7)),
        running_mean(normal_values<A>(n.channels, 8, x_mean)),
        running_var(n.channels),
        token_mean(n.batch * n.tokens),
        image_mean(n.batch * n.channels),
        batch_mean(n.channels),
        token_var(n.batch * n.tokens),
        image_var(n.batch * n.channels),
        batch_var(n.channels),
        next_mean(normal_values<A>(n.channels, 9)),
        next_var(normal_values<A>(n.channels, 10, 2, 0.1)),
        token_dmean(token_var),
        token_dvar(token_var),
        image_dmean(image_var),
        image_dvar(image_var),
        batch_dmean(batch_var),
        batch_dvar(batch_var),
        dweight(n.channels),
        dbias(n.channels),
        dmean_weight(3),
        dvar_weight(3) {
    const std::vector<A> spread = normal_values<A>(n.channels, 11);
    for (std::size_t c = 0; c < spread.size(); ++c) running_var[c] = std::fabs(spread[c]) + A(0.1);
  }

  bool training() const { return mode == Mode::kTraining; }
  // Returns true if element i is not in a pad.
  bool counts(std::size_t i) const {
    const auto token = static_cast<std::int64_t>(i) / n.channels;
    return lengths.empty() ||
           token % n.tokens < lengths[static_cast<std::size_t>(token / n.tokens)];
  }
  // Sets the lengths of the samples, and x and dy at the pads to `pad`.
  void pad(std::vector<std::int64_t> to, T pad) {
    lengths = std::move(to);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!counts(i)) x[i] = dy[i] = pad;
    }
  }
  SwitchableTerms terms() {
    SwitchableTerms t{};
    t.dtype = DTypeOf<T>::value;
    t.batch = n.batch, t.tokens = n.tokens, t.channels = n.channels;
    t.eps = eps;
    t.x = x.data();
    t.mean_weight = mean_weight.data(), t.var_weight = var_weight.data();
    t.token_mean = token_mean.data(), t.token_var = token_var.data();
    t.image_mean = image_mean.data(), t.image_var = image_var.data();
    if (training()) {
      t.batch_mean = batch_mean.data(), t.batch_var = batch_var.data();
    } else {
      t.running_mean = running_mean.data(), t.running_var = running_var.data();
    }
    if (lengths.empty()) return t;
    t.lengths = lengths.data();
    t.longest = *std::max_element(lengths.begin(), lengths.end());
    t.valid = std::reduce(lengths.begin(), lengths.end());
    return t;
  }
  SwitchableNormForward forward() {
    SwitchableNormForward a{};
    a.terms = terms();
    a.weight = weight.data(), a.bias = bias.data(), a.y = y.data();
    a.momentum = momentum;
    if (training()) a.next_mean = next_mean.data(), a.next_var = next_var.data();
    return a;
  }
  SwitchableNormBackwardSums sums() {
    SwitchableNormBackwardSums a{};
    a.terms = terms();
    a.weight = weight.data(), a.dy = dy.data();
    a.token_dmean = token_dmean.data(), a.token_dvar = token_dvar.data();
    a.image_dmean = image_dmean.data(), a.image_dvar = image_dvar.data();
    a.batch_dmean = batch_dmean.data(), a.batch_dvar = batch_dvar.data();
    a.dweight = dweight.data(), a.dbias = dbias.data();
    a.dmean_weight = dmean_weight.data(), a.dvar_weight = dvar_weight.data();
    return a;
  }
  SwitchableNormBackward backward() {
    SwitchableNormBackward a{};
    a.terms = terms();
    a.weight = weight.data(), a.dy = dy.data();
    a.token_dmean = token_dmean.data(), a.token_dvar = token_dvar.data();
    a.image_dmean = image_dmean.data(), a.image_dvar = image_dvar.data();
    a.batch_dmean = batch_dmean.data(), a.batch_dvar = batch_dvar.data();
    a.positions = a.terms.rows();
    a.dx_add = add.data(), a.dx = dx.data();
    return a;
  }
  void run(Isa isa) {
    run_on(isa, SwitchableNormStatistics{terms()});
    run_on(isa, forward());
    run_on(isa, sums());
    run_on(isa, backward());
  }
};

using Three = std::array<double, 3>;
template <class A>
Three softmax(const std::vector<A>& logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  Three e;
  double sum = 0;
  for (int k = 0; k < 3; ++k) sum += e[k] = std::exp(logits[k] - top);
  for (double& v : e) v /= sum;
  return e;
}

// Statistics of one kind, one for each group of elements, and sums over groups. Pads are excluded.
struct Kind {
  std::vector<std::size_t> group;  // of each element
  Doubles mean, var, size;         // of each group

  Kind(const Doubles& x, const std::vector<bool>& counts, std::vector<std::size_t> groups)
      : group(std::move(groups)) {
    const std::size_t count = 1 + *std::max_element(group.begin(), group.end());
    mean.resize(count), var.resize(count), size.resize(count);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (counts[i]) mean[group[i]] += x[i], size[group[i]] += 1;
    }
    for (std::size_t g = 0; g < count; ++g) mean[g] /= std::max(size[g], 1.0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (counts[i]) var[group[i]] += std::pow(x[i] - mean[group[i]], 2);
    }
    for (std::size_t g = 0; g < count; ++g) var[g] /= std::max(size[g], 1.0);
  }
  Doubles sums(const Doubles& v) const {
    Doubles total(mean.size());
    for (std::size_t i = 0; i < v.size(); ++i) total[group[i]] += v[i];
    return total;
  }
};

struct SwitchableExpected {
  Doubles y, dx, dweight, dbias, dmean_weight, dvar_weight, next_mean, next_var;
};

// Expected results, from the formulas in float64.
template <class T>
SwitchableExpected reference(const SwitchableProblem<T>& p) {
  const Doubles x = doubles(p.x), dy = doubles(p.dy), add = doubles(p.add);
  const std::size_t count = x.size(), T_ = p.n.tokens, C = p.n.channels;
  std::vector<std::size_t> image(count), token(count), channel(count);
  std::vector<bool> counts(count);
  for (std::size_t i = 0; i < count; ++i) {
    counts[i] = p.counts(i);
    channel[i] = i % C;
    token[i] = i / C;
    image[i] = i / C / T_ * C + i % C;
  }
  std::array<Kind, 3> kinds = {Kind(x, counts, image), Kind(x, counts, token),
                               Kind(x, counts, channel)};
  SwitchableExpected e;
  for (std::size_t c = 0; c < C; ++c) {
    e.next_mean.push_back((1 - p.momentum) * p.next_mean[c] + p.momentum * kinds[2].mean[c]);
    e.next_var.push_back((1 - p.momentum) * p.next_var[c] + p.momentum * kinds[2].var[c]);
  }
  if (!p.training()) kinds[2].mean = doubles(p.running_mean), kinds[2].var = doubles(p.running_var);

  const Three w = softmax(p.mean_weight), v = softmax(p.var_weight);
  Doubles dmu(count), dvar(count);
  e.dweight.resize(C), e.dbias.resize(C);
  for (std::size_t i = 0; i < count; ++i) {
    if (!counts[i]) {
      e.y.push_back(0);
      e.dx.push_back(add[i]);
      continue;
    }
    double mu = 0, var = p.eps;
    for (int k = 0; k < 3; ++k) {
      mu += w[k] * kinds[k].mean[kinds[k].group[i]];
      var += v[k] * kinds[k].var[kinds[k].group[i]];
    }
    const double r = 1 / std::sqrt(var), weight = p.weight[channel[i]];
    e.y.push_back(weight * (x[i] - mu) * r + p.bias[channel[i]]);
    e.dx.push_back(dy[i] * weight * r + add[i]);
    e.dweight[channel[i]] += dy[i] * (x[i] - mu) * r;
    e.dbias[channel[i]] += dy[i];
    dmu[i] = -dy[i] * weight * r;
    dvar[i] = -0.5 * dy[i] * weight * (x[i] - mu) * r * r * r;
  }
  Three g{}, h{};
  for (int k = 0; k < 3; ++k) {
    const Kind& kind = kinds[k];
    const Doubles means = kind.sums(dmu), vars = kind.sums(dvar);
    for (std::size_t j = 0; j < means.size(); ++j) {
      g[k] += means[j] * kind.mean[j];
      h[k] += vars[j] * kind.var[j];
    }
    if (k == 2 && !p.training()) continue;
    for (std::size_t i = 0; i < count; ++i) {
      if (!counts[i]) continue;
      const std::size_t j = kind.group[i];
      e.dx[i] += (w[k] * means[j] + 2 * v[k] * (x[i] - kind.mean[j]) * vars[j]) / kind.size[j];
    }
  }
  for (int k = 0; k < 3; ++k) {
    e.dmean_weight.push_back(w[k] * (g[k] - w[0] * g[0] - w[1] * g[1] - w[2] * g[2]));
    e.dvar_weight.push_back(v[k] * (h[k] - v[0] * h[0] - v[1] * h[1] - v[2] * h[2]));
  }
  return e;
}

// Tolerance for sums over the tokens of a batch and the channels of a token, with rounding of each.
template <class A>
double tolerance(const Sizes& n) {
  return 2.5 * epsilon_of<A>() * std::sqrt(static_cast<double>(n.batch * n.tokens + n.channels));
}
// Stored results are rounded once more.
template <class T>
double stored_tolerance(const Sizes& n) {
  return tolerance<AccumulatorOf<T>>(n) + epsilon_of<T>() / 2;
}

}  // namespace dtn::test
