#include "dtn/models/weights.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

Tensor converted(const Tensor& from, DType dtype, const std::string& what) {
  if (from.dtype() == dtype) return from;
  if (!is_floating(from.dtype())) {
    throw DataError(cat(what, " is ", name_of(from.dtype()), ", not a floating type"));
  }
  Tensor to = Tensor::empty(from.shape(), dtype);
  run(cpu_queue(), Cast{from.dtype(), dtype, from.numel(), from.raw(), to.raw()});
  return to;
}

void copy_into(Tensor value, const std::string& name, const Tensor& from,
               const std::string& source) {
  value.copy_from(
      converted(from, value.dtype(), cat(source, ": tensor ", name)).reshape(value.shape()));
}
void copy_into(Parameter& p, const Tensor& from, const std::string& source) {
  copy_into(p.variable.value(), p.name, from, source);
}

template <class Named>  // a Parameter or a Buffer
[[noreturn]] void fail_shape(const std::string& source, const Named& p, const Tensor& t) {
  throw DataError(cat(source, ": tensor ", p.name, " has shape ", to_string(t.shape()),
                      ", the model wants ", to_string(p.shape),
                      "; check the model keys of the config against the weights"));
}

// Side of a square number of tokens, or 0.
std::int64_t square_side(std::int64_t n) {
  if (n <= 0) return 0;
  auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(n))));
  return side * side == n ? side : 0;
}

// Cubic convolution with a = -0.75, the kernel of torch.nn.functional.interpolate.
double cubic(double x) {
  constexpr double a = -0.75;
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

// table [from * from, C] -> [to * to, C], pixel centres aligned, borders repeated.
Tensor interpolate_grid(const Tensor& table, std::int64_t from, std::int64_t to) {
  std::int64_t width = table.dim(1);
  double ratio = static_cast<double>(from) / static_cast<double>(to);
  struct Taps {
    std::int64_t index[4];
    double weight[4];
  };
  std::vector<Taps> taps(static_cast<std::size_t>(to));
  for (std::int64_t i = 0; i < to; ++i) {
    double centre = (static_cast<double>(i) + 0.5) * ratio - 0.5;
    double base = std::floor(centre);
    for (int k = 0; k < 4; ++k) {
      auto at = static_cast<std::int64_t>(base) + k - 1;
      taps[static_cast<std::size_t>(i)].index[k] = std::clamp<std::int64_t>(at, 0, from - 1);
      taps[static_cast<std::size_t>(i)].weight[k] = cubic(centre - (base + k - 1));
    }
  }
  Tensor result = Tensor::zeros({to * to, width}, DType::kFloat32);
  const float* in = table.data<float>();
  float* out = result.data<float>();
  for (std::int64_t y = 0; y < to; ++y) {
    for (std::int64_t x = 0; x < to; ++x) {
      const Taps& ty = taps[static_cast<std::size_t>(y)];
      const Taps& tx = taps[static_cast<std::size_t>(x)];
      for (std::int64_t c = 0; c < width; ++c) {
        double sum = 0;
        for (int j = 0; j < 4; ++j) {
          for (int i = 0; i < 4; ++i) {
            sum += ty.weight[j] * tx.weight[i] * in[(ty.index[j] * from + tx.index[i]) * width + c];
          }
        }
        out[(y * to + x) * width + c] = static_cast<float>(sum);
      }
    }
  }
  return result;
}

// Fits a position table to the model: extra leading position dropped, grid resized.
Tensor adapt_positions(const Tensor& file_table, const Parameter& p, bool class_position,
                       const std::string& source, std::vector<std::string>& notes) {
  if (file_table.rank() != 3 || file_table.dim(2) != p.shape[2]) fail_shape(source, p, file_table);
  std::int64_t width = p.shape[2], have = file_table.dim(1);
  std::int64_t want_grid = p.shape[1] - class_position;
  Tensor table = converted(file_table, DType::kFloat32, source).reshape({have, width});
  bool file_class = square_side(have - 1) > 0 && (class_position || square_side(have) == 0);
  if (class_position && !file_class) fail_shape(source, p, file_table);
  Tensor grid = file_class ? table.slice(1, have) : table;
  std::int64_t from = square_side(grid.dim(0)), to = square_side(want_grid);
  if (!from || !to) fail_shape(source, p, file_table);
  if (file_class && !class_position) {
    notes.push_back(cat("pos_embed: the class token's position in ", source, " is not used"));
  }
  if (from != to) {
    grid = interpolate_grid(grid, from, to);
    notes.push_back(cat("pos_embed: interpolated from ", from, " x ", from, " to ", to, " x ", to));
  }
  Tensor result = Tensor::empty(p.shape, DType::kFloat32);
  Tensor rows = result.reshape({p.shape[1], width});
  if (class_position) rows.slice(0, 1).copy_from(table.slice(0, 1));
  rows.slice(class_position, p.shape[1]).copy_from(grid);
  return result;
}

void load(ParameterStore& store, const NamedTensors& tensors, const std::string& source,
          const std::function<bool(Parameter&, const Tensor&)>& adapt,
          const std::function<bool(const std::string&)>& skip) {
  std::map<std::string, const Tensor*> left;
  for (const auto& [name, tensor] : tensors) left[name] = &tensor;
  auto take = [&](const auto& named) -> const Tensor& {
    auto found = left.find(named.name);
    if (found == left.end()) {
      throw DataError(cat(source, ": tensor ", named.name, " ", to_string(named.shape),
                          " is missing; the weights belong to another model"));
    }
    const Tensor& t = *found->second;
    left.erase(found);
    return t;
  };
  for (Parameter& p : store.parameters()) {
    const Tensor& t = take(p);
    if (adapt(p, t)) continue;
    if (!(t.shape() == p.shape)) fail_shape(source, p, t);
    copy_into(p, t, source);
  }
  for (const Buffer& b : store.buffers()) {
    const Tensor& t = take(b);
    if (!(t.shape() == b.shape)) fail_shape(source, b, t);
    copy_into(b.value, b.name, t, source);
  }
  store.restart_buffers();
  for (const auto& [name, tensor] : left) {
    if (!skip(name)) {
      throw DataError(cat(source, ": tensor ", name, " ", to_string(tensor->shape()),
                          " has no place in the model; the weights belong to another one"));
    }
  }
  store.refresh_bfloat16();
}

}  // namespace

NamedTensors named_values(ParameterStore& store) {
  return named_weights(store, store.values().to(kCpu));
}

NamedTensors named_weights(const ParameterStore& store, const Tensor& flat) {
  NamedTensors result = named_views(store, flat);
  for (const Buffer& b : store.buffers()) {
    result.emplace_back(b.name, ParameterStore::view(flat, b));
  }
  return result;
}

NamedTensors named_views(const ParameterStore& store, const Tensor& flat,
                         const std::string& prefix) {
  NamedTensors result;
  for (const Parameter& p : store.parameters()) {
    result.emplace_back(prefix + p.name, ParameterStore::view(flat, p));
  }
  return result;
}

void load_exact(ParameterStore& store, const NamedTensors& tensors, const std::string& source) {
  load(
      store, tensors, source, [](Parameter&, const Tensor&) { return false; },
      [](const std::string&) { return false; });
}

std::vector<std::string> load_adapted(Classifier& model, const NamedTensors& tensors,
                                      const std::string& source) {
  std::vector<std::string> notes;
  const ModelConfig& config = model.config();
  bool class_position = config.has_class_token() && config.pos_embed == PosEmbed::kAll;
  auto adapt = [&](Parameter& p, const Tensor& t) {
    if (t.shape() == p.shape) return false;
    if (p.name == "pos_embed") {
      copy_into(p, adapt_positions(t, p, class_position, source, notes), source);
      return true;
    }
    bool head = p.name == "head.weight" || p.name == "head.bias";
    Shape resized = p.shape;
    if (t.rank() > 0) resized[0] = t.dim(0);
    if (head && t.shape() == resized) {
      notes.push_back(cat(p.name, ": ", source, " has ", t.dim(0), " classes, the model ",
                          p.shape[0], "; left at its initialisation"));
      return true;
    }
    return false;
  };
  auto skip = [&](const std::string& name) {
    if (name.ends_with(".num_batches_tracked")) return true;  // PyTorch's BatchNorm counts; unused
    if (name != "cls_token" || config.has_class_token()) return false;
    notes.push_back(cat("cls_token: not used, the model pools by the mean"));
    return true;
  };
  load(model.parameters(), tensors, source, adapt, skip);
  return notes;
}

std::vector<std::string> load_weights(Classifier& model, const std::filesystem::path& path) {
  return load_adapted(model, read_safetensors(path).tensors, path.string());
}

}  // namespace dtn
