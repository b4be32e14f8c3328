#include "apps/average/soup.h"

#include <algorithm>
#include <cmath>

#include "apps/average/weight_mean.h"
#include "dtn/core/check.h"

namespace dtn::app {
namespace {

// True if a model with the figures `a` is at least as good as one with `b`.
bool as_good(const Metrics& a, const Metrics& b) {
  const double x = a.primary_value(), y = b.primary_value();
  if (std::isnan(x) || std::isnan(y)) return std::isnan(y);
  return !a.better(y, x);
}

// The models from the best to the worst.
std::vector<Taste> in_order(const std::vector<Metrics>& alone) {
  std::vector<Taste> tastes(alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i) tastes[i].ingredient = i;
  std::ranges::stable_sort(tastes, [&](const Taste& a, const Taste& b) {
    return !as_good(alone[b.ingredient], alone[a.ingredient]);
  });
  return tastes;
}

}  // namespace

Tensor uniform_soup(Ingredients& models, const std::vector<double>& shares) {
  DTN_CHECK(shares.empty() || shares.size() == models.count(), shares.size(), " shares of ",
            models.count(), " models");
  WeightMean mean;
  for (std::size_t i = 0; i < models.count(); ++i) {
    mean.add(models.weights(i), shares.empty() ? 1 : shares[i]);
  }
  return mean.result();
}

GreedySoup greedy_soup(Ingredients& models, const std::vector<Metrics>& alone,
                       const std::function<Metrics(const Tensor& weights)>& judge,
                       const std::function<void(const Taste&)>& taste) {
  DTN_CHECK(alone.size() == models.count(), alone.size(), " figures of ", models.count(),
            " models");
  GreedySoup soup{.weights = {}, .figures = {}, .tastes = in_order(alone)};
  WeightMean mean;
  for (Taste& next : soup.tastes) {
    const Tensor weights = models.weights(next.ingredient);
    const bool first = !soup.weights.defined();
    const Tensor more = mean.with(weights);
    if (!first) next.together = judge(more);
    const Metrics& figures = first ? alone[next.ingredient] : *next.together;
    next.taken = first || as_good(figures, soup.figures);
    if (next.taken) {
      mean.add(weights);
      soup.weights = more;
      soup.figures = figures;
    }
    taste(next);
  }
  return soup;
}

}  // namespace dtn::app
