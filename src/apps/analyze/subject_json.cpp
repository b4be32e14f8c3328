#include "apps/analyze/subject_json.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/analyze/history.h"
#include "dtn/core/check.h"
#include "dtn/core/parallel.h"
#include "dtn/nn/normalizer.h"
#include "train/record/lambdas_writer.h"

namespace dtn {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kSites = 2;  // per layer, including sites that it lacks

// Lists f of each layer, in order.
template <class F>
Json per_layer(const std::vector<LayerStatistics>& layers, F&& f) {
  Json list = Json::array();
  for (const LayerStatistics& layer : layers) list.push_back(f(layer));
  return list;
}

// Lists f of both sites of each layer: null for a site that the layer lacks, and null for the layer
// if all its sites are null.
template <class F>
Json per_site(const std::vector<LayerStatistics>& layers, F&& f) {
  return per_layer(layers, [&](const LayerStatistics& layer) {
    Json sites = Json::array();
    bool any = false;
    for (std::size_t s = 0; s < kSites; ++s) {
      const bool there = s < layer.sites.size() && layer.sites[s].norm();
      sites.push_back(there ? Json(f(layer.sites[s])) : Json());
      any = any || !sites.back().is_null();
    }
    return any ? sites : Json();
  });
}

// Arranges numbers in raster order as rows of the grid.
Json as_rows(const double* values, const TokenGrid& grid) {
  Json rows = Json::array();
  for (std::int64_t y = 0; y < grid.height; ++y) {
    rows.push_back(std::vector<double>(values + y * grid.width, values + (y + 1) * grid.width));
  }
  return rows;
}

// Rows of P for the center token, or for `token`; undefined if the grid lacks it.
Tensor rows_of(const SiteStatistics& site, std::optional<std::int64_t> token) {
  const TokenGrid& grid = site.grid();
  const std::int64_t query = token.value_or(center_token(grid));
  if (query >= grid.height * grid.width) return {};
  return site.norm()->position_rows(grid, query);
}

// Lists f(row, grid, query) of every head.
template <class F>
Json per_head(const SiteStatistics& site, std::optional<std::int64_t> token, F&& f) {
  const Tensor rows = rows_of(site, token);
  if (!rows.defined()) return {};
  Json heads = Json::array();
  for (std::int64_t h = 0; h < rows.dim(0); ++h) {
    heads.push_back(f(rows.data<double>() + h * rows.dim(1), site.grid(),
                      token.value_or(center_token(site.grid()))));
  }
  return heads;
}

using Site = SiteStatistics;
using Layer = LayerStatistics;
using Layers = std::vector<Layer>;

// Lists the means of the first `count` values; null if there are none.
Json means_of(const std::vector<RunningMean>& values, std::size_t count) {
  if (values.empty()) return {};
  Json list = Json::array();
  for (std::size_t i = 0; i < count; ++i) list.push_back(values[i].mean());
  return list;
}

Json stds_of(const std::vector<RunningMean>& values) {
  if (values.empty()) return {};
  Json list = Json::array();
  for (const RunningMean& v : values) list.push_back(v.std());
  return list;
}

std::size_t heads_of(const Site& site) { return static_cast<std::size_t>(site.heads()); }

// One value if all layers have the same, or a list over layers.
template <class F>
Json shared_or_listed(const SubjectNumbers& n, F&& f) {
  const Json list = per_layer(n.collector.layers(), f);
  return n.subject.staged() ? list : list.front();
}

void add_texts(const SubjectNumbers& n, Json& json) {
  const AnalysisSubject& given = n.subject.given;
  json["name"] = given.name;
  json["source"] = given.source;
  json["step"] = given.step ? Json(*given.step) : Json();
  json["before_training_of"] = given.before_training_of ? Json(*given.before_training_of) : Json();
  json["normalizer"] = given.config.model.norm.type;
  json["depth"] = n.subject.layers.size();
  Json heads = Json::array();
  for (const LayerInfo& info : n.subject.layers) {
    heads.push_back(info.heads > 0 ? Json(info.heads) : Json());
  }
  json["heads"] = n.subject.staged() ? heads : heads.front();
  json["grid"] = shared_or_listed(n, [](const Layer& l) {
    return Json{l.grid.height, l.grid.width};
  });
}

void add_magnitudes(const Layers& layers, Json& json) {
  Json& of_heads = json["token_magnitude"];
  of_heads["mean"] =
      per_site(layers, [](const Site& s) { return means_of(s.magnitude_mean, heads_of(s)); });
  of_heads["std"] =
      per_site(layers, [](const Site& s) { return means_of(s.magnitude_std, heads_of(s)); });
  of_heads["map"] = per_site(layers, [](const Site& s) {
    Json heads = Json::array();
    const std::int64_t tokens = s.grid().height * s.grid().width;
    for (std::int64_t h = 0; h < s.heads(); ++h) {
      heads.push_back(as_rows(s.magnitude_map.data() + h * tokens, s.grid()));
    }
    return heads;
  });
  Json& full = json["token_magnitude_full"];
  full["mean"] =
      per_site(layers, [](const Site& s) { return s.magnitude_mean[heads_of(s)].mean(); });
  full["std"] = per_site(layers, [](const Site& s) { return s.magnitude_std[heads_of(s)].mean(); });
}

void add_attention(const SubjectNumbers& n, Json& json) {
  const Layers& layers = n.collector.layers();
  const auto of = [&](auto&& values) {
    return per_layer(layers, [&](const Layer& l) {
      const std::vector<RunningMean>& heads = values(l.attention);
      return means_of(heads, heads.size());
    });
  };
  json["attention_distance"] = of([](const AttentionStatistics& a) -> auto& { return a.distance; });
  json["attention_distance_std"] =
      per_layer(layers, [](const Layer& l) { return stds_of(l.attention.distance); });
  json["attention_distance_uniform"] = shared_or_listed(n, [](const Layer& l) {
    return l.attention.distance.empty() ? Json() : Json(uniform_distance(l.attention.grid()));
  });
  bool any = false;
  Json to_class = per_layer(layers, [&](const Layer& l) {
    const bool there = l.attention.has_class_token();
    any = any || there;
    return there ? means_of(l.attention.to_class, l.attention.to_class.size()) : Json();
  });
  json["attention_to_class"] = any ? to_class : Json();
  json["attention_entropy"] = of([](const AttentionStatistics& a) -> auto& { return a.entropy; });
  json["attention_entropy_uniform"] = per_layer(layers, [](const Layer& l) {
    return l.attention.entropy.empty() ? Json() : Json(l.attention.uniform_entropy());
  });
}

void add_variation(const Layers& layers, Json& json) {
  json["variation_coefficient"] =
      per_site(layers, [](const Site& s) { return means_of(s.variation, s.variation.size()); });
  json["variation_coefficient_median"] = per_site(layers, [](const Site& s) {
    if (s.median.empty()) return Json();
    Json heads = Json::array();
    for (const MedianInTwoPasses& m : s.median) heads.push_back(m.median());
    return heads;
  });
}

void add_lambdas(const SubjectNumbers& n, Json& json) {
  ParameterStore& store = n.subject.parameters();
  json["lambda_mean"] = as_json(mean_lambdas(n.subject.layers, store));
  json["lambda_var"] = as_json(var_lambdas(n.subject.layers, store));
  json["lambda_history"] = read_history(n.subject.given.history);
}

// Principal axes of the tokens before and after a site, as directions or raw.
using SiteAxes = std::array<PrincipalAxes, 2>;

Json before_and_after(auto&& f) { return Json::array({f(0), f(1)}); }

// Projects the first tokens onto the plane of the first site's directions.
Json points_of(const Site& site, const PrincipalAxes& axes, int after) {
  Json points = Json::array();
  const std::size_t width = axes.mean.size();
  for (std::int64_t i = 0; i < site.point_count; ++i) {
    const double* unit = site.points[after].data() + static_cast<std::size_t>(i) * width;
    double at[2] = {0, 0};
    for (std::size_t c = 0; c < width; ++c) {
      at[0] += (unit[c] - axes.mean[c]) * axes.axes[0][c];
      at[1] += (unit[c] - axes.mean[c]) * axes.axes[1][c];
    }
    points.push_back({at[0], at[1]});
  }
  return points;
}

void add_pca(const SubjectNumbers& n, Json& json) {
  const Layers& layers = n.collector.layers();
  std::vector<const SiteStatistics*> sites;
  for (const Layer& layer : layers) {
    for (const Site& site : layer.sites) {
      if (site.norm()) sites.push_back(&site);
    }
  }
  const auto add = [&](const char* name, auto&& covariances) {
    std::vector<std::pair<const SiteStatistics*, SiteAxes>> found(sites.size());
    parallel_for(static_cast<std::int64_t>(2 * sites.size()), [&](std::int64_t job) {
      const auto at = static_cast<std::size_t>(job / 2);
      found[at].first = sites[at];
      // Axes are needed for the first site only: its points are shown in their plane.
      found[at].second[static_cast<std::size_t>(job % 2)] =
          covariances(*sites[at])[job % 2].principal(at == 0);
    });
    const auto axes_at = [&](const Site& site) -> const SiteAxes& {
      return std::ranges::find(found, &site, [](const auto& f) { return f.first; })->second;
    };
    json["pca"][name]["explained"] = per_site(layers, [&](const Site& site) {
      return before_and_after([&](std::size_t i) { return Json(axes_at(site)[i].explained); });
    });
    json["pca"][name]["spread"] = per_site(layers, [&](const Site& site) {
      return before_and_after([&](std::size_t i) { return Json(axes_at(site)[i].spread); });
    });
    return found;
  };
  const auto directions = add(
      "directions", [](const Site& s) -> auto& { return s.directions; });
  add(
      "raw", [](const Site& s) -> auto& { return s.raw; });
  json["pca_points"] = nullptr;
  if (n.subject.staged() || directions.empty() ||
      directions.front().first != &layers.front().sites.front()) {
    return;
  }
  const auto& [site, axes] = directions.front();
  json["pca_points"] = {{"before", points_of(*site, axes[0], 0)},
                        {"after", points_of(*site, axes[1], 1)}};
}

void add_rollout(const SubjectNumbers& n, Json& json) {
  const ModelConfig& config = n.subject.config();
  json["rollout"] = nullptr;
  if (n.subject.staged()) return;
  const TokenGrid& grid = n.collector.layers().front().grid;
  const bool of_class = config.has_class_token() && config.pool == Pooling::kCls;
  Json images = Json::array();
  for (const auto& row : n.collector.rollout().shares(grid.height * grid.width, of_class)) {
    images.push_back(as_rows(row.data(), grid));
  }
  if (!images.empty()) json["rollout"] = images;
}

void add_streams(const SubjectNumbers& n, Json& json) {
  const Layers& layers = n.collector.layers();
  Json& residual = json["residual_rms"] = Json::array({n.collector.input().root()});
  for (const Layer& layer : layers) residual.push_back(layer.residual.root());
  json["branch_rms"] = per_layer(layers, [](const Layer& layer) {
    const auto of = [](const MeanSquare& b) { return b.count > 0 ? Json(b.root()) : Json(); };
    const Json both = {of(layer.branches[0]), of(layer.branches[1])};
    return both[0].is_null() && both[1].is_null() ? Json() : both;
  });
}

void add_gradients(const SubjectNumbers& n, Json& json) {
  for (const char* key : {"loss", "gradient_norm", "branch_gradient_norm"}) json[key] = nullptr;
  if (!n.gradients) return;
  json["loss"] = n.gradients->loss;
  json["gradient_norm"] = n.gradients->layers;
  json["branch_gradient_norm"] = n.gradients->parts;
  // A part that a layer lacks becomes null here, so that it does not count as a non-finite number.
  for (std::size_t l = 0; l < n.subject.layers.size(); ++l) {
    const LayerInfo& info = n.subject.layers[l];
    Json& parts = json["branch_gradient_norm"][l];
    if (info.norms.empty()) parts[0] = nullptr;
    if (info.attention.empty()) parts[1] = nullptr;
    if (info.mlp.empty()) parts[2] = nullptr;
  }
}

// Adds center_token, p_center_token, p_offset, p_radius and p_tokens. `one_grid`: all layers have
// the same grid, so center_token is one number. Throws ConfigError for a token that no layer has.
void add_positions(const Collector& collector, std::optional<std::int64_t> token, bool one_grid,
                   Json& json) {
  const auto& layers = collector.layers();
  const Json tokens = per_layer(layers, [&](const LayerStatistics& layer) {
    const std::int64_t count = layer.grid.height * layer.grid.width;
    const std::int64_t query = token.value_or(center_token(layer.grid));
    return query < count ? Json(query) : Json();
  });
  bool any = false;
  for (const Json& t : tokens) any = any || !t.is_null();
  if (!any) {
    throw ConfigError(
        cat("--token ", *token, ": no layer has so many tokens; tokens are counted from 0"));
  }
  json["center_token"] = one_grid ? tokens.front() : tokens;
  json["p_center_token"] = per_site(layers, [&](const SiteStatistics& site) {
    return per_head(site, token, [](const double* row, const TokenGrid& grid, std::int64_t) {
      return as_rows(row, grid);
    });
  });
  const auto figures = [&](auto&& pick) {
    return per_site(layers, [&](const SiteStatistics& site) {
      return per_head(site, token, [&](const double* row, const TokenGrid& grid, std::int64_t q) {
        return Json(pick(figures_of(row, grid, q)));
      });
    });
  };
  json["p_offset"] = figures([](const PositionFigures& f) {
    return std::vector<double>{f.offset_x, f.offset_y};
  });
  json["p_radius"] = figures([](const PositionFigures& f) { return f.radius; });
  json["p_tokens"] = figures([](const PositionFigures& f) { return f.tokens; });
}

}  // namespace

std::int64_t center_token(const TokenGrid& grid) {
  return (grid.height - 1) / 2 * grid.width + grid.width / 2;
}

PositionFigures figures_of(const double* row, const TokenGrid& grid, std::int64_t query) {
  PositionFigures f{0, 0, 0, 0};
  double squares = 0, entropy = 0;
  for (std::int64_t j = 0; j < grid.height * grid.width; ++j) {
    const std::int64_t right = j % grid.width - query % grid.width;
    const std::int64_t down = j / grid.width - query / grid.width;
    const auto dx = static_cast<double>(right), dy = static_cast<double>(down);
    f.offset_x += row[j] * dx;
    f.offset_y += row[j] * dy;
    squares += row[j] * (dx * dx + dy * dy);
    if (row[j] != 0) entropy -= row[j] * std::log(row[j]);
  }
  const double around = squares - f.offset_x * f.offset_x - f.offset_y * f.offset_y;
  f.radius = std::sqrt(around < 0 ? 0 : around);  // rounding may make it negative
  f.tokens = std::exp(entropy);
  return f;
}

Json to_json(const SubjectNumbers& n) {
  const Layers& layers = n.collector.layers();
  Json json;
  add_texts(n, json);
  add_magnitudes(layers, json);
  add_attention(n, json);
  add_variation(layers, json);
  add_lambdas(n, json);
  add_positions(n.collector, n.token, !n.subject.staged(), json);
  add_pca(n, json);
  json["token_cosine"] = per_site(layers, [](const Site& s) {
    return before_and_after([&](int i) { return Json(s.cosine[i].mean()); });
  });
  add_rollout(n, json);
  add_streams(n, json);
  add_moments(n.collector.moments().places(), json);
  add_gradients(n, json);
  return json;
}

std::int64_t drop_non_finite(Json& json) {
  if (json.is_number_float() && !std::isfinite(json.get<double>())) {
    json = nullptr;
    return 1;
  }
  std::int64_t dropped = 0;
  if (json.is_structured()) {
    for (Json& part : json) dropped += drop_non_finite(part);
  }
  return dropped;
}

}  // namespace dtn
