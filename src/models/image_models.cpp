#include "models/image_models.h"

#include <algorithm>

#include "dtn/nn/normalizer.h"

namespace dtn {

const NormSchema& norm_schema_of(const ModelConfig& config, const Scope& scope) {
  return (scope.norms ? *scope.norms : norm_registry()).at(config.norm.type).schema;
}

const ModelConfig& checked(const ModelConfig& config, ModelCheck check, const Scope& scope) {
  if (const auto problem = check(config, norm_schema_of(config, scope))) {
    throw ConfigError(problem->message);
  }
  return config;
}

double norm_eps_of(const ModelConfig& c) {
  return c.norm.eps.value_or(c.norm.type == "dtn" ? kDefaultNormEps : c.eps);
}

std::optional<ConfigProblem> zero_weight_problem(const ModelConfig& c, const char* family) {
  if (c.norm.affine.value_or(true)) return {};
  return ConfigProblem{{"model.norm.affine"},
                       cat(family,
                           " ends its residual branches with norms whose weight starts at 0, so "
                           "model.norm.affine cannot be false; remove the key or set it to true")};
}

std::optional<ConfigProblem> last_block_problem(const ModelConfig& c, bool joins) {
  if (joins && c.class_token_at > c.depth) {
    return ConfigProblem{{"model.class_token_at", "model.depth"},
                         cat("model.class_token_at ", c.class_token_at, " is after the last of ",
                             c.depth, " blocks; it is at most model.depth")};
  }
  if (c.norm.layers && *c.norm.layers > c.depth) {
    return ConfigProblem{
        {"model.norm.layers", "model.depth"},
        cat("model.norm.layers ", *c.norm.layers, " is more than model.depth ", c.depth)};
  }
  if (c.norm.affine == false && c.norm_layers() == 0) {
    return ConfigProblem{{"model.norm.affine", "model.norm.layers"},
                         "model.norm.affine has no effect, because no block uses model.norm.type; "
                         "set model.norm.layers to the number of blocks that use it"};
  }
  return {};
}

std::optional<ConfigProblem> image_size_problem(const ModelConfig& c, int of,
                                                const std::string& reason) {
  const auto nearest = [of](int side) { return std::max(1, (side + of / 2) / of) * of; };
  const ImageSize& have = c.image_size;
  const ImageSize want(nearest(have.height), nearest(have.width));
  if (have == want) return {};
  return ConfigProblem{{"model.image_size"},
                       cat("model.image_size ", have, ": both sides must be multiples of ", of,
                           ", as ", reason, "; the nearest such size is ", want)};
}

std::string grid_limit_problem(const TokenGrid& grid) {
  if (std::min(grid.height, grid.width) < 1) {
    return cat("a grid would have only ", grid.height, " x ", grid.width, " tokens");
  }
  if (std::max(grid.height, grid.width) <= kMaxGrid) return {};
  return cat("a grid would have ", grid.height, " x ", grid.width, " tokens; at most ", kMaxGrid,
             " x ", kMaxGrid, " are allowed");
}

std::string division_problem(const ImageSize& size, std::int64_t of) {
  for (const int side : {size.height, size.width}) {
    if (side < 1 || side % of != 0) return cat("both sides must be multiples of ", of);
  }
  return {};
}

std::vector<FieldSpec> ImageBackbone::inputs() const {
  return {{"image", {config_.channels, config_.image_size.height, config_.image_size.width}}};
}

const Tensor& ImageBackbone::image_of(const Fields& fields) const {
  const ModelConfig& c = config_;
  const Tensor& images = fields.at("image");
  DTN_CHECK(images.rank() == 4 && images.dim(1) == c.channels, "images ", to_string(images.shape()),
            " are not [B, ", c.channels, ", height, width]");
  const ImageSize size(static_cast<int>(images.dim(2)), static_cast<int>(images.dim(3)));
  if (size == c.image_size) return images;
  if (const std::string problem = size_problem(size); !problem.empty()) {
    throw ConfigError(cat("the model of ", c.image_size, " pixels cannot process images of ", size,
                          " pixels: ", problem));
  }
  return images;
}

}  // namespace dtn
