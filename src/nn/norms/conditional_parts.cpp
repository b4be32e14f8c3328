#include "nn/norms/conditional_parts.h"

#include "dtn/ops/linear.h"
#include "dtn/ops/primitive.h"
#include "dtn/ops/tokens.h"
#include "kernels/norm/channel_norm.h"

namespace dtn {

std::string text_of(const Condition& c) {
  if (c.vector.defined() + c.tokens.defined() + c.index.defined() > 1) {
    return "more than one condition";
  }
  if (c.vector.defined()) return "a vector for each sample, " + to_string(c.vector.shape());
  if (c.tokens.defined()) return "a vector for each token, " + to_string(c.tokens.shape());
  if (c.index.defined()) {
    return cat("an index for each sample, ", name_of(c.index.dtype()), " ",
               to_string(c.index.shape()));
  }
  return "none";
}

const Condition& condition_in(const Context& ctx, const char* layer) {
  DTN_CHECK(ctx.condition, layer, ": the pass has no condition (Context::condition)");
  return *ctx.condition;
}

void check_tokens(const char* layer, const Variable& x, const TokenGrid& grid,
                  std::int64_t channels) {
  DTN_CHECK(x.value().rank() == 3 && x.dim(1) == grid.tokens() && x.dim(2) == channels, layer,
            ": input ", to_string(x.shape()), " is not [B, ", grid.height, " x ", grid.width, ", ",
            channels, "]");
}

bool check_styles(const char* layer, const Condition& c, std::int64_t batch, std::int64_t styles) {
  const bool index =
      c.index.defined() && c.index.dtype() == DType::kInt64 && c.index.shape() == Shape({batch});
  const bool mix = c.vector.defined() && c.vector.shape() == Shape({batch, styles});
  DTN_CHECK(!c.tokens.defined() && c.vector.defined() != c.index.defined() && (index || mix), layer,
            ": the condition is ", text_of(c), "; expected: an index for each sample, int64 [",
            batch, "], or a vector of weights for each sample, [", batch, ", ", styles, "]");
  return mix;
}

void check_no_condition(const char* layer, const Condition& c) {
  DTN_CHECK(!c.vector.defined() && !c.tokens.defined() && !c.index.defined(), layer,
            ": the condition is ", text_of(c),
            "; expected: none, as this layer reads its own input");
}

Variable condition_vector(Context& ctx, const char* layer, const Condition& c, std::int64_t batch,
                          std::int64_t size, DType dtype) {
  DTN_CHECK(c.vector.defined() && !c.tokens.defined() && !c.index.defined() &&
                c.vector.shape() == Shape({batch, size}),
            layer, ": the condition is ", text_of(c), "; expected: a vector for each sample, ",
            to_string({batch, size}));
  return ops::cast(ctx, c.vector, dtype);
}

const Variable& condition_tokens(const char* layer, const Condition& c, std::int64_t batch,
                                 std::int64_t tokens, std::int64_t size) {
  const Variable& map = c.tokens;
  const bool fits = map.defined() && !c.vector.defined() && !c.index.defined() &&
                    map.value().rank() == 3 && map.dim(0) == batch && map.dim(2) == size &&
                    map.dim(1) > 0 && (tokens == 0 || map.dim(1) == tokens);
  DTN_CHECK(fits, layer, ": the condition is ", text_of(c),
            "; expected: a vector for each token, [", batch, ", ",
            tokens == 0 ? std::string("any number") : std::to_string(tokens), ", ", size, "]");
  return map;
}

namespace {

class ConditionedNormalizer final : public Normalizer {
 public:
  ConditionedNormalizer(const char* type, bool per_token,
                        std::unique_ptr<ConditionalNormalizer> layer)
      : type_(type), per_token_(per_token), layer_(std::move(layer)) {}

  Variable forward(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    return layer_->forward(ctx, x, grid, condition_in(ctx, type_));
  }
  Variable reference(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    return layer_->reference(ctx, x, grid, condition_in(ctx, type_));
  }
  bool is_per_token() const override { return per_token_; }

 private:
  const char* type_;
  bool per_token_;
  std::unique_ptr<ConditionalNormalizer> layer_;
};

}  // namespace

std::unique_ptr<Normalizer> make_conditioned(const char* type, bool per_token,
                                             std::unique_ptr<ConditionalNormalizer> layer) {
  return std::make_unique<ConditionedNormalizer>(type, per_token, std::move(layer));
}

OptionSchema hidden_option(std::int64_t usual) {
  return {"hidden",
          OptionKind::kInt,
          usual,
          {},
          1,
          65536,
          "channels between the condition and gain and shift"};
}

std::optional<NormProblem> check_conditioned(const NormConfig& config, const NormSite&) {
  if (!config.affine) return std::nullopt;
  return NormProblem{
      "affine", cat(config.type, " takes its gain and shift from the condition; remove the key")};
}

}  // namespace dtn
