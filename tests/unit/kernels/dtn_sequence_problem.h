// Padded sequences for DTN along a line. The dense oracle runs on the valid tokens of each sample;
// the kernels run on all samples with their pads.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/dtn_sequence/dtn_sequence.h"
#include "unit/kernels/dtn_problem.h"

DTN_RUN_ON_EACH_ISA(DtnSequenceForward)
DTN_RUN_ON_EACH_ISA(DtnSequenceBackward)

namespace dtn::test {

using Lengths = std::vector<std::int64_t>;

struct SequenceProblem {
  DenseDtn all;  // [B, T, C]; its values at pads are unused
  Lengths lengths;

  int tokens() const { return all.grid_w; }
  DenseDtn sample(int b) const {
    DenseDtn one = all;
    one.batch = 1;
    one.grid_w = static_cast<int>(lengths[static_cast<std::size_t>(b)]);
    one.x = valid(all.x, b);
    return one;
  }
  // Valid tokens of sample b of values [B, T, C].
  Doubles valid(const Doubles& values, int b) const {
    const auto begin = values.begin() + std::int64_t{b} * tokens() * all.channels;
    return {begin, begin + lengths[static_cast<std::size_t>(b)] * all.channels};
  }
  void put(const Doubles& of_sample, int b, Doubles& values) const {
    std::copy(of_sample.begin(), of_sample.end(),
              values.begin() + std::int64_t{b} * tokens() * all.channels);
  }

  // Returns y; pads are 0.
  Doubles forward() const {
    Doubles y(all.x.size());
    for (int b = 0; b < all.batch; ++b) put(sample(b).forward(), b, y);
    return y;
  }
  // positions: receives, for each position weight, the largest gradient of any sample.
  DenseDtn::Gradients backward(const Doubles& dy, Doubles* positions = nullptr) const {
    if (positions) positions->assign(all.pos_weight.size(), 0);
    DenseDtn::Gradients sum{Doubles(all.x.size()),
                            Doubles(all.weight.size()),
                            Doubles(all.bias.size()),
                            Doubles(all.lambda_mean.size()),
                            Doubles(all.lambda_var.size()),
                            Doubles(all.pos_weight.size()),
                            {}};
    for (int b = 0; b < all.batch; ++b) {
      const DenseDtn::Gradients one = sample(b).backward(valid(dy, b));
      put(one.x, b, sum.x);
      for (std::size_t i = 0; positions && i < positions->size(); ++i) {
        (*positions)[i] = std::max((*positions)[i], std::fabs(one.pos_weight[i]));
      }
      for (const NamedGradient& g : kGradients) {
        if (g.member == &DenseDtn::Gradients::x) continue;
        for (std::size_t i = 0; i < (sum.*g.member).size(); ++i) {
          (sum.*g.member)[i] += (one.*g.member)[i];
        }
      }
    }
    return sum;
  }
};

// Position weights (x, y, d) of heads whose windows look ahead by `delta` or more.
//     ahead = delta + 0.75 h
//     a_d < 0:   a_x = -2 a_d ahead
//     a_d >= 0:  a_x = ahead / 80
// a_x has the opposite sign in the official variant.
inline Doubles line_positions(int heads, double a_d, double delta, bool official) {
  Doubles weights;
  for (int h = 0; h < heads; ++h) {
    const double ahead = delta + 0.75 * h, a_x = a_d < 0 ? -2 * a_d * ahead : 0.0125 * ahead;
    weights.insert(weights.end(), {official ? -a_x : a_x, 0.3, a_d});
  }
  return weights;
}

// Samples with these lengths, padded to `tokens`.
template <class T>
SequenceProblem make_sequence(const Lengths& lengths, int tokens, int channels, int heads,
                              double a_d, double delta, DtnVariant variant) {
  SequenceProblem p{make_content<T>(static_cast<int>(lengths.size()), 1, tokens, channels, heads,
                                    variant, 1, 0.3),
                    lengths};
  using A = AccumulatorOf<T>;
  for (double v : line_positions(heads, a_d, delta, variant == DtnVariant::kOfficial)) {
    p.all.pos_weight.push_back(static_cast<A>(v));
  }
  return p;
}

// Padded samples with all kinds of windows.
template <class T>
SequenceProblem padded_problem(int tokens, DtnVariant variant) {
  SequenceProblem p = make_sequence<T>({70, 1, 133, 12}, tokens, 30, 6, -1, 0, variant);
  p.all.pos_weight = {3,   0, -1, -80, 0, -1,      0.25, 0, -0.015625,
                      0.5, 0, 0,  0,   0, 0.03125, 900,  0, -0.0078125};
  return p;
}

// Inputs and outputs of the kernels. `pad` fills x and dy at the pads.
template <class T>
struct FusedSequence {
  using A = AccumulatorOf<T>;
  Lengths lengths;
  std::vector<T> x, y, dy, dx;
  std::vector<A> weight, bias, lambda_mean, lambda_var, pos_weight;
  std::vector<A> token_mean, token_var, pivot;
  std::vector<double> head_rstd;
  std::vector<A> dweight, dbias, dlambda_mean, dlambda_var, dpos_weight;
  DtnSequenceForward forward{};
  DtnSequenceBackward backward{};

  FusedSequence(const SequenceProblem& p, const Doubles& cotangent,
                double pad = std::numeric_limits<double>::quiet_NaN())
      : lengths(p.lengths),
        x(to<T>(padded(p, p.all.x, pad))),
        y(x.size(), static_cast<T>(7.0f)),
        dy(to<T>(padded(p, cotangent, pad))),
        dx(x.size(), static_cast<T>(7.0f)),
        weight(to<A>(p.all.weight)),
        bias(to<A>(p.all.bias)),
        lambda_mean(to<A>(p.all.lambda_mean)),
        lambda_var(to<A>(p.all.lambda_var)),
        pos_weight(to<A>(p.all.pos_weight)),
        token_mean(p.all.batch * p.tokens()),
        token_var(token_mean.size()),
        pivot(p.all.batch * p.all.channels),
        head_rstd(p.all.official ? token_mean.size() * p.all.heads : 0),
        dweight(p.all.channels),
        dbias(p.all.channels),
        dlambda_mean(p.all.heads),
        dlambda_var(p.all.heads),
        dpos_weight(3 * p.all.heads) {
    auto common = [&](auto& n) {
      n.dtype = DTypeOf<T>::value;
      n.batch = p.all.batch;
      n.grid_h = 1;
      n.grid_w = p.tokens();
      n.channels = p.all.channels;
      n.heads = p.all.heads;
      n.eps = p.all.eps;
      n.variant = p.all.official ? DtnVariant::kOfficial : DtnVariant::kPaper;
      n.x = x.data();
      n.weight = weight.data();
      n.lambda_mean = lambda_mean.data();
      n.lambda_var = lambda_var.data();
      n.pos_weight = pos_weight.data();
      n.token_mean = token_mean.data();
      n.token_var = token_var.data();
      n.pivot = pivot.data();
      n.head_rstd = p.all.official ? head_rstd.data() : nullptr;
    };
    common(forward.norm);
    common(backward.norm);
    forward.lengths = backward.lengths = lengths.data();
    forward.norm.bias = bias.data();
    forward.norm.y = y.data();
    backward.norm.dy = dy.data();
    backward.norm.dx = dx.data();
    backward.norm.dweight = dweight.data();
    backward.norm.dbias = dbias.data();
    backward.norm.dlambda_mean = dlambda_mean.data();
    backward.norm.dlambda_var = dlambda_var.data();
    backward.norm.dpos_weight = dpos_weight.data();
  }
  FusedSequence(const FusedSequence&) = delete;  // the argument structs point into this object

  void run(Isa isa) {
    run_on(isa, forward);
    run_on(isa, backward);
  }
  DenseDtn::Gradients gradients() const {
    return {doubles(dx),
            doubles(dweight),
            doubles(dbias),
            doubles(dlambda_mean),
            doubles(dlambda_var),
            doubles(dpos_weight),
            {}};
  }
  // Valid tokens of sample b of values [B, T, C].
  std::vector<T> valid(const std::vector<T>& values, int b) const {
    const std::int64_t size = forward.norm.grid_w * forward.norm.channels;
    const auto begin = values.begin() + b * size;
    return {begin, begin + lengths[static_cast<std::size_t>(b)] * forward.norm.channels};
  }
  bool same_parameters(const FusedSequence& o) const {
    return same_bits(dweight, o.dweight) && same_bits(dbias, o.dbias) &&
           same_bits(dlambda_mean, o.dlambda_mean) && same_bits(dlambda_var, o.dlambda_var) &&
           same_bits(dpos_weight, o.dpos_weight);
  }

  static Doubles padded(const SequenceProblem& p, const Doubles& values, double pad) {
    Doubles out(values.size(), pad);
    for (int b = 0; b < p.all.batch; ++b) p.put(p.valid(values, b), b, out);
    return out;
  }
};

inline std::string sequence_text(const SequenceProblem& p) {
  std::string text = cat(shape_text(p.all), " lengths");
  for (std::int64_t n : p.lengths) text += cat(" ", n);
  text += " positions";
  for (double a : p.all.pos_weight) text += cat(" ", a);
  return text;
}

}  // namespace dtn::test
