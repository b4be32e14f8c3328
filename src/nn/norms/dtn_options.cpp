// The options of Dynamic Token Normalization.

#include "core/text.h"
#include "dtn/core/check.h"
#include "nn/norms/dtn.h"

namespace dtn {
namespace {

constexpr std::string_view kBanded = "banded:";

std::int64_t parse_band(std::string_view text) {
  const auto band = parse_number<std::int64_t>(text.substr(kBanded.size()));
  if (!band || *band < 1 || *band % 2 == 0) {
    throw ConfigError(cat("dtn: position ", text, " needs a positive odd number after the colon"));
  }
  return *band;
}

}  // namespace

DtnOptions::DtnOptions(const NormConfig& config) {
  variant = *config.find<std::string>("variant") == "official" ? DtnVariant::kOfficial
                                                               : DtnVariant::kPaper;
  lambda = config.number("lambda");
  const std::string& choice = *config.find<std::string>("position");
  if (choice.starts_with(kBanded)) {
    position = Position::kBanded;
    band = parse_band(choice);
  } else {
    position = choice == "free"      ? Position::kFree
               : choice == "uniform" ? Position::kUniform
                                     : Position::kRelative;
  }
  init_lambda = *config.number("init_lambda");
  prefix_ln = *config.find<std::string>("prefix") == "ln";
  const std::string& start = *config.find<std::string>("init");
  init = start == "local"      ? Init::kLocal
         : start == "local_1d" ? Init::kLocalLine
                               : Init::kTruncatedNormal;
  pool = *config.find<std::int64_t>("pool");
  only_var = *config.find<bool>("only_var");
}

std::vector<OptionSchema> DtnOptions::schema() {
  return {
      choice_option(
          "variant", {"paper", "official"},
          "computation: paper (the paper's equations) or official (as in the released code)"),
      choice_or_number_option(
          "lambda", "learnable", 0, 1,
          "weight of the token's own statistics: learnable (one per head), or a fixed number (1 is "
          "LayerNorm)"),
      share_option(
          "init_lambda", 0.5,
          "initial value of learned lambdas, between 0 and 1, both excluded; near 1 the model is "
          "close to the same model with LayerNorm; use 0.99 to start from the weights of a "
          "LayerNorm model"),
      choice_option(
          "position", {"relative", "uniform", "free", "banded:<k>"},
          "weights between tokens in the statistics: relative (learned functions of the offset), "
          "uniform (all tokens equally), free (a learned table) or banded:<k> (equally over the "
          "tokens within (k - 1) / 2 in raster order)"),
      choice_option(
          "init", {"local", "local_1d", "trunc_normal"},
          "initial relative positions: local (Eq. 7), local_1d (Eq. 7 for sequences: heads look "
          "around ..., -3/2, -1/2, 1/2, 3/2, ... tokens ahead) or trunc_normal (a truncated normal "
          "for all heads)"),
      {"pool",
       OptionKind::kInt,
       std::int64_t{1},
       {},
       1,
       64,
       "side of the squares of tokens that are averaged before the cross-token statistics; one "
       "number, or a list with one per stage",
       true},
      flag_option("only_var",
                  "only the variance uses other tokens; the mean is that of the token alone, as in "
                  "LayerNorm"),
      choice_option("prefix", {"none", "ln"},
                    "tokens before the grid, such as a class token that joins before the first "
                    "block: none (not allowed) or ln (LayerNorm with the same weight, bias and "
                    "eps)"),
  };
}

std::optional<NormProblem> DtnOptions::check(const NormConfig& config, const NormSite& site) {
  const DtnOptions options(config);
  if (options.init != Init::kLocal && options.position != Position::kRelative) {
    return NormProblem{"init", "position " + *config.find<std::string>("position") +
                                   " has no init; only position relative has"};
  }
  if (!(options.init_lambda > 0 && options.init_lambda < 1)) {
    return NormProblem{
        "init_lambda",
        cat(options.init_lambda,
            " is not between 0 and 1, both excluded; to fix lambda, set model.norm.lambda")};
  }
  if (options.lambda && options.init_lambda != 0.5) {
    return NormProblem{"init_lambda", cat("lambda is fixed at ", *options.lambda,
                                          ", so it has no initial value; remove init_lambda")};
  }
  if (options.prefix_ln && options.variant == DtnVariant::kOfficial) {
    return NormProblem{"prefix",
                       "the official variant does not define the norm of tokens outside the grid; "
                       "use variant: paper"};
  }
  if (site.grid_h % options.pool || site.grid_w % options.pool) {
    return NormProblem{"pool", cat("a grid of ", site.grid_h, " x ", site.grid_w,
                                   " tokens is not divisible into squares of ", options.pool, " x ",
                                   options.pool)};
  }
  return std::nullopt;
}

}  // namespace dtn
