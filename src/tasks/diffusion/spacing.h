// Time steps that a sampler visits, out of all steps of a diffusion process.
#pragma once

#include <cstdint>
#include <vector>

namespace dtn {

// The sampler of a diffusion model.
enum class SamplerKind { kDdim, kDdpm };

// Returns `kept` of the time steps 0 .. steps - 1, ascending.
// kDdpm: a running sum in float64 of (steps - 1) / (kept - 1), from 0; each value is rounded, half
// to even. The first and the last step are among them.
// kDdim: the multiples of the least stride that gives exactly `kept` steps.
// Throws ConfigError if `kept` is not in [2, steps], or if no stride gives `kept` steps. A process
// of one step is refused: public samplers would keep t = 0 alone, where the model expects an image
// without noise.
std::vector<std::int64_t> spaced_steps(SamplerKind kind, std::int64_t steps, std::int64_t kept);

// The largest number of steps up to `kept` that DDIM can take, at least 2.
std::int64_t ddim_steps_up_to(std::int64_t steps, std::int64_t kept);

}  // namespace dtn
