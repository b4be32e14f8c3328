#include <algorithm>
#include <cmath>

#include "apps/report/analysis/figure_parts.h"
#include "apps/report/class_report_figures.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "plot/heat_map.h"
#include "plot/text.h"

namespace dtn {

using namespace drawing;

namespace {

constexpr double kMaxCell = 56;
constexpr double kMaxColumnName = 130;  // height of the names below the matrix
constexpr double kLine = 18;            // height of a line of the subtitle
const plot::ColorScale kShares = {{0, 100}, plot::ColorMap::kViridis, true};

struct Matrix {
  std::vector<std::string> rows, columns;
  std::vector<std::int64_t> counts;  // [rows, columns]
  std::vector<double> shares;        // of the samples of the row, in percent
  bool is_part = false;              // of the classes; the last column counts the others

  std::size_t width() const { return columns.size(); }
};

Matrix matrix_of(const ClassReport& report, std::size_t most) {
  Matrix m;
  const std::vector<std::int64_t> shown = most_confused(report.figures, most);
  m.is_part = shown.size() < report.classes.size();
  for (const std::int64_t c : shown) m.rows.push_back(report.class_name(c));
  m.columns = m.rows;
  if (m.is_part) m.columns.push_back("others");
  for (const std::int64_t truth : shown) {
    const std::vector<std::int64_t> row = report.figures.confusion_row(truth);
    const std::int64_t support = report.class_figures(truth).support;
    const std::size_t begin = m.counts.size();
    std::int64_t others = support;
    for (const std::int64_t prediction : shown) {
      m.counts.push_back(row[static_cast<std::size_t>(prediction)]);
      others -= m.counts.back();
    }
    if (m.is_part) m.counts.push_back(others);
    for (std::size_t i = begin; i < m.counts.size(); ++i) {
      m.shares.push_back(support > 0
                             ? 100 * static_cast<double>(m.counts[i]) / static_cast<double>(support)
                             : plot::kMissing);
    }
  }
  return m;
}

double longest(const std::vector<std::string>& names) {
  double width = 0;
  for (const std::string& name : names) {
    width = std::max(width, plot::text_width(name, plot::kSmallText));
  }
  return width;
}

// Number in each cell: counts if they fit, else percent of the row if these fit. Empty: none fits.
std::vector<std::string> labels_of(const Matrix& m, double cell, bool& in_percent) {
  std::vector<std::string> counts, shares;
  for (std::size_t i = 0; i < m.counts.size(); ++i) {
    const bool any = m.counts[i] > 0;
    counts.push_back(any ? cat(m.counts[i]) : "");
    const long share = any ? std::lround(m.shares[i]) : 0;
    shares.push_back(share > 0 ? cat(share) : "");
  }
  in_percent = false;
  if (longest(counts) + 4 <= cell) return counts;
  in_percent = true;
  if (longest(shares) + 2 <= cell) return shares;
  return {};
}

class MatrixDrawing {
 public:
  MatrixDrawing(const Matrix& matrix, const std::string& noun, double width)
      : matrix_(matrix), width_(width) {
    const double room = width - 2 * kFigureSide;
    names_ = std::min(longest(matrix.rows), 0.3 * room);
    left_ = kFigureSide + 20 + names_;
    cell_ = std::min((width - kFigureSide - left_) / static_cast<double>(matrix.width()), kMaxCell);
    labels_ = labels_of(matrix, cell_, in_percent_);
    if (const std::string text = subtitle_of(noun); !text.empty()) {
      subtitle_ = plot::wrapped(text, plot::kSmallText, room, 4);
    }
    top_ = 40 + kLine * static_cast<double>(subtitle_.size());
  }

  std::string svg(const std::string& title, const std::string& description) const {
    const auto rows = static_cast<double>(matrix_.rows.size());
    const auto columns = static_cast<double>(matrix_.width());
    const plot::Box area = {left_, top_, cell_ * columns, cell_ * rows};
    const double below = std::min(longest(matrix_.columns), kMaxColumnName) + 14;
    const double bar = std::min(220.0, width_ - kFigureSide - left_);
    // A narrow matrix stands in the middle of the page.
    const double right = std::max({area.right(), left_ + bar, title_width(title)}) + kFigureSide;
    plot::Canvas canvas(std::min(right, width_), area.bottom() + below + 80);
    draw_heading(canvas, title);
    plot::HeatSheet sheet(kShares.map);
    sheet.add(area, matrix_.shares, static_cast<std::int64_t>(rows),
              static_cast<std::int64_t>(columns), kShares);
    sheet.draw(canvas);
    canvas.frame(area, {plot::kSoft, 0.8});
    draw_names(canvas, area);
    draw_labels(canvas, area);
    canvas.text({kFigureSide + 8, area.y + area.height / 2}, "truth",
                {plot::kText, plot::Anchor::kMiddle, plot::kInk, false, true});
    canvas.text({area.x + area.width / 2, area.bottom() + below + 8}, "prediction",
                {plot::kText, plot::Anchor::kMiddle, plot::kInk});
    plot::draw_color_bar(canvas, {left_, area.bottom() + below + 42, bar, 10}, kShares,
                         "share of the row (%)");
    return canvas.svg(description);
  }

 private:
  std::string subtitle_of(const std::string& noun) const {
    std::string text;
    if (!labels_.empty()) text = in_percent_ ? "percent of the row" : "number of " + noun;
    if (matrix_.is_part) {
      text +=
          cat(text.empty() ? "" : "; ", matrix_.rows.size(), " classes that are confused the most");
    }
    return text;
  }

  // Width of the title and the subtitle.
  double title_width(const std::string& title) const {
    double width = plot::text_width(title, plot::kTitleText * plot::kBoldWidth);
    for (const std::string& line : subtitle_) {
      width = std::max(width, plot::text_width(line, plot::kSmallText));
    }
    return kFigureSide + width;
  }

  void draw_heading(plot::Canvas& canvas, const std::string& title) const {
    canvas.text({kFigureSide, 26}, title,
                {plot::kTitleText, plot::Anchor::kStart, plot::kInk, true});
    for (std::size_t i = 0; i < subtitle_.size(); ++i) {
      canvas.text({kFigureSide, 46 + kLine * static_cast<double>(i)}, subtitle_[i],
                  {plot::kSmallText, plot::Anchor::kStart, plot::kSoft});
    }
  }

  void draw_names(plot::Canvas& canvas, const plot::Box& area) const {
    for (std::size_t r = 0; r < matrix_.rows.size(); ++r) {
      canvas.text({left_ - 6, area.y + cell_ * (static_cast<double>(r) + 0.5) + 4},
                  plot::fitted(matrix_.rows[r], plot::kSmallText, names_),
                  {plot::kSmallText, plot::Anchor::kEnd, plot::kInk});
    }
    for (std::size_t c = 0; c < matrix_.width(); ++c) {
      canvas.text({left_ + cell_ * (static_cast<double>(c) + 0.5) + 4, area.bottom() + 6},
                  plot::fitted(matrix_.columns[c], plot::kSmallText, kMaxColumnName),
                  {plot::kSmallText, plot::Anchor::kEnd, plot::kInk, false, true});
    }
  }

  void draw_labels(plot::Canvas& canvas, const plot::Box& area) const {
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      if (labels_[i].empty()) continue;
      const std::size_t r = i / matrix_.width(), c = i % matrix_.width();
      const auto row = static_cast<double>(r), column = static_cast<double>(c);
      const bool dark = plot::is_dark(kShares.color(matrix_.shares[i]));
      canvas.text({area.x + cell_ * (column + 0.5), area.y + cell_ * (row + 0.5) + 4}, labels_[i],
                  {plot::kSmallText, plot::Anchor::kMiddle, dark ? plot::kWhite : plot::kBlack});
    }
  }

  const Matrix& matrix_;
  double width_, names_, left_, cell_, top_;
  bool in_percent_ = false;
  std::vector<std::string> labels_;  // of the cells; empty: no room for any
  std::vector<std::string> subtitle_;
};

plot::Table pairs_table(const ClassReport& report) {
  plot::Table table{{"truth", "taken for", report.noun, "of", "share (%)"}, {}};
  for (const Confusion& pair : confused_pairs(report.figures)) {
    if (table.rows.size() == kListedPairs) break;
    const std::int64_t support = report.class_figures(pair.truth).support;
    table.rows.push_back(
        {report.class_name(pair.truth), report.class_name(pair.prediction), cat(pair.count),
         cat(support),
         format("%.1f", 100 * static_cast<double>(pair.count) / static_cast<double>(support))});
  }
  return table;
}

}  // namespace

plot::Figure confusion_figure(const ClassReport& report) {
  const std::string title = "Confusion matrix";
  const Matrix matrix = matrix_of(report, kMatrixClasses);
  std::string caption = cat("Each row is a class, and shows as what its ", report.noun,
                            " are predicted; right predictions are on the diagonal.");
  if (matrix.is_part) {
    caption += cat(" Of ", report.classes.size(),
                   " classes, the matrix has those that are confused the most, in an order that "
                   "puts confused classes together.");
    if (report.classes.size() <= kMaxMatrixInJson) caption += " report.json has the whole matrix.";
  }
  const std::string description = cat("confusion matrix of ", matrix.rows.size(),
                                      " classes; its numbers are the table of pairs");
  const Matrix narrow = matrix_of(report, kPhoneMatrixClasses);
  return {
      .name = "confusion",
      .title = title,
      .caption = caption,
      .description = description,
      .svg = MatrixDrawing(matrix, report.noun, kFigureWidth).svg(title, description),
      .table = pairs_table(report),
      .phone_svg = MatrixDrawing(narrow, report.noun, plot::kPhoneWidth).svg(title, description)};
}

}  // namespace dtn
