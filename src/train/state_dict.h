// What a run consists of beside its weights, by name: one list for all who save, restore or share
// it. Tensors and numbers are bound, not copied, so that the list is always about the live ones.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "dtn/dist/communicator.h"
#include "dtn/io/safetensors.h"

namespace dtn {

class StateDict {
 public:
  // The tensor's memory, wherever it is.
  void bind(std::string name, Tensor tensor) {
    tensors_.emplace_back(std::move(name), std::move(tensor));
  }
  void bind(NamedTensors tensors);
  // `old_name` is what older checkpoints call it.
  void bind(std::string name, std::int64_t& number, std::string old_name = {});
  void bind(std::string name, double& number, std::string old_name = {});

  // As a checkpoint keeps them: tensors on the host, numbers as text that reads back the same.
  NamedTensors tensors() const;
  StringMap numbers() const;
  // Takes them back. The tensors of both sides must agree exactly, or ConfigError says that `file`
  // was written by another configuration; a number that is missing or none is a DataError.
  void load(const NamedTensors& tensors, const StringMap& numbers, const std::string& file);
  // Those of the first rank become those of all.
  void broadcast(Communicator& ranks);

 private:
  struct Number {
    std::string name, old_name;
    std::variant<std::int64_t*, double*> value;
  };
  NamedTensors tensors_;
  std::vector<Number> numbers_;
};

}  // namespace dtn
