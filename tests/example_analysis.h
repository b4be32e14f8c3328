// Synthetic analyses in the format of dtn-analyze, of plain transformers and of stage models.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/analyze/analysis.h"

namespace dtn {

struct ExampleStage {
  int depth, heads, rows, columns;
};

struct ExampleRun {
  std::string name = "LN", normalizer = "layer_norm";
  std::vector<ExampleStage> stages = {{12, 9, 14, 14}};
  bool plain = true;  // one grid: heads and grid are not lists
  bool dtn = false;   // has lambda and P
  int history = 0;    // entries of lambda_history
  bool labels = true;
};

class ExampleMaker {
 public:
  explicit ExampleMaker(std::uint64_t seed) : seed_(seed) {}

  nlohmann::ordered_json run(const ExampleRun& what);

  // Returns a number in [0, 1), the same on every machine.
  double uniform() { return hashed(seed_, next_++); }

 private:
  using Json = nlohmann::ordered_json;
  struct Layer {
    int index, depth, heads, rows, columns;
    double deep() const { return depth < 2 ? 0 : static_cast<double>(index) / (depth - 1); }
  };

  // Returns one value per head, f(head).
  template <class F>
  static Json heads(const Layer& l, F&& f) {
    Json out = Json::array();
    for (int h = 0; h < l.heads; ++h) out.push_back(f(h));
    return out;
  }
  template <class F>
  static Json map(const Layer& l, F&& f) {
    Json out = Json::array();
    for (int y = 0; y < l.rows; ++y) {
      Json row = Json::array();
      for (int x = 0; x < l.columns; ++x) row.push_back(f(y, x));
      out.push_back(row);
    }
    return out;
  }
  template <class F>
  static Json sites(F&& f) {
    return Json::array({f(0), f(1)});
  }
  // Returns exp(-|j - i - offset|^2 / (2 width^2)) as rows that sum to 1.
  Json position_row(const Layer& l, double dx, double dy, double width) const;
  void add_layers(Json& out, const std::vector<Layer>& layers, const ExampleRun& what);
  void add_positions(Json& out, const std::vector<Layer>& layers);
  void add_history(Json& out, const std::vector<Layer>& layers, int steps);
  void add_representations(Json& out, const std::vector<Layer>& layers, const ExampleRun& what);

  static double hashed(std::uint64_t seed, std::uint64_t index) {
    std::uint64_t z = seed * 0x9E3779B97F4A7C15ull + (index + 1) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }

  std::uint64_t seed_, next_ = 0;
};

inline nlohmann::ordered_json ExampleMaker::position_row(const Layer& l, double dx, double dy,
                                                         double width) const {
  const int row = (l.rows - 1) / 2, column = l.columns / 2;
  double sum = 0;
  const auto weight = [&](int y, int x) {
    const double u = x - column - dx, v = y - row - dy;
    return std::exp(-(u * u + v * v) / (2 * width * width));
  };
  for (int y = 0; y < l.rows; ++y) {
    for (int x = 0; x < l.columns; ++x) sum += weight(y, x);
  }
  return map(l, [&](int y, int x) { return weight(y, x) / sum; });
}

inline void ExampleMaker::add_layers(Json& out, const std::vector<Layer>& layers,
                                     const ExampleRun& what) {
  const double calm = what.dtn ? 0.25 : 0.03;  // relative spread of magnitudes
  for (const Layer& l : layers) {
    const double side = std::sqrt(static_cast<double>(l.rows * l.columns));
    Json mean = Json::array(), spread = Json::array(), maps = Json::array();
    for (int s = 0; s < 2; ++s) {
      mean.push_back(heads(l, [&](int) { return 4 + 2 * l.deep() + uniform(); }));
      spread.push_back(heads(l, [&](int h) {
        return mean.back()[static_cast<std::size_t>(h)].get<double>() * calm *
               (0.6 + 0.8 * uniform());
      }));
      maps.push_back(heads(l, [&](int h) {
        const double level = mean.back()[static_cast<std::size_t>(h)].get<double>();
        const double cx = l.columns * (0.3 + 0.4 * uniform()),
                     cy = l.rows * (0.3 + 0.4 * uniform());
        return map(l, [&](int y, int x) {
          const double d2 = ((x - cx) * (x - cx) + (y - cy) * (y - cy)) / (side * side * 0.06);
          return level * (1 + calm * (2.2 * std::exp(-d2) - 0.7 + 0.5 * (uniform() - 0.5)));
        });
      }));
    }
    out["token_magnitude"]["mean"].push_back(mean);
    out["token_magnitude"]["std"].push_back(spread);
    out["token_magnitude"]["map"].push_back(maps);
    out["token_magnitude_full"]["mean"].push_back({14 + uniform(), 14 + uniform()});
    out["token_magnitude_full"]["std"].push_back({14 * calm * 0.6, 14 * calm * 0.7});
    out["attention_distance_std"].push_back(heads(l, [&](int) { return 0.1 + 0.3 * uniform(); }));
    const double reach = (what.dtn ? 0.33 : 0.5) * side;
    out["attention_distance"].push_back(heads(l, [&](int h) {
      const double local = (what.dtn                    ? 0.25
                            : l.index < 2 && h % 3 == 0 ? 0.3
                                                        : 0.04) *
                           (1 - l.deep());
      return reach * (1 - local * uniform() * 1.4) + 0.03 * side * l.deep() * uniform();
    }));
    out["attention_entropy"].push_back(heads(
        l, [&](int) { return std::log(side * side) * (0.75 + 0.2 * uniform() * (1 - l.deep())); }));
    out["attention_entropy_uniform"].push_back(std::log(side * side));
    out["attention_to_class"].push_back(
        what.plain ? heads(l, [&](int) { return 0.02 + 0.2 * l.deep() * uniform(); }) : Json());
    for (const char* key : {"variation_coefficient", "variation_coefficient_median"}) {
      out[key].push_back(sites([&](int) {
        return heads(l, [&](int) {
          return (what.dtn ? 0.8 : 0.985) + 0.015 * uniform() * (what.dtn ? 8 : 1);
        });
      }));
    }
  }
}

inline void ExampleMaker::add_positions(Json& out, const std::vector<Layer>& layers) {
  for (const Layer& l : layers) {
    Json rows = Json::array(), offsets = Json::array(), radii = Json::array(),
         tokens = Json::array();
    for (int s = 0; s < 2; ++s) {
      Json row = Json::array(), offset = Json::array(), radius = Json::array(),
           count = Json::array();
      const int k = static_cast<int>(std::sqrt(l.heads));
      for (int h = 0; h < l.heads; ++h) {
        const double dx = h % k - (k - 1) / 2.0 + 0.6 * (uniform() - 0.5);
        const double dy = h / k - (k - 1) / 2.0 + 0.6 * (uniform() - 0.5);
        const double width = 0.7 + 1.8 * l.deep() * uniform();
        row.push_back(position_row(l, dx, dy, width));
        offset.push_back({dx, dy});
        radius.push_back(width * 1.414);
        count.push_back(17.08 * width * width);
      }
      rows.push_back(row);
      offsets.push_back(offset);
      radii.push_back(radius);
      tokens.push_back(count);
    }
    out["p_center_token"].push_back(rows);
    out["p_offset"].push_back(offsets);
    out["p_radius"].push_back(radii);
    out["p_tokens"].push_back(tokens);
  }
}

inline void ExampleMaker::add_history(Json& out, const std::vector<Layer>& layers, int steps) {
  Json& history = out["lambda_history"];
  for (int i = 0; i < steps; ++i) {
    history["steps"].push_back(100 * i);
    history["epochs"].push_back(i * 0.5);
    const double done = static_cast<double>(i) / std::max(steps - 1, 1);
    for (const char* key : {"lambda_mean", "lambda_var"}) {
      Json at = Json::array();
      for (const Layer& l : layers) {
        at.push_back(sites([&](int s) {
          return heads(l, [&](int h) {
            const double last = out[key][static_cast<std::size_t>(l.index)]
                                   [static_cast<std::size_t>(s)][static_cast<std::size_t>(h)]
                                       .get<double>();
            return 0.5 + (last - 0.5) * (1 - std::exp(-4 * done)) + 0.01 * (uniform() - 0.5);
          });
        }));
      }
      history[key].push_back(at);
    }
  }
}

inline void ExampleMaker::add_representations(Json& out, const std::vector<Layer>& layers,
                                              const ExampleRun& what) {
  out["residual_rms"].push_back(0.4);
  for (const Layer& l : layers) {
    const double growth = 0.5 + 2 * l.deep() + 0.1 * uniform();
    out["residual_rms"].push_back(growth * (what.dtn ? 0.8 : 1));
    out["branch_rms"].push_back({0.2 + 0.3 * uniform(), 0.4 + 0.5 * l.deep() * uniform()});
    if (what.labels) {
      out["gradient_norm"].push_back(0.5 * std::exp(-2 * l.deep()) + 0.02 * uniform());
      out["branch_gradient_norm"].push_back(
          {0.02 + 0.02 * uniform(), 0.3 * uniform(), 0.3 * uniform()});
    }
    for (const char* kind : {"directions", "raw"}) {
      out["pca"][kind]["explained"].push_back(sites([&](int) {
        return Json::array({{0.2 + 0.1 * uniform(), 0.1}, {0.18 + 0.1 * uniform(), 0.08}});
      }));
      out["pca"][kind]["spread"].push_back(sites([&](int) {
        return Json::array({0.4 + 0.1 * uniform(), (what.dtn ? 0.3 : 0.5)});
      }));
    }
    out["token_cosine"].push_back(sites([&](int) {
      return Json::array({0.3 + 0.3 * l.deep(), (what.dtn ? 0.5 : 0.25) + 0.1 * uniform()});
    }));
  }
  if (!what.plain) return;
  for (const char* key : {"before", "after"}) {
    for (int i = 0; i < 1500; ++i) {
      const double angle = 6.2832 * uniform(),
                   radius = std::sqrt(-2 * std::log(1 - 0.999 * uniform()));
      out["pca_points"][key].push_back(
          {0.3 * radius * std::cos(angle) + 0.1 * (i % 3), 0.2 * radius * std::sin(angle)});
    }
  }
  for (int i = 0; i < 8; ++i) {
    const double cx = 4 + 6 * uniform(), cy = 4 + 6 * uniform();
    double sum = 0;
    Json image = map(layers.back(), [&](int y, int x) {
      const double v =
          0.2 + 2 * std::exp(-((x - cx) * (x - cx) + (y - cy) * (y - cy)) / 12) + 0.2 * uniform();
      sum += v;
      return v;
    });
    for (Json& row : image) {
      for (Json& v : row) v = v.get<double>() / sum;
    }
    out["rollout"].push_back(image);
  }
}

inline nlohmann::ordered_json ExampleMaker::run(const ExampleRun& what) {
  std::vector<Layer> layers;
  int depth = 0;
  for (const ExampleStage& s : what.stages) depth += s.depth;
  for (const ExampleStage& s : what.stages) {
    for (int i = 0; i < s.depth; ++i) {
      layers.push_back({static_cast<int>(layers.size()), depth, s.heads, s.rows, s.columns});
    }
  }
  Json out = {{"name", what.name},
              {"source", "runs/" + what.name},
              {"step", 93800},
              {"normalizer", what.normalizer},
              {"depth", depth}};
  Json uniform_distance = Json::array(), centers = Json::array();
  for (const Layer& l : layers) {
    uniform_distance.push_back(0.5214 * std::sqrt(static_cast<double>(l.rows * l.columns)));
    centers.push_back((l.rows - 1) / 2 * l.columns + l.columns / 2);
    if (what.plain) continue;
    out["heads"].push_back(l.heads);
    out["grid"].push_back({l.rows, l.columns});
  }
  if (what.plain) {
    out["heads"] = layers[0].heads;
    out["grid"] = {layers[0].rows, layers[0].columns};
  }
  out["attention_distance_uniform"] = what.plain ? uniform_distance[0] : uniform_distance;
  out["center_token"] = what.plain ? centers[0] : centers;
  add_layers(out, layers, what);
  for (const char* key : {"lambda_mean", "lambda_var"}) {
    for (const Layer& l : layers) {
      out[key].push_back(what.dtn ? sites([&](int) {
        return heads(l, [&](int) { return 0.5 + (uniform() - 0.5) * 0.8 + 0.1 * l.deep(); });
      })
                                  : Json());
    }
  }
  if (what.dtn) add_positions(out, layers);
  out["lambda_history"] = nullptr;
  if (what.history > 0) add_history(out, layers, what.history);
  add_representations(out, layers, what);
  if (what.labels) out["loss"] = what.dtn ? 0.31 : 0.42;
  return out;
}

// Analysis of the given runs on one data set, with a similarity matrix for each pair.
inline Analysis example_analysis(const std::vector<ExampleRun>& runs) {
  ExampleMaker maker(7);
  Analysis out;
  out.json = {{"format", 1},
              {"inputs",
               {{"source", "fashion_mnist"},
                {"kind", "evaluation split"},
                {"count", 64},
                {"labels", true},
                {"image_size", {224, 224}}}}};
  for (const ExampleRun& r : runs) out.json["checkpoints"].push_back(maker.run(r));
  out.json["cka"] = nlohmann::ordered_json::array();
  for (std::size_t a = 0; a < runs.size(); ++a) {
    for (std::size_t b = a + 1; b < runs.size(); ++b) {
      nlohmann::ordered_json matrix = nlohmann::ordered_json::array();
      const std::size_t rows = out.json["checkpoints"][a]["residual_rms"].size();
      const std::size_t columns = out.json["checkpoints"][b]["residual_rms"].size();
      for (std::size_t i = 0; i < rows; ++i) {
        nlohmann::ordered_json row = nlohmann::ordered_json::array();
        for (std::size_t j = 0; j < columns; ++j) {
          const double apart = static_cast<double>(i) / static_cast<double>(rows) -
                               static_cast<double>(j) / static_cast<double>(columns);
          row.push_back(0.15 + 0.8 * std::exp(-8 * apart * apart) + 0.04 * maker.uniform());
        }
        matrix.push_back(row);
      }
      out.json["cka"].push_back({{"a", a}, {"b", b}, {"matrix", matrix}});
    }
  }
  for (int i = 0; i < 8; ++i) {
    Preview p{56, 56, {}};
    for (int y = 0; y < 56; ++y) {
      for (int x = 0; x < 56; ++x) {
        const double d = std::hypot(x - 20 - 2 * i, y - 28) - 14;
        const double light = 1 / (1 + std::exp(d));
        for (double tint : {1.0, 0.8 - 0.05 * i, 0.4 + 0.05 * i}) {
          p.rgb.push_back(static_cast<std::uint8_t>(40 + 60 * y / 56.0 + 150 * light * tint));
        }
      }
    }
    out.previews.push_back(std::move(p));
  }
  return out;
}

}  // namespace dtn
