#include "kernels/norm/switchable_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "dtn/core/check.h"
#include "unit/kernels/errors.h"

DTN_RUN_ON_EACH_ISA(SwitchableNormStatistics)
DTN_RUN_ON_EACH_ISA(SwitchableNormForward)
DTN_RUN_ON_EACH_ISA(SwitchableNormBackwardSums)
DTN_RUN_ON_EACH_ISA(SwitchableNormBackward)

namespace dtn::test {
namespace {

struct Sizes {
  std::int64_t batch, tokens, channels;
  std::int64_t count() const { return batch * tokens * channels; }
};

enum class Mode { kTraining, kEvaluation };

// Inputs and outputs of the four kernels.
template <class T>
struct Problem {
  using A = AccumulatorOf<T>;
  Sizes n;
  Mode mode;
  double eps = 1e-5, momentum = 0.25;
  std::vector<T> x, y, dy, add, dx;
  std::vector<A> weight, bias, mean_weight, var_weight, running_mean, running_var;
  Doubles token_mean, image_mean, batch_mean;
  std::vector<A> token_var, image_var, batch_var, next_mean, next_var;
  std::vector<A> token_dmean, token_dvar, image_dmean, image_dvar, batch_dmean, batch_dvar;
  std::vector<A> dweight, dbias, dmean_weight, dvar_weight;

  Problem(Sizes sizes, Mode m, double x_mean = 0)
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
    a.positions = n.batch * n.tokens;
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

// The statistics of one kind, for every element, and the sums over the elements that share one.
struct Kind {
  std::vector<std::size_t> group;  // of each element
  Doubles mean, var, size;         // of each group

  Kind(const Doubles& x, std::vector<std::size_t> groups) : group(std::move(groups)) {
    const std::size_t count = 1 + *std::max_element(group.begin(), group.end());
    mean.resize(count), var.resize(count), size.resize(count);
    for (std::size_t i = 0; i < x.size(); ++i) mean[group[i]] += x[i], size[group[i]] += 1;
    for (std::size_t g = 0; g < count; ++g) mean[g] /= size[g];
    for (std::size_t i = 0; i < x.size(); ++i) var[group[i]] += std::pow(x[i] - mean[group[i]], 2);
    for (std::size_t g = 0; g < count; ++g) var[g] /= size[g];
  }
  Doubles sums(const Doubles& v) const {
    Doubles total(mean.size());
    for (std::size_t i = 0; i < v.size(); ++i) total[group[i]] += v[i];
    return total;
  }
};

struct Expected {
  Doubles y, dx, dweight, dbias, dmean_weight, dvar_weight, next_mean, next_var;
};

// From the formulas, in float64.
template <class T>
Expected reference(const Problem<T>& p) {
  const Doubles x = doubles(p.x), dy = doubles(p.dy), add = doubles(p.add);
  const std::size_t count = x.size(), T_ = p.n.tokens, C = p.n.channels;
  std::vector<std::size_t> image(count), token(count), channel(count);
  for (std::size_t i = 0; i < count; ++i) {
    channel[i] = i % C;
    token[i] = i / C;
    image[i] = i / C / T_ * C + i % C;
  }
  std::array<Kind, 3> kinds = {Kind(x, image), Kind(x, token), Kind(x, channel)};
  Expected e;
  for (std::size_t c = 0; c < C; ++c) {
    e.next_mean.push_back((1 - p.momentum) * p.next_mean[c] + p.momentum * kinds[2].mean[c]);
    e.next_var.push_back((1 - p.momentum) * p.next_var[c] + p.momentum * kinds[2].var[c]);
  }
  if (!p.training()) kinds[2].mean = doubles(p.running_mean), kinds[2].var = doubles(p.running_var);

  const Three w = softmax(p.mean_weight), v = softmax(p.var_weight);
  Doubles dmu(count), dvar(count);
  e.dweight.resize(C), e.dbias.resize(C);
  for (std::size_t i = 0; i < count; ++i) {
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

// Sums of as many terms as an image has tokens and a token channels, each rounded.
template <class A>
double tolerance(const Sizes& n) {
  return 2.5 * epsilon_of<A>() * std::sqrt(static_cast<double>(n.batch * n.tokens + n.channels));
}
// What is stored is rounded once more.
template <class T>
double stored_tolerance(const Sizes& n) {
  return tolerance<AccumulatorOf<T>>(n) + epsilon_of<T>() / 2;
}

template <class T>
void check(Problem<T>& p, Isa isa, double factor = 1) {
  SCOPED_TRACE(cat(name_of(isa), " ", name_of(DTypeOf<T>::value), " ", p.n.batch, " x ", p.n.tokens,
                   " x ", p.n.channels, p.training() ? " training" : " evaluation"));
  using A = AccumulatorOf<T>;
  const Expected e = reference(p);
  const double exact = factor * tolerance<A>(p.n), stored = factor * stored_tolerance<T>(p.n);
  const std::vector<A> next_mean = p.next_mean, next_var = p.next_var;
  p.run(isa);
  EXPECT_LE(error(doubles(p.y), e.y), stored);
  EXPECT_LE(error(doubles(p.dx), e.dx), stored);
  EXPECT_LE(error(doubles(p.dweight), e.dweight), exact);
  EXPECT_LE(error(doubles(p.dbias), e.dbias), exact);
  // What is left of inner products whose terms are as large as those of dweight.
  const double floor = largest(e.dweight);
  for (int k = 0; k < 3; ++k) {
    EXPECT_NEAR(p.dmean_weight[k], e.dmean_weight[k],
                exact * std::max(floor, largest(e.dmean_weight)));
    EXPECT_NEAR(p.dvar_weight[k], e.dvar_weight[k],
                exact * std::max(floor, largest(e.dvar_weight)));
  }
  if (p.training()) {
    EXPECT_LE(error(doubles(p.next_mean), e.next_mean), exact);
    EXPECT_LE(error(doubles(p.next_var), e.next_var), exact);
  } else {
    EXPECT_TRUE(same_bits(p.next_mean, next_mean) && same_bits(p.next_var, next_var));
  }
}

constexpr Mode kModes[] = {Mode::kTraining, Mode::kEvaluation};

using Types = ::testing::Types<float, bfloat16, double>;
template <class T>
class SwitchableNorm : public ::testing::Test {};
TYPED_TEST_SUITE(SwitchableNorm, Types);

TYPED_TEST(SwitchableNorm, MatchesTheFormulas) {
  // Whole and broken vectors, groups of rows and pieces; more images than pieces; a single token.
  const Sizes sizes[] = {{2, 196, 48}, {1, 197, 67}, {3, 35, 100},
                         {70, 2, 5},   {5, 1, 16},   {1, 1, 24}};
  for (Isa isa : isas()) {
    for (const Sizes& n : sizes) {
      for (Mode mode : kModes) {
        Problem<TypeParam> p(n, mode);
        check(p, isa);
      }
    }
  }
}

TYPED_TEST(SwitchableNorm, ZeroWeightAndConstantRows) {
  for (Isa isa : isas()) {
    for (Mode mode : kModes) {
      Problem<TypeParam> zero({3, 19, 50}, mode);
      std::fill(zero.weight.begin(), zero.weight.end(), 0);
      check(zero, isa);
      EXPECT_GT(largest(doubles(zero.dweight)), 1);
      // One image, and some tokens of another, are constant.
      Problem<TypeParam> constant({3, 19, 50}, mode);
      std::fill_n(constant.x.begin(), 25 * 50, static_cast<TypeParam>(3.0f));
      check(constant, isa);
    }
  }
}

// The variances are zero, so eps carries the division.
TYPED_TEST(SwitchableNorm, ConstantInput) {
  for (Isa isa : isas()) {
    Problem<TypeParam> p({2, 19, 50}, Mode::kTraining);
    std::fill(p.x.begin(), p.x.end(), static_cast<TypeParam>(3.0f));
    p.run(isa);
    EXPECT_LE(error(doubles(p.y), reference(p).y), stored_tolerance<TypeParam>(p.n));
    EXPECT_EQ(largest(doubles(p.batch_var)), 0);
    EXPECT_EQ(largest(doubles(p.dweight)), 0);
    EXPECT_TRUE(std::isfinite(largest(doubles(p.dx))));
  }
}

TEST(SwitchableNormNumerics, LargeMean) {
  for (Isa isa : isas()) {
    for (Mode mode : kModes) {
      for (double mean : {1e3, -1e3}) {
        Problem<float> p({3, 49, 100}, mode, mean);
        check(p, isa);
      }
    }
  }
}

// Channels far from each other, each normalized by itself.
TEST(SwitchableNormNumerics, LargeMeansOfChannels) {
  for (Isa isa : isas()) {
    for (int kind : {0, 2}) {
      Problem<float> p({3, 49, 100}, Mode::kTraining);
      for (std::size_t i = 0; i < p.x.size(); ++i) {
        const auto c = static_cast<float>(i % 100);
        p.x[i] = p.x[i] + (c - 50) * 20;
      }
      p.mean_weight = p.var_weight = {0, 0, 0};
      p.mean_weight[kind] = p.var_weight[kind] = 1000;
      check(p, isa);
    }
  }
}

TYPED_TEST(SwitchableNorm, SameBitsForAnyNumberOfThreads) {
  for (Isa isa : isas()) {
    for (const Sizes& n : {Sizes{4, 197, 70}, Sizes{1, 300, 130}}) {
      Threads serial(1);
      Problem<TypeParam> one(n, Mode::kTraining);
      one.run(isa);
      for (int threads : kThreadCounts) {
        Threads parallel(threads);
        Problem<TypeParam> many(n, Mode::kTraining);
        many.run(isa);
        EXPECT_TRUE(same_bits(many.y, one.y) && same_bits(many.dx, one.dx) &&
                    same_bits(many.dweight, one.dweight) && same_bits(many.dbias, one.dbias) &&
                    same_bits(many.dmean_weight, one.dmean_weight) &&
                    same_bits(many.dvar_weight, one.dvar_weight) &&
                    same_bits(many.next_var, one.next_var))
            << name_of(isa) << ", " << threads << " threads";
      }
    }
  }
}

TYPED_TEST(SwitchableNorm, AddsAndMayWorkInPlace) {
  using A = AccumulatorOf<TypeParam>;
  for (Isa isa : isas()) {
    Problem<TypeParam> plain({2, 21, 37}, Mode::kTraining), other = plain;
    plain.run(isa);
    other.run(isa);
    SwitchableNormBackward args = other.backward();
    args.dx = other.add.data();
    run_on(isa, args);
    EXPECT_TRUE(same_bits(other.add, plain.dx));

    args.dx = plain.dx.data();
    args.dx_add = nullptr;
    run_on(isa, args);
    args.dx = other.dy.data();
    run_on(isa, args);
    EXPECT_TRUE(same_bits(other.dy, plain.dx));
    EXPECT_FALSE(same_bits(other.add, plain.dx));

    // Parameter gradients are added to, and left alone where nobody wants them.
    SwitchableNormBackwardSums sums = plain.sums();
    run_on(isa, sums);
    for (std::size_t c = 0; c < 37; ++c) {
      EXPECT_NEAR(plain.dweight[c], 2 * other.dweight[c], 64 * epsilon_of<A>());
      EXPECT_NEAR(plain.dbias[c], 2 * other.dbias[c], 64 * epsilon_of<A>());
    }
    for (int k = 0; k < 3; ++k) {
      EXPECT_EQ(plain.dmean_weight[k], 2 * other.dmean_weight[k]);
      EXPECT_EQ(plain.dvar_weight[k], 2 * other.dvar_weight[k]);
    }
    sums.dweight = sums.dbias = sums.dmean_weight = sums.dvar_weight = nullptr;
    const std::vector<A> before = plain.dweight;
    std::fill(plain.batch_dvar.begin(), plain.batch_dvar.end(), 0);
    run_on(isa, sums);
    EXPECT_TRUE(same_bits(plain.dweight, before));
    EXPECT_TRUE(same_bits(plain.batch_dvar, other.batch_dvar));
  }
}

// Two ranks with half the batch each, combined between the steps as the contract says, do what one
// does with all of it.
TEST(SwitchableNormRanks, CombineBetweenTheSteps) {
  Problem<double> whole({6, 11, 20}, Mode::kTraining);
  const Isa isa = current_isa();
  whole.run(isa);
  std::vector<Problem<double>> ranks(2, Problem<double>({3, 11, 20}, Mode::kTraining));
  const std::size_t half = whole.x.size() / 2;
  for (std::size_t k = 0; k < 2; ++k) {
    Problem<double>& p = ranks[k];
    auto cut = [&](const Doubles& from, Doubles& to) {
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(k * half), half, to.begin());
    };
    cut(whole.x, p.x), cut(whole.dy, p.dy), cut(whole.add, p.add);
    run_on(isa, SwitchableNormStatistics{p.terms()});
  }
  for (std::size_t c = 0; c < 20; ++c) {
    double mean = 0, var = 0;
    for (Problem<double>& p : ranks) mean += p.batch_mean[c] / 2;
    for (Problem<double>& p : ranks)
      var += (p.batch_var[c] + std::pow(p.batch_mean[c] - mean, 2)) / 2;
    for (Problem<double>& p : ranks) p.batch_mean[c] = mean, p.batch_var[c] = var;
  }
  for (Problem<double>& p : ranks) {
    run_on(isa, p.forward());
    run_on(isa, p.sums());
  }
  for (Doubles Problem<double>::*sum :
       {&Problem<double>::batch_dmean, &Problem<double>::batch_dvar}) {
    for (std::size_t c = 0; c < 20; ++c) {
      (ranks[0].*sum)[c] = (ranks[1].*sum)[c] = (ranks[0].*sum)[c] + (ranks[1].*sum)[c];
    }
  }
  Doubles y, dx;
  for (Problem<double>& p : ranks) {
    SwitchableNormBackward args = p.backward();
    args.positions *= 2;
    run_on(isa, args);
    y.insert(y.end(), p.y.begin(), p.y.end());
    dx.insert(dx.end(), p.dx.begin(), p.dx.end());
    EXPECT_LE(error(p.next_mean, whole.next_mean), 1e-14);
    EXPECT_LE(error(p.next_var, whole.next_var), 1e-14);
  }
  EXPECT_LE(error(y, whole.y), 1e-13);
  EXPECT_LE(error(dx, whole.dx), 1e-13);
  for (int k = 0; k < 3; ++k) {
    EXPECT_NEAR(ranks[0].dmean_weight[k] + ranks[1].dmean_weight[k], whole.dmean_weight[k], 1e-11);
    EXPECT_NEAR(ranks[0].dvar_weight[k] + ranks[1].dvar_weight[k], whole.dvar_weight[k], 1e-11);
  }
}

// In evaluation images know nothing of each other.
TEST(SwitchableNormNumerics, NaNStaysInItsImage) {
  for (Isa isa : isas()) {
    Problem<float> p({3, 9, 21}, Mode::kEvaluation);
    p.x[9 * 21 + 4 * 21 + 7] = NAN;
    p.run(isa);
    for (std::size_t i = 0; i < p.y.size(); ++i) {
      const std::size_t image = i / (9 * 21), token = i / 21 % 9, channel = i % 21;
      EXPECT_EQ(std::isnan(p.y[i]), image == 1 && (token == 4 || channel == 7)) << i;
      EXPECT_EQ(std::isnan(p.dx[i]), image == 1) << i;
    }
  }
}

TEST(SwitchableNormErrors, NothingToDoAndIntegers) {
  Problem<float> empty({0, 4, 4}, Mode::kTraining);
  empty.run(current_isa());
  Problem<float> p({2, 4, 4}, Mode::kTraining);
  SwitchableNormForward args = p.forward();
  args.terms.dtype = DType::kInt64;
  EXPECT_THROW(run(cpu_queue(), args), Error);
}

}  // namespace
}  // namespace dtn::test
