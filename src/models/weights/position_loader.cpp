#include "models/weights/position_loader.h"

#include <algorithm>
#include <cmath>

namespace dtn {
namespace {

// Returns the model's configuration with the sizes of another model.
ModelConfig with_sizes(ModelConfig c, const GridKeys& keys) {
  if (keys.image_size) c.image_size = *keys.image_size;
  if (keys.patch_size) c.patch_size = *keys.patch_size;
  if (keys.window && c.window) c.window = keys.window;
  if (!keys.norm_pool) return c;
  const std::vector<std::int64_t> each(keys.norm_pool->values().begin(),
                                       keys.norm_pool->values().end());
  const bool is_list = keys.norm_pool->is_list();
  c.norm_pool = is_list ? PerStage<std::int64_t>(each) : PerStage<std::int64_t>(each.front());
  for (NormOption& option : c.norm.options) {
    if (option.key != "pool") continue;
    option.value = is_list ? OptionValue(each) : OptionValue(each.front());
  }
  return c;
}

std::map<std::string, PositionLayout> layouts_of(const ParameterStore& store) {
  std::map<std::string, PositionLayout> layouts;
  for (const Parameter& p : store.parameters()) {
    if (p.positions) layouts[p.name] = *p.positions;
  }
  return layouts;
}

std::map<std::string, PositionLayout> layouts_of(const Classifier& model, const GridKeys& keys) {
  const ModelConfig config = with_sizes(model.config(), keys);
  if (config == model.config()) return layouts_of(model.parameters());
  ParameterStore store;
  model.describe(config, store);
  return layouts_of(store);
}

PositionGrid grid_in(const PositionLayout& layout) { return {layout.height, layout.width}; }

// Returns true if a file's table has the axes of its kind and the parameter's width.
bool has_axes(const Parameter& p, const Tensor& t) {
  const Shape& shape = p.shape;
  if (t.rank() != shape.rank()) return false;
  switch (p.positions->kind) {
    case PositionKind::kTokens:
    case PositionKind::kSines: return t.dim(0) == 1 && t.dim(2) == shape[2];
    case PositionKind::kDistances: return t.dim(0) == shape[0];
    case PositionKind::kPairs: return t.dim(0) == shape[0] && t.dim(1) == t.dim(2);
    case PositionKind::kOffsets:
      return t.dim(1) == shape[1] && square_side(t.dim(0)) % 2 == 1;  // 2 w - 1
  }
  return false;
}

// Resamples both token axes of table [H, T, T].
Tensor resize_pairs(const Tensor& table, PositionGrid from, PositionGrid to, PosResize rule) {
  const std::int64_t heads = table.dim(0), before = from.tokens(), after = to.tokens();
  const Tensor queries = resize_positions(table, from, to, rule);  // keys are the inner axis
  return resize_positions(queries.reshape({heads * after, before, 1}), from, to, rule)
      .reshape({heads, after, after});
}

bool same_values(const Tensor& a, const Tensor& b) {
  return std::ranges::equal(a.values<float>(), b.values<float>(),
                            [](float x, float y) { return std::abs(x - y) <= 1e-6F; });
}

std::string text_of(const PositionGrid& grid) { return cat(grid.height, " x ", grid.width); }

}  // namespace

PositionLoader::PositionLoader(const Classifier& model, const GridKeys& origin,
                               const NamedTensors& tensors, const std::string& source)
    : config_(model.config()),
      source_(source),
      has_class_token_(std::ranges::any_of(
          tensors, [](const auto& named) { return named.first == "cls_token"; })) {
  read_grids(model, origin, tensors);
}

void PositionLoader::read_grids(const Classifier& model, const GridKeys& origin,
                                const NamedTensors& tensors) {
  if (origin.image_size) {
    try {
      grids_ = layouts_of(model, origin);
      told_by_ = cat("the config in the file (model.image_size ", *origin.image_size, ")");
    } catch (const Error&) {  // the file belongs to another model; its other tensors will not fit
    }
  }
  const std::optional<ImageSize>& asked = config_.init_image_size;
  if (!asked) return;
  if (!grids_.empty() && fits(model, tensors)) {
    // A run's config keeps init_image_size, which describes the weights that the run started from.
    if (asked == origin.image_size || asked == origin.init_image_size) return;
    first_notes_.push_back(cat("model.init_image_size ", *asked, " is not used: ", told_by_,
                               " gives the grids of ", source_));
    return;
  }
  try {
    grids_ = layouts_of(model, {.image_size = asked});
    told_by_ = cat("model.init_image_size ", *asked);
  } catch (const Error& e) {
    throw ConfigError(
        cat("no model can be built with model.init_image_size ", *asked, ": ", e.what()));
  }
}

bool PositionLoader::fits(const Classifier& model, const NamedTensors& tensors) const {
  for (const Parameter& p : model.parameters().parameters()) {
    if (!p.positions || p.positions->kind == PositionKind::kOffsets) continue;
    const auto found = std::ranges::find(tensors, p.name, &NamedTensors::value_type::first);
    if (found == tensors.end() || !has_axes(p, found->second)) continue;
    const std::int64_t rows = found->second.dim(1);
    if (!has_rows(p, rows, p.positions->prefix) && !(takes_class_row(p) && has_rows(p, rows, 1))) {
      return false;
    }
  }
  return true;
}

bool PositionLoader::has_rows(const Parameter& p, std::int64_t rows, std::int64_t prefix) const {
  return rows - prefix == grid_in(grids_.at(p.name)).tokens();
}

bool PositionLoader::takes_class_row(const Parameter& p) const {
  return has_class_token_ && p.name == "pos_embed" && p.positions->prefix == 0;
}

bool PositionLoader::has_class_row(std::int64_t rows) const {
  const auto known = grids_.find("pos_embed");
  if (known != grids_.end()) return rows - 1 == grid_in(known->second).tokens();
  return square_side(rows) == 0 && square_side(rows - 1) > 0;
}

PositionLoader::FileTable PositionLoader::table_of(const Parameter& p, std::int64_t rows) const {
  const std::int64_t prefix = takes_class_row(p) && has_class_row(rows) ? 1 : p.positions->prefix;
  if (!grids_.empty()) {
    if (!has_rows(p, rows, prefix)) fail_count(p, rows);
    return {grid_in(grids_.at(p.name)), prefix};
  }
  const std::int64_t side = square_side(rows - prefix);
  if (side == 0) fail_unknown(p, rows);
  return {{side, side}, prefix};
}

void PositionLoader::fail_unknown(const Parameter& p, std::int64_t rows) const {
  const std::int64_t prefix = p.positions->prefix, square = square_side(rows);
  const std::string patches_alone =
      prefix > 0 && square > 0 ? cat(". If the file has positions for ", text_of({square, square}),
                                     " patches only, set model.pos_embed: patch")
                               : "";
  throw DataError(cat(source_, ": tensor ", p.name, " has ", rows - prefix,
                      " grid positions, which is not a square number, and the file does not store "
                      "its image size; set model.init_image_size: [H, W] to the image size in "
                      "pixels that the weights were trained at",
                      patches_alone));
}

void PositionLoader::fail_count(const Parameter& p, std::int64_t rows) const {
  const std::int64_t prefix = p.positions->prefix;
  const bool asked = told_by_.starts_with("model.init_image_size");
  throw DataError(cat(
      source_, ": tensor ", p.name, " has ", rows - prefix, " grid positions, but ", told_by_,
      " gives a grid of ", text_of(grid_in(grids_.at(p.name))), "; ", asked ? "correct" : "set",
      " model.init_image_size: [H, W], the image size in pixels that the weights were trained at"));
}

Tensor PositionLoader::fitted(const Parameter& p, const Tensor& table) {
  if (!has_axes(p, table)) return {};
  const PositionKind kind = p.positions->kind;
  if (kind == PositionKind::kSines) return fitted_sines(p, table);
  if (kind == PositionKind::kOffsets) return fitted_offsets(p, table);
  const FileTable from = table_of(p, table.dim(1));
  const PositionGrid to = grid_in(*p.positions);
  if (from.prefix != p.positions->prefix) {
    first_notes_.push_back(
        cat(p.name, ": the class token's position in ", source_, " is not used"));
  } else if (from.grid == to) {
    return {};
  }
  if (from.grid != to) {
    note(p, cat("interpolated from ", text_of(from.grid), " to ", text_of(to)));
  }
  switch (kind) {
    case PositionKind::kPairs: return resize_pairs(table, from.grid, to, config_.pos_resize);
    case PositionKind::kDistances:
      return resize_positions(table.reshape({table.dim(0), table.dim(1), 1}), from.grid, to,
                              config_.pos_resize)
          .reshape(p.shape);
    default: return fitted_tokens(p, table, from);
  }
}

Tensor PositionLoader::fitted_tokens(const Parameter& p, const Tensor& table,
                                     const FileTable& from) const {
  const std::int64_t rows = table.dim(1), width = table.dim(2), prefix = p.positions->prefix;
  const PositionGrid to = grid_in(*p.positions);
  const Tensor flat = table.reshape({rows, width});
  Tensor grid = flat.slice(from.prefix, rows);
  if (from.grid != to) {
    grid = resize_positions(grid.reshape({1, from.grid.tokens(), width}), from.grid, to,
                            config_.pos_resize)
               .reshape({to.tokens(), width});
  }
  Tensor result = Tensor::empty(p.shape, DType::kFloat32);
  Tensor out = result.reshape({p.shape[1], width});
  if (prefix > 0) out.slice(0, prefix).copy_from(flat.slice(0, prefix));
  out.slice(prefix, p.shape[1]).copy_from(grid);
  return result;
}

// Computes the sines by the formula, unless the file's sines are for the same grid.
Tensor PositionLoader::fitted_sines(const Parameter& p, const Tensor& table) {
  Tensor sines = Tensor::empty(p.shape, DType::kFloat32);
  p.init.fill(sines, 0, p.name);
  const PositionGrid to = grid_in(*p.positions);
  if (table.shape() == p.shape) {
    const bool unknown = grids_.empty() && square_side(table.dim(1) - p.positions->prefix) == 0;
    if (unknown && same_values(table, sines)) return {};
    if (table_of(p, table.dim(1)).grid == to) return {};
  }
  note(p, cat("computed for ", text_of(to), " by its formula"));
  return sines;
}

// The number of rows gives the side of the window, which is square.
Tensor PositionLoader::fitted_offsets(const Parameter& p, const Tensor& table) {
  const std::int64_t from = (square_side(table.dim(0)) + 1) / 2, to = p.positions->height;
  if (from == to) return {};
  note(p, cat("interpolated from windows of ", text_of({from, from}), " to ", text_of({to, to})));
  return resize_window_biases(table, from, to);
}

void PositionLoader::note(const Parameter& p, const std::string& change) {
  const auto leaf = [](const std::string& name) { return name.substr(name.rfind('.') + 1); };
  for (auto& [text, names] : changes_) {
    if (text != change || leaf(names.front()) != leaf(p.name)) continue;
    names.push_back(p.name);
    return;
  }
  changes_.push_back({change, {p.name}});
}

std::vector<std::string> PositionLoader::notes() const {
  std::vector<std::string> notes = first_notes_;
  for (const auto& [change, names] : changes_) {
    const std::size_t more = names.size() - 1;
    notes.push_back(
        cat(names.front(), more > 0 ? cat(" and ", more, " more like it") : "", ": ", change));
  }
  return notes;
}

}  // namespace dtn
