#include "train/state_dict.h"

#include <charconv>
#include <cstring>
#include <map>

#include "core/format.h"
#include "core/text.h"

namespace dtn {
namespace {

template <class T>
std::string text_of(T value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

template <class T>
T parse(const std::string& name, const std::string& text) {
  if (const auto value = parse_number<T>(text)) return *value;
  throw DataError(cat("checkpoint: the state has an invalid number: ", name, " = '", text, "'"));
}

}  // namespace

void StateDict::bind(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) bind(name, tensor);
}

void StateDict::bind(std::string name, std::int64_t& number, std::string old_name) {
  numbers_.push_back({std::move(name), std::move(old_name), &number});
}

void StateDict::bind(std::string name, double& number, std::string old_name) {
  numbers_.push_back({std::move(name), std::move(old_name), &number});
}

void StateDict::bind_new(std::string name, std::int64_t& number) {
  numbers_.push_back({std::move(name), "", &number, true});
}

void StateDict::bind_new(std::string name, double& number) {
  numbers_.push_back({std::move(name), "", &number, true});
}

NamedTensors StateDict::tensors() const {
  NamedTensors host;
  for (const auto& [name, tensor] : tensors_) host.emplace_back(name, tensor.to(kCpu));
  return host;
}

StringMap StateDict::numbers() const {
  StringMap texts;
  for (const Number& number : numbers_) {
    texts[number.name] = std::visit([](auto* value) { return text_of(*value); }, number.value);
  }
  return texts;
}

void StateDict::load(const NamedTensors& tensors, const StringMap& numbers,
                     const std::string& file) {
  std::map<std::string, const Tensor*> by_name;
  for (const auto& [name, tensor] : tensors) by_name[name] = &tensor;
  if (by_name.size() != tensors_.size()) {
    throw ConfigError(cat("checkpoint: ", file, " contains ", counted(by_name.size(), "tensors"),
                          ", this run has ", tensors_.size(),
                          "; the file was written with another config"));
  }
  for (auto& [name, live] : tensors_) {
    const auto found = by_name.find(name);
    if (found == by_name.end() || !(found->second->shape() == live.shape()) ||
        found->second->dtype() != live.dtype()) {
      throw ConfigError(
          cat("checkpoint: ", file, ": tensor ", name, " ", to_string(live.shape()),
              " is missing or has another shape; the file was written with another config"));
    }
    live.copy_from(*found->second);
  }
  for (const Number& number : numbers_) {
    auto found = numbers.find(number.name);
    if (found == numbers.end()) found = numbers.find(number.old_name);
    if (found == numbers.end() && number.may_lack) continue;
    if (found == numbers.end()) {
      throw DataError(cat("checkpoint: the state has no '", number.name, "'"));
    }
    std::visit(
        [&](auto* value) {
          *value = parse<std::remove_pointer_t<decltype(value)>>(number.name, found->second);
        },
        number.value);
  }
}

void StateDict::broadcast(Communicator& ranks) {
  for (auto& [name, tensor] : tensors_) ranks.broadcast(tensor);
  for (const Number& number : numbers_) {
    std::visit(
        [&](auto* value) {
          Tensor one = Tensor::empty({1}, DTypeOf<std::remove_pointer_t<decltype(value)>>::value);
          std::memcpy(one.raw(), value, sizeof *value);
          ranks.broadcast(one);
          std::memcpy(value, one.raw(), sizeof *value);
        },
        number.value);
  }
}

}  // namespace dtn
