// The options of Dynamic Token Normalization.
#include <charconv>

#include "dtn/core/check.h"
#include "norms/dtn.h"

namespace dtn {
namespace {

constexpr std::string_view kBanded = "banded:";

std::int64_t parse_band(std::string_view text) {
  std::int64_t band = 0;
  const std::string_view digits = text.substr(kBanded.size());
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), band);
  if (error != std::errc() || end != digits.data() + digits.size() || band < 1 || band % 2 == 0) {
    throw ConfigError(cat("dtn: position ", text, " needs a positive odd number after the colon"));
  }
  return band;
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
      {"variant",
       OptionKind::kChoice,
       std::string("paper"),
       {"paper", "official"},
       0,
       0,
       "the paper's equations, or what the released code computes"},
      {"lambda",
       OptionKind::kChoiceOrNumber,
       std::string("learnable"),
       {"learnable"},
       0,
       1,
       "weight of the token's own statistics: learned per head, or fixed (1 is LayerNorm)"},
      {"init_lambda",
       OptionKind::kNumber,
       0.5,
       {},
       0,
       1,
       "what learned lambdas start at, between 0 and 1: the nearer to 1, the nearer the model is "
       "to "
       "its LayerNorm twin; 0.99 to go on from weights of that"},
      {"position",
       OptionKind::kChoice,
       std::string("relative"),
       {"relative", "uniform", "free", "banded:<k>"},
       0,
       0,
       "how tokens attend to each other in the statistics: by learned functions of the offset, all "
       "alike, by a learned table, or alike within (k - 1) / 2 in raster order"},
      {"init",
       OptionKind::kChoice,
       std::string("local"),
       {"local", "local_1d", "trunc_normal"},
       0,
       0,
       "start of relative positions: Eq. 7, its reading for sequences (heads look around "
       "..., -3/2, -1/2, 1/2, 3/2, ... tokens ahead), or a truncated normal for all heads"},
      {"pool",
       OptionKind::kInt,
       std::int64_t{1},
       {},
       1,
       64,
       "side of the cells of tokens whose average the statistics across tokens see, or a list with "
       "that of each stage",
       true},
      {"only_var",
       OptionKind::kBool,
       false,
       {},
       0,
       0,
       "take the mean from the token alone, as LayerNorm does"},
      {"prefix",
       OptionKind::kChoice,
       std::string("none"),
       {"none", "ln"},
       0,
       0,
       "tokens ahead of the grid, such as a class token that joins first: not allowed, or "
       "normalized by LayerNorm with the same weight, bias and eps"},
  };
}

std::optional<NormProblem> DtnOptions::check(const NormConfig& config, const NormSite& site) {
  const DtnOptions options(config);
  if (options.init != Init::kLocal && options.position != Position::kRelative) {
    return NormProblem{"init", "position " + *config.find<std::string>("position") +
                                   " has no such start; only relative positions have"};
  }
  if (!(options.init_lambda > 0 && options.init_lambda < 1)) {
    return NormProblem{"init_lambda", cat(options.init_lambda,
                                          " has no logit to learn from; it is more than 0 and less "
                                          "than 1, or fixed by model.norm.lambda")};
  }
  if (options.lambda && options.init_lambda != 0.5) {
    return NormProblem{"init_lambda",
                       cat("lambda is fixed at ", *options.lambda, " and starts nowhere else")};
  }
  if (options.prefix_ln && options.variant == DtnVariant::kOfficial) {
    return NormProblem{"prefix",
                       "the official variant normalizes tokens ahead of its statistics, and says "
                       "nothing of those outside the grid; use variant: paper"};
  }
  if (site.grid_h % options.pool || site.grid_w % options.pool) {
    return NormProblem{
        "pool", cat("a grid of ", site.grid_h, " x ", site.grid_w,
                    " tokens does not divide into cells of ", options.pool, " x ", options.pool)};
  }
  return std::nullopt;
}

}  // namespace dtn
