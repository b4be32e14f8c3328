// The record of a forward pass. The backward pass walks a vector in reverse. It needs no recursion
// and no sorting, because operations are recorded in the order in which they run.
//
// A tape counts the uses of every bound gradient (GradSlot::bind); parameters have bound gradients.
// Each recorded operation on a parameter counts as one use until its backward pass has run. The
// gradient of a parameter is complete, and reported, after its last use. This holds too if several
// forward passes share the parameter, or if a checkpoint will use it again.
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "dtn/autograd/variable.h"

namespace dtn {

class Tape {
 public:
  // Receives the gradient of the node's output and sends gradients to the sinks it captured.
  using Backward = std::function<void(const Tensor& dy)>;
  // Inputs of an operation.
  using Inputs = std::initializer_list<const Variable*>;
  // Bound gradients, each listed once per use.
  using Uses = std::vector<GradSink>;

  // Use of a tape.
  enum class Kind {
    kRecord,
    kCountUses,  // only counts the uses of parameters: see checkpoint()
  };
  explicit Tape(Kind kind = Kind::kRecord) : kind_(kind) {}
  ~Tape() { clear(); }
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // True if operations are recorded and their results require gradients.
  bool records() const { return kind_ == Kind::kRecord; }

  // Records an operation on `inputs` that filled `output`. Null inputs are ignored.
  void record(const char* op, GradSink output, Inputs inputs, Backward backward);
  // The same for an operation whose parameter uses are counted already.
  void record(const char* op, GradSink output, Uses uses, Backward backward);
  // Counts the uses of an operation that is not recorded.
  void count(Inputs inputs);
  // True if an input of a counted operation requires a gradient.
  bool wants_gradient() const { return wants_gradient_; }
  // Hands over the uses that count() gathered; they stay counted.
  Uses take_uses() { return std::exchange(uses_, {}); }

  // Runs all nodes in reverse, starting with d root = seed, and empties the tape. The default seed
  // is ones; root must then hold one element. Each node is freed, with all it saved, once it has
  // run. Nodes that no gradient reached are skipped.
  void backward(const Variable& root, Tensor seed = {});

  std::size_t size() const { return nodes_.size(); }
  // Drops all nodes without running them, and their uses of bound gradients.
  void clear();

 private:
  struct Node {
    const char* op;
    GradSink output;
    Uses uses;
    Backward backward;
  };
  static void add_uses(Inputs inputs, Uses& uses);

  Kind kind_;
  std::vector<Node> nodes_;
  Uses uses_;
  bool wants_gradient_ = false;
};

}  // namespace dtn
