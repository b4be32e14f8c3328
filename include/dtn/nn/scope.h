// Where a module is in the model. Modules are made with a scope and ask it for what they need; the
// names of parameters and buffers, which of them decay, where they lie and which random numbers are
// the module's all follow from its path.
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
  const NormRegistry* norms = nullptr;  // what make_normalizer() chooses from; null: ours

  Scope(ParameterStore& in, std::string at = {}, const NormRegistry* registry = nullptr)
      : store(in), path(std::move(at)), norms(registry) {}

  // The scope of a part.
  Scope operator/(std::string_view part) const { return {store, name(part), norms}; }
  // The i-th of several equal parts.
  Scope operator/(int i) const { return *this / std::to_string(i); }

  // <path>.<of>
  std::string name(std::string_view of) const {
    return path.empty() ? std::string(of) : path + "." + std::string(of);
  }

  // A new parameter or buffer. Throws Error when the name is taken or the store is allocated.
  Parameter* weight(std::string_view of, const Shape& shape, InitKind init,
                    Decay decay = Decay::kNo) const {
    return store.add(name(of), shape, init, decay);
  }
  Parameter* weight(std::string_view of, const Shape& shape, CustomInit init,
                    Decay decay = Decay::kNo) const {
    return store.add_custom(name(of), shape, decay, std::move(init));
  }
  Buffer* buffer(std::string_view of, const Shape& shape, InitKind init) const {
    return store.add_buffer(name(of), shape, init);
  }
  Buffer* buffer(std::string_view of, const Shape& shape, CustomInit init) const {
    return store.add_custom_buffer(name(of), shape, std::move(init));
  }
  // The stream of random numbers (Rng::key) of one consumer in the module.
  std::uint32_t random(std::string_view of) const { return stream_of(name(of)); }
};

}  // namespace dtn
