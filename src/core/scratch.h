// Per-thread scratch memory for kernels: a bump arena that grows once to the largest need and is
// then reused, so a kernel in a hot loop never allocates.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dtn {

class Scratch {
 public:
  // Releases everything taken inside the scope when the scope ends. Scopes nest.
  class Scope {
   public:
    explicit Scope(Scratch& scratch);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // 64-byte aligned, uninitialised, valid until the scope ends.
    template <class T>
    T* take(std::int64_t count) {
      return static_cast<T*>(scratch_.take_bytes(static_cast<std::size_t>(count) * sizeof(T)));
    }

   private:
    Scratch& scratch_;
    std::size_t chunk_, used_;
  };

  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

 private:
  void* take_bytes(std::size_t bytes);
  struct State;
  State* state_;
};

}  // namespace dtn
