// The place of a module in the model. Modules are built with a scope and create their parameters
// and buffers with it. Their names, weight decay, memory and random numbers follow from the path.
//
//   Linear(const Scope& scope, ...) : weight(scope.weight("weight", {out, in}, ...)) {}
//   Block(const Scope& scope, ...) : fc1(scope / "mlp" / "fc1", ...) {}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dtn/nn/parameters.h"

namespace dtn {

class NormRegistry;

struct Scope {
  ParameterStore& store;
  std::string path;  // as in timm, parts joined by dots: blocks.0.attn; empty for the whole model
  const NormRegistry* norms = nullptr;  // for make_normalizer(); null: the library's registry

  Scope(ParameterStore& in, std::string at = {}, const NormRegistry* registry = nullptr)
      : store(in), path(std::move(at)), norms(registry) {}

  // The scope of a submodule.
  Scope operator/(std::string_view part) const { return {store, name(part), norms}; }
  // The scope of the i-th of several equal submodules.
  Scope operator/(int i) const { return *this / std::to_string(i); }

  // The path with `of` appended: blocks.0.attn + qkv = blocks.0.attn.qkv
  std::string name(std::string_view of) const {
    return path.empty() ? std::string(of) : path + "." + std::string(of);
  }

  // Adds a parameter. Throws Error if the name is taken or the store is allocated.
  Parameter* weight(std::string_view of, const Shape& shape, Initializer init,
                    Decay decay = Decay::kNo) const {
    return store.add(name(of), shape, std::move(init), decay);
  }
  // Adds a buffer. Throws as weight() does.
  Buffer* buffer(std::string_view of, const Shape& shape, Initializer init) const {
    return store.add_buffer(name(of), shape, std::move(init));
  }
  // The stream of random numbers (Rng::key) of one consumer in the module.
  std::uint32_t random(std::string_view of) const { return stream_of(name(of)); }
};

}  // namespace dtn
