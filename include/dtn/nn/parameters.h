// The parameters of a model: named tensors that live side by side in flat buffers, so that the
// optimizer, the gradient norm and the moving average are each one pass over memory.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dtn/autograd/variable.h"
#include "dtn/nn/position_layout.h"

namespace dtn {

struct UpdateState;

enum class InitKind {
  kZeros,
  kOnes,
  kTruncatedNormal,  // std 0.02, cut at +-2 (absolute, as in timm and PyTorch)
  kCustom,           // by a function of the module
};

enum class Decay : bool { kNo, kYes };

// Fills the value (float32 or float64) of the parameter of that name.
using CustomInit = std::function<void(Tensor& value, std::uint64_t seed, const std::string& name)>;

struct Parameter {
  std::string name;  // timm's, e.g. blocks.0.attn.qkv.weight
  Shape shape;
  InitKind init = InitKind::kZeros;
  Decay decay = Decay::kNo;
  CustomInit custom_init;   // with kCustom
  std::int64_t offset = 0;  // first element in the flat buffers
  Variable variable;        // defined once the store is allocated
  bool frozen = false;      // it stays as it is: nothing asks for its gradient
  bool head = false;        // one of a classifier's last layer
  // The grid of a table of positions. load_adapted() brings tables of other grids to this one.
  std::optional<PositionLayout> positions{};
};

// Elements [begin, end) of flat memory.
struct FlatRange {
  std::int64_t begin, end;
};

// What a module learns without a gradient, such as the running mean of BatchNorm. It is saved and
// averaged with the weights. Training reads `value` and writes `next`; both agree between steps. So
// a step that is left out, for a loss that is not finite, leaves no trace here either, and a block
// that is run again in the backward pass sees what it saw.
struct Buffer {
  std::string name;  // PyTorch's, e.g. blocks.0.norm1.running_mean
  Shape shape;
  InitKind init = InitKind::kZeros;  // kZeros, kOnes or kCustom
  CustomInit custom_init;            // with kCustom
  std::int64_t offset = 0;           // first element in values()
  Tensor value, next;                // in the type of the weights; defined once allocated
};

// Modules add their parameters and buffers while the model is built and keep the pointers, which
// stay valid as long as the store. Parameters that decay lie before those that do not, and those
// before the buffers.
class ParameterStore {
 public:
  ParameterStore() = default;
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  // Throws Error when the name is taken or the store is allocated already.
  Parameter* add(std::string name, const Shape& shape, InitKind init, Decay decay);
  Parameter* add_custom(std::string name, const Shape& shape, Decay decay, CustomInit init);
  Buffer* add_buffer(std::string name, const Shape& shape, InitKind init);
  Buffer* add_custom_buffer(std::string name, const Shape& shape, CustomInit init);

  // Lays the parameters out and allocates values and gradients (float32, or float64 for tests).
  void allocate(DType dtype = DType::kFloat32, Device device = kCpu);
  // Fills every parameter. Numbers are drawn by name, so two models that differ in one module agree
  // in all the others.
  void initialize(std::uint64_t seed);
  // The same for some parameters, while the others keep their values.
  void initialize_some(std::uint64_t seed, const std::function<bool(const Parameter&)>& which);

  // Training leaves these parameters as they are from now on: no gradient is made for them, nor for
  // what only they are made of. `buffers`: buffers do not move either.
  void freeze(const std::function<bool(const Parameter&)>& which, bool buffers);
  // What training changes of values(), in order, padding included: parameters that are not frozen,
  // and buffers.
  std::vector<FlatRange> live_ranges() const;

  // Adds the bfloat16 copies that bfloat16 activations are multiplied with.
  void enable_bfloat16();
  // Refreshes those copies after values were changed from outside the optimizer.
  void refresh_bfloat16();
  bool has_bfloat16() const { return low_.defined(); }

  std::deque<Parameter>& parameters() { return parameters_; }
  const std::deque<Parameter>& parameters() const { return parameters_; }
  const std::deque<Buffer>& buffers() const { return buffers_; }
  // Null when there is no such parameter.
  Parameter* find(std::string_view name);
  // Number of scalar parameters, buffers not counted.
  std::int64_t count() const;

  // Flat memory, with padding (always zero) between parameters: [0, decay_end) decays. Gradients
  // and moments end at flat_size(); values() goes on with the buffers.
  std::int64_t flat_size() const { return flat_size_; }
  Device device() const { return values_.device(); }
  std::int64_t decay_end() const { return decay_end_; }
  Tensor& values() { return values_; }
  const Tensor& values() const { return values_; }
  Tensor& gradients() { return gradients_; }
  Tensor& bfloat16_values() { return low_; }
  // What a training step has written to all buffers; undefined when there are none.
  Tensor& next_buffers() { return next_; }
  // The part of flat memory laid out like values() that belongs to one parameter.
  static Tensor view(const Tensor& flat, const Parameter& p);
  static Tensor view(const Tensor& flat, const Buffer& b);

  void zero_gradients();

  // Ends a training step for the buffers: what it wrote becomes their value, unless the step was
  // left out (kernels/optimizer.h).
  void settle_buffers(const UpdateState* state = nullptr);
  // Starts the next step from the values, after these were changed from outside.
  void restart_buffers();

 private:
  bool has(std::string_view name) const;
  void fill(Tensor& host, const Parameter& p, std::uint64_t seed) const;
  Tensor buffer_values() const { return values_.slice(flat_size_, values_.numel()); }

  std::deque<Parameter> parameters_;
  std::deque<Buffer> buffers_;
  Tensor values_, gradients_, low_;
  Tensor next_;  // of the buffers
  std::int64_t flat_size_ = 0, decay_end_ = 0;
  bool buffers_frozen_ = false;
};

// FNV-1a: the number of a stream of random values that depends on a name alone.
std::uint32_t stream_of(std::string_view name);

// Fills a float32 or float64 tensor from a normal of the given std cut at +-cut, keyed by (seed,
// name).
void fill_truncated_normal(Tensor& value, double std, std::uint64_t seed, std::string_view name,
                           double cut = 2);
// The same from the whole normal.
void fill_normal(Tensor& value, double std, std::uint64_t seed, std::string_view name);
// The same from the uniform distribution on [low, high).
void fill_uniform(Tensor& value, double low, double high, std::uint64_t seed,
                  std::string_view name);

}  // namespace dtn
