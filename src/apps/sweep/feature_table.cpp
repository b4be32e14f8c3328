// The table of a sweep's evaluations of frozen features.
#include <algorithm>

#include "apps/sweep/sweep_report.h"
#include "config/codec.h"
#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr int kFeatureDigits = 2;

bool has_paper_features(const SweepConfig& sweep) {
  return std::ranges::any_of(sweep.variants,
                             [](const SweepVariant& v) { return !v.paper_features.empty(); });
}

std::vector<std::string> feature_columns(const SweepFeatures& features) {
  std::vector<std::string> columns = {"variant", "evaluation"};
  for (const int epoch : features.epochs) columns.push_back(cat("epoch ", epoch));
  if (features.epochs.empty()) columns.emplace_back("top-1 (%)");
  return columns;
}

std::string feature_cell(const SweepConfig& sweep, const VariantResult& r,
                         const std::vector<FeaturePoint>& points, std::size_t i) {
  const auto paper = paper_feature(sweep, r.variant, points[i]);
  return beside_paper(mean_text_of(r.features[i], kFeatureDigits, r.runs.size()),
                      paper ? format("%.*f", kFeatureDigits, *paper) : "");
}

// Number of the last blocks of a model that no class token has joined.
int blocks_without_token(const ModelConfig& model, int blocks) {
  const int depth = static_cast<int>(model.depth);
  return std::clamp(model.class_token_at - (depth - blocks), 0, blocks);
}

// Tells how many blocks give the mean of their patches; empty if all have a class token.
std::string token_note(const SweepConfig& sweep, const FeatureEvaluation& how) {
  if (how.is_knn() || how.block_count() == 1) return "";
  int least = how.block_count(), most = 0;
  for (const SweepVariant& v : sweep.variants) {
    const int without = blocks_without_token(v.config.model, how.block_count());
    least = std::min(least, without);
    most = std::max(most, without);
  }
  if (most == 0) return "";
  return cat("; ", least == most ? "" : "up to ", most, " of these blocks ",
             most == 1 ? "has no class token yet and gives the mean of its patches"
                       : "have no class token yet and give the mean of their patches");
}

std::string evaluation_note(const SweepConfig& sweep, const SweepEvaluation& evaluation) {
  const FeatureEvaluation& how = evaluation.how;
  if (how.is_knn()) {
    return cat(evaluation.label, ": the ", how.k, " nearest training images vote, temperature ",
               config::number_text(how.temperature), ".");
  }
  const std::string features = how.avgpool ? "class token and patch mean of the last block"
                                           : cat("the last ", counted(how.block_count(), "blocks"));
  return cat(evaluation.label, ": linear classifier on ", features, token_note(sweep, how), "; ",
             counted(how.epochs, "epochs"), ", rate ", config::number_text(how.lr),
             " for 256 images, batches of ", how.batch,
             how.augment ? ", random crops." : ", no augmentation.");
}

}  // namespace

std::string feature_title(const SweepConfig& sweep) {
  return cat("Features of the frozen model: top-1 (%)",
             has_paper_features(sweep) ? ", in parentheses the paper's" : "");
}

std::optional<double> paper_feature(const SweepConfig& sweep, std::size_t variant,
                                    const FeaturePoint& point) {
  const auto& paper = sweep.variants[variant].paper_features;
  const auto at = paper.find(sweep.features.evaluations[point.evaluation].name);
  return at == paper.end() ? std::nullopt : std::optional(at->second[point.index]);
}

TableText feature_table(const SweepReport& report) {
  const SweepConfig& sweep = report.sweep;
  if (sweep.features.evaluations.empty()) return {};
  TableText table{feature_columns(sweep.features), {}};
  const std::vector<FeaturePoint> points = feature_points(sweep.features);
  for (const VariantResult& r : report.results) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (points[i].index == 0) {
        table.rows.push_back({sweep.variants[r.variant].label,
                              sweep.features.evaluations[points[i].evaluation].label});
      }
      table.rows.back().push_back(feature_cell(sweep, r, points, i));
    }
  }
  return table;
}

std::vector<std::string> feature_notes(const SweepReport& report) {
  const SweepConfig& sweep = report.sweep;
  std::vector<std::string> notes;
  for (const SweepEvaluation& evaluation : sweep.features.evaluations) {
    notes.push_back(evaluation_note(sweep, evaluation));
  }
  if (!sweep.features.epochs.empty()) {
    notes.emplace_back("A column shows the checkpoints of the same runs after so many epochs.");
  }
  return notes;
}

std::string feature_markdown(const SweepReport& report) {
  const TableText table = feature_table(report);
  if (table.columns.empty()) return "";
  return cat("## ", feature_title(report.sweep), "\n\n", markdown_table(table), "\n",
             markdown_list(feature_notes(report)));
}

}  // namespace dtn
