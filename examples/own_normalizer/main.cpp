// dtn-train with a custom normalizer, written in primitive operations only. It trains on every
// device that dtn supports, and a config chooses it like any other normalizer:
//
//    own_normalizer --config fashion_mnist_dtn --set model.norm.type=mean_size
//
// A preset of its own has that normalizer from the start: model: {preset: vit_mean_size}
#include "dtn/dtn.h"

namespace {

namespace p = dtn::primitive;
using dtn::Context, dtn::Variable;

// Divides a token by the mean size of its channels:
//    y = weight x / (1/C sum_c |x_c| + eps)
class MeanSizeNorm : public dtn::Normalizer {
 public:
  MeanSizeNorm(const dtn::NormShape& shape, const dtn::Scope& scope)
      : eps_(shape.eps), weight_(scope.weight("weight", {shape.channels}, dtn::InitKind::kOnes)) {}

  Variable forward(Context& ctx, const Variable& x, const dtn::TokenGrid&) override {
    const Variable wide = p::upcast(ctx, x);  // bfloat16 is summed in float32
    const Variable size = p::affine(ctx, p::mean(ctx, p::abs(ctx, wide), -1), 1, eps_);
    const Variable y = p::mul(ctx, p::div(ctx, wide, size), weight_->variable);
    return p::cast(ctx, y, x.dtype());
  }
  Variable reference(Context& ctx, const Variable& x, const dtn::TokenGrid& grid) override {
    return forward(ctx, x, grid);
  }

 private:
  double eps_;
  dtn::Parameter* weight_;
};

}  // namespace

int main(int argc, char** argv) {
  dtn::Registries mine;
  dtn::NormSchema schema;
  schema.type = "mean_size";
  schema.doc = "each token divided by the mean absolute value of its channels";
  mine.norms.add({schema, [](const auto&, const auto& shape, const auto& scope) {
                    return std::unique_ptr<dtn::Normalizer>(new MeanSizeNorm(shape, scope));
                  }});
  mine.presets.add({{.preset = "vit_mean_size",
                     .family = "vit",
                     .embed_dim = 96,
                     .num_heads = 3,
                     .pool = dtn::Pooling::kMean,
                     .norm = {.type = "mean_size"}}});
  return dtn::app::train_main(argc, argv, mine);
}
