#include "ops/dtn/dtn_plan.h"

#include "dtn/core/check.h"
#include "ops/norm/norm_gradients.h"

namespace dtn::ops {
namespace {

class Separable : public DtnPlan {
 public:
  explicit Separable(Tensor weights) : weights_(std::move(weights)) {}

  void forward(DtnNormForward args) const override {
    args.pos_weight = weights_.raw();
    run_on(weights_.device(), args);
  }
  void backward(DtnNormBackward args, const GradSink& dposition) const override {
    args.pos_weight = weights_.raw();
    args.dpos_weight =
        buffer_or_null(dposition, weights_.shape(), weights_.dtype(), weights_.device());
    run_on(weights_.device(), args);
  }

 private:
  Tensor weights_;  // [H, 3]
};

class Line : public DtnPlan {
 public:
  Line(Tensor weights, Tensor lengths, double a_d)
      : weights_(std::move(weights)), lengths_(std::move(lengths)), a_d_(a_d) {
    DTN_CHECK(!lengths_.defined() || lengths_.dtype() == DType::kInt64, "dtn: lengths are ",
              name_of(lengths_.dtype()), ", not int64");
  }

  void forward(DtnNormForward args) const override {
    DTN_CHECK(!args.sum.residual,
              "dtn: the norm of a sequence does not support a fused residual sum");
    args.pos_weight = weights_.raw();
    run_on(weights_.device(),
           DtnSequenceForward{args, lengths_of(args.batch), dtn_sequence_taps(a_d_, args.grid_w)});
  }
  void backward(DtnNormBackward args, const GradSink& dposition) const override {
    args.pos_weight = weights_.raw();
    args.dpos_weight =
        buffer_or_null(dposition, weights_.shape(), weights_.dtype(), weights_.device());
    run_on(weights_.device(),
           DtnSequenceBackward{args, lengths_of(args.batch), dtn_sequence_taps(a_d_, args.grid_w)});
  }

 private:
  const std::int64_t* lengths_of(std::int64_t batch) const {
    if (!lengths_.defined()) return nullptr;
    DTN_CHECK(lengths_.numel() == batch, "dtn: ", lengths_.numel(), " lengths for ", batch,
              " samples");
    return static_cast<const std::int64_t*>(lengths_.raw());
  }

  Tensor weights_, lengths_;  // [H, 3], [B]
  double a_d_;
};

class Dense : public DtnPlan {
 public:
  Dense(const DtnDensePositions& positions, Tensor parameter, Device device)
      : positions_(positions), parameter_(std::move(parameter)), device_(device) {
    positions_.weight = parameter_.raw();
  }

  void forward(DtnNormForward args) const override {
    DTN_CHECK(!args.sum.residual,
              "dtn: a full position matrix does not support a fused residual sum");
    const Tensor p = matrix();
    run_on(device_, DtnDenseForward{args, p.raw()});
  }

  void backward(DtnNormBackward args, const GradSink& dposition) const override {
    Tensor p = matrix();
    Tensor dp;
    if (dposition) dp = Tensor::empty(shape(), positions_.dtype, device_);
    run_on(device_, DtnDenseBackward{args, p.raw(), dp.raw()});
    if (!dposition) return;
    DtnDensePositionsBackward back{
        positions_, dp.raw(),
        dposition->buffer(parameter_.shape(), positions_.dtype, device_).raw()};
    back.p = p.raw();
    run_on(device_, back);
  }

 private:
  Shape shape() const {
    const std::int64_t cells = positions_.grid_h * positions_.grid_w;
    return {positions_.heads, cells, cells};
  }
  // Computes P of all heads. Each pass computes P again, which is cheaper than keeping it.
  Tensor matrix() const {
    Tensor p = Tensor::empty(shape(), positions_.dtype, device_);
    DtnDensePositions args = positions_;
    args.p = p.raw();
    run_on(device_, args);
    return p;
  }

  DtnDensePositions positions_;
  Tensor parameter_;
  Device device_;
};

}  // namespace

std::shared_ptr<const DtnPlan> separable_dtn_plan(Tensor weights) {
  return std::make_shared<Separable>(std::move(weights));
}

std::shared_ptr<const DtnPlan> line_dtn_plan(Tensor weights, Tensor lengths, double a_d) {
  return std::make_shared<Line>(std::move(weights), std::move(lengths), a_d);
}

std::shared_ptr<const DtnPlan> dense_dtn_plan(const DtnDensePositions& positions, Tensor parameter,
                                              Device device) {
  return std::make_shared<Dense>(positions, std::move(parameter), device);
}

}  // namespace dtn::ops
