// Figures with one number per head and layer.
#include <algorithm>
#include <functional>
#include <optional>
#include <type_traits>

#include "apps/report/analysis/figure_parts.h"
#include "dtn/core/check.h"
#include "plot/text.h"

namespace dtn::drawing {
namespace {

// Numbers of all heads, [runs][sites][L][heads]; one site for a quantity of the whole layer.
using HeadValues = std::vector<std::vector<std::vector<std::vector<double>>>>;

// Dashed line for comparison.
struct Reference {
  std::string label;
  std::vector<std::vector<std::vector<double>>> values;  // [runs][sites][L]
};

// One number per head and layer: a panel of dots for each run, and one for their differences.
struct HeadDots {
  std::string name, title, unit;  // `unit` labels the axis
  std::string caption;
  HeadValues values = {};
  plot::Axis y = {};  // limits and the like; its range grows with the values
  std::optional<Reference> reference = {};
  std::vector<double> pixels = {};  // [runs], pixels per unit for a second axis; NaN: unknown
};

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
  DotsFigure(const FigureInput& in, HeadDots what)
      : in_(in), runs_(in.runs), what_(std::move(what)) {
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

  const FigureInput& in_;
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
  what_.y.data.take_in(0);
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
      entries.push_back(legend_entry(runs_[r]));
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
  draw_head(canvas, what_.title, cat(in_.data, "; one dot per head, line: median of the heads"),
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
                     cat(what_.title, " (", what_.unit, ") per head and layer, ", in_.data, ": ",
                         spans_text(runs_, ranges)),
                     canvas, table());
}

// Draws nothing if no run has a number.
void add_head_dots(const FigureInput& in, HeadDots what, Figures& out) {
  DotsFigure figure(in, std::move(what));
  if (!figure.empty()) out.push_back(figure.draw());
}

// Places with a number: layers, or their two norms.
enum class Per { kLayer, kNorm };

// Returns value(run, layer, site) by run, site and layer.
template <class Value>
auto by_place(const FigureInput& in, Per per, Value value) {
  using Of = std::invoke_result_t<Value, const AnalyzedRun&, std::size_t, std::size_t>;
  std::vector<std::vector<std::vector<Of>>> out;
  for (const AnalyzedRun& run : in.runs) {
    auto& sites = out.emplace_back(per == Per::kNorm ? kSites : 1);
    for (std::size_t s = 0; s < sites.size(); ++s) {
      for (std::size_t l = 0; l < run.depth(); ++l) sites[s].push_back(value(run, l, s));
    }
  }
  return out;
}

// Adds a figure of the key `name`, [L][H], or [L][2][H] for a quantity of a norm.
void add_key(const FigureInput& in, Figures& out, Per per, HeadDots what,
             const std::string& key = {}) {
  what.values = by_place(in, per, [&](const AnalyzedRun& run, std::size_t l, std::size_t s) {
    const std::string& path = key.empty() ? what.name : key;
    return per == Per::kNorm ? run.of_heads(path, l, s) : run.of_heads(path, l);
  });
  add_head_dots(in, std::move(what), out);
}

// The distance is one number for all layers, or one per layer.
double uniform_distance(const AnalyzedRun& run, std::size_t layer, std::size_t) {
  const AnalysisJson& value = run.at("attention_distance_uniform");
  return number_of(value.is_array() ? item(value, layer) : value);
}

double uniform_entropy(const AnalyzedRun& run, std::size_t layer, std::size_t) {
  return number_of(item(run.at("attention_entropy_uniform"), layer));
}

// Pixels per token if all layers have the same grid; otherwise NaN.
std::vector<double> pixels_of_tokens(const FigureInput& in) {
  const double width = number_of(item(member(in.analysis, "inputs.image_size"), 1));
  std::vector<double> out;
  for (const AnalyzedRun& run : in.runs) {
    const bool one_grid = run.depth() > 0 && !run.at("heads").is_array();
    const double columns = one_grid ? static_cast<double>(run.grids[0].columns) : 0;
    out.push_back(columns > 0 ? width / columns : plot::kMissing);
  }
  return out;
}

// Relative spread of the magnitudes over all channels together.
double whole_spread(const AnalyzedRun& run, std::size_t layer, std::size_t site) {
  const double mean = number_of(item(item(run.at("token_magnitude_full.mean"), layer), site));
  const double spread = number_of(item(item(run.at("token_magnitude_full.std"), layer), site));
  return mean > 0 ? spread / mean : plot::kMissing;
}

}  // namespace

void add_magnitude_dots(const FigureInput& in, Figures& out) {
  HeadDots spread{"token_magnitude_variation", "Relative spread of token magnitudes in an image",
                  "std / mean",
                  "Standard deviation of the tokens' lengths after the norm, divided by their "
                  "mean, per head; 0: all tokens are equally long. LayerNorm makes whole tokens "
                  "equally long; DTN can preserve their differences."};
  spread.values = by_place(in, Per::kNorm, std::mem_fn(&AnalyzedRun::magnitude_spread));
  spread.reference = {"over all channels", by_place(in, Per::kNorm, whole_spread)};
  add_head_dots(in, std::move(spread), out);
  add_key(in, out, Per::kNorm,
          {"token_magnitude_mean", "Mean magnitude of tokens after the norm", "length",
           "Euclidean length of a token over the channels of a head, after weight and bias; mean "
           "over images and tokens."},
          "token_magnitude.mean");
}

void add_attention(const FigureInput& in, Figures& out) {
  HeadDots distance{"attention_distance", "Attention distance", "distance (patches)",
                    "Mean distance on the grid between a query and the keys it attends to, "
                    "weighted by the attention. The class token is excluded."};
  distance.reference = {"equal attention to all patches",
                        by_place(in, Per::kLayer, uniform_distance)};
  distance.pixels = pixels_of_tokens(in);
  add_key(in, out, Per::kLayer, std::move(distance));
  add_key(in, out, Per::kLayer,
          {"attention_distance_std", "Spread of the attention distance over images",
           "std (patches)", "Standard deviation, over images, of the mean distance in an image."});
  HeadDots entropy{"attention_entropy", "Entropy of attention", "entropy (nats)",
                   "Mean entropy of the attention of a patch over all keys that it sees, the class "
                   "token included: low where few keys get all the weight."};
  entropy.reference = {"equal attention to all keys that it sees",
                       by_place(in, Per::kLayer, uniform_entropy)};
  add_key(in, out, Per::kLayer, std::move(entropy));
  HeadDots to_class{"attention_to_class", "Attention of patches to the class token", "weight",
                    "Mean attention weight of the class token for the queries of patches."};
  to_class.y.limit = {0, 1};
  add_key(in, out, Per::kLayer, std::move(to_class));
}

void add_variation(const FigureInput& in, Figures& out) {
  add_key(in, out, Per::kNorm,
          {"variation_coefficient", "Share of a token that remains without the mean",
           "\xE2\x80\x96x \xE2\x88\x92 \xCE\xBC\xE2\x80\x96 / \xE2\x80\x96x\xE2\x80\x96",
           "Length of x minus the mean that the norm subtracts, divided by the length of x, per "
           "image and head; 1: the mean explains nothing."});
  add_key(in, out, Per::kNorm,
          {"variation_coefficient_median", "The same for single values, median",
           "|x \xE2\x88\x92 \xCE\xBC| / |x|",
           "Distance to the mean relative to the value itself; median over images, tokens and "
           "channels of a head."});
}

void add_position_extent(const FigureInput& in, Figures& out) {
  add_key(in, out, Per::kNorm,
          {"p_radius", "Radius of the statistics", "radius (patches)",
           "Standard deviation of the positions in the row of P of one query, about their mean "
           "position: the radius of the tokens in a head's mean and variance."});
  add_key(in, out, Per::kNorm,
          {"p_tokens", "Effective number of tokens in the statistics", "tokens",
           "exp(entropy) of the same row of P: the number of all tokens for InstanceNorm, 1 for a "
           "single token."});
}

void add_lambdas(const FigureInput& in, Figures& out) {
  for (const bool mean : {true, false}) {
    const std::string of = mean ? "mean" : "variance";
    HeadDots lambda{
        mean ? "lambda_mean" : "lambda_var", cat("Mixing ratio \xCE\xBB of the ", of),
        cat("\xCE\xBB (", of, ")"),
        cat("1: the ", of, " of the token itself, as in LayerNorm; 0: the ", of,
            " of the surrounding tokens, weighted by P. All start at 0.5 (dashed line).")};
    lambda.y.data = {0, 1};
    lambda.y.limit = {0, 1};
    lambda.reference = {"start of training",
                        by_place(in, Per::kNorm, [](const auto&, auto, auto) { return 0.5; })};
    add_key(in, out, Per::kNorm, std::move(lambda));
  }
}

}  // namespace dtn::drawing
