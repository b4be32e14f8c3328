// What an operation needs to know beside its inputs: where it is recorded, how the model runs, which
// random numbers are its, and who else runs the same model.
#pragma once

#include <functional>
#include <initializer_list>

#include "dtn/autograd/tape.h"
#include "dtn/core/philox.h"

namespace dtn {

class Communicator;
class Observer;

// How a model runs.
struct Mode {
  bool training = false;   // drop path, dropout and batch statistics are on
  bool recompute = false;  // inside the backward pass of a checkpoint: running statistics stay put
  // Blocks are run again in the backward pass instead of being saved.
  bool checkpoint_blocks = false;
  DType compute = DType::kFloat32;  // of activations
  // What nobody reads is left out, such as all tokens but the class token in a last block; the
  // results are the same. Off where a model is counted as papers count.
  bool skip_unread = true;
};

// Which random numbers a forward pass draws. They depend on the seed, the step, the pass, the path
// of the module that draws (Scope::random) and the element, and on nothing else.
struct Rng {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;  // optimizer step
  // Replaces `step` when set: where a captured graph finds it, in the memory of the device.
  const std::uint32_t* device_step = nullptr;
  // Which of the forward passes of a step this is, so that each draws its own masks.
  std::uint32_t pass = 0;
  // Where the samples of this micro-batch are in the global batch, so that random numbers do not
  // depend on how it is cut: the place of the first, or where they do not follow each other the
  // places of all, in the memory of the device, until the backward pass is done.
  std::uint64_t first_sample = 0;
  const std::int64_t* rows = nullptr;
  // Of models of sequences: how many numbers every sample has for its elements, at least as many as
  // there are. So an element draws the same one however far the sequences are padded. 0: just as
  // many as there are.
  std::int64_t per_sample = 0;

  // Random numbers of one consumer: a drop-path layer, a dropout.
  PhiloxKey key(std::uint32_t stream) const {
    constexpr std::uint32_t kFnvPrime = 16777619u;  // goes on with the hash that `stream` is
    return {seed, pass == 0 ? stream : (stream ^ pass) * kFnvPrime, step};
  }
};

// Where other ranks run the same model on their share of the micro-batch: who they are, and the
// samples of all shares. Null: this rank's samples are all.
struct Ranks {
  Communicator* communicator = nullptr;
  std::int64_t samples = 0;
};

struct Context {
  Tape* tape = nullptr;  // null: nothing is recorded and no gradients flow
  Mode mode;
  Rng rng;
  Ranks ranks;
  Observer* observer = nullptr;  // who looks at what passes (dtn/nn/observer.h); null: nobody

  bool training() const { return mode.training; }
  // Whether results want gradients, so that operations save what those need.
  bool recording() const { return tape && tape->records(); }
  // The same for another forward pass of the same step.
  Context of_pass(std::uint32_t pass) const {
    Context other = *this;
    other.rng.pass = pass;
    return other;
  }

  // Wraps y as the result of an operation on `inputs`. It is recorded, with what `backward`
  // captured, only when a tape listens and at least one input wants a gradient.
  Variable record(const char* op, Tensor y, std::initializer_list<const Variable*> inputs,
                  Tape::Backward backward);
};

// Runs a piece of the model without saving anything inside it and runs it again in the backward
// pass: activations are traded for a second forward pass. `piece` must be a pure function of x, its
// parameters and the context.
Variable checkpoint(Context& ctx, const Variable& x,
                    std::function<Variable(Context&, const Variable&)> piece);

}  // namespace dtn
