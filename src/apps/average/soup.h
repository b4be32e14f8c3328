// Means of the weights of models ("soups": Wortsman et al., "Model soups: averaging weights of
// multiple fine-tuned models improves accuracy without increasing inference time", ICML 2022).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/average/ingredients.h"
#include "dtn/core/metrics.h"

namespace dtn::app {

// A model in the order in which a greedy soup tries it.
struct Taste {
  std::size_t ingredient = 0;
  std::optional<Metrics> together{};  // figures of the mean with it; unset: the first model
  bool taken = false;
};

struct GreedySoup {
  Tensor weights;
  Metrics figures;
  std::vector<Taste> tastes;
};

// The mean of all models with these shares; no shares: equal ones.
Tensor uniform_soup(Ingredients& models, const std::vector<double>& shares);

// Tries the models from the best to the worst, and takes each that does not worsen the primary
// figure of the mean (algorithm 1 of the paper). `alone` has the figures of each model by itself.
// Models of equal figures are tried in their order; a figure that is not a number is the worst.
// `judge` gives the figures of weights; `taste` is called after each model.
GreedySoup greedy_soup(Ingredients& models, const std::vector<Metrics>& alone,
                       const std::function<Metrics(const Tensor& weights)>& judge,
                       const std::function<void(const Taste&)>& taste);

}  // namespace dtn::app
