#include "kernels/norm/switchable_norm.h"

#include <algorithm>
#include <numeric>

#include "cuda/twin.h"

namespace dtn::test {
namespace {

constexpr DType kFloat = DType::kFloat32;
enum class Mode { kTraining, kEvaluation };

struct Sizes {
  std::int64_t batch, tokens, channels;
};
using Lengths = std::vector<std::int64_t>;

// Inputs and outputs of the four kernels, on both sides. Activations begin `shift` elements into
// their memory. With shift 1 no vector load can read them.
struct Problem {
  DType dtype;
  Sizes n;
  Mode mode;
  std::int64_t shift;
  Twin x, dy, add, weight, bias, mean_weight, var_weight, running_mean, running_var;
  Twin token_mean, token_var, image_mean, image_var, batch_mean, batch_var;
  Twin token_dmean, token_dvar, image_dmean, image_dvar, batch_dmean, batch_dvar;
  Twin y, dx, next_mean, next_var, dweight, dbias, dmean_weight, dvar_weight;
  Twin lengths;  // per sample; undefined: all tokens are valid

  Problem(DType d, Sizes sizes, Mode m = Mode::kTraining, double x_mean = 0,
          std::int64_t shifted = 0)
      : dtype(d), n(sizes), mode(m), shift(shifted) {
    const Shape c = {n.channels};
    x = random_twin(activation(), d, 1, 1.7, x_mean);
    dy = random_twin(activation(), d, 2);
    add = random_twin(activation(), d, 3);
    weight = random_twin(c, kFloat, 4, 0.5, 1);
    bias = random_twin(c, kFloat, 5);
    mean_weight = random_twin({3}, kFloat, 6);
    var_weight = random_twin({3}, kFloat, 7);
    running_mean = random_twin(c, kFloat, 8, 1, x_mean);
    running_var = random_twin(c, kFloat, 9, 0.4, 1);
    next_mean = Twin::accumulated(c, kFloat, 10);
    next_var = Twin::accumulated(c, kFloat, 11);
    dweight = Twin::accumulated(c, kFloat, 12);
    dbias = Twin::accumulated(c, kFloat, 13);
    dmean_weight = Twin::accumulated({3}, kFloat, 14);
    dvar_weight = Twin::accumulated({3}, kFloat, 15);
    make_outputs();
  }

  // The same numbers, to be computed in float64.
  Problem in_float64() const {
    Problem p = *this;
    p.dtype = DType::kFloat64;
    for (Twin* t : {&p.x, &p.dy, &p.add, &p.weight, &p.bias, &p.mean_weight, &p.var_weight,
                    &p.running_mean, &p.running_var, &p.next_mean, &p.next_var, &p.dweight,
                    &p.dbias, &p.dmean_weight, &p.dvar_weight}) {
      *t = Twin(as(t->host(), DType::kFloat64));
    }
    p.make_outputs();
    return p;
  }

  // Sets the lengths of the samples, and sets x and dy to NaN in the padding.
  void pad(const Lengths& to) {
    lengths = Twin(Tensor::from(to, {n.batch}));
    for (Twin* t : {&x, &dy}) {
      Doubles values = doubles(t->host());
      for (std::int64_t b = 0; b < n.batch; ++b) {
        for (std::int64_t i = to[static_cast<std::size_t>(b)]; i < n.tokens; ++i) {
          std::fill_n(values.begin() + (b * n.tokens + i) * n.channels + shift, n.channels, NAN);
        }
      }
      *t = Twin(from_doubles(values, activation(), dtype));
    }
  }

  Shape activation() const { return {n.batch * n.tokens * n.channels + shift}; }
  void make_outputs() {
    const DType acc = accumulator_of(dtype);
    const Shape tokens = {n.batch, n.tokens}, images = {n.batch, n.channels}, c = {n.channels};
    for (Twin* t : {&y, &dx}) *t = Twin::output(activation(), dtype);
    token_mean = Twin::output(tokens, DType::kFloat64);
    image_mean = Twin::output(images, DType::kFloat64);
    batch_mean = Twin::output(c, DType::kFloat64);
    for (Twin* t : {&token_var, &token_dmean, &token_dvar}) *t = Twin::output(tokens, acc);
    for (Twin* t : {&image_var, &image_dmean, &image_dvar}) *t = Twin::output(images, acc);
    for (Twin* t : {&batch_var, &batch_dmean, &batch_dvar}) *t = Twin::output(c, acc);
  }
  void* at(const Twin& t, Where w) const {
    return static_cast<std::byte*>(t.at(w)) + static_cast<std::size_t>(shift) * size_of(dtype);
  }

  SwitchableTerms terms(Where w) const {
    SwitchableTerms t{};
    t.dtype = dtype;
    t.batch = n.batch, t.tokens = n.tokens, t.channels = n.channels;
    t.eps = 1e-5;
    t.x = at(x, w);
    t.mean_weight = mean_weight.at(w), t.var_weight = var_weight.at(w);
    t.token_mean = token_mean.at(w), t.token_var = token_var.at(w);
    t.image_mean = image_mean.at(w), t.image_var = image_var.at(w);
    if (mode == Mode::kTraining) {
      t.batch_mean = batch_mean.at(w), t.batch_var = batch_var.at(w);
    } else {
      t.running_mean = running_mean.at(w), t.running_var = running_var.at(w);
    }
    if (!lengths.host().defined()) return t;
    const auto counts = lengths.host().values<std::int64_t>();
    t.lengths = static_cast<const std::int64_t*>(lengths.at(w));
    t.longest = std::ranges::max(counts);
    t.valid = std::reduce(counts.begin(), counts.end());
    return t;
  }
  SwitchableNormForward forward(Where w) const {
    SwitchableNormForward a{};
    a.terms = terms(w);
    a.weight = weight.at(w), a.bias = bias.at(w), a.y = at(y, w);
    a.momentum = 0.25;
    if (mode == Mode::kTraining) a.next_mean = next_mean.at(w), a.next_var = next_var.at(w);
    return a;
  }
  SwitchableNormBackwardSums sums(Where w) const {
    SwitchableNormBackwardSums a{};
    a.terms = terms(w);
    a.weight = weight.at(w), a.dy = at(dy, w);
    a.token_dmean = token_dmean.at(w), a.token_dvar = token_dvar.at(w);
    a.image_dmean = image_dmean.at(w), a.image_dvar = image_dvar.at(w);
    a.batch_dmean = batch_dmean.at(w), a.batch_dvar = batch_dvar.at(w);
    a.dweight = dweight.at(w), a.dbias = dbias.at(w);
    a.dmean_weight = dmean_weight.at(w), a.dvar_weight = dvar_weight.at(w);
    return a;
  }
  SwitchableNormBackward backward(Where w) const {
    SwitchableNormBackward a{};
    a.terms = terms(w);
    a.weight = weight.at(w), a.dy = at(dy, w);
    a.token_dmean = token_dmean.at(w), a.token_dvar = token_dvar.at(w);
    a.image_dmean = image_dmean.at(w), a.image_dvar = image_dvar.at(w);
    a.batch_dmean = batch_dmean.at(w), a.batch_dvar = batch_dvar.at(w);
    a.positions = a.terms.rows();
    a.dx_add = at(add, w), a.dx = at(dx, w);
    return a;
  }

  std::vector<Tensor> results() const {
    std::vector<Tensor> r;
    for (const Twin* t :
         {&token_mean, &token_var, &image_mean, &image_var, &y, &token_dmean, &token_dvar,
          &image_dmean, &image_dvar, &dx, &dweight, &dbias, &dmean_weight, &dvar_weight}) {
      r.push_back(t->device());
    }
    for (const Twin* t : {&batch_mean, &batch_var, &next_mean, &next_var}) {
      if (mode == Mode::kTraining) r.push_back(t->device());
    }
    return r;
  }
};

template <class Queue>
void run_all(Queue& queue, const Problem& p, Where w) {
  run(queue, SwitchableNormStatistics{p.terms(w)});
  run(queue, p.forward(w));
  run(queue, p.sums(w));
  run(queue, p.backward(w));
}

// Compares all kernels of the device and of the host with float64, within the same bounds. Where
// the sum of a gradient cancels, its error is relative to the largest term of the sum.
void check(const Problem& p) {
  const Sizes& n = p.n;
  const std::string name =
      cat(n.batch, " x ", n.tokens, " x ", n.channels, p.shift ? " shifted" : "",
          p.mode == Mode::kTraining ? " training" : " evaluation",
          p.lengths.host().defined() ? " padded" : "");
  SCOPED_TRACE(cat(name_of(p.dtype), " ", name));
  const Problem exact = p.in_float64();
  run_all(cpu_queue(), exact, kOnHost);
  run_all(cpu_queue(), p, kOnHost);
  run_all(cuda_queue(), p, kOnDevice);
  auto near = [&](const char* what, const Twin& got, const Twin& want, DType stored,
                  std::int64_t terms, double floor = 1e-30) {
    const double bound = rounding_bound(stored, terms);
    expect_close("switchable_norm", cat(what, " ", name), got.device(), doubles(want.host()), bound,
                 floor);
    EXPECT_LE(relative_error(doubles(got.host()), doubles(want.host()), floor), bound) << what;
  };
  const std::int64_t all = n.batch * n.tokens;
  const bool padded = p.lengths.host().defined();  // statistics of the padding are not written
  if (!padded) near("token_mean", p.token_mean, exact.token_mean, kFloat, n.channels, 1);
  if (!padded) near("token_var", p.token_var, exact.token_var, kFloat, n.channels);
  near("image_mean", p.image_mean, exact.image_mean, kFloat, n.tokens, 1);
  near("image_var", p.image_var, exact.image_var, kFloat, n.tokens, 0.1);
  if (p.mode == Mode::kTraining) {
    near("batch_mean", p.batch_mean, exact.batch_mean, kFloat, all, 1);
    near("batch_var", p.batch_var, exact.batch_var, kFloat, all, 0.1);
    near("next_mean", p.next_mean, exact.next_mean, kFloat, all, 1);
    near("next_var", p.next_var, exact.next_var, kFloat, all);
  }
  const std::int64_t mixed = all + n.channels;
  near("y", p.y, exact.y, p.dtype, mixed);
  // dx and the sums of the terms dy weight r are differences of terms of this size.
  const double rstd =
      1e-30 + 2 * max_abs(doubles(exact.weight.host())) /
                  std::sqrt(1e-5 + (padded ? 1 : max_abs(doubles(exact.token_var.host()))));
  near("dx", p.dx, exact.dx, p.dtype, mixed, rstd);
  if (!padded) near("token_dmean", p.token_dmean, exact.token_dmean, kFloat, mixed, rstd);
  if (!padded) near("token_dvar", p.token_dvar, exact.token_dvar, kFloat, mixed, rstd);
  near("image_dmean", p.image_dmean, exact.image_dmean, kFloat, mixed, rstd);
  near("image_dvar", p.image_dvar, exact.image_dvar, kFloat, mixed, rstd);
  near("batch_dmean", p.batch_dmean, exact.batch_dmean, kFloat, mixed, rstd);
  near("batch_dvar", p.batch_dvar, exact.batch_dvar, kFloat, mixed, rstd);
  near("dweight", p.dweight, exact.dweight, kFloat, mixed, 1);
  near("dbias", p.dbias, exact.dbias, kFloat, all, 1);
  const double largest = max_abs(doubles(exact.dweight.host()));
  near("dmean_weight", p.dmean_weight, exact.dmean_weight, kFloat, mixed, largest);
  near("dvar_weight", p.dvar_weight, exact.dvar_weight, kFloat, mixed, largest);
}

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16};
const Mode kModes[] = {Mode::kTraining, Mode::kEvaluation};

TEST(CudaSwitchableNorm, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  // Threads with four channels and with one; one warp, several warps and several blocks per row;
  // incomplete rows, pieces and columns; more images than groups of threads; a single token.
  const Sizes sizes[] = {{2, 37, 132}, {1, 197, 20}, {1, 19, 259}, {67, 3, 12}, {3, 1, 20}};
  for (DType dtype : kTypes) {
    for (const Sizes& n : sizes) {
      for (Mode mode : kModes) check(Problem(dtype, n, mode));
    }
    check(Problem(dtype, {2, 17, 44}, Mode::kTraining, 0, 1));
    check(Problem(dtype, {1, 1, 24}));
  }
  check(Problem(kFloat, {1, 2, 1032}));
}

// Samples shorter than a piece, with one token, in several pieces and in several blocks.
TEST(CudaSwitchableNorm, IgnoresPadding) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::pair<Sizes, Lengths> cases[] = {{{3, 60, 36}, {45, 1, 18}},
                                             {{2, 37, 132}, {37, 5}},
                                             {{1, 19, 259}, {17}},
                                             {{2, 9, 1032}, {3, 2}}};
  for (DType dtype : kTypes) {
    for (const auto& [n, lengths] : cases) {
      for (Mode mode : kModes) {
        Problem p(dtype, n, mode);
        p.pad(lengths);
        check(p);
      }
    }
  }
}

TEST(CudaSwitchableNorm, LargeMean) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (Mode mode : kModes) {
    check(Problem(kFloat, {2, 23, 68}, mode, 1e3));
    check(Problem(kFloat, {2, 23, 67}, mode, -1e3));
    check(Problem(DType::kBFloat16, {2, 23, 68}, mode, 1e3));
  }
}

TEST(CudaSwitchableNorm, SingleStatisticsKind) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (int kind = 0; kind < 3; ++kind) {
    Problem p(kFloat, {3, 18, 36});
    Doubles logits(3, -1000);
    logits[static_cast<std::size_t>(kind)] = 1000;
    p.mean_weight = p.var_weight = Twin(from_doubles(logits, {3}, kFloat));
    check(p);
  }
}

TEST(CudaSwitchableNorm, ZeroWeightAndConstantRows) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    Problem zero(dtype, {2, 19, 50});
    zero.weight = Twin(as(Tensor::full({50}, DType::kFloat64, 0), kFloat));
    check(zero);
    Problem constant(dtype, {3, 19, 50});  // one image, and some tokens of another
    Doubles x = doubles(constant.x.host());
    std::fill_n(x.begin(), 25 * 50, 3.0);
    constant.x = Twin(from_doubles(x, constant.activation(), dtype));
    check(constant);
  }
}

TEST(CudaSwitchableNorm, SameBitsUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Sizes& n : {Sizes{2, 21, 132}, Sizes{1, 5, 259}}) {
    under_every_schedule([&] {
      Problem p(kFloat, n);
      run_all(cuda_queue(), p, kOnDevice);
      return p.results();
    });
  }
  under_every_schedule([] {
    Problem p(kFloat, {2, 41, 132});
    p.pad({33, 6});
    run_all(cuda_queue(), p, kOnDevice);
    return p.results();
  });
}

TEST(CudaSwitchableNorm, RunsInPlaceAndSkipsNullOutputs) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    Problem apart(dtype, {2, 9, 36}), other(dtype, {2, 9, 36});
    run_all(cuda_queue(), apart, kOnDevice);
    run(cuda_queue(), SwitchableNormStatistics{other.terms(kOnDevice)});
    SwitchableNormForward still = other.forward(kOnDevice);
    still.next_mean = still.next_var = nullptr;
    run(cuda_queue(), still);
    EXPECT_TRUE(same_bits(other.y.device(), apart.y.device()));
    EXPECT_TRUE(same_bits(other.next_var.device(), other.next_var.host()));
    SwitchableNormBackwardSums sums = other.sums(kOnDevice);
    sums.dweight = sums.dbias = sums.dmean_weight = sums.dvar_weight = nullptr;
    run(cuda_queue(), sums);
    EXPECT_TRUE(same_bits(other.image_dvar.device(), apart.image_dvar.device()));
    EXPECT_TRUE(same_bits(other.dweight.device(), other.dweight.host()));
    EXPECT_TRUE(same_bits(other.dvar_weight.device(), other.dvar_weight.host()));
    SwitchableNormBackward over_add = other.backward(kOnDevice);
    over_add.dx = const_cast<void*>(over_add.dx_add);
    run(cuda_queue(), over_add);
    EXPECT_TRUE(same_bits(other.add.device(), apart.dx.device()));

    SwitchableNormBackward without = apart.backward(kOnDevice);
    without.dx_add = nullptr;
    run(cuda_queue(), without);
    SwitchableNormBackward over_dy = other.backward(kOnDevice);
    over_dy.dx_add = nullptr;
    over_dy.dx = const_cast<void*>(over_dy.dy);
    run(cuda_queue(), over_dy);
    EXPECT_TRUE(same_bits(other.dy.device(), apart.dx.device()));
  }
}

// In evaluation the images are independent of each other.
TEST(CudaSwitchableNorm, NaNStaysInItsImage) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t channels : {20, 21}) {
    Problem p(kFloat, {3, 9, channels}, Mode::kEvaluation);
    Doubles x = doubles(p.x.host());
    x[static_cast<std::size_t>((9 + 4) * channels + 7)] = NAN;
    p.x = Twin(from_doubles(x, p.activation(), kFloat));
    run_all(cuda_queue(), p, kOnDevice);
    const Doubles y = doubles(p.y.device()), dx = doubles(p.dx.device());
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const bool image = at / (9 * channels) == 1;
      EXPECT_EQ(std::isnan(y[i]), image && (at / channels % 9 == 4 || at % channels == 7)) << i;
      EXPECT_EQ(std::isnan(dx[i]), image) << i;
    }
  }
}

TEST(CudaSwitchableNorm, AcceptsEmptyInputAndRejectsFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Sizes& n : {Sizes{0, 4, 8}, Sizes{2, 0, 8}, Sizes{2, 4, 0}}) {
    Problem empty(kFloat, {1, 1, 8});
    empty.n = n;
    run_all(cuda_queue(), empty, kOnDevice);
    EXPECT_TRUE(same_bits(empty.dweight.device(), empty.dweight.host()));
  }
  SwitchableNormForward wrong = Problem(kFloat, {1, 2, 8}).forward(kOnDevice);
  wrong.terms.dtype = DType::kFloat64;
  EXPECT_THROW(run(cuda_queue(), wrong), Error);
}

}  // namespace
}  // namespace dtn::test
