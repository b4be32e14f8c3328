// The parameters of a model: named tensors, stored contiguously in flat buffers. The optimizer, the
// gradient norm and the moving average are each one pass over memory.
#pragma once

#include <concepts>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dtn/autograd/variable.h"

namespace dtn {

struct UpdateState;

// Usual initial values.
enum class InitKind {
  kZeros,
  kOnes,
  kTruncatedNormal,  // std 0.02, cut at +-2 (absolute, as in timm and PyTorch)
  kCustom,           // by a function of the module
};

// Weight decay of a parameter.
enum class Decay : bool { kNo, kYes };

// Fills the value (float32 or float64) of the parameter with this name.
using CustomInit = std::function<void(Tensor& value, std::uint64_t seed, const std::string& name)>;

// Initial values of a parameter or buffer: a usual kind, or a function.
struct Initializer {
  InitKind kind;
  CustomInit custom{};  // with kCustom

  Initializer(InitKind usual) : kind(usual) {}
  template <std::invocable<Tensor&, std::uint64_t, const std::string&> Function>
  Initializer(Function function) : kind(InitKind::kCustom), custom(std::move(function)) {}
  bool operator==(InitKind other) const { return kind == other; }

  // Fills a float32 or float64 tensor on the host.
  void fill(Tensor& value, std::uint64_t seed, const std::string& name) const;
};

// Form of a table of positions.
enum class PositionKind {
  kTokens,     // [1, prefix + h w, C]: one row per token, in raster order
  kSines,      // the same shape, initialized by a formula; never interpolated
  kDistances,  // [H, h w]: LeViT's biases, by the absolute distance of query and key
  kOffsets,    // [(2 h - 1) (2 w - 1), H]: Swin's biases, by the signed offset inside a window
  kPairs,      // [H, h w, h w]: one entry per query token and key token
};

// A table of positions and its grid.
struct PositionLayout {
  PositionKind kind = PositionKind::kTokens;
  std::int64_t height = 0, width = 0;  // h, w
  std::int64_t prefix = 0;             // rows before the grid, which belong to prefix tokens
  bool operator==(const PositionLayout&) const = default;
};

// A trained tensor of a model.
struct Parameter {
  std::string name;  // as in timm, e.g. blocks.0.attn.qkv.weight
  Shape shape;
  Initializer init = InitKind::kZeros;
  Decay decay = Decay::kNo;
  std::int64_t offset = 0;  // first element in the flat buffers
  Variable variable;        // defined once the store is allocated
  bool frozen = false;      // not trained: no gradient is computed for it
  bool head = false;  // belongs to the head on the backbone, such as a classifier's last layer
  // Not updated in the first steps of a run, see Learner::set_late_from(): no decay and no moments.
  // The optimizer counts the updates of late parameters from their first one. Set before the
  // optimizer is made.
  bool late = false;
  // The grid of a table of positions. load_adapted() resamples tables of other grids to it.
  std::optional<PositionLayout> positions{};
};

// Elements [begin, end) of flat memory.
struct FlatRange {
  std::int64_t begin, end;
};

// Module state without a gradient, such as the running mean of BatchNorm. It is saved and averaged
// with the weights. Training reads `value` and writes `next`; both are equal between steps. A step
// that is skipped because its loss is not finite therefore leaves the state unchanged, and a block
// that runs again in the backward pass reads the same state.
struct Buffer {
  std::string name;  // as in PyTorch, e.g. blocks.0.norm1.running_mean
  Shape shape;
  Initializer init = InitKind::kZeros;  // not kTruncatedNormal
  std::int64_t offset = 0;              // first element in values()
  Tensor value, next;                   // in the type of the weights; defined once allocated
};

// Owns the parameters and buffers of a model. Modules add them while the model is built and keep
// the pointers, which stay valid as long as the store. In flat memory, parameters with weight decay
// come first, then those without, then the buffers.
class ParameterStore {
 public:
  ParameterStore() = default;
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  // Throws Error if the name is taken or the store is allocated already.
  Parameter* add(std::string name, const Shape& shape, Initializer init, Decay decay);
  // Adds a buffer, state without a gradient.
  Buffer* add_buffer(std::string name, const Shape& shape, Initializer init);

  // Fixes the layout and allocates values and gradients (float32, or float64 for tests).
  // `trained` is false for a store that only follows another one: it has no gradients.
  void allocate(DType dtype = DType::kFloat32, Device device = kCpu, bool trained = true);
  // Fills every parameter. Random numbers depend on the name, so two models that differ in one
  // module agree in all others.
  void initialize(std::uint64_t seed);
  // initialize() for selected parameters; the others keep their values.
  void initialize_some(std::uint64_t seed, const std::function<bool(const Parameter&)>& which);

  // Excludes these parameters from training. No gradient is computed for them, nor for values that
  // depend on them alone. `buffers`: buffers stay fixed too.
  void freeze(const std::function<bool(const Parameter&)>& which, bool buffers);
  // Ranges of values() that training changes, in order, padding included: parameters that are not
  // frozen, and buffers.
  std::vector<FlatRange> live_ranges() const;

  // Adds bfloat16 copies of the parameters, for products with bfloat16 activations.
  void enable_bfloat16();
  // Updates those copies after other code than the optimizer changed the values.
  void refresh_bfloat16();
  bool has_bfloat16() const { return low_.defined(); }

  std::deque<Parameter>& parameters() { return parameters_; }
  const std::deque<Parameter>& parameters() const { return parameters_; }
  const std::deque<Buffer>& buffers() const { return buffers_; }
  // Null if there is no parameter with this name.
  Parameter* find(std::string_view name);
  // Number of scalar parameters, without buffers.
  std::int64_t count() const;

  // Flat memory, with padding (always zero) between parameters. [0, decay_end) has weight decay.
  // Gradients and moments end at flat_size(); values() continues with the buffers.
  std::int64_t flat_size() const { return flat_size_; }
  Device device() const { return values_.device(); }
  std::int64_t decay_end() const { return decay_end_; }
  Tensor& values() { return values_; }
  const Tensor& values() const { return values_; }
  Tensor& gradients() { return gradients_; }
  Tensor& bfloat16_values() { return low_; }
  // The values of all buffers that a training step wrote; undefined if there are no buffers.
  Tensor& next_buffers() { return next_; }
  // The part of flat memory, laid out like values(), that belongs to one parameter or buffer.
  template <class Named>
  static Tensor view(const Tensor& flat, const Named& part) {
    return flat.slice(part.offset, part.offset + part.shape.numel()).reshape(part.shape);
  }

  // Sets all gradients to 0.
  void zero_gradients();

  // Ends a training step for the buffers: the written values become current, unless the step was
  // skipped (UpdateState).
  void commit_buffers(const UpdateState* state = nullptr);
  // Sets `next` to the values, after other code than a training step changed them.
  void restart_buffers();

 private:
  bool has(std::string_view name) const;
  Tensor buffer_values() const { return values_.slice(flat_size_, values_.numel()); }

  std::deque<Parameter> parameters_;
  std::deque<Buffer> buffers_;
  Tensor values_, gradients_, low_;
  Tensor next_;  // of the buffers
  std::int64_t flat_size_ = 0, decay_end_ = 0;
  bool buffers_frozen_ = false;
};

// FNV-1a hash of a name: the number of its random stream.
std::uint32_t stream_of(std::string_view name);

// Fills a float32 or float64 tensor from a normal distribution with this std, truncated at +-cut,
// keyed by (seed, name).
void fill_truncated_normal(Tensor& value, double std, std::uint64_t seed, std::string_view name,
                           double cut = 2);
// The same without truncation.
void fill_normal(Tensor& value, double std, std::uint64_t seed, std::string_view name);
// The same from the uniform distribution on [low, high).
void fill_uniform(Tensor& value, double low, double high, std::uint64_t seed,
                  std::string_view name);

}  // namespace dtn
