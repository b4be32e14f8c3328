// What an operation needs to know beside its inputs.
#pragma once

#include <functional>
#include <initializer_list>

#include "dtn/autograd/tape.h"
#include "dtn/core/philox.h"

namespace dtn {

class Communicator;

struct Context {
  Tape* tape = nullptr;    // null: nothing is recorded and no gradients flow
  bool training = false;   // drop path, dropout and batch statistics are on
  bool recompute = false;  // inside the backward pass of a checkpoint: running statistics stay put
  std::uint64_t seed = 0;
  std::uint32_t step = 0;  // optimizer step
  // Replaces `step` when set: where a captured graph finds it, in the memory of the device.
  const std::uint32_t* device_step = nullptr;
  // Where the samples of this micro-batch are in the global batch, so that random numbers do not
  // depend on how it is cut: the place of the first, or where they do not follow each other the
  // places of all, in the memory of the device, until the backward pass is done.
  std::uint64_t first_sample = 0;
  const std::int64_t* rows = nullptr;
  // Where other ranks run the same model on their share of the micro-batch: who they are, and the
  // samples of all shares. Null: this rank's samples are all.
  Communicator* ranks = nullptr;
  std::int64_t all_samples = 0;
  // Called in the backward pass when the gradients of all decaying parameters from this place in
  // the flat memory of their store on are whole; places descend.
  std::function<void(std::int64_t from)> on_whole_gradients;

  // Random numbers of one consumer (a drop-path layer, a dropout) in this step.
  PhiloxKey key(std::uint32_t stream) const { return {seed, stream, step}; }

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
