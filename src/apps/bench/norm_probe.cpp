#include <map>

#include "apps/bench/benchmark.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

Tensor converted(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  Tensor out = Tensor::empty(t.shape(), dtype);
  run(cpu_queue(), Cast{t.dtype(), dtype, t.numel(), t.raw(), out.raw()});
  return out;
}

// Tensors of a file by name; taking a tensor removes it.
class Inputs {
 public:
  explicit Inputs(const NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors) left_[name] = tensor;
  }
  Tensor take(const std::string& name, const Shape& shape) {
    Tensor t = find(name);
    if (t.defined() && !(t.shape() == shape)) {
      throw DataError(
          cat("tensor ", name, " has shape ", to_string(t.shape()), ", not ", to_string(shape)));
    }
    return t;
  }
  Tensor find(const std::string& name) {
    auto node = left_.extract(name);
    if (node.empty()) return {};
    if (!is_floating(node.mapped().dtype())) {
      throw DataError(
          cat("tensor ", name, " is ", name_of(node.mapped().dtype()), ", not a floating type"));
    }
    return node.mapped();
  }
  void expect_none_left(const std::string& type) const {
    if (left_.empty()) return;
    throw DataError(
        cat("tensor ", left_.begin()->first, " is not a parameter or buffer of ", type));
  }

 private:
  std::map<std::string, Tensor> left_;
};

constexpr const char* kPrefix = "norm.";

std::string bare(const std::string& name) { return name.substr(std::string(kPrefix).size()); }

}  // namespace

NamedTensors probe_norm(const NormProbe& probe, const NamedTensors& tensors, Device device,
                        const NormRegistry& norms) {
  Inputs inputs(tensors);
  Tensor x = inputs.find("x");
  if (!x.defined() || x.rank() != 3 || x.numel() == 0) {
    throw DataError("the input needs a tensor x [B, T, C]");
  }
  Tensor dy = inputs.take("dy", x.shape());
  if (!dy.defined()) throw DataError(cat("the input needs a tensor dy ", to_string(x.shape())));
  TokenGrid grid = probe.grid.value_or(square_or_sequence(x.dim(1)));

  ParameterStore store;
  auto layer = make_normalizer(probe.norm, {x.dim(2), probe.heads, probe.eps, grid},
                               {store, "norm", &norms});
  DType acc = accumulator_of(probe.dtype);
  store.allocate(acc, device);
  store.initialize(0);
  auto fill = [&](const std::string& name, Tensor value) {
    Tensor given = inputs.take(bare(name), value.shape());
    if (given.defined()) value.copy_from(converted(given, acc));
  };
  for (const Parameter& p : store.parameters()) fill(p.name, p.variable.value());
  for (const Buffer& b : store.buffers()) fill(b.name, b.value);
  store.restart_buffers();
  inputs.expect_none_left(probe.norm.type);

  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.mode.training = probe.training;
  Variable input(converted(x, probe.dtype).to(device), true);
  Variable y = layer->forward(ctx, input, grid);
  NamedTensors results = {{"y", converted(y.value().to(kCpu), acc)}};
  tape.backward(y, converted(dy, probe.dtype).to(device));
  results.emplace_back("dx", converted(input.grad().to(kCpu), acc));
  store.commit_buffers();
  for (const Parameter& p : store.parameters()) {
    results.emplace_back("d" + bare(p.name), p.variable.grad().to(kCpu));
  }
  for (const Buffer& b : store.buffers()) results.emplace_back(bare(b.name), b.value.to(kCpu));
  return results;
}

}  // namespace dtn
