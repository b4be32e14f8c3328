// Figures with one number per head and layer.
#include <cmath>

#include "apps/report/figure_groups.h"
#include "apps/report/head_dots.h"

namespace dtn::drawing {
namespace {

void add_dots(const FigureInput& in, HeadDots what, Figures& out) {
  what.data = in.data;
  if (auto figure = draw_head_dots(in.runs, std::move(what))) out.push_back(std::move(*figure));
}

// Expands a single number to all layers, or reads one number per layer.
std::vector<double> per_layer(const AnalysisJson& value, std::size_t depth) {
  std::vector<double> out = numbers_of(value);
  if (!value.is_array()) out.assign(depth, number_of(value));
  out.resize(depth, plot::kMissing);
  return out;
}

Reference uniform_distance(const FigureInput& in) {
  Reference reference{"equal attention to all patches", {}};
  for (const AnalyzedRun& run : in.runs) {
    reference.values.push_back({per_layer(run.at("attention_distance_uniform"), run.depth())});
  }
  return reference;
}

// Entropy of equal attention to all keys. The class token is one of the keys if it has a weight.
Reference uniform_entropy(const FigureInput& in) {
  Reference reference{"equal attention to all keys", {}};
  for (const AnalyzedRun& run : in.runs) {
    std::vector<double>& values = reference.values.emplace_back(1)[0];
    for (std::size_t l = 0; l < run.depth(); ++l) {
      const double keys = static_cast<double>(run.grids[l].rows * run.grids[l].columns) +
                          (any_number(run.of_heads("attention_to_class", l)) ? 1 : 0);
      values.push_back(keys > 0 && run.at("heads").is_number() ? std::log(keys) : plot::kMissing);
    }
  }
  return reference;
}

// Pixels per token if all layers have the same grid; otherwise NaN.
std::vector<double> pixels_of_tokens(const FigureInput& in) {
  const double width = number_of(item(member(in.analysis, "inputs.image_size"), 1));
  std::vector<double> out;
  for (const AnalyzedRun& run : in.runs) {
    const bool one_grid = run.depth() > 0 && !run.at("heads").is_array();
    const double columns = one_grid ? static_cast<double>(run.grids[0].columns) : 0;
    out.push_back(columns > 0 ? width / columns : plot::kMissing);
  }
  return out;
}

// Standard deviation of the tokens' lengths, divided by their mean.
std::vector<std::vector<std::vector<std::vector<double>>>> relative_spread(
    const std::vector<AnalyzedRun>& runs) {
  auto out = head_values(runs, "token_magnitude.std", true);
  const auto mean = head_values(runs, "token_magnitude.mean", true);
  for (std::size_t r = 0; r < out.size(); ++r) {
    for (std::size_t s = 0; s < out[r].size(); ++s) {
      for (std::size_t l = 0; l < out[r][s].size(); ++l) {
        for (std::size_t h = 0; h < out[r][s][l].size(); ++h) {
          const double m = mean[r][s][l][h];
          out[r][s][l][h] = m > 0 ? out[r][s][l][h] / m : plot::kMissing;
        }
      }
    }
  }
  return out;
}

// The same ratio over all channels together, one number per layer.
Reference whole_spread(const std::vector<AnalyzedRun>& runs) {
  Reference reference{"over all channels", {}};
  for (const AnalyzedRun& run : runs) {
    auto& sites = reference.values.emplace_back(kSites, std::vector<double>());
    for (std::size_t l = 0; l < run.depth(); ++l) {
      for (std::size_t s = 0; s < kSites; ++s) {
        const double mean = number_of(item(item(run.at("token_magnitude_full.mean"), l), s));
        const double spread = number_of(item(item(run.at("token_magnitude_full.std"), l), s));
        sites[s].push_back(mean > 0 ? spread / mean : plot::kMissing);
      }
    }
  }
  return reference;
}

}  // namespace

void add_magnitude_dots(const FigureInput& in, Figures& out) {
  HeadDots spread{"token_magnitude_variation",
                  "Relative spread of token magnitudes in an image",
                  "std / mean",
                  "",
                  "Standard deviation of the tokens' lengths after the norm, divided by their "
                  "mean, per head; 0: all tokens are equally long. LayerNorm makes whole tokens "
                  "equally long; DTN can preserve their differences.",
                  relative_spread(in.runs)};
  spread.reference = whole_spread(in.runs);
  add_dots(in, std::move(spread), out);
  HeadDots mean{"token_magnitude_mean",
                "Mean magnitude of tokens after the norm",
                "length",
                "",
                "Euclidean length of a token over the channels of a head, after weight and bias; "
                "mean over images and tokens.",
                head_values(in.runs, "token_magnitude.mean", true)};
  add_dots(in, std::move(mean), out);
}

void add_attention(const FigureInput& in, Figures& out) {
  HeadDots distance{
      "attention_distance",
      "Attention distance",
      "distance (patches)",
      "",
      "Mean distance on the grid between a query and the keys it attends to, weighted "
      "by the attention. The class token is excluded.",
      head_values(in.runs, "attention_distance", false)};
  distance.reference = uniform_distance(in);
  distance.pixels = pixels_of_tokens(in);
  add_dots(in, std::move(distance), out);
  HeadDots varied{"attention_distance_std",
                  "Spread of the attention distance over images",
                  "std (patches)",
                  "",
                  "Standard deviation, over images, of the mean distance in an image.",
                  head_values(in.runs, "attention_distance_std", false)};
  add_dots(in, std::move(varied), out);
  HeadDots entropy{"attention_entropy",
                   "Entropy of attention",
                   "entropy (nats)",
                   "",
                   "Mean entropy of the attention of a patch over all keys, the class token "
                   "included: low where few keys get all the weight.",
                   head_values(in.runs, "attention_entropy", false)};
  entropy.reference = uniform_entropy(in);
  add_dots(in, std::move(entropy), out);
  HeadDots to_class{"attention_to_class",
                    "Attention of patches to the class token",
                    "weight",
                    "",
                    "Mean attention weight of the class token for the queries of patches.",
                    head_values(in.runs, "attention_to_class", false)};
  to_class.y.limit = {0, 1};
  add_dots(in, std::move(to_class), out);
}

void add_variation(const FigureInput& in, Figures& out) {
  HeadDots whole{"variation_coefficient",
                 "Share of a token that remains without the mean",
                 "\xE2\x80\x96x \xE2\x88\x92 \xCE\xBC\xE2\x80\x96 / \xE2\x80\x96x\xE2\x80\x96",
                 "",
                 "Length of x minus the mean that the norm subtracts, divided by the length of x, "
                 "per image and head; 1: the mean explains nothing.",
                 head_values(in.runs, "variation_coefficient", true)};
  add_dots(in, std::move(whole), out);
  HeadDots middle{"variation_coefficient_median",
                  "The same for single values, median",
                  "|x \xE2\x88\x92 \xCE\xBC| / |x|",
                  "",
                  "Distance to the mean relative to the value itself; median over images, tokens "
                  "and channels of a head.",
                  head_values(in.runs, "variation_coefficient_median", true)};
  add_dots(in, std::move(middle), out);
}

void add_position_extent(const FigureInput& in, Figures& out) {
  HeadDots radius{"p_radius",
                  "Radius of the statistics",
                  "radius (patches)",
                  "",
                  "Standard deviation of the positions in the row of P of one query, about their "
                  "mean position: the radius of the tokens in a head's mean and variance.",
                  head_values(in.runs, "p_radius", true)};
  add_dots(in, std::move(radius), out);
  HeadDots tokens{"p_tokens",
                  "Effective number of tokens in the statistics",
                  "tokens",
                  "",
                  "exp(entropy) of the same row of P: the number of all tokens for InstanceNorm, 1 "
                  "for a single token.",
                  head_values(in.runs, "p_tokens", true)};
  add_dots(in, std::move(tokens), out);
}

void add_lambdas(const FigureInput& in, Figures& out) {
  for (const bool mean : {true, false}) {
    const std::string of = mean ? "mean" : "variance";
    HeadDots lambda{
        mean ? "lambda_mean" : "lambda_var",
        "Mixing ratio \xCE\xBB of the " + of,
        "\xCE\xBB (" + of + ")",
        "",
        "1: the " + of + " of the token itself, as in LayerNorm; 0: the " + of +
            " of the surrounding tokens, weighted by P. All start at 0.5 (dashed line).",
        head_values(in.runs, mean ? "lambda_mean" : "lambda_var", true)};
    lambda.y.data = {0, 1};
    lambda.y.limit = {0, 1};
    lambda.reference = Reference{"start of training", {}};
    for (const AnalyzedRun& run : in.runs) {
      lambda.reference->values.emplace_back(kSites, std::vector<double>(run.depth(), 0.5));
    }
    add_dots(in, std::move(lambda), out);
  }
}

}  // namespace dtn::drawing
