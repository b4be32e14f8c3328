#include "apps/report/run_figures.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/report/detections_figure.h"
#include "apps/report/figure_parts.h"
#include "apps/report/neighbors_figure.h"
#include "apps/report/picture_figures.h"
#include "apps/report/run_quantities.h"
#include "core/format.h"
#include "core/progress.h"
#include "dtn/core/check.h"
#include "io/atomic_file.h"
#include "plot/chart.h"
#include "plot/heat_map.h"
#include "plot/panel.h"
#include "plot/text.h"

namespace dtn {

using namespace drawing;

namespace {

constexpr std::size_t kTrainingPoints = 150;  // per line of logged steps

plot::Series line_of(const RunGroup& group, const Quantity& q, std::size_t style) {
  std::vector<plot::Series> runs;
  for (const RunRecord& run : group.runs) {
    const plot::Series* curve = curve_in(run, q);
    if (!curve) continue;
    runs.push_back(q.split.empty() ? plot::coarser(*curve, kTrainingPoints) : *curve);
  }
  plot::Series line = plot::mean_of(runs);
  line.label = group.label;
  line.style = style;
  return line;
}

double last_of(const plot::Series& s) { return s.y.empty() ? plot::kMissing : s.y.back(); }

std::string subtitle_of(std::span<const RunGroup> groups, const Quantity& q) {
  std::string text = q.split.empty() ? "means of neighbouring logged steps" : "";
  if (std::ranges::any_of(groups, [](const RunGroup& g) { return g.runs.size() > 1; })) {
    text += cat(text.empty() ? "" : "; ", "bands: minimum to maximum of several runs");
  }
  return text;
}

plot::Table last_values(const std::vector<plot::Series>& lines, std::span<const RunGroup> groups) {
  plot::Table table{{"run", "first", "last", "min", "max", "runs"}, {}};
  for (const plot::Series& line : lines) {
    const auto [least, most] = std::ranges::minmax(line.y);
    table.rows.push_back({line.label, plot::readable(line.y.front()), plot::readable(line.y.back()),
                          plot::readable(least), plot::readable(most),
                          cat(groups[line.style].runs.size())});
  }
  return table;
}

void set_width(plot::Chart& chart, double width) {
  chart.width = width;
  chart.height = 190 + width / 3;  // 430 at the usual width
}

std::optional<plot::Figure> draw_quantity(std::span<const RunGroup> groups, const Quantity& q,
                                          double width) {
  plot::Chart chart{.title = q.title, .subtitle = subtitle_of(groups, q)};
  set_width(chart, width);
  chart.x.label = "epoch";
  chart.y.label = q.label;
  chart.y.log = q.log;
  if (q.percent) chart.y.limit = plot::kPercent;
  chart.rules = q.rules;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    plot::Series line = line_of(groups[g], q, g);
    if (std::ranges::any_of(line.y, [](double v) { return std::isfinite(v); })) {
      chart.series.push_back(std::move(line));
    }
  }
  if (chart.series.empty()) return std::nullopt;
  if (!q.split.empty()) {  // best run first
    std::ranges::stable_sort(chart.series, [&](const plot::Series& a, const plot::Series& b) {
      return q.higher_is_better ? last_of(a) > last_of(b) : last_of(a) < last_of(b);
    });
  }
  if (groups.size() == 1) chart.series[0].label.clear();
  const std::string description = cat(q.title, " over the epochs");
  plot::Figure figure{q.name, q.title, q.caption, description, plot::draw_chart(chart, description),
                      {}};
  set_width(chart, plot::kPhoneWidth);
  figure.phone_svg = plot::draw_chart(chart, description);
  for (plot::Series& line : chart.series) line.label = groups[line.style].label;
  figure.table = last_values(chart.series, groups);
  return figure;
}

// Converts the record to the form of an analysis, and draws its lambda_history.
void add_lambda_figures(const RunRecord& run, std::vector<plot::Figure>& out) {
  const AnalysisJson& first = item(member(run.lambdas, "lambda_mean"), 0);
  if (!first.is_array()) return;
  AnalysisJson heads = AnalysisJson::array();
  for (const AnalysisJson& layer : first) {
    std::size_t most = 0;
    for (std::size_t site = 0; site < kSites; ++site) {
      most = std::max(most, numbers_of(item(layer, site)).size());
    }
    heads.push_back(most);
  }
  const AnalysisJson checkpoint = {{"name", run.name},
                                   {"depth", heads.size()},
                                   {"heads", heads},
                                   {"lambda_history", run.lambdas}};
  const AnalysisJson analysis = {{"checkpoints", AnalysisJson::array({checkpoint})}};
  add_lambda_history({analysis, read_runs(analysis), {}, {}}, out);
}

std::vector<std::string> parts_of(const RunRecord& run) {
  std::vector<std::string> parts;
  const AnalysisJson& norms = member(item(run.gradients, 0), "gradient_norm");
  if (!norms.is_object()) return parts;
  for (const auto& [part, norm] : norms.items()) parts.push_back(part);
  return parts;
}

// Heat map of log10 of the norm: a row for each part of the model, a column for each evaluation.
void add_gradient_figure(const RunRecord& run, std::vector<plot::Figure>& out) {
  constexpr double kRow = 18, kTop = 86, kBelow = 50, kRight = 20;
  const std::vector<std::string> parts = parts_of(run);
  const std::size_t times = run.gradients.size();
  if (parts.empty() || times < 2) return;
  std::vector<double> values;  // [parts][times], log10
  plot::ColorScale scale;
  plot::Table table{{"part", "first", "last"}, {}};
  double names = 0;
  for (const std::string& part : parts) {
    std::vector<double> row;
    for (const AnalysisJson& line : run.gradients) {
      const AnalysisJson& norms = member(line, "gradient_norm");
      const auto at = norms.is_object() ? norms.find(part) : norms.end();
      row.push_back(at == norms.end() ? plot::kMissing : number_of(*at));
    }
    table.rows.push_back({part, plot::readable(row.front()), plot::readable(row.back())});
    for (const double v : row) values.push_back(v > 0 ? std::log10(v) : plot::kMissing);
    names = std::max(names, plot::text_width(part, plot::kSmallText));
  }
  scale.range.take_in(values);
  const double left = kFigureSide + names + 10, width = kFigureWidth - left - kRight;
  const double height = kRow * static_cast<double>(parts.size());
  const std::string title = "Gradient norm in each part of the model";
  plot::Canvas canvas(kFigureWidth, kTop + height + kBelow);
  draw_head(canvas, title, "one column per evaluation; logarithmic colours", {});
  plot::HeatSheet sheet(scale.map);
  const plot::Box area = {left, kTop, width, height};
  sheet.add(area, values, static_cast<std::int64_t>(parts.size()), static_cast<std::int64_t>(times),
            scale);
  sheet.draw(canvas);
  canvas.frame(area, {plot::kSoft, 0.8});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    canvas.text({left - 6, kTop + kRow * (static_cast<double>(i) + 0.5) + 4}, parts[i],
                {plot::kSmallText, plot::Anchor::kEnd, plot::kSoft});
  }
  const auto epoch = [&](std::size_t t) {
    return plot::readable(number_of(member(run.gradients[t], "epoch")), 3);
  };
  canvas.text({left, area.bottom() + 16}, "epoch " + epoch(0),
              {plot::kSmallText, plot::Anchor::kStart, plot::kSoft});
  canvas.text({area.right(), area.bottom() + 16}, "epoch " + epoch(times - 1),
              {plot::kSmallText, plot::Anchor::kEnd, plot::kSoft});
  plot::draw_color_bar(canvas, {kFigureWidth - 240, 34, 220, 10}, scale,
                       "logarithm of the norm, base 10");
  out.push_back(
      {"gradient_parts", title,
       "Before clipping. A part that stays dark learns little; one that grows may diverge.", title,
       canvas.svg(title), table});
}

void add_samples(const RunRecord& run, std::vector<plot::Figure>& out) {
  constexpr std::size_t kSizeAt = 16;  // offset in a PNG: width, then height, big-endian
  if (run.samples.size() < kSizeAt + 8) return;
  const auto number_at = [&](std::size_t at) {
    double n = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      n = 256 * n + static_cast<unsigned char>(run.samples[at + i]);
    }
    return n;
  };
  const double pixels = number_at(kSizeAt), rows = number_at(kSizeAt + 4);
  if (pixels < 1 || rows < 1) return;
  const double width = std::clamp(pixels * 2, 300.0, kFigureWidth - 2 * kFigureSide);
  const double height = rows * width / pixels;
  const std::string title = "Training images";
  plot::Canvas canvas(kFigureWidth, height + 60);
  draw_head(canvas, title, "images of the first batch, with the augmentation of the config", {});
  canvas.image({kFigureSide, 54, width, height}, run.samples);
  out.push_back({"samples", title, {}, "sixteen augmented training images", canvas.svg(title), {}});
}

// Last and best value of an evaluation metric; missing if there are none.
struct Reached {
  double last = plot::kMissing, best = plot::kMissing, best_epoch = plot::kMissing;
};

Reached reached_in(const RunRecord& run, const std::string& split, const std::string& key,
                   bool higher_is_better) {
  Reached out;
  const auto curves = run.evaluations.find(split);
  if (curves == run.evaluations.end()) return out;
  const auto found = curves->second.find(key);
  if (found == curves->second.end()) return out;
  const plot::Series& s = found->second;
  out.last = s.y.back();
  for (std::size_t i = 0; i < s.y.size(); ++i) {
    const bool better = higher_is_better ? s.y[i] > out.best : s.y[i] < out.best;
    if (!std::isfinite(out.best) || better) {
      out.best = s.y[i];
      out.best_epoch = s.x[i];
    }
  }
  return out;
}

// "top-1" becomes "Top-1"; "k-NN" stays.
std::string sentence_start(std::string text) {
  if (!text.starts_with("k-NN")) text[0] = static_cast<char>(std::toupper(text[0]));
  return text;
}

std::vector<std::string> lead_of(const RunRecord& run) {
  std::vector<std::string> lead;
  const bool over = run.summary.is_object();
  if (const auto diverged = run.diverged_at()) {
    const std::string last = text_of(member(run.summary, "last_checkpoint"));
    lead.push_back(cat("Diverged at step ", *diverged, ". ",
                       last.empty() ? "No checkpoint has a finite loss."
                                    : "The newest checkpoint with a finite loss is " + last + "."));
  } else {
    lead.push_back(cat(over ? "Finished" : "In progress", " at step ", run.step, ", epoch ",
                       plot::readable(run.epoch, 4), "."));
  }
  for (const auto& [step, text] : run.warnings) {
    lead.push_back(cat("Warning at step ", step, ": ", text, "."));
  }
  const Reached top1 = reached_in(run, "val", "top1", true);
  if (std::isfinite(top1.last)) {
    const std::string what = sentence_start(accuracy_name(run.task, "top-1"));
    lead.push_back(what + format(" %.2f %% at the last evaluation; best %.2f %% after epoch %.4g.",
                                 top1.last, top1.best, top1.best_epoch));
  }
  const Reached map = reached_in(run, "val", "map", true);
  if (std::isfinite(map.last)) {
    lead.push_back(format("mAP %.4f at the last evaluation; best %.4f after epoch %.4g.", map.last,
                          map.best, map.best_epoch));
  }
  const Reached loss = reached_in(run, "val", "loss", false);
  if (std::isfinite(loss.last)) {
    lead.push_back(format("Loss %.4f at the last evaluation; best %.4f.", loss.last, loss.best));
  }
  if (over) {
    lead.push_back(cat("It took ", format_duration(number_of(member(run.summary, "wall_seconds"))),
                       " on ", text_of(member(run.summary, "device")), "."));
  }
  return lead;
}

// Says how to make the pictures of neighbours that a run without evaluations lacks.
plot::Section advice_on_neighbors(const std::filesystem::path& folder) {
  return {
      .title = "Nearest neighbours",
      .paragraphs = {"No evaluation has drawn nearest neighbours. This command writes a page of "
                     "them, from the newest checkpoint:"},
      .preformatted = cat("dtn-eval --checkpoint ", folder.string(),
                          " --task knn --save-neighbors neighbors.html")};
}

// Says how to find out where the model is wrong.
plot::Section advice_on_errors(const std::filesystem::path& folder) {
  return {
      .title = "Errors",
      .paragraphs = {"This command writes a page on where the best checkpoint is wrong: confused "
                     "classes, surely wrong images, figures of each class, calibration:"},
      .preformatted = cat("dtn-eval --checkpoint ", shell_quoted(folder.string()), " --report ",
                          shell_quoted((folder / "errors").string()))};
}

}  // namespace

std::vector<plot::Figure> curve_figures(std::span<const RunGroup> groups, double width) {
  std::vector<plot::Figure> figures;
  for (const Quantity& q : quantities_of(groups)) {
    if (auto figure = draw_quantity(groups, q, width)) figures.push_back(std::move(*figure));
  }
  return figures;
}

void write_run_report(const std::filesystem::path& folder) {
  const RunGroup group{{}, {read_run_record(folder)}};
  const RunRecord& run = group.runs.front();
  plot::Page page{.title = run.name, .lead = lead_of(run)};
  page.sections.push_back({"Curves", {}, curve_figures({&group, 1})});
  if (std::vector<plot::Figure> pictures = picture_figures(run.pictures); !pictures.empty()) {
    page.sections.push_back({"Samples of the model", {}, std::move(pictures)});
  }
  for (plot::Section& section : detections_sections(folder)) {
    page.sections.push_back(std::move(section));
  }
  if (auto gallery = neighbors_gallery(run.neighbors, run.neighbors_png)) {
    page.sections.push_back({.title = gallery->title, .galleries = {*gallery}});
  } else if (compares_neighbors(run.task)) {
    page.sections.push_back(advice_on_neighbors(folder));
  }
  const bool has_classes = run.task == "classify" || run.task == "multilabel";
  if (has_classes && !run.evaluations.empty()) page.sections.push_back(advice_on_errors(folder));
  std::vector<plot::Figure> inner;
  add_lambda_figures(run, inner);
  add_gradient_figure(run, inner);
  add_samples(run, inner);
  if (!inner.empty()) page.sections.push_back({"Inside the model", {}, std::move(inner)});
  page.sections.push_back({.title = "Config", .preformatted = run.config});
  write_file_atomic(folder / "report.html", plot::html(page));
}

std::string comparison_page(const std::string& title, std::span<const RunGroup> groups,
                            const std::vector<plot::Figure>& figures) {
  plot::Page page{.title = title};
  page.overview.columns = {"run", "seeds", "epoch", "top-1 (%), last", "best", "loss, last"};
  for (const RunGroup& group : groups) {
    double last = 0, best = 0, loss = 0, epoch = 0;
    std::string diverged;
    const auto n = static_cast<double>(group.runs.size());
    for (const RunRecord& run : group.runs) {
      const Reached top1 = reached_in(run, "val", "top1", true);
      last += top1.last / n;
      best += top1.best / n;
      loss += reached_in(run, "val", "loss", false).last / n;
      epoch = std::max(epoch, run.epoch);
      if (const auto step = run.diverged_at()) {
        diverged += cat(diverged.empty() ? ", diverged at step " : ", ", *step);
      }
    }
    const auto number = [](const char* pattern, double v) {
      return std::isfinite(v) ? format(pattern, v) : std::string("-");
    };
    page.overview.rows.push_back({group.label, cat(group.runs.size()),
                                  plot::readable(epoch) + diverged, number("%.2f", last),
                                  number("%.2f", best), number("%.4f", loss)});
  }
  page.sections.push_back({"Curves", {}, figures});
  return plot::html(page);
}

}  // namespace dtn
