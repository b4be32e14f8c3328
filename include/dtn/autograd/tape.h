// The record of a forward pass. Backward is one reverse walk over a vector: no recursion and no
// sorting, because operations were recorded in the order in which they ran.
//
// A tape counts the uses of every bound gradient (GradSlot::bind), which are those of parameters:
// one for each operation on it that is recorded, until that operation has run backward. So a
// parameter that several forward passes share, or that a checkpoint will use again, reports its
// gradient whole when the last of them is done.
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "dtn/autograd/variable.h"

namespace dtn {

class Tape {
 public:
  // Given the gradient of the node's output, sends gradients on to the sinks it captured.
  using Backward = std::function<void(const Tensor& dy)>;
  using Inputs = std::initializer_list<const Variable*>;
  // Bound gradients, each as often as it is used.
  using Uses = std::vector<GradSink>;

  enum class Kind {
    kRecord,
    kCountUses,  // remembers which parameters were used, and nothing else: see checkpoint()
  };
  explicit Tape(Kind kind = Kind::kRecord) : kind_(kind) {}
  ~Tape() { clear(); }
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // Whether operations are recorded, and their results want gradients.
  bool records() const { return kind_ == Kind::kRecord; }

  // An operation on `inputs`, null ones left out, that filled `output`.
  void record(const char* op, GradSink output, Inputs inputs, Backward backward);
  // The same where the parameters it uses have been counted before.
  void record(const char* op, GradSink output, Uses uses, Backward backward);
  // Counts the uses of an operation that is not recorded.
  void count(Inputs inputs);
  // Whether an input of what was counted wants a gradient.
  bool wants_gradient() const { return wants_gradient_; }
  // Hands over what count() gathered, uses still counted.
  Uses take_uses() { return std::exchange(uses_, {}); }

  // Runs all nodes in reverse, starting with d root = seed (default: ones, root must then hold one
  // element), and empties the tape: each node, with all it saved, is freed once it has run. Nodes
  // that no gradient reached are skipped.
  void backward(const Variable& root, Tensor seed = {});

  std::size_t size() const { return nodes_.size(); }
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
