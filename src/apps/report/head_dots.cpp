#include "apps/report/head_dots.h"

#include <algorithm>
#include <cmath>

#include "dtn/core/check.h"
#include "plot/text.h"

namespace dtn::drawing {
namespace {

using LayerHeads = std::vector<std::vector<double>>;  // [L][heads]

constexpr double kPanelHeight = 180;
constexpr double kRowHeight = kPanelHeight + 66;
constexpr std::size_t kMaxColumns = 4;

// A panel of the figure: one run at one site, or the differences of the other runs to the first.
struct Part {
  std::size_t site = 0;
  std::size_t run = 0;  // index among the runs; unused for a difference
  bool difference = false;
};

bool has_numbers(const LayerHeads& values) {
  return std::any_of(values.begin(), values.end(), any_number);
}

bool same_shape(const LayerHeads& a, const LayerHeads& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(),
                    [](const auto& x, const auto& y) { return x.size() == y.size(); });
}

LayerHeads difference(const LayerHeads& a, const LayerHeads& b) {
  LayerHeads out = a;
  for (std::size_t l = 0; l < out.size(); ++l) {
    for (std::size_t h = 0; h < out[l].size(); ++h) out[l][h] -= b[l][h];
  }
  return out;
}

bool has_reference(const Reference& reference) {
  return std::any_of(reference.values.begin(), reference.values.end(), has_numbers);
}

std::vector<double> medians(const LayerHeads& values) {
  std::vector<double> out;
  for (const std::vector<double>& heads : values) out.push_back(median_of(heads));
  return out;
}

class DotsFigure {
 public:
  DotsFigure(const std::vector<AnalyzedRun>& runs, HeadDots what)
      : runs_(runs), what_(std::move(what)) {
    sites_ = what_.values.empty() ? 0 : what_.values[0].size();
    if (what_.reference && !has_reference(*what_.reference)) what_.reference.reset();
    for (std::size_t s = 0; s < sites_; ++s) plan_site(s);
    // With one run, the two sites are side by side.
    if (lines_.size() == 2 && lines_[0].size() == 1 && lines_[1].size() == 1) {
      lines_[0].push_back(lines_[1][0]);
      lines_.pop_back();
    }
  }

  bool empty() const { return lines_.empty(); }
  plot::Figure draw();

 private:
  const LayerHeads& of(const Part& part) const { return what_.values[part.run][part.site]; }
  void plan_site(std::size_t site);
  void settle_axes();
  std::vector<plot::LegendEntry> legend() const;
  void draw_line(plot::Canvas& canvas, const std::vector<Part>& line, double top) const;
  void draw_run(plot::Canvas& canvas, const plot::Box& area, const Part& part, bool labels,
                bool pixels) const;
  void draw_difference(plot::Canvas& canvas, const plot::Box& area, const Part& part) const;
  void draw_heads(plot::Canvas& canvas, plot::Panel& panel, const LayerHeads& values,
                  std::size_t style, bool dots) const;
  bool one_pixel_size() const;
  plot::Table table() const;

  const std::vector<AnalyzedRun>& runs_;
  HeadDots what_;
  std::size_t sites_ = 0;
  std::vector<std::vector<Part>> lines_;  // rows of panels, from the top
  std::vector<std::size_t> first_;        // first run with numbers, by site
  plot::Axis differences_;
  bool compared_ = false;
};

// Plans the panels of the runs with numbers, then of their differences, in rows of at most four.
void DotsFigure::plan_site(std::size_t site) {
  std::vector<Part> parts;
  for (std::size_t r = 0; r < runs_.size(); ++r) {
    const Part part{site, r, false};
    if (has_numbers(of(part))) parts.push_back(part);
  }
  const bool comparable =
      parts.size() > 1 && std::any_of(parts.begin() + 1, parts.end(), [&](const Part& p) {
        return same_shape(of(p), of(parts[0]));
      });
  if (comparable) parts.push_back({site, parts[0].run, true});
  compared_ |= comparable;
  first_.push_back(parts.empty() ? 0 : parts[0].run);
  const std::size_t rows = (parts.size() + kMaxColumns - 1) / kMaxColumns;
  for (std::size_t i = 0; i < rows; ++i) {  // about equally many per row
    lines_.emplace_back(parts.begin() + static_cast<std::ptrdiff_t>(i * parts.size() / rows),
                        parts.begin() + static_cast<std::ptrdiff_t>((i + 1) * parts.size() / rows));
  }
}

void DotsFigure::settle_axes() {
  what_.y.label = what_.unit;
  if (what_.from_zero && !what_.y.log) what_.y.data.take_in(0);
  differences_.label = "difference";
  differences_.data.take_in(0);
  for (const std::vector<Part>& line : lines_) {
    for (const Part& part : line) {
      if (part.difference) continue;
      for (const std::vector<double>& heads : of(part)) what_.y.data.take_in(heads);
      if (what_.reference) what_.y.data.take_in(what_.reference->values[part.run][part.site]);
      const Part first{part.site, first_[part.site], false};
      if (!compared_ || !same_shape(of(part), of(first))) continue;
      for (const auto& heads : difference(of(part), of(first))) differences_.data.take_in(heads);
    }
  }
}

std::vector<plot::LegendEntry> DotsFigure::legend() const {
  std::vector<plot::LegendEntry> entries;
  for (std::size_t r = 0; r < runs_.size(); ++r) {
    if (std::any_of(what_.values[r].begin(), what_.values[r].end(), has_numbers)) {
      entries.push_back(legend_entry(runs_[r], plot::Sample::kLineAndMarker));
    }
  }
  if (what_.reference) {
    entries.push_back(
        {what_.reference->label, plot::Sample::kLine, 0, plot::Stroke{plot::kInk, 1.2, "5 4"}});
  }
  return entries;
}

void DotsFigure::draw_heads(plot::Canvas& canvas, plot::Panel& panel, const LayerHeads& values,
                            std::size_t style, bool dots) const {
  const std::vector<double> places = layer_places(values.size());
  const std::vector<double> middle = medians(values);
  std::vector<plot::Point> points;
  for (std::size_t l = 0; l < places.size(); ++l) {
    points.push_back({panel.x(places[l]), panel.y(middle[l])});
  }
  canvas.polyline(points, plot::series_stroke(style, 2));
  if (!dots) {
    panel.dots({"", places, middle, {}, {}, style}, 6);
    return;
  }
  for (std::size_t l = 0; l < places.size(); ++l) {
    const std::vector<double> x(values[l].size(), places[l]);
    panel.dots({"", x, values[l], {}, {}, style}, values.size() > 20 ? 4 : 5.5);
  }
}

void DotsFigure::draw_run(plot::Canvas& canvas, const plot::Box& area, const Part& part,
                          bool labels, bool pixels) const {
  plot::PanelLook look;
  look.y_labels = labels;
  const std::string site = sites_ > 1 ? cat(": norm", part.site + 1) : "";
  look.title = panel_title(runs_[part.run].name, site, area.width);
  plot::Panel panel(canvas, area, layer_axis(of(part).size()), what_.y, look);
  mark_stages(canvas, panel, runs_[part.run]);
  if (what_.reference) {
    std::vector<plot::Point> dashes;
    const std::vector<double>& values = what_.reference->values[part.run][part.site];
    for (std::size_t l = 0; l < values.size(); ++l) {  // as steps, because each layer has one value
      for (double side : {0.5, 1.5}) {
        dashes.push_back({panel.x(static_cast<double>(l) + side), panel.y(values[l])});
      }
    }
    canvas.polyline(dashes, {plot::kInk, 1.2, "5 4"});
  }
  if (pixels) panel.right_axis(what_.pixels[part.run], "pixels");
  draw_heads(canvas, panel, of(part), runs_[part.run].index, true);
}

void DotsFigure::draw_difference(plot::Canvas& canvas, const plot::Box& area,
                                 const Part& part) const {
  std::vector<std::size_t> others;
  for (std::size_t r = part.run + 1; r < runs_.size(); ++r) {
    const LayerHeads& values = what_.values[r][part.site];
    if (has_numbers(values) && same_shape(values, of(part))) others.push_back(r);
  }
  const std::string minus = " \xE2\x88\x92 ";
  plot::PanelLook look;
  look.title = panel_title(others.size() == 1 ? runs_[others[0]].name : std::string("others"),
                           minus + plot::fitted(runs_[part.run].name, plot::kText, area.width / 2),
                           area.width);
  plot::Panel panel(canvas, area, layer_axis(of(part).size()), differences_, look);
  mark_stages(canvas, panel, runs_[part.run]);
  panel.rule(0, {plot::kInk, 1.2});
  for (std::size_t r : others) {
    draw_heads(canvas, panel, difference(what_.values[r][part.site], of(part)), runs_[r].index,
               others.size() == 1);
  }
}

// Panels share the axis of patches, so they can share an axis of pixels only for equal patch sizes.
bool DotsFigure::one_pixel_size() const {
  return !what_.pixels.empty() && std::all_of(what_.pixels.begin(), what_.pixels.end(),
                                              [this](double p) { return p == what_.pixels[0]; });
}

void DotsFigure::draw_line(plot::Canvas& canvas, const std::vector<Part>& line, double top) const {
  constexpr double kGap = 14;
  const double left = plot::left_margin(what_.y, kPanelHeight);
  const bool second_axis = one_pixel_size();
  const double right = second_axis ? 58 : 0;
  // All rows are laid out for the longest row, so that all panels are equally wide.
  std::size_t most = 0;
  for (const std::vector<Part>& other : lines_) most = std::max(most, other.size());
  const double extra = compared_ ? plot::left_margin(differences_, kPanelHeight) : 0;
  const double n = static_cast<double>(most);
  const double inside = kFigureWidth - kFigureSide - 8 - left - extra - right - (n - 1) * kGap;
  const double width = inside / n;
  double x = 8 + left;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i].difference) {
      x += extra;
      draw_difference(canvas, {x, top, width, kPanelHeight}, line[i]);
    } else {
      const bool last = i + 1 == line.size() || line[i + 1].difference;
      draw_run(canvas, {x, top, width, kPanelHeight}, line[i], i == 0, last && second_axis);
      if (last) x += right;
    }
    x += width + kGap;
  }
}

plot::Table DotsFigure::table() const {
  plot::Table table{{"run", "place", "layer", "median"}, {}};
  std::size_t most = 0;
  for (const std::vector<Part>& line : lines_) {
    for (const Part& part : line) {
      for (std::size_t l = 0; !part.difference && l < of(part).size(); ++l) {
        const std::vector<double>& heads = of(part)[l];
        if (!any_number(heads)) continue;
        most = std::max(most, heads.size());
        std::vector<std::string> row = {runs_[part.run].name,
                                        sites_ > 1 ? cat("norm", part.site + 1) : "block",
                                        cat(l + 1), plot::readable(median_of(heads))};
        for (double v : heads) row.push_back(plot::readable(v));
        table.rows.push_back(std::move(row));
      }
    }
  }
  for (std::size_t h = 0; h < most; ++h) table.columns.push_back(cat("head ", h + 1));
  return table;
}

plot::Figure DotsFigure::draw() {
  settle_axes();
  const std::vector<plot::LegendEntry> entries = legend();
  const double head = head_height(entries) + 22;
  plot::Canvas canvas(kFigureWidth, head + kRowHeight * static_cast<double>(lines_.size()));
  draw_head(canvas, what_.title, cat(what_.data, "; one dot per head, line: median of the heads"),
            entries);
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    draw_line(canvas, lines_[i], head + kRowHeight * static_cast<double>(i));
  }
  std::string caption = what_.caption;
  if (compared_) {
    caption += " The last panel shows the difference of each head from the first run.";
  } else if (legend().size() > 1 + (what_.reference ? 1u : 0u)) {
    caption += " The runs differ in depth or heads, so heads cannot be compared one by one.";
  }
  std::vector<plot::Range> ranges(runs_.size());
  for (const std::vector<Part>& line : lines_) {
    for (const Part& part : line) {
      for (const auto& heads : of(part)) ranges[part.run].take_in(heads);
    }
  }
  return make_figure(what_.name, what_.title, caption,
                     cat(what_.title, " (", what_.unit, ") per head and layer, ", what_.data, ": ",
                         spans_text(runs_, ranges)),
                     canvas, table());
}

}  // namespace

std::vector<std::vector<std::vector<std::vector<double>>>> head_values(
    const std::vector<AnalyzedRun>& runs, std::string_view key, bool sites) {
  std::vector<std::vector<std::vector<std::vector<double>>>> out;
  for (const AnalyzedRun& run : runs) {
    std::vector<LayerHeads> by_site(sites ? kSites : 1, LayerHeads(run.depth()));
    for (std::size_t l = 0; l < run.depth(); ++l) {
      for (std::size_t s = 0; s < by_site.size(); ++s) {
        by_site[s][l] = sites ? run.of_heads(key, l, s) : run.of_heads(key, l);
      }
    }
    out.push_back(std::move(by_site));
  }
  return out;
}

std::optional<plot::Figure> draw_head_dots(const std::vector<AnalyzedRun>& runs, HeadDots what) {
  DotsFigure figure(runs, std::move(what));
  if (figure.empty()) return std::nullopt;
  return figure.draw();
}

}  // namespace dtn::drawing
