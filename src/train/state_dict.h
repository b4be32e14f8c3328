// Named state of a run: one list to save, restore and broadcast it. Tensors and numbers are bound,
// not copied, so the list always refers to the current values.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "dtn/dist/communicator.h"
#include "dtn/io/safetensors.h"

namespace dtn {

class StateDict {
 public:
  // Binds the memory of the tensor, on any device.
  void bind(std::string name, Tensor tensor) {
    tensors_.emplace_back(std::move(name), std::move(tensor));
  }
  void bind(const NamedTensors& tensors);
  // `old_name` is the name of the number in older checkpoints.
  void bind(std::string name, std::int64_t& number, std::string old_name = {});
  void bind(std::string name, double& number, std::string old_name = {});
  // A number that older checkpoints lack. It then keeps its value.
  void bind_new(std::string name, std::int64_t& number);
  void bind_new(std::string name, double& number);

  // Return the state for a checkpoint: tensors on the host, numbers as text that reads back equal.
  NamedTensors tensors() const;
  StringMap numbers() const;
  // Restores the state. Throws ConfigError, which says that another configuration wrote `file`, if
  // the tensors on both sides do not match exactly. Throws DataError if a number is missing or
  // invalid.
  void load(const NamedTensors& tensors, const StringMap& numbers, const std::string& file);
  // Copies the state of the first rank to all ranks.
  void broadcast(Communicator& ranks);

 private:
  struct Number {
    std::string name, old_name;
    std::variant<std::int64_t*, double*> value;
    bool may_lack = false;
  };
  NamedTensors tensors_;
  std::vector<Number> numbers_;
};

}  // namespace dtn
