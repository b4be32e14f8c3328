// Declarations that the files of Dynamic Token Normalization share:
//    dtn.cpp          parameters
//    dtn_options.cpp  options and their checks
//    dtn_view.cpp     views for the analysis of a model
#pragma once

#include <optional>

#include "dtn/nn/normalizer.h"
#include "nn/norms/affine.h"
#include "ops/dtn/dtn_norm.h"

namespace dtn {

struct DtnOptions {
  enum class Position { kRelative, kUniform, kFree, kBanded };
  enum class Init { kLocal, kLocalLine, kTruncatedNormal };

  DtnVariant variant;
  std::optional<double> lambda;  // unset: learned per head
  Position position;
  std::int64_t band = 1;  // kBanded
  double init_lambda;     // initial value of learned lambdas, in (0, 1)
  bool prefix_ln;         // tokens before the grid are normalized by LayerNorm
  Init init;              // of relative positions
  std::int64_t pool;
  bool only_var;

  explicit DtnOptions(const NormConfig& complete);
  static std::vector<OptionSchema> schema();
  static std::optional<NormProblem> check(const NormConfig& complete, const NormSite& site);

  // Returns true if the position matrix is a product of two small matrices, one per axis of the
  // grid. Uniform positions are relative positions with weights of zero.
  bool separable() const {
    return position == Position::kRelative || position == Position::kUniform;
  }
  // Returns true if the cross-token statistics use the full position matrix.
  bool dense(Device device) const {
    return !separable() || (pool > 1 && device.type == DeviceType::kCuda);
  }
  // Returns true if the cross-token statistics use windows along a grid of one row, where pads may
  // follow the tokens.
  bool line(const TokenGrid& grid) const { return separable() && grid.height == 1 && pool == 1; }
  // Returns true if the kernels also compute the residual sum. On the CPU this gains nothing,
  // because the product at the end of the branch has already added it.
  bool takes_sum(const TokenGrid& grid, Device device) const {
    return device.type == DeviceType::kCuda && !dense(device) && !line(grid) && grid.prefix == 0 &&
           grid.tokens() > 0;
  }
  // Returns true if the kernels also apply gains and shifts of samples. Only those of the CPU do.
  bool takes_modulation(const TokenGrid& grid, Device device) const {
    return device == kCpu && !line(grid) && grid.prefix == 0 && grid.tokens() > 0;
  }
  // Approximate initial value of a_d, to count operations.
  double start_a_d() const {
    if (position != Position::kRelative) return 0;
    return init == Init::kTruncatedNormal ? -0.02 : -1;
  }
  bool learns_positions() const {
    return position == Position::kRelative || position == Position::kFree;
  }
  // Returns the grid of the position matrix: cells of pool x pool tokens.
  TokenGrid cells(const TokenGrid& grid) const { return {grid.height / pool, grid.width / pool}; }
};

// Lambda of the mean or of the variance, per head: the weight of a token's own statistics.
class DtnLambda {
 public:
  DtnLambda() = default;
  // Lambda is `fixed`, or the sigmoid of a new parameter `name`, which starts at `start`.
  DtnLambda(std::int64_t heads, std::optional<double> fixed, double start, const Scope& scope,
            std::string_view name);

  // [H], accumulator type.
  Tensor value(DType acc, Device device) const;
  // Returns value() if lambda is fixed; else memory for it, which a pass fills from logit().
  Tensor place(DType acc, Device device) const;
  // [H], from primitive operations.
  Variable variable(Context& ctx, DType dtype, Device device) const;
  // Null if lambda is fixed.
  const Variable* logit() const { return logit_ ? &logit_->variable : nullptr; }

 private:
  std::int64_t heads_ = 0;
  std::optional<double> fixed_;
  Parameter* logit_ = nullptr;
  mutable Tensor fixed_value_;  // on the device of the last use
};

class DynamicTokenNorm : public Normalizer {
 public:
  DynamicTokenNorm(const NormConfig& config, const NormShape& shape, const Scope& scope);

  Variable forward(Context& ctx, const Variable& x, const TokenGrid& grid) override;
  Variable forward_sum(Context& ctx, const Variable& residual, const Variable& branch,
                       const Tensor& scale, const TokenGrid& grid, Variable& sum) override;
  Variable forward_modulated(Context& ctx, const Variable& x, const Variable& modulation,
                             const TokenGrid& grid) override;
  Variable reference(Context& ctx, const Variable& x, const TokenGrid& grid) override;
  NormView view(const Tensor& x, const TokenGrid& grid) const override;
  // All tokens of a cell have the same weight.
  Tensor position_rows(const TokenGrid& grid, std::int64_t token) const override;
  std::string grid_problem(const TokenGrid& grid) const override;
  bool prefix_is_per_token() const override { return options_.prefix_ln; }
  // True on a grid of one row, through windows.
  bool takes_lengths() const override {
    return options_.separable() && options_.pool == 1 && !options_.prefix_ln &&
           shape_.grid.height == 1;
  }

 private:
  struct Positions;

  // forward() on the grid from seen(). With `fused`, x is the fused sum, which the kernels compute.
  // With `modulation`, the kernels apply it instead of weight and bias.
  Variable normalize(Context& ctx, const Variable& x, const TokenGrid& grid,
                     const ops::FusedSum* fused, const Variable* modulation = nullptr);
  void check(const Variable& x, const TokenGrid& grid) const;
  // Throws Error for invalid lengths of samples.
  void check_lengths(const Variable& x, const TokenGrid& grid) const;
  const Variable* position() const { return position_ ? &position_->variable : nullptr; }
  std::shared_ptr<const ops::DtnPlan> plan(const TokenGrid& grid, DType acc, Device device) const;
  DtnDensePositions dense_positions(const TokenGrid& grid, DType acc) const;
  // Returns the grid for the statistics. Without prefix: ln, tokens before the grid and tokens of
  // the grid together become one sequence.
  TokenGrid seen(const TokenGrid& grid) const {
    return options_.prefix_ln || grid.prefix == 0 ? grid
                                                  : TokenGrid{1, grid.tokens(), 0, grid.lengths};
  }
  Positions positions(const TokenGrid& grid) const;
  Variable reference_of_padded(Context& ctx, const Variable& x, const TokenGrid& grid);
  Variable reference_on_grid(Context& ctx, const Variable& x, const TokenGrid& grid) const;
  // P, [H, T', T'].
  Variable reference_positions(Context& ctx, const TokenGrid& grid, DType dtype,
                               Device device) const;
  ops::DtnNormShape shape_on(const TokenGrid& grid) const {
    return {grid.height, grid.width,       grid.prefix,  shape_.heads,
            shape_.eps,  options_.variant, options_.pool};
  }

  NormShape shape_;
  DtnOptions options_;
  ChannelParameters affine_;
  DtnLambda lambda_mean_, lambda_var_;
  Parameter* position_ = nullptr;  // [H, 3], or the table [H, T', T']
  mutable Tensor zero_weights_;    // of uniform positions, on the device of the last use
};

}  // namespace dtn
