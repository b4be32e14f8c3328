#include <algorithm>
#include <cstdlib>

#include "apps/report/analysis/figure_parts.h"
#include "apps/report/analysis/figures.h"
#include "dtn/core/check.h"
#include "plot/heat_map.h"

namespace dtn {
namespace drawing {
namespace {

struct NumberedMatrix {
  std::string title;
  std::size_t n;
  std::vector<double> values;
  std::vector<std::string> labels;
};

// P with equal weights for all tokens at a distance of at most `reach`.
NumberedMatrix banded(const std::string& title, std::size_t n, std::size_t reach) {
  NumberedMatrix m{title, n, {}, {}};
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t first = i < reach ? 0 : i - reach, last = std::min(n - 1, i + reach);
    const std::size_t count = last - first + 1;
    for (std::size_t j = 0; j < n; ++j) {
      const bool inside = j >= first && j <= last;
      m.values.push_back(inside ? 1.0 / static_cast<double>(count) : 0);
      m.labels.push_back(inside ? cat("1/", count) : "0");
    }
  }
  return m;
}

// Differences of key and query for each pair of the four tokens of a 2 x 2 grid.
NumberedMatrix relative(const std::string& title, int (*place)(int token)) {
  NumberedMatrix m{title, 4, {}, {}};
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const int d = place(j) - place(i);
      m.values.push_back(d);
      m.labels.push_back(d < 0 ? cat("\xE2\x88\x92", -d) : cat(d));
    }
  }
  return m;
}

void draw_matrix(plot::Canvas& canvas, plot::HeatSheet& sheet, const plot::Box& box,
                 const NumberedMatrix& m, const plot::ColorScale& scale) {
  sheet.add(box, m.values, static_cast<std::int64_t>(m.n), static_cast<std::int64_t>(m.n), scale);
  canvas.text({box.x + box.width / 2, box.y - 10}, m.title,
              {plot::kText, plot::Anchor::kMiddle, plot::kInk, true});
}

void draw_numbers(plot::Canvas& canvas, const plot::Box& box, const NumberedMatrix& m,
                  const plot::ColorScale& scale) {
  const double cell = box.width / static_cast<double>(m.n);
  for (std::size_t i = 0; i < m.values.size(); ++i) {
    const auto row = i / m.n, column = i % m.n;
    const plot::Point middle = {box.x + (static_cast<double>(column) + 0.5) * cell,
                                box.y + (static_cast<double>(row) + 0.5) * cell};
    canvas.text({middle.x, middle.y + 4}, m.labels[i],
                {plot::kSmallText, plot::Anchor::kMiddle,
                 plot::is_dark(scale.color(m.values[i])) ? plot::kWhite : plot::kBlack});
  }
  for (std::size_t k = 0; k <= m.n; ++k) {
    const double at = static_cast<double>(k) * cell;
    canvas.line({box.x + at, box.y}, {box.x + at, box.bottom()}, {plot::kSoft, 0.5});
    canvas.line({box.x, box.y + at}, {box.right(), box.y + at}, {plot::kSoft, 0.5});
  }
}

// Draws matrices side by side; rows are queries, columns are keys.
std::string draw_matrices(const std::string& title, const std::string& subtitle,
                          const std::string& description, const std::vector<NumberedMatrix>& all,
                          const plot::ColorScale& scale, double side) {
  const double top = 94, pitch = (kFigureWidth - 2 * kFigureSide) / static_cast<double>(all.size());
  plot::Canvas canvas(kFigureWidth, top + side + 40);
  draw_head(canvas, title, subtitle, {});
  plot::HeatSheet sheet(scale.map);
  std::vector<plot::Box> boxes;
  for (std::size_t i = 0; i < all.size(); ++i) {
    boxes.push_back(
        {kFigureSide + pitch * (static_cast<double>(i) + 0.5) - side / 2, top, side, side});
    draw_matrix(canvas, sheet, boxes[i], all[i], scale);
    canvas.text({boxes[i].x + side / 2, boxes[i].bottom() + 18}, "key",
                {plot::kSmallText, plot::Anchor::kMiddle, plot::kSoft});
    canvas.text({boxes[i].x - 8, boxes[i].y + side / 2}, "query",
                {plot::kSmallText, plot::Anchor::kMiddle, plot::kSoft, false, true});
  }
  sheet.draw(canvas);
  for (std::size_t i = 0; i < all.size(); ++i) draw_numbers(canvas, boxes[i], all[i], scale);
  return canvas.svg(description);
}

plot::Table matrices_table(const std::vector<NumberedMatrix>& all) {
  plot::Table table{{"matrix", "query"}, {}};
  for (std::size_t j = 0; j < all[0].n; ++j) table.columns.push_back(cat("key ", j + 1));
  for (const NumberedMatrix& m : all) {
    for (std::size_t i = 0; i < m.n; ++i) {
      std::vector<std::string> row = {m.title, cat(i + 1)};
      for (std::size_t j = 0; j < m.n; ++j) row.push_back(m.labels[i * m.n + j]);
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

}  // namespace
}  // namespace drawing

std::vector<plot::Figure> illustrations() {
  using namespace drawing;
  const std::vector<NumberedMatrix> weights = {
      banded("all tokens", 9, 8), banded("3 neighbours", 9, 1), banded("5 neighbours", 9, 2)};
  const std::string weights_title = "P selects the tokens of a mean";
  const std::string weights_text =
      "Three matrices of 9 by 9 weights: all entries one ninth; three neighbours; five neighbours";
  const std::string places_text =
      "Three matrices of 4 by 4 numbers: differences of index, of column and of row";
  const std::vector<NumberedMatrix> places = {
      relative("j \xE2\x88\x92 i", [](int token) { return token; }),
      relative("\xCE\x94x, columns", [](int token) { return token % 2; }),
      relative("\xCE\x94y, rows", [](int token) { return token / 2; })};
  const std::string places_title = "Relative positions of four tokens on a 2 \xC3\x97 2 grid";
  return {
      {"illustration_p", weights_title,
       "With equal entries, DTN's inter-token statistics are those of InstanceNorm; a band makes "
       "them local. Every row sums to 1, so rows at the edge have fewer and larger entries.",
       weights_text,
       draw_matrices(weights_title,
                     "nine tokens in a line; a row contains the weights of one query", weights_text,
                     weights, {{0, 0.5}, plot::ColorMap::kViridis, false}, 264),
       matrices_table(weights)},
      {"illustration_positions", places_title,
       "Key minus query, in token order and on the grid. P is computed from \xCE\x94x and "
       "\xCE\x94y: tokens above each other are near on the grid, but not in token order.",
       places_text,
       draw_matrices(places_title, "tokens 0, 1 in the upper row, 2, 3 in the lower", places_text,
                     places, {{-3, 3}, plot::ColorMap::kBlueWhiteRed, false}, 208),
       matrices_table(places)},
  };
}

}  // namespace dtn
