// Context of an operation besides its inputs: the tape, the mode of the model, the random numbers
// and the ranks that run the same model.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>

#include "dtn/autograd/tape.h"
#include "dtn/core/philox.h"

namespace dtn {

class Communicator;
class Observer;
struct Condition;

// Mode of a forward pass.
struct Mode {
  bool training = false;   // drop path, dropout and batch statistics are on
  bool recompute = false;  // in the backward pass of a checkpoint: running statistics stay fixed
  // Blocks save no activations and run again in the backward pass.
  bool checkpoint_blocks = false;
  DType compute = DType::kFloat32;  // of activations
  // Leaves out values that nothing reads, such as all tokens but the class token in the last block.
  // The results are the same. Off when a model's operations are counted as in papers.
  bool skip_unread = true;
};

// Selects the random numbers of a forward pass. They depend only on the seed, the step, the pass,
// the path of the module that draws (Scope::random) and the element.
struct Rng {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;  // optimizer step
  // Replaces `step` when set: the address of the step in device memory, for a captured graph.
  const std::uint32_t* device_step = nullptr;
  // Index of the forward pass within the step, so that each pass draws different masks.
  std::uint32_t pass = 0;
  // Positions of the samples of this micro-batch in the global batch, so that random numbers do not
  // depend on how the batch is split. `first_sample` is the position of the first sample. If the
  // positions are not consecutive, `rows` lists all of them in device memory, which must stay valid
  // until the backward pass is done.
  std::uint64_t first_sample = 0;
  const std::int64_t* rows = nullptr;
  // For sequence models: random numbers reserved for each sample, at least one for each element. An
  // element then draws the same number regardless of the padding. 0: as many as elements.
  std::int64_t per_sample = 0;

  // Key of the random numbers of one consumer: a drop-path layer, a dropout.
  PhiloxKey key(std::uint32_t stream) const {
    constexpr std::uint32_t kFnvPrime = 16777619u;  // continues the FNV hash in `stream`
    return {seed, pass == 0 ? stream : (stream ^ pass) * kFnvPrime, step};
  }
};

// The ranks that run the same model on their shares of the micro-batch.
struct Ranks {
  Communicator* communicator = nullptr;  // null: this rank has all samples
  std::int64_t samples = 0;              // of all shares together
};

struct Context {
  Tape* tape = nullptr;  // null: nothing is recorded and no gradients flow
  Mode mode;
  Rng rng;
  Ranks ranks;
  Observer* observer = nullptr;  // sees intermediate values (dtn/nn/observer.h); null: none
  // Read by the conditional normalizers of a model (dtn/nn/conditional_norm.h); null: none. Set by
  // the model for a pass. Checkpoints keep it until their backward pass.
  std::shared_ptr<const Condition> condition{};

  bool training() const { return mode.training; }
  // True if gradients flow to the results, so operations save the values that they need for them.
  bool recording() const { return tape && tape->records(); }
  // The same context for another forward pass of the same step.
  Context of_pass(std::uint32_t pass) const {
    Context other = *this;
    other.rng.pass = pass;
    return other;
  }

  // Wraps y as the result of an operation on `inputs`. Records the operation, with the values that
  // `backward` captured, only if there is a recording tape and an input requires a gradient.
  Variable record(const char* op, Tensor y, std::initializer_list<const Variable*> inputs,
                  Tape::Backward backward);
};

// Runs a part of the model without saving its activations and runs it again in the backward pass.
// This saves memory and costs a second forward pass. `piece` must be a pure function of x, its
// parameters and the context.
Variable checkpoint(Context& ctx, const Variable& x,
                    std::function<Variable(Context&, const Variable&)> piece);

}  // namespace dtn
